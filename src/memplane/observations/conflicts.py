"""Observations that do not go together: opening, resolving, and what that does to them (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from memplane.errors import InvalidRequest
from memplane.observations.events import EventKind, ObservationEvent
from memplane.observations.operator_events import REMOVED_STATES, Operator, refuse_in_states
from memplane.observations.projection import Observation


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    """Two observations that do not go together; without a second one it was said again."""

    key: str
    agent: str
    kind: str
    a: int
    b: int
    signals: tuple[str, ...]
    opened: str
    sessions: tuple[int, ...] = ()
    is_open: bool = True
    resolution: str = ""
    user: str = ""
    view: str = ""


def fold_conflict(key: str, events: Sequence[ObservationEvent]) -> Conflict | None:
    """Fold the events about a conflict that count, in their order; None when none opens it."""
    opened = [one for one in events if one.kind is EventKind.CONTESTED]
    if not opened:
        return None
    last = events[-1]
    sides = sorted({one.memory for one in opened} | {one.other for one in opened if one.other})
    return Conflict(
        key=key,
        agent=last.agent,
        kind=opened[-1].reason,
        a=sides[0],
        b=sides[1] if len(sides) > 1 else 0,
        signals=opened[-1].signals,
        opened=opened[-1].ts,
        sessions=tuple(sorted({one.session for one in opened if one.session})),
        is_open=last.kind is EventKind.CONTESTED,
        resolution=last.reason if last.kind is EventKind.RESOLVED else "",
        user=opened[-1].user,
        view=opened[-1].view,
    )


def resolve_conflict(conflict: Conflict, how: str, by: Operator) -> list[ObservationEvent]:
    """Say on both sides that a conflict is over."""
    return [
        msgspec.structs.replace(
            by.begin(EventKind.RESOLVED, conflict.agent, side),
            other=conflict.a + conflict.b - side,
            reason=how,
            target=conflict.key,
        )
        for side in (conflict.a, conflict.b)
        if side
    ]


def close_moot_conflicts(conflicts: Iterable[Conflict], by: Operator) -> list[ObservationEvent]:
    """End the conflicts of an observation that is going."""
    return [
        event for one in conflicts if one.is_open for event in resolve_conflict(one, "moot", by)
    ]


def settle_conflict(
    conflict: Conflict,
    how: str,
    sides: Mapping[int, Observation],
    *,
    by: Operator,
    others: Mapping[int, Sequence[Conflict]] = MappingProxyType({}),
) -> list[ObservationEvent]:
    """Keep one of the two, or both, or none of the fuss.

    `others` are the conflicts of each side besides this one, which end with a side that goes.

    Raises:
        InvalidRequest: It cannot be resolved so.
    """
    if not conflict.is_open:
        raise InvalidRequest(f"the conflict {conflict.key} was resolved: {conflict.resolution}")
    over = resolve_conflict(conflict, how, by)
    if how in {"both", "dismiss"}:
        return over
    if not conflict.b:
        raise InvalidRequest(
            f"memory {conflict.a} was put away and said again: restore it, or dismiss this"
        )
    if how not in {"keep_a", "keep_b"}:
        raise InvalidRequest(f"a conflict cannot be resolved by {how!r}")
    kept, gone = (conflict.a, conflict.b) if how == "keep_a" else (conflict.b, conflict.a)
    refuse_in_states(sides[gone], REMOVED_STATES, "superseded: it is in the trash")
    superseded = msgspec.structs.replace(by.draft(EventKind.SUPERSEDED, sides[gone]), other=kept)
    return [superseded, *over, *close_moot_conflicts(others.get(gone, ()), by)]
