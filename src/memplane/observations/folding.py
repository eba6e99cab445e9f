"""An observation, folded out of its events (pure).

What was undone, and what a retracted message said, does not count: the fold is over the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from memplane.observations import confidence
from memplane.observations.confidence import Profile, Standing
from memplane.observations.events import Actor, Event, Kind, Said
from memplane.observations.model import Category, State
from memplane.observations.normalising import norm_hash

_SUPPORT: Final = frozenset({Kind.ASSERTED, Kind.REINFORCED, Kind.APPROVED})
_VOUCHING: Final = frozenset({Kind.EDITED, Kind.CONFIDENCE_SET, Kind.PINNED, Kind.RESTORED})
"""What an operator does only to an observation that is to be kept."""
PURGED_TEXT: Final = "[purged]"
NEVER: Final = "never"
"""What an edit says of an observation that is to expire no more."""
_SILENT: Final = frozenset(
    {Kind.ECHOED, Kind.RETRACTED, Kind.UNDONE, Kind.CONTESTED, Kind.RESOLVED}
)
"""What changes nothing in the observation itself."""
_LOOKING_BACK: Final = frozenset({Kind.RETRACTED, Kind.UNDONE, Kind.PURGED})
"""What changes what came before it."""


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
    recorded: datetime
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
    """Fold the events of one observation, in their order; None when nobody stands behind it.

    What the `forgotten` entries of a ledger say is evidence no more.
    """
    words = next((one for one in events if one.kind is Kind.ASSERTED), None)
    purged = next((one for one in events if one.kind is Kind.PURGED), None)
    if purged is not None:
        return _purged(purged, words or purged)
    count = counted(events)
    first = next((one for one in count if _stands_behind(one)), None)
    if words is None or first is None:
        return None
    found = _first(words, first, profile)
    for event in count:
        if event is not first or event.kind in _VOUCHING:
            found = _after(found, event, profile)
    return replace(
        found,
        version=len(events),
        contested=bool(open_conflicts(count)),
        unsupported=not _is_supported(count, forgotten),
    )


def steps(events: Sequence[Event], profile: Profile) -> Iterator[Observation | None]:
    """Yield an observation after each of its events, as it was known then.

    Its version and its conflicts are not told.
    """
    found: Observation | None = None
    for at, event in enumerate(events):
        if found is None or event.kind in _LOOKING_BACK:
            found = observed(events[: at + 1], profile)
        else:
            found = _after(found, event, profile)
        yield found


def in_order(events: Iterable[Event]) -> list[Event]:
    """Return events in the order in which they are folded, however they came."""
    return sorted(events, key=lambda one: (one.ts, one.id))


def moment_of(text: str) -> datetime:
    """Read a time as events have it."""
    return datetime.fromisoformat(text).astimezone(UTC)


def counted(events: Sequence[Event]) -> list[Event]:
    """Leave out what was undone or retracted; an undo that was undone itself takes nothing out."""
    undone: set[str] = set()
    for event in reversed(events):
        if event.kind is Kind.UNDONE and event.id not in undone:
            undone.add(event.target)
    retracted = {one.target for one in events if one.kind is Kind.RETRACTED}
    return [one for one in events if one.id not in undone and one.id not in retracted]


def _purged(event: Event, words: Event) -> Observation:
    """Return what is left of an observation whose words are gone: that there was one."""
    at = moment_of(event.ts)
    return replace(
        _first(event if event.said else words, event, confidence.DEFAULT),
        text=PURGED_TEXT,
        standing=Standing(value=0, last_supported=at),
        state=State.PURGED,
        retired=at,
    )


def _first(words: Event, event: Event, profile: Profile) -> Observation:
    """Return an observation with the words of one event, as another one began to support it.

    They are the same event, unless the first one was taken back and others had agreed.
    """
    at, said = moment_of(event.ts), words.said
    if said is None or said.text is None or said.category is None:
        raise ValueError(f"the event {words.id} asserts nothing")
    standing = confidence.asserted(at, profile)
    if event.value is not None:
        standing = confidence.set_by_operator(standing, event.value, at, profile)
    closed = moment_of(event.valid_to) if event.valid_to else None
    found = Observation(
        id=words.memory,
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
        recorded=moment_of(event.recorded) if event.recorded else at,
        superseded_by=event.other if closed else 0,
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
        expires=_expiry(event, found),
    )
    # Other words do not bring back what was switched off; a value that was given does.
    is_off = found.state is State.INACTIVE and event.value is None
    return edited if is_off else _by_value(edited, profile)


def _expiry(event: Event, found: Observation) -> datetime | None:
    if event.expires == NEVER:
        return None
    return moment_of(event.expires) if event.expires else found.expires


def _moved(found: Observation, event: Event, at: datetime, profile: Profile) -> Observation:
    """Return an observation in another state."""
    match event.kind:
        case Kind.QUARANTINED:
            return replace(found, state=State.QUARANTINED, reason=event.reason)
        case Kind.RETIRED:
            return replace(found, state=State.RETIRED, retired=at, reason=event.reason)
        case Kind.SUPERSEDED | Kind.MERGED:
            return replace(
                found,
                state=State.SUPERSEDED,
                valid_to=at,
                superseded_by=event.other,
                reason=event.kind.value,
            )
        case Kind.DECAY_NOTED:
            # Decay is worked out anew at each fold: with another profile it may not be due.
            return found if confidence.is_active(found.standing, at, profile) else _off(found)
        case Kind.DEACTIVATED:
            return _off(found)
        case Kind.APPROVED | Kind.RESTORED:
            return _reopened(found, event, at, profile)
        case _:
            return found


def _off(found: Observation) -> Observation:
    return replace(found, state=State.INACTIVE) if found.state is State.ACTIVE else found


def _reopened(found: Observation, event: Event, at: datetime, profile: Profile) -> Observation:
    """Return an observation that an operator wants; it is worth enough to be told."""
    standing = found.standing
    if event.value is not None:
        standing = confidence.set_by_operator(standing, event.value, at, profile)
    opened = replace(
        found,
        standing=standing,
        state=State.ACTIVE,
        retired=None,
        valid_to=None,
        superseded_by=0,
        reason="",
    )
    return _by_value(opened, profile)


def _by_value(found: Observation, profile: Profile) -> Observation:
    """Let what is active or inactive be what its value says."""
    if found.state not in {State.ACTIVE, State.INACTIVE}:
        return found
    is_enough = found.standing.value >= profile.threshold
    return replace(found, state=State.ACTIVE if is_enough else State.INACTIVE)


def open_conflicts(count: Iterable[Event]) -> set[str]:
    """Return the conflicts about it that are open, out of the events that count."""
    found: set[str] = set()
    for event in count:
        if event.kind is Kind.CONTESTED:
            found.add(event.target)
        elif event.kind is Kind.RESOLVED:
            found.discard(event.target)
    return found


def _stands_behind(event: Event) -> bool:
    """Say whether somebody wants an observation to be kept; agents do so by saying it."""
    is_vouched = event.actor is Actor.OPERATOR and event.kind in _VOUCHING
    return is_vouched or event.kind in _SUPPORT


def _is_supported(events: Iterable[Event], forgotten: Collection[str]) -> bool:
    """Say whether anything that still counts speaks for it; an operator's word always does."""
    return any(
        _stands_behind(event)
        and (
            event.actor is Actor.OPERATOR
            or event.evidence is None
            or not event.evidence.entry
            or event.evidence.entry not in forgotten
        )
        for event in events
    )
