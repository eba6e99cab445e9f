"""What goes on beside something else ends with it."""

from __future__ import annotations

import asyncio

import pytest

from memplane.kit.concurrency import run_meanwhile


async def test_what_was_begun_is_there_when_it_is_wanted() -> None:
    async with run_meanwhile(asyncio.sleep(0, "done")) as work:
        assert await work == "done"


async def test_whoever_leaves_ends_what_was_begun() -> None:
    begun: list[asyncio.Task[bool]] = []

    async def leave() -> None:
        async with run_meanwhile(asyncio.Event().wait()) as work:
            begun.append(work)
            raise OSError("no folder")

    with pytest.raises(OSError, match="no folder"):
        await leave()
    assert begun[0].cancelled()
