"""How many memories were in which state on each of the last days (pure).

Which state an event led to is told from its kind alone, so that nothing is folded anew; since the
last of them a memory is in the state that it is known to be in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from itertools import accumulate, groupby
from typing import Final, TypeAlias

from memplane.observations.contract import DayView
from memplane.observations.events import Kind
from memplane.observations.model import State

Moved: TypeAlias = tuple[int, str, str]
"""A memory, when something happened to it, and what."""

_BECOMES: Final[Mapping[Kind, State]] = {
    Kind.ASSERTED: State.ACTIVE,
    Kind.RESTORED: State.ACTIVE,
    Kind.APPROVED: State.ACTIVE,
    Kind.DECAY_NOTED: State.INACTIVE,
    Kind.DEACTIVATED: State.INACTIVE,
    Kind.QUARANTINED: State.QUARANTINED,
    Kind.RETIRED: State.RETIRED,
    Kind.SUPERSEDED: State.SUPERSEDED,
    Kind.MERGED: State.SUPERSEDED,
    Kind.PURGED: State.PURGED,
}
MOVING: Final = tuple(sorted(kind.value for kind in (*_BECOMES, Kind.REINFORCED, Kind.UNDONE)))
"""The kinds of events that may lead to another state."""


def by_day(
    moved: Iterable[Moved], states: Mapping[int, State], today: date, days: int
) -> list[DayView]:
    """Count memories at the end of each day, the oldest day first.

    `moved` comes memory by memory, the oldest first; `states` is how each is now.
    """
    first = today - timedelta(days=days - 1)
    changes = {state: [0] * (days + 1) for state in State}
    for memory, events in groupby(moved, key=lambda one: one[0]):
        for state, start, end in _spans([*events], states.get(memory), today):
            came, went = (min(max((one - first).days, 0), days) for one in (start, end))
            changes[state][came] += 1
            changes[state][went] -= 1
    counts = {state: [*accumulate(changes[state])] for state in State if state != State.PURGED}
    return [
        DayView(
            day=(first + timedelta(days=at)).isoformat(),
            by_state={state.value: counts[state][at] for state in counts},
        )
        for at in range(days)
    ]


def _spans(
    events: Sequence[Moved], now: State | None, today: date
) -> Iterator[tuple[State, date, date]]:
    """Yield the states that a memory was in: from which day on, and before which one."""
    if now is None:
        return  # Nobody stands behind it any more.
    seen: list[State] = []
    days = [date.fromisoformat(at[:10]) for _, at, _ in events]
    for number, (_, _, kind) in enumerate(events):
        state = _after(seen, Kind(kind), now)
        seen.append(state)
        is_last = number == len(events) - 1
        end = today + timedelta(days=1) if is_last else days[number + 1]
        yield now if is_last else state, days[number], end


def _after(seen: Sequence[State], kind: Kind, now: State) -> State:
    """Return the state that an event leads to, after those before it."""
    before = seen[-1] if seen else now
    if kind is Kind.UNDONE:
        return seen[-2] if len(seen) > 1 else before
    if kind is Kind.REINFORCED:
        return State.ACTIVE if before is State.INACTIVE else before
    return _BECOMES[kind]
