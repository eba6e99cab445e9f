"""Pulling 50 changed objects over a 40 ms round trip, in round trips."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from bench.container import azurite, blob_at, cached, new_container
from bench.network import line_to
from bench.row import Row
from bench.stub import change_everything, requests_so_far, stub_container
from memplane.storage.cached_store import CachedStore
from memplane.storage.store import Anything

OBJECTS = 50
DELAY = 0.040
ROUNDS = 9
MOST_TRIPS = 3 * 1.25


def run() -> Iterator[Row]:
    yield from asyncio.run(against_the_stub())
    yield from asyncio.run(against_the_emulator())


async def against_the_stub() -> list[Row]:
    with (
        stub_container(OBJECTS, delay=DELAY) as port,
        tempfile.TemporaryDirectory() as folder,
    ):

        async def change() -> None:
            change_everything(port)

        async with cached(blob_at(port, "box"), Path(folder)) as reader:
            trips, spent = await measured(reader, change)
            before = requests_so_far(port)
            assert not (await reader.pull("claude_memory/")).changed
            requests = requests_so_far(port) - before
    return [
        Row(
            f"pull of {OBJECTS} changed objects, {DELAY * 1000:.0f} ms round trip",
            f"{trips:.2f} round trips ({spent * 1000:.0f} ms)",
            f"<= {MOST_TRIPS:.2f}",
            trips <= MOST_TRIPS,
        ),
        Row(
            f"pull of {OBJECTS} objects, nothing changed",
            f"{requests} request",
            "1 request, the listing",
            requests == 1,
        ),
    ]


async def against_the_emulator() -> list[Row]:
    container = new_container()
    with (
        azurite() as emulator,
        tempfile.TemporaryDirectory() as folder,
        line_to(emulator.port, delay=DELAY) as line,
    ):
        async with (
            cached(blob_at(emulator.port, container), Path(folder) / "writer") as writer,
            cached(blob_at(line.port, container), Path(folder) / "reader") as reader,
        ):
            turn = 0

            async def change() -> None:
                nonlocal turn
                turn += 1
                for number in range(OBJECTS):
                    key = f"claude_memory/{number:02d}.md"
                    await writer.write(key, b"%d\n" % turn * 200, expect=Anything())

            trips, spent = await measured(reader, change)
    return [
        Row(
            "the same against the emulator, its own time included",
            f"{trips:.2f} round trips ({spent * 1000:.0f} ms)",
            "none, for comparison",
            reached=None,
        )
    ]


async def measured(
    reader: CachedStore, change: Callable[[], Awaitable[None]]
) -> tuple[float, float]:
    """Return the median of a pull, in round trips and in seconds."""
    pulls: list[float] = []
    trips: list[float] = []
    for turn in range(ROUNDS + 1):
        await change()
        began = time.perf_counter()
        pulled = await reader.pull("claude_memory/")
        spent = time.perf_counter() - began
        assert len(pulled.changed) == OBJECTS
        began = time.perf_counter()
        await reader._inner.stat("claude_memory/00.md")
        if turn:  # the first one opens the connections
            pulls.append(spent)
            trips.append(time.perf_counter() - began)
    spent = statistics.median(pulls)
    return spent / statistics.median(trips), spent
