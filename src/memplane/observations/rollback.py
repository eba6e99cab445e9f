"""Taking back what the turns and sessions of one origin did to observations (pure).

Each vote is undone by an event of its own, all in one batch. Whoever undoes that batch stands
behind the observations again, since the turns that spoke for them stay forgotten.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from memplane.observations.confidence import Profile
from memplane.observations.conflicts import Conflict, close_moot_conflicts
from memplane.observations.events import EventKind, ObservationEvent
from memplane.observations.model import ObservationState
from memplane.observations.operator_events import Operator, draft_undo
from memplane.observations.projection import filter_effective_events, fold_observation

ROLLBACK_BATCH_PREFIX: Final = "rollback-"
"""How the batches of rollbacks begin."""
ROLLED_BACK_SQL: Final = (
    "EXISTS (SELECT 1 FROM memory_events u "  # noqa: S608 - our own words
    "WHERE u.target = {event}.id AND u.target <> '' "
    f"AND u.kind = 'undone' AND u.batch LIKE '{ROLLBACK_BATCH_PREFIX}%' "
    "AND NOT EXISTS (SELECT 1 FROM memory_events v WHERE v.target = u.id AND v.kind = 'undone'))"
)
"""Whether an event was rolled back, and that was not undone."""
_ROLLED_BACK_KINDS: Final = frozenset(
    {
        EventKind.ASSERTED,
        EventKind.REINFORCED,
        EventKind.CONTRADICTED,
        EventKind.ECHOED,
        EventKind.QUARANTINED,
        EventKind.REJECTED,
    }
)
_LIVE_STATES: Final = frozenset({ObservationState.ACTIVE, ObservationState.INACTIVE})


def draft_rollback(
    said: Iterable[ObservationEvent],
    histories: Mapping[int, Sequence[ObservationEvent]],
    conflicts: Mapping[int, Sequence[Conflict]],
    by: Operator,
    *,
    profile: Profile,
) -> list[ObservationEvent]:
    """Undo what was said in turns and sessions, and end the conflicts of what is gone with it.

    Args:
        said: What came of the turns and sessions.
        histories: All events of each observation that is touched.
        conflicts: The conflicts of each.
        by: The operator.
        profile: How belief grows and fades.
    """
    count = {one.id for events in histories.values() for one in filter_effective_events(events)}
    votes = [
        one
        for one in said
        if one.kind in _ROLLED_BACK_KINDS and (not one.memory or one.id in count)
    ]
    undone = draft_undo(votes, by)
    gone = (
        memory
        for memory, events in histories.items()
        if fold_observation([*events, *undone], profile) is None
    )
    over = {one.key: one for memory in sorted(gone) for one in conflicts.get(memory, ())}
    return [*undone, *close_moot_conflicts(over.values(), by)]


def draft_support(
    histories: Iterable[Sequence[ObservationEvent]],
    drafts: Sequence[ObservationEvent],
    by: Operator,
    *,
    profile: Profile,
    forgotten: Collection[str],
) -> list[ObservationEvent]:
    """Let an operator stand behind what comes back when a rollback is undone.

    What was held in quarantine is approved by nobody.
    """
    support: list[ObservationEvent] = []
    for events in histories:
        after = fold_observation([*events, *drafts], profile, forgotten=forgotten)
        if after is not None and after.unsupported and after.state in _LIVE_STATES:
            support.append(by.draft(EventKind.RESTORED, after))
    return support
