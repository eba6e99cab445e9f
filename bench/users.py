"""End users: recall for one of many, retaining with and without users, deleting one."""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.row import Row
from memplane.episodes.api_types import RecallRequest
from memplane.episodes.retain_queue import EntryOrigin
from memplane.episodes.service import EpisodeService
from memplane.service.client import local_client
from memplane.service.composition.home import open_services
from memplane.service.operations.users import UserForgetRequest, forget_user
from memplane.settings import Settings

EPISODES = 100_000
USERS = 1_000
SHARED_SHARE = 10
RECALLS = 400
RATIO = 1.5
RETAINED = 4_000
SLOWER = 1.1
DELETED_AMONG = 10_000
DELETE_SECONDS = 10.0
_AGENT = "shop"
_TOGETHER = 256
_WORDS = 6_000


def run() -> Iterator[Row]:
    yield from asyncio.run(_recalling())
    yield from asyncio.run(_retaining())
    yield from asyncio.run(_deleting())


async def _recalling() -> list[Row]:
    """Compare the recall of a user with that of an agent whose episodes are all shared."""
    alone, among = [await _recall_times(users) for users in (0, USERS)]
    ratio = _p99(among) / _p99(alone)
    without = f"{ratio:.2f} of the {_p99(alone) * 1000:.1f} ms without users"
    measured = f"p99 {_p99(among) * 1000:.1f} ms, {without}"
    what = f"recall for one of {USERS:,} users of {EPISODES:,} episodes"
    return [Row(what, measured, f"≤ {RATIO} of it", ratio <= RATIO)]


async def _recall_times(users: int) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        async with open_services(Settings(home=Path(folder) / "home")) as services:
            memory = await services.lazy_memory.memory()
            origins = [_origin(number, users) for number in range(EPISODES)]
            await _retain(memory, origins)
            await memory.settle()
            some = random.Random(3)
            took: list[float] = []
            for number in range(RECALLS):
                ask = RecallRequest(
                    agent=_AGENT,
                    user=f"u-{some.randrange(users)}" if users else None,
                    text=_text(some, 6),
                )
                began = time.perf_counter()
                await memory.recall(ask)
                if number >= RECALLS // 4:
                    took.append(time.perf_counter() - began)
    return took


async def _retaining() -> list[Row]:
    """Compare retaining for many users with retaining what is shared, in turns."""
    rates: dict[int, list[float]] = {0: [], USERS: []}
    for _ in range(3):
        for users, took in rates.items():
            with tempfile.TemporaryDirectory() as folder:
                async with open_services(Settings(home=Path(folder) / "home")) as services:
                    memory = await services.lazy_memory.memory()
                    began = time.perf_counter()
                    await _retain(memory, [_origin(number, users) for number in range(RETAINED)])
                    took.append(time.perf_counter() - began)
    ratio = statistics.median(rates[USERS]) / statistics.median(rates[0])
    rate = RETAINED / statistics.median(rates[USERS])
    measured = f"{rate:,.0f} a second, {ratio:.2f} of the time without users"
    return [Row("retaining for many users", measured, f"≤ {SLOWER}", ratio <= SLOWER)]


async def _deleting() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        async with open_services(Settings(home=Path(folder) / "home")) as services:
            memory = await services.lazy_memory.memory()
            origins = [
                EntryOrigin(_AGENT, user=f"u-{number % DELETED_AMONG}")
                for number in range(3 * DELETED_AMONG)
            ]
            await _retain(memory, origins)
            await memory.settle()
            asked = UserForgetRequest(agent=_AGENT, user="u-7", confirm="u-7")
            began = time.perf_counter()
            receipt = await local_client(services).call(forget_user, asked)
            took = time.perf_counter() - began
    measured = f"{took:.1f} s" + ("" if receipt.clean else ", and something is left")
    goal = f"≤ {DELETE_SECONDS:g} s"
    what = f"deleting one of {DELETED_AMONG:,} users"
    return [Row(what, measured, goal, took <= DELETE_SECONDS and receipt.clean)]


def _origin(number: int, users: int) -> EntryOrigin:
    if not users or number % SHARED_SHARE == 0:
        return EntryOrigin(_AGENT)
    return EntryOrigin(_AGENT, user=f"u-{number % users}")


async def _retain(memory: EpisodeService, origins: Sequence[EntryOrigin]) -> None:
    some = random.Random(1)
    for first in range(0, len(origins), _TOGETHER):
        part = origins[first : first + _TOGETHER]
        entries = [_entry(some, first + place) for place in range(len(part))]
        await asyncio.gather(
            *(memory.retain(origin, line) for origin, line in zip(part, entries, strict=True))
        )


def _entry(some: random.Random, number: int) -> bytes:
    day, second = divmod(number * 7, 86_400)
    hour, minute = divmod(second // 60, 60)
    return json.dumps(
        {
            "id": f"e-{number}",
            "ts": f"2026-{1 + day // 28:02}-{1 + day % 28:02}T{hour:02}:{minute:02}:00Z",
            "request_original": {"messages": [{"role": "user", "content": _text(some, 12)}]},
            "response": {
                "format": "json",
                "json": {"choices": [{"message": {"content": _text(some, 24)}}]},
            },
        }
    ).encode()


def _text(some: random.Random, words: int) -> str:
    """Return words of which few are common and most are rare."""
    return " ".join(f"w{int(some.paretovariate(0.6)) % _WORDS}" for _ in range(words))


def _p99(times: Sequence[float]) -> float:
    return statistics.quantiles(times, n=100)[98]
