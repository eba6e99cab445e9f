"""How many memories were in which state on each of the last days (pure).

Which state an event led to is told from its kind alone, so that nothing is folded anew; since the
last of them a memory is in the state that it is known to be in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from itertools import accumulate, groupby
from typing import Final, TypeAlias

from memplane.observations.api_types import DayView
from memplane.observations.events import EventKind
from memplane.observations.model import ObservationState

StateChange: TypeAlias = tuple[int, str, str]
"""A memory, when something happened to it, and what."""

_STATE_AFTER_KIND: Final[Mapping[EventKind, ObservationState]] = {
    EventKind.ASSERTED: ObservationState.ACTIVE,
    EventKind.RESTORED: ObservationState.ACTIVE,
    EventKind.APPROVED: ObservationState.ACTIVE,
    EventKind.DECAY_NOTED: ObservationState.INACTIVE,
    EventKind.DEACTIVATED: ObservationState.INACTIVE,
    EventKind.QUARANTINED: ObservationState.QUARANTINED,
    EventKind.RETIRED: ObservationState.RETIRED,
    EventKind.SUPERSEDED: ObservationState.SUPERSEDED,
    EventKind.MERGED: ObservationState.SUPERSEDED,
    EventKind.PURGED: ObservationState.PURGED,
}
STATE_CHANGE_KINDS: Final = tuple(
    sorted(kind.value for kind in (*_STATE_AFTER_KIND, EventKind.REINFORCED, EventKind.UNDONE))
)
"""The kinds of events that may lead to another state."""


def count_states_by_day(
    moved: Iterable[StateChange], states: Mapping[int, ObservationState], today: date, days: int
) -> list[DayView]:
    """Count memories at the end of each day, the oldest day first.

    `moved` comes memory by memory, the oldest first; `states` is how each is now.
    """
    first = today - timedelta(days=days - 1)
    changes = {state: [0] * (days + 1) for state in ObservationState}
    for memory, events in groupby(moved, key=lambda one: one[0]):
        for state, start, end in _spans([*events], states.get(memory), today):
            came, went = (min(max((one - first).days, 0), days) for one in (start, end))
            changes[state][came] += 1
            changes[state][went] -= 1
    counts = {
        state: [*accumulate(changes[state])]
        for state in ObservationState
        if state != ObservationState.PURGED
    }
    return [
        DayView(
            day=(first + timedelta(days=at)).isoformat(),
            by_state={state.value: counts[state][at] for state in counts},
        )
        for at in range(days)
    ]


def _spans(
    events: Sequence[StateChange], now: ObservationState | None, today: date
) -> Iterator[tuple[ObservationState, date, date]]:
    """Yield the states that a memory was in: from which day on, and before which one."""
    if now is None:
        return  # Nobody stands behind it any more.
    seen: list[ObservationState] = []
    days = [date.fromisoformat(at[:10]) for _, at, _ in events]
    for number, (_, _, kind) in enumerate(events):
        state = _after(seen, EventKind(kind), now)
        seen.append(state)
        is_last = number == len(events) - 1
        end = today + timedelta(days=1) if is_last else days[number + 1]
        yield now if is_last else state, days[number], end


def _after(
    seen: Sequence[ObservationState], kind: EventKind, now: ObservationState
) -> ObservationState:
    """Return the state that an event leads to, after those before it."""
    before = seen[-1] if seen else now
    if kind is EventKind.UNDONE:
        return seen[-2] if len(seen) > 1 else before
    if kind is EventKind.REINFORCED:
        return ObservationState.ACTIVE if before is ObservationState.INACTIVE else before
    return _STATE_AFTER_KIND[kind]
