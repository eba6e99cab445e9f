"""Many requests at once, but not too many."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

_T = TypeVar("_T")


async def run_for_each(
    items: Iterable[_T], action: Callable[[_T], Awaitable[object]], *, max_concurrent: int
) -> None:
    """Run the action for every item; the first error ends the rest and is raised."""
    semaphore = asyncio.Semaphore(max_concurrent)

    async def run_one(item: _T) -> None:
        async with semaphore:
            await action(item)

    try:
        async with asyncio.TaskGroup() as group:
            for item in items:
                group.create_task(run_one(item))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors


@asynccontextmanager
async def run_meanwhile(work: Coroutine[Any, Any, _T]) -> AsyncGenerator[asyncio.Task[_T]]:
    """Begin something that takes a while; whoever leaves before it is done ends it."""
    task = asyncio.create_task(work)
    await asyncio.sleep(0)  # so that its request is on its way before anything else is done
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
