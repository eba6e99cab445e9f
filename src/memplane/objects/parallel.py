"""Many requests at once, but not too many."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

_T = TypeVar("_T")


async def for_each(
    items: Iterable[_T], action: Callable[[_T], Awaitable[object]], *, at_once: int
) -> None:
    """Run the action for every item; the first error ends the rest and is raised."""
    places = asyncio.Semaphore(at_once)

    async def one(item: _T) -> None:
        async with places:
            await action(item)

    try:
        async with asyncio.TaskGroup() as group:
            for item in items:
                group.create_task(one(item))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors
