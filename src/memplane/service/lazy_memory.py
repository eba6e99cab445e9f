"""The memory of the process that owns the home, opened when it is first asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    # A fifth of a second to import, and most commands remember nothing.
    from memplane.episodes.service import EpisodeService
    from memplane.observations.service import ObservationService


class OpenedMemory(msgspec.Struct, frozen=True):
    """What was said, and what was learned from it."""

    memory: EpisodeService
    curator: ObservationService


class LazyMemory:
    """Memory that most commands never need; opening it takes in what a crash left."""

    def __init__(self, opened: Callable[[], AbstractAsyncContextManager[OpenedMemory]]) -> None:
        self._opened = opened
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._memory: OpenedMemory | None = None

    async def memory(self) -> EpisodeService:
        """Return what was said, opened."""
        return (await self._opened_once()).memory

    async def curator(self) -> ObservationService:
        """Return what was learned, opened."""
        return (await self._opened_once()).curator

    async def _opened_once(self) -> OpenedMemory:
        if self._memory is not None:
            return self._memory
        async with self._opening:
            if self._memory is None:
                self._memory = await self._stack.enter_async_context(self._opened())
            return self._memory

    @property
    def if_opened(self) -> EpisodeService | None:
        """The memory, when somebody asked for it."""
        return self._memory.memory if self._memory is not None else None

    async def close(self) -> None:
        """Close it, when it was opened."""
        await self._stack.aclose()
