"""An observation, folded out of its events (pure).

What was undone, and what a retracted message said, does not count: the fold is over the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace as replace_fields

from memplane.auth.memory_scope import MemoryScope
from memplane.observations import confidence
from memplane.observations.confidence import ConfidenceState, Profile
from memplane.observations.events import Actor, EventKind, ObservationContent, ObservationEvent
from memplane.observations.model import Category, ObservationState
from memplane.observations.normalisation import norm_hash

_SUPPORT_KINDS: Final = frozenset({EventKind.ASSERTED, EventKind.REINFORCED, EventKind.APPROVED})
_OPERATOR_SUPPORT_KINDS: Final = frozenset(
    {EventKind.EDITED, EventKind.CONFIDENCE_SET, EventKind.PINNED, EventKind.RESTORED}
)
"""What an operator does only to an observation that is to be kept."""
_ACCEPTANCE_KINDS: Final = frozenset({EventKind.ASSERTED, EventKind.REINFORCED})
"""What an operator does when a reject is accepted: the words are those of its turn."""
PURGED_TEXT: Final = "[purged]"
NEVER_EXPIRES: Final = "never"
"""What an edit says of an observation that is to expire no more."""
_NEUTRAL_KINDS: Final = frozenset(
    {
        EventKind.ECHOED,
        EventKind.RETRACTED,
        EventKind.UNDONE,
        EventKind.CONTESTED,
        EventKind.RESOLVED,
    }
)
"""What changes nothing in the observation itself."""
_RETROACTIVE_KINDS: Final = frozenset({EventKind.RETRACTED, EventKind.UNDONE, EventKind.PURGED})
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
    standing: ConfidenceState
    state: ObservationState
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
    user: str = ""
    view: str = ""

    @property
    def scope(self) -> MemoryScope:
        """Whose it is."""
        return MemoryScope(self.agent, self.user, self.view)

    @property
    def norm_hash(self) -> str:
        """What equal texts have in common."""
        return norm_hash(self.text)

    @property
    def is_active(self) -> bool:
        """Whether it may be put into prompts, as far as its events say."""
        return self.state is ObservationState.ACTIVE


def fold_observation(
    events: Sequence[ObservationEvent], profile: Profile, *, forgotten: Collection[str] = ()
) -> Observation | None:
    """Fold the events of one observation, in their order; None when nobody stands behind it.

    What the `forgotten` entries of a ledger say is evidence no more, and others who said the same
    are quoted instead.
    """
    words = next((one for one in events if one.kind is EventKind.ASSERTED), None)
    purged = next((one for one in events if one.kind is EventKind.PURGED), None)
    if purged is not None:
        return _purged(purged, words or purged)
    count = filter_effective_events(events)
    first = next((one for one in count if _is_vouched(one)), None)
    if words is None or first is None:
        return None
    found = _first(_replace_forgotten_words(words, count, forgotten), first, profile)
    for event in count:
        if event is not first or event.kind in _OPERATOR_SUPPORT_KINDS:
            found = _apply_event(found, event, profile)
    return replace(
        found,
        version=len(events),
        contested=bool(find_open_conflicts(count)),
        unsupported=not _is_supported(count, forgotten),
    )


def _replace_forgotten_words(
    words: ObservationEvent, count: Iterable[ObservationEvent], forgotten: Collection[str]
) -> ObservationEvent:
    """Replace words that only a forgotten entry has by those of another one that agreed."""
    if words.said is None or words.evidence is None or words.evidence.entry not in forgotten:
        return words
    quotes = (
        one.evidence.quote
        for one in count
        if one.kind is EventKind.REINFORCED
        and one.evidence
        and one.evidence.entry not in forgotten
    )
    said = replace_fields(words.said, text=next(filter(None, quotes), words.said.text))
    return replace_fields(words, said=said)


def fold_steps(
    events: Sequence[ObservationEvent], profile: Profile
) -> Iterator[Observation | None]:
    """Yield an observation after each of its events, as it was known then.

    Its version and its conflicts are not told.
    """
    found: Observation | None = None
    for at, event in enumerate(events):
        if found is None or event.kind in _RETROACTIVE_KINDS:
            found = fold_observation(events[: at + 1], profile)
        else:
            found = _apply_event(found, event, profile)
        yield found


def sort_events(events: Iterable[ObservationEvent]) -> list[ObservationEvent]:
    """Return events in the order in which they are folded, however they came."""
    return sorted(events, key=lambda one: (one.ts, one.id))


def parse_event_time(text: str) -> datetime:
    """Read a time as events have it."""
    return datetime.fromisoformat(text).astimezone(UTC)


def filter_effective_events(events: Sequence[ObservationEvent]) -> list[ObservationEvent]:
    """Leave out what was undone or retracted; an undo that was undone itself takes nothing out."""
    undone: set[str] = set()
    for event in reversed(events):
        if event.kind is EventKind.UNDONE and event.id not in undone:
            undone.add(event.target)
    retracted = {one.target for one in events if one.kind is EventKind.RETRACTED}
    return [one for one in events if one.id not in undone and one.id not in retracted]


def _purged(event: ObservationEvent, words: ObservationEvent) -> Observation:
    """Return what is left of an observation whose words are gone: that there was one."""
    at = parse_event_time(event.ts)
    return replace(
        _first(event if event.said else words, event, confidence.DEFAULT_PROFILE),
        text=PURGED_TEXT,
        standing=ConfidenceState(value=0, last_supported=at),
        state=ObservationState.PURGED,
        retired=at,
    )


def _first(words: ObservationEvent, event: ObservationEvent, profile: Profile) -> Observation:
    """Return an observation with the words of one event, as another one began to support it.

    They are the same event, unless the first one was taken back and others had agreed.
    """
    at, said = parse_event_time(event.ts), words.said
    if said is None or said.text is None or said.category is None:
        raise ValueError(f"the event {words.id} asserts nothing")
    standing = confidence.create_state(at, profile)
    if event.value is not None:
        standing = confidence.set_value(standing, event.value, at, profile)
    closed = parse_event_time(event.valid_to) if event.valid_to else None
    found = Observation(
        id=words.memory,
        agent=event.agent,
        service=said.service or None,
        category=said.category,
        text=said.text,
        standing=standing,
        state=ObservationState.SUPERSEDED if closed else ObservationState.ACTIVE,
        created=at,
        updated=at,
        session=event.session,
        tier=event.tier,
        origin=event.evidence.source if event.evidence else event.actor,
        version=1,
        valid_from=parse_event_time(event.valid_from) if event.valid_from else at,
        valid_to=closed,
        recorded=parse_event_time(event.recorded) if event.recorded else at,
        superseded_by=event.other if closed else 0,
        expires=parse_event_time(event.expires) if event.expires else None,
        flags=event.flags,
        user=words.user,
        view=words.view,
    )
    return found if closed else _state_by_value(found, profile)


def _apply_event(found: Observation, event: ObservationEvent, profile: Profile) -> Observation:
    """Return an observation after one more event."""
    if event.kind in _NEUTRAL_KINDS:
        return found
    at = parse_event_time(event.ts)
    found = replace(found, updated=at)
    if event.kind is EventKind.EDITED:
        return _apply_edit(found, event, at, profile)
    standing = _standing(found.standing, event, at, profile)
    if standing is not None:
        return _state_by_value(replace(found, standing=standing), profile)
    return _change_state(found, event, at, profile)


def _standing(
    standing: ConfidenceState, event: ObservationEvent, at: datetime, profile: Profile
) -> ConfidenceState | None:
    """Return the confidence after an event that is about it; None when it is not."""
    match event.kind:
        case EventKind.REINFORCED:
            return confidence.add_support(standing, at, profile)
        case EventKind.CONTRADICTED:
            return confidence.add_contradiction(standing, at, profile)
        case EventKind.CONFIDENCE_SET:
            value = standing.value if event.value is None else event.value
            return confidence.set_value(standing, value, at, profile)
        case EventKind.PINNED:
            return confidence.pin_state(standing, at, profile)
        case EventKind.UNPINNED:
            return confidence.unpin_state(standing, at)
        case _:
            return None


def _apply_edit(
    found: Observation, event: ObservationEvent, at: datetime, profile: Profile
) -> Observation:
    """Return what an operator wrote; a confidence that was not said stays as it is worth now."""
    standing = confidence.renew_grace(found.standing, at, profile)
    if event.value is not None:
        standing = confidence.set_value(found.standing, event.value, at, profile)
    said = event.said or ObservationContent()
    edited = replace(
        found,
        standing=standing,
        text=found.text if said.text is None else said.text,
        category=said.category or found.category,
        service=found.service if said.service is None else said.service or None,
        expires=_expiry(event, found),
    )
    # Other words do not bring back what was switched off; a value that was given does.
    is_off = found.state is ObservationState.INACTIVE and event.value is None
    return edited if is_off else _state_by_value(edited, profile)


def _expiry(event: ObservationEvent, found: Observation) -> datetime | None:
    if event.expires == NEVER_EXPIRES:
        return None
    return parse_event_time(event.expires) if event.expires else found.expires


def _change_state(
    found: Observation, event: ObservationEvent, at: datetime, profile: Profile
) -> Observation:
    """Return an observation in another state."""
    match event.kind:
        case EventKind.QUARANTINED:
            return replace(found, state=ObservationState.QUARANTINED, reason=event.reason)
        case EventKind.RETIRED:
            return replace(found, state=ObservationState.RETIRED, retired=at, reason=event.reason)
        case EventKind.SUPERSEDED | EventKind.MERGED:
            return replace(
                found,
                state=ObservationState.SUPERSEDED,
                valid_to=at,
                superseded_by=event.other,
                reason=event.kind.value,
            )
        case EventKind.DECAY_NOTED:
            # Decay is worked out anew at each fold: with another profile it may not be due.
            return (
                found if confidence.is_active(found.standing, at, profile) else _deactivate(found)
            )
        case EventKind.DEACTIVATED:
            return _deactivate(found)
        case EventKind.SHARED:
            return replace(found, user="", view="")
        case EventKind.APPROVED | EventKind.RESTORED:
            return _reactivate(found, event, at, profile)
        case _:
            return found


def _deactivate(found: Observation) -> Observation:
    return (
        replace(found, state=ObservationState.INACTIVE)
        if found.state is ObservationState.ACTIVE
        else found
    )


def _reactivate(
    found: Observation, event: ObservationEvent, at: datetime, profile: Profile
) -> Observation:
    """Return an observation that an operator wants; it is worth enough to be told."""
    standing = found.standing
    if event.value is not None:
        standing = confidence.set_value(standing, event.value, at, profile)
    opened = replace(
        found,
        standing=standing,
        state=ObservationState.ACTIVE,
        retired=None,
        valid_to=None,
        superseded_by=0,
        reason="",
    )
    return _state_by_value(opened, profile)


def _state_by_value(found: Observation, profile: Profile) -> Observation:
    """Let what is active or inactive be what its value says."""
    if found.state not in {ObservationState.ACTIVE, ObservationState.INACTIVE}:
        return found
    is_enough = found.standing.value >= profile.threshold
    return replace(
        found, state=ObservationState.ACTIVE if is_enough else ObservationState.INACTIVE
    )


def find_open_conflicts(count: Iterable[ObservationEvent]) -> set[str]:
    """Return the conflicts about it that are open, out of the events that count."""
    found: set[str] = set()
    for event in count:
        if event.kind is EventKind.CONTESTED:
            found.add(event.target)
        elif event.kind is EventKind.RESOLVED:
            found.discard(event.target)
    return found


def _is_vouched(event: ObservationEvent) -> bool:
    """Say whether somebody wants an observation to be kept; agents do so by saying it."""
    is_vouched = event.actor is Actor.OPERATOR and event.kind in _OPERATOR_SUPPORT_KINDS
    return is_vouched or event.kind in _SUPPORT_KINDS


def _is_supported(events: Iterable[ObservationEvent], forgotten: Collection[str]) -> bool:
    """Say whether anything that still counts speaks for it.

    An operator's word always does, unless it only repeats what a forgotten turn said.
    """
    return any(_is_vouched(one) and _still_counts(one, forgotten) for one in events)


def _still_counts(event: ObservationEvent, forgotten: Collection[str]) -> bool:
    if event.evidence is None or event.evidence.entry not in forgotten:
        return True
    return event.actor is Actor.OPERATOR and event.kind not in _ACCEPTANCE_KINDS
