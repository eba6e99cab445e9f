"""An observation, folded out of its events (pure).

What was undone, and what a retracted message said, does not count: the fold is over the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from memplane.observations import confidence
from memplane.observations.confidence import Profile, Standing
from memplane.observations.events import Actor, Event, Kind, Said
from memplane.observations.model import Category, State
from memplane.observations.normalising import norm_hash

_SUPPORT: Final = frozenset({Kind.ASSERTED, Kind.REINFORCED, Kind.APPROVED})
_SILENT: Final = frozenset(
    {Kind.ECHOED, Kind.RETRACTED, Kind.UNDONE, Kind.CONTESTED, Kind.RESOLVED}
)
"""What changes nothing in the observation itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What is known of an observation, as of its last event.

    `standing` is its confidence; what that is worth at a moment is asked of it. `reason` says why
    it is in quarantine or was retired.
    """

    id: int
    agent: str
    service: str | None
    category: Category
    text: str
    standing: Standing
    state: State
    created: datetime
    updated: datetime
    session: int
    tier: int
    origin: str
    version: int
    valid_from: datetime
    valid_to: datetime | None = None
    retired: datetime | None = None
    superseded_by: int = 0
    expires: datetime | None = None
    contested: bool = False
    unsupported: bool = False
    reason: str = ""
    flags: tuple[str, ...] = ()

    @property
    def norm_hash(self) -> str:
        """What equal texts have in common."""
        return norm_hash(self.text)

    @property
    def is_active(self) -> bool:
        """Whether it may be put into prompts, as far as its events say."""
        return self.state is State.ACTIVE


def observed(
    events: Sequence[Event], profile: Profile, *, forgotten: Collection[str] = ()
) -> Observation | None:
    """Fold the events of one observation, in their order; None when none of them asserts it.

    What the `forgotten` entries of a ledger say is evidence no more.
    """
    counted = _counted(events)
    first = next((one for one in counted if one.kind is Kind.ASSERTED), None)
    if first is None:
        return None
    found = _first(first, profile)
    for event in counted:
        if event is not first:
            found = _after(found, event, profile)
    return replace(
        found,
        version=len(events),
        contested=_is_contested(events),
        unsupported=not _is_supported(counted, forgotten),
    )


def moment_of(text: str) -> datetime:
    """Read a time as events have it."""
    return datetime.fromisoformat(text).astimezone(UTC)


def _counted(events: Sequence[Event]) -> list[Event]:
    """Leave out what was undone or retracted; an undo that was undone itself takes nothing out."""
    undone: set[str] = set()
    for event in reversed(events):
        if event.kind is Kind.UNDONE and event.id not in undone:
            undone.add(event.target)
    retracted = {one.target for one in events if one.kind is Kind.RETRACTED}
    return [one for one in events if one.id not in undone and one.id not in retracted]


def _first(event: Event, profile: Profile) -> Observation:
    at, said = moment_of(event.ts), event.said
    if said is None or said.text is None or said.category is None:
        raise ValueError(f"the event {event.id} asserts nothing")
    standing = confidence.asserted(at, profile)
    if event.value is not None:
        standing = confidence.set_by_operator(standing, event.value, at, profile)
    closed = moment_of(event.valid_to) if event.valid_to else None
    found = Observation(
        id=event.memory,
        agent=event.agent,
        service=said.service or None,
        category=said.category,
        text=said.text,
        standing=standing,
        state=State.SUPERSEDED if closed else State.ACTIVE,
        created=at,
        updated=at,
        session=event.session,
        tier=event.tier,
        origin=event.evidence.source if event.evidence else event.actor,
        version=1,
        valid_from=moment_of(event.valid_from) if event.valid_from else at,
        valid_to=closed,
        superseded_by=event.other,
        expires=moment_of(event.expires) if event.expires else None,
        flags=event.flags,
    )
    return found if closed else _by_value(found, profile)


def _after(found: Observation, event: Event, profile: Profile) -> Observation:
    """Return an observation after one more event."""
    if event.kind in _SILENT:
        return found
    at = moment_of(event.ts)
    found = replace(found, updated=at)
    if event.kind is Kind.EDITED:
        return _edited(found, event, at, profile)
    standing = _standing(found.standing, event, at, profile)
    if standing is not None:
        return _by_value(replace(found, standing=standing), profile)
    return _moved(found, event, at, profile)


def _standing(standing: Standing, event: Event, at: datetime, profile: Profile) -> Standing | None:
    """Return the confidence after an event that is about it; None when it is not."""
    match event.kind:
        case Kind.REINFORCED:
            return confidence.supported(standing, at, profile)
        case Kind.CONTRADICTED:
            return confidence.contradicted(standing, at, profile)
        case Kind.CONFIDENCE_SET:
            value = standing.value if event.value is None else event.value
            return confidence.set_by_operator(standing, value, at, profile)
        case Kind.PINNED:
            return confidence.pinned(standing, at, profile)
        case Kind.UNPINNED:
            return confidence.unpinned(standing, at)
        case _:
            return None


def _edited(found: Observation, event: Event, at: datetime, profile: Profile) -> Observation:
    """Return what an operator wrote; a confidence that was not said stays as it is worth now."""
    standing = confidence.edited_by_operator(found.standing, at, profile)
    if event.value is not None:
        standing = confidence.set_by_operator(found.standing, event.value, at, profile)
    said = event.said or Said()
    edited = replace(
        found,
        standing=standing,
        text=found.text if said.text is None else said.text,
        category=said.category or found.category,
        service=found.service if said.service is None else said.service or None,
        expires=moment_of(event.expires) if event.expires else found.expires,
    )
    return _by_value(edited, profile)


def _moved(found: Observation, event: Event, at: datetime, profile: Profile) -> Observation:
    """Return an observation in another state."""
    match event.kind:
        case Kind.QUARANTINED:
            return replace(found, state=State.QUARANTINED, reason=event.reason)
        case Kind.RETIRED:
            return replace(found, state=State.RETIRED, retired=at, reason=event.reason)
        case Kind.SUPERSEDED | Kind.MERGED:
            return replace(found, state=State.SUPERSEDED, valid_to=at, superseded_by=event.other)
        case Kind.PURGED:
            return replace(found, state=State.PURGED, text="", retired=at)
        case Kind.DECAY_NOTED:
            return replace(found, state=State.INACTIVE)
        case Kind.APPROVED | Kind.RESTORED:
            opened = replace(
                found, state=State.ACTIVE, retired=None, valid_to=None, superseded_by=0, reason=""
            )
            return _by_value(opened, profile)
        case _:
            return found


def _by_value(found: Observation, profile: Profile) -> Observation:
    """Let what is active or inactive be what its value says."""
    if found.state not in {State.ACTIVE, State.INACTIVE}:
        return found
    is_enough = found.standing.value >= profile.threshold
    return replace(found, state=State.ACTIVE if is_enough else State.INACTIVE)


def _is_contested(events: Iterable[Event]) -> bool:
    """Say whether a conflict about it is open."""
    open_conflicts: set[str] = set()
    for event in events:
        if event.kind is Kind.CONTESTED:
            open_conflicts.add(event.target)
        elif event.kind is Kind.RESOLVED:
            open_conflicts.discard(event.target)
    return bool(open_conflicts)


def _is_supported(events: Iterable[Event], forgotten: Collection[str]) -> bool:
    """Say whether anything that still counts speaks for it; an operator's word always does."""
    return any(
        event.kind in _SUPPORT
        and (
            event.actor is Actor.OPERATOR
            or event.evidence is None
            or not event.evidence.entry
            or event.evidence.entry not in forgotten
        )
        for event in events
    )
