"""Streams through the proxy: what it adds to their first byte, and many of them held."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from subprocess import Popen

from bench.bare import bare_relay
from bench.memory import Service
from bench.provider import asked_so_far
from bench.proxy_turns import COMPLETIONS, THROUGH, Turns
from bench.row import Row
from bench.streaming import Streams, begin, ended
from bench.watching import cpu_seconds, resident

OPEN = 50
EVENTS = 100
EVENT_SECONDS = 0.020
ADDED_P50 = 0.003
ADDED_P99 = 0.015
WANTED_P50 = 0.0015
WANTED_P99 = 0.010
ROUNDS = 5
ROUND_STARTS = 300
HELD = 1_000
HELD_SECONDS = 60
BEGIN_SECONDS = 10
GROWTH = 64 << 20


def first_bytes(service: Service, provider: int, *, short: bool) -> Iterator[Row]:
    """Begin streams directly, through a relay that does nothing else, and through memplane.

    They are begun in turn, fifty open at a time.
    """
    turns = Turns(11)
    direct: list[float] = []
    relayed: list[float] = []
    through: list[float] = []
    asked = remembering = 0
    _, errors = _round(turns, service.port, THROUGH)  # what is opened and read once
    for _ in range(2 if short else ROUNDS):
        took, failed = _round(turns, provider, COMPLETIONS)
        direct += took
        with bare_relay(provider) as relay:
            _round(turns, relay, THROUGH)
            took, others = _round(turns, relay, THROUGH)
        relayed += took
        before = asked_so_far(provider)
        took, more = _round(turns, service.port, THROUGH)
        through += took
        after = asked_so_far(provider)
        asked, remembering = asked + after[0] - before[0], remembering + after[1] - before[1]
        errors += failed + others + more
    assert not errors, errors[:3]
    yield Row(
        f"streams with memories among {asked:,}, {OPEN} open at a time",
        f"{100 * remembering / asked:.1f} %",
        ">= 99 %",
        remembering >= 0.99 * asked,
    )
    for name, share, goal, wanted in (
        ("median", 0.5, ADDED_P50, WANTED_P50),
        ("p99", 0.99, ADDED_P99, WANTED_P99),
    ):
        without, bare, with_us = (_at(each, share) for each in (direct, relayed, through))
        yield Row(
            f"added to the first byte, {OPEN} streams, {name}",
            f"{_ms(with_us - without)}, a bare relay {_ms(bare - without)}",
            f"<= {_ms(goal)}, better {_ms(wanted)}",
            with_us - without <= goal,
        )


def _round(turns: Turns, port: int, path: str) -> tuple[list[float], list[str]]:
    streams = Streams(
        port=port,
        path=path,
        every=EVENTS * EVENT_SECONDS / OPEN,
        events=EVENTS,
        most_seconds=120,
    )
    model = f"{EVENTS}x{EVENT_SECONDS * 1000:.0f}ms"
    came = ended(begin(streams, turns.made(OPEN + ROUND_STARTS, model=model, stream=True)))
    return came.first[OPEN:], came.errors  # the first ones had less company


@dataclass(frozen=True, slots=True)
class _Moment:
    at: float
    resident: int
    cpu: float


def holding(service: Service, *, short: bool) -> Iterator[Row]:
    """Hold many streams with an event a second, and watch what memplane needs for them."""
    seconds = 10 if short else HELD_SECONDS
    events = BEGIN_SECONDS + seconds
    streams = Streams(
        port=service.port,
        path=THROUGH,
        every=BEGIN_SECONDS / HELD,
        events=events,
        most_seconds=2 * events,
    )
    pid = service.process.pid
    before = resident(pid)
    reading = begin(streams, Turns(12).made(HELD, model=f"{events}x1000ms", stream=True))
    moments = _watched(reading, pid, at_most=3 * events)
    came = ended(reading)
    grown = max(one.resident for one in moments) - before
    yield Row(
        f"{HELD:,} streams held for {seconds} s: errors, and growth of memory",
        f"{len(came.errors)} errors, {grown / (1 << 20):.1f} MiB "
        f"({came.most_open:,} open at once, {came.bytes:,} bytes)",
        f"0, <= {GROWTH >> 20} MiB",
        not came.errors and came.most_open == HELD and grown <= GROWTH,
    )
    yield _cost_of_an_event(moments, seconds)


def _watched(reading: Popen[bytes], pid: int, *, at_most: int) -> list[_Moment]:
    """Look at a process once a second while streams are read."""
    moments: list[_Moment] = []
    for _ in range(at_most):
        moments.append(_Moment(time.monotonic(), resident(pid), cpu_seconds(pid)))
        if reading.poll() is not None:
            break
        time.sleep(1)
    return moments


def _cost_of_an_event(moments: Sequence[_Moment], seconds: int) -> Row:
    """Take the time in which all streams run, none begins and none ends."""
    from_then = moments[0].at + BEGIN_SECONDS
    steady = [one for one in moments if from_then + 3 <= one.at <= from_then + seconds]
    first, last = steady[0], steady[-1]
    relayed = HELD * (last.at - first.at)
    return Row(
        f"CPU for each event that is relayed, {HELD:,} streams",
        f"{(last.cpu - first.cpu) / relayed * 1e6:.0f} us",
        "-",
        None,
    )


def _at(times: Sequence[float], share: float) -> float:
    return sorted(times)[int(len(times) * share)]


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"
