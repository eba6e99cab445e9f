"""The memory of the process that owns the home, opened when it is first asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from memplane.memory.memory import Memory


class Remembering:
    """Memory that most commands never need; opening it takes in what a crash left."""

    def __init__(self, opened: Callable[[], AbstractAsyncContextManager[Memory]]) -> None:
        self._opened = opened
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._memory: Memory | None = None

    async def memory(self) -> Memory:
        """Return the memory, opened."""
        async with self._opening:
            if self._memory is None:
                self._memory = await self._stack.enter_async_context(self._opened())
            return self._memory

    @property
    def if_opened(self) -> Memory | None:
        """The memory, when somebody asked for it."""
        return self._memory

    async def close(self) -> None:
        """Close it, when it was opened."""
        await self._stack.aclose()
