"""How often and how long retries wait, on a clock that only moves when somebody sleeps."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from memplane.kit.retry_clock import RetryAttempts, RetryClock

untimed = hypothesis_settings(deadline=None)

MIDDLE = 0.5
"""The roll of the dice that leaves a wait as it is."""


@dataclass
class World:
    """A clock, and dice that show what they are told to."""

    rolls: list[float] = field(default_factory=lambda: [MIDDLE])
    now: float = 1000.0
    slept: list[float] = field(default_factory=list)
    rolled: int = 0

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def elapsed(self) -> float:
        return self.now

    def chance(self) -> float:
        self.rolled += 1
        return self.rolls[(self.rolled - 1) % len(self.rolls)]

    @property
    def pacing(self) -> RetryClock:
        return RetryClock(sleep=self.sleep, elapsed=self.elapsed, chance=self.chance)


async def attempts_made(attempts: RetryAttempts, *, at_least: float = 0.0) -> int:
    """Fail every time, and count how often it was tried."""
    made = 1
    while await attempts.wait_for_next(at_least=at_least):
        made += 1
    return made


ROLLS = st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=10)


# No answer


@untimed
@given(ROLLS)
async def test_after_a_fault_there_are_four_attempts(rolls: list[float]) -> None:
    world = World(rolls)
    assert await attempts_made(world.pacing.for_faults()) == 4
    assert len(world.slept) == 3


async def test_waits_after_a_fault_double() -> None:
    world = World()
    await attempts_made(world.pacing.for_faults())
    assert world.slept == pytest.approx([0.2, 0.4, 0.8])


async def test_when_patience_has_ended_it_stays_ended_and_nobody_sleeps() -> None:
    world = World()
    attempts = world.pacing.for_faults()
    await attempts_made(attempts)
    assert not await attempts.wait_for_next()
    assert len(world.slept) == 3


@untimed
@given(ROLLS)
async def test_jitter_is_half_of_the_wait_up_or_down(rolls: list[float]) -> None:
    world = World(rolls)
    await attempts_made(world.pacing.for_faults())
    for slept, wait in zip(world.slept, (0.2, 0.4, 0.8), strict=True):
        assert wait * 0.5 <= slept <= wait * 1.5


async def test_each_wait_rolls_the_dice_anew() -> None:
    world = World([0.0, 0.5, 0.75])
    await attempts_made(world.pacing.for_faults())
    assert world.slept == pytest.approx([0.1, 0.4, 1.0])


async def test_a_wait_the_service_asked_for_is_honoured() -> None:
    world = World()
    attempts = world.pacing.for_faults()
    assert await attempts.wait_for_next(at_least=17.0)
    assert world.slept == [17.0]


async def test_a_wait_the_service_asked_for_does_not_shorten_ours() -> None:
    world = World([0.75])
    attempts = world.pacing.for_faults()
    assert await attempts.wait_for_next(at_least=0.001)
    assert world.slept == pytest.approx([0.25])


async def test_waiting_for_the_service_costs_no_attempt() -> None:
    world = World()
    assert await attempts_made(world.pacing.for_faults(), at_least=10.0) == 4
    assert world.slept == [10.0, 10.0, 10.0]


async def test_a_wait_beyond_patience_is_not_begun() -> None:
    world = World()
    assert not await world.pacing.for_faults().wait_for_next(at_least=121.0)
    assert world.slept == []


async def test_a_wait_that_just_fits_is_begun() -> None:
    world = World()
    assert await world.pacing.for_faults().wait_for_next(at_least=120.0)
    assert world.slept == [120.0]


async def test_time_that_the_attempts_took_counts() -> None:
    world = World()
    attempts = world.pacing.for_faults()
    world.now += 119.9
    assert not await attempts.wait_for_next()
    assert world.slept == []


# Lost races


@untimed
@given(ROLLS)
async def test_contention_ends_within_half_a_minute(rolls: list[float]) -> None:
    world = World(rolls)
    await attempts_made(world.pacing.for_contention())
    assert 30.0 - 0.75 <= world.now - 1000.0 <= 30.0


async def test_contention_ends_when_the_attempts_themselves_take_the_time() -> None:
    world = World()
    attempts = world.pacing.for_contention()
    tries = 0
    while await attempts.wait_for_next():
        tries += 1
        world.now += 10.0
    assert tries == 3


async def test_waits_of_contention_grow_to_half_a_second() -> None:
    world = World()
    await attempts_made(world.pacing.for_contention())
    assert world.slept[:7] == pytest.approx([0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.5])
    assert world.slept == sorted(world.slept)
    assert max(world.slept) == pytest.approx(0.5)


@untimed
@given(ROLLS)
async def test_jitter_of_contention_is_within_bounds(rolls: list[float]) -> None:
    world = World(rolls)
    await attempts_made(world.pacing.for_contention())
    waits = [min(0.01 * 2**number, 0.5) for number in range(len(world.slept))]
    for slept, wait in zip(world.slept, waits, strict=True):
        assert wait * 0.5 <= slept <= wait * 1.5


async def test_contention_is_tried_often_before_it_is_given_up() -> None:
    world = World()
    assert await attempts_made(world.pacing.for_contention()) > 50


async def test_each_series_of_attempts_starts_anew() -> None:
    world = World()
    pacing = world.pacing
    assert await attempts_made(pacing.for_faults()) == 4
    assert await attempts_made(pacing.for_faults()) == 4
    assert world.slept[3:] == pytest.approx(world.slept[:3])
