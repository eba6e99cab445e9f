"""The memory of the process that owns the home, opened when it is first asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    # A fifth of a second to import, and most commands remember nothing.
    from memplane.memory.memory import Memory
    from memplane.observations.curator import Curator


class Remembered(msgspec.Struct, frozen=True):
    """What was said, and what was learned from it."""

    memory: Memory
    curator: Curator


class Remembering:
    """Memory that most commands never need; opening it takes in what a crash left."""

    def __init__(self, opened: Callable[[], AbstractAsyncContextManager[Remembered]]) -> None:
        self._opened = opened
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._remembered: Remembered | None = None

    async def memory(self) -> Memory:
        """Return what was said, opened."""
        return (await self._opened_once()).memory

    async def curator(self) -> Curator:
        """Return what was learned, opened."""
        return (await self._opened_once()).curator

    async def _opened_once(self) -> Remembered:
        if self._remembered is not None:
            return self._remembered
        async with self._opening:
            if self._remembered is None:
                self._remembered = await self._stack.enter_async_context(self._opened())
            return self._remembered

    @property
    def if_opened(self) -> Memory | None:
        """The memory, when somebody asked for it."""
        return self._remembered.memory if self._remembered is not None else None

    async def close(self) -> None:
        """Close it, when it was opened."""
        await self._stack.aclose()
