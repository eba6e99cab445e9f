"""What operators do to observations, as events (pure).

Nothing is overwritten: each act is drafted as events that can be undone. An act that makes no
sense for an observation as it is now is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

import msgspec

from memplane.errors import InvalidRequest
from memplane.kit.clock import format_milli_timestamp
from memplane.observations import confidence
from memplane.observations.confidence import Profile
from memplane.observations.events import Actor, EventKind, ObservationContent, ObservationEvent
from memplane.observations.model import Category, ObservationState
from memplane.observations.projection import NEVER_EXPIRES, PURGED_TEXT, Observation

_TRASH_STATES: Final = frozenset({ObservationState.RETIRED, ObservationState.SUPERSEDED})
REMOVED_STATES: Final = _TRASH_STATES | {ObservationState.PURGED}
SYSTEM_ACTOR_NAME: Final = "memplane"
IRREVERSIBLE_KINDS: Final = frozenset({EventKind.PURGED})
"""What nobody can take back."""


class Operator(msgspec.Struct, frozen=True, kw_only=True):
    """Who does it, and when."""

    name: str
    at: datetime
    reason: str = ""
    actor: Actor = Actor.OPERATOR

    def draft(self, kind: EventKind, found: Observation) -> ObservationEvent:
        """Begin an event on an observation."""
        begun = self.begin(kind, found.agent, found.id)
        return msgspec.structs.replace(begun, user=found.user, view=found.view)

    def begin(self, kind: EventKind, agent: str, memory: int) -> ObservationEvent:
        """Begin an event."""
        return ObservationEvent(
            id="",
            ts=format_milli_timestamp(self.at),
            kind=kind,
            agent=agent,
            memory=memory,
            actor=self.actor,
            who=self.name,
            tier=0,
            reason=self.reason,
        )


class ObservationEdit(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be different; what is None stays as it is, and an empty service is none."""

    text: str | None = None
    category: Category | None = None
    service: str | None = None
    confidence: int | None = None
    active: bool | None = None
    pinned: bool | None = None
    expires: str | None = None
    """A moment, or `never`."""


def draft_edit(
    found: Observation, edit: ObservationEdit, by: Operator, profile: Profile
) -> list[ObservationEvent]:
    """Change what an observation says, how sure we are of it, or whether it is told.

    Raises:
        InvalidRequest: It was purged, or is in the trash.
    """
    refuse_in_states(found, {ObservationState.PURGED}, "edited: its words are gone for good")
    refuse_in_states(found, _TRASH_STATES, "edited: it is in the trash. Restore it first")
    drafts = [*_draft_rewrite(found, edit, by)]
    if edit.pinned is not None and edit.pinned != found.standing.pinned:
        drafts.append(by.draft(EventKind.PINNED if edit.pinned else EventKind.UNPINNED, found))
    if edit.active is False and (drafts or found.state is ObservationState.ACTIVE):
        drafts.append(by.draft(EventKind.DEACTIVATED, found))
    if (
        edit.active is True
        and found.state is ObservationState.INACTIVE
        and edit.confidence is None
    ):
        drafts += draft_restore(found, by, profile)
    return drafts


def _draft_rewrite(
    found: Observation, edit: ObservationEdit, by: Operator
) -> Iterable[ObservationEvent]:
    said = ObservationContent(text=edit.text, category=edit.category, service=edit.service)
    is_same = (
        edit.text in {None, found.text}
        and edit.category in {None, found.category}
        and edit.service in {None, found.service or ""}
    )
    expiry = edit.expires if edit.expires != _expiry_of(found) else None
    if not is_same or expiry is not None:
        yield msgspec.structs.replace(
            by.draft(EventKind.EDITED, found),
            said=said,
            value=edit.confidence,
            expires=expiry or "",
        )
    elif edit.confidence is not None:
        yield msgspec.structs.replace(
            by.draft(EventKind.CONFIDENCE_SET, found), value=edit.confidence
        )


def _expiry_of(found: Observation) -> str:
    return format_milli_timestamp(found.expires) if found.expires else NEVER_EXPIRES


def draft_retire(found: Observation, by: Operator) -> list[ObservationEvent]:
    """Put an observation into the trash.

    Raises:
        InvalidRequest: It is there already.
    """
    refuse_in_states(found, REMOVED_STATES, "retired: it is in the trash")
    return [by.draft(EventKind.RETIRED, found)]


def draft_restore(found: Observation, by: Operator, profile: Profile) -> list[ObservationEvent]:
    """Take an observation out of the trash, or switch it on again; it is told from now on.

    Raises:
        InvalidRequest: There is nothing to restore.
    """
    refuse_in_states(found, {ObservationState.PURGED}, "restored: its words are gone for good")
    refuse_in_states(found, {ObservationState.ACTIVE}, "restored: it is active")
    refuse_in_states(
        found, {ObservationState.QUARANTINED}, "restored: it waits in quarantine. Approve it"
    )
    now = confidence.value_at(found.standing, by.at, profile)
    value = profile.threshold if now < profile.threshold else None
    return [msgspec.structs.replace(by.draft(EventKind.RESTORED, found), value=value)]


def draft_pin(found: Observation, by: Operator, *, pin: bool) -> list[ObservationEvent]:
    """Keep an observation from fading, or let it fade again."""
    refuse_in_states(found, REMOVED_STATES, "pinned: it is in the trash")
    if found.standing.pinned == pin:
        return []
    return [by.draft(EventKind.PINNED if pin else EventKind.UNPINNED, found)]


def draft_share(found: Observation, by: Operator) -> list[ObservationEvent]:
    """Let all users and views of its agent see an observation."""
    refuse_in_states(found, REMOVED_STATES, "shared: it is in the trash")
    return [] if found.scope.is_shared else [by.draft(EventKind.SHARED, found)]


def draft_approval(found: Observation, by: Operator) -> list[ObservationEvent]:
    """Let an observation out of quarantine.

    Raises:
        InvalidRequest: It is not there.
    """
    if found.state is not ObservationState.QUARANTINED:
        raise InvalidRequest(f"memory {found.id} is not in quarantine: it is {found.state}")
    return [by.draft(EventKind.APPROVED, found)]


def draft_confidence_change(
    found: Observation, by: Operator, profile: Profile, *, change: int
) -> list[ObservationEvent]:
    """Raise or lower the confidence from what it is worth now."""
    value = confidence.clamp(confidence.value_at(found.standing, by.at, profile) + change)
    return draft_edit(found, ObservationEdit(confidence=value), by, profile)


def draft_merge(found: Observation, into: Observation, by: Operator) -> list[ObservationEvent]:
    """Let one observation take the place of another.

    Raises:
        InvalidRequest: They are one, not of the same agent and user, or one of them is gone.
    """
    refuse_in_states(found, REMOVED_STATES, "merged: it is in the trash")
    refuse_in_states(into, REMOVED_STATES, "merged into: it is in the trash")
    if found.id == into.id or found.scope != into.scope:
        raise InvalidRequest(f"memory {found.id} cannot be merged into memory {into.id}")
    return [msgspec.structs.replace(by.draft(EventKind.MERGED, found), other=into.id)]


def draft_purge(found: Observation, by: Operator) -> list[ObservationEvent]:
    """Leave nothing of an observation's words; only that there was one."""
    refuse_in_states(found, {ObservationState.PURGED}, "purged: it is already")
    said = ObservationContent(
        text=PURGED_TEXT, category=found.category, service=found.service or ""
    )
    return [
        msgspec.structs.replace(
            by.draft(EventKind.PURGED, found), said=said, session=found.session
        )
    ]


# Taking back.


def draft_undo(events: Sequence[ObservationEvent], by: Operator) -> list[ObservationEvent]:
    """Take back what was done in one go.

    Raises:
        InvalidRequest: Some of it cannot be taken back.
    """
    if any(one.kind in IRREVERSIBLE_KINDS for one in events):
        raise InvalidRequest("a purge cannot be undone: the words are gone for good")
    return [
        msgspec.structs.replace(
            by.begin(EventKind.UNDONE, one.agent, one.memory),
            target=one.id,
            user=one.user,
            view=one.view,
        )
        for one in events
    ]


def draft_retraction(events: Iterable[ObservationEvent], at: datetime) -> list[ObservationEvent]:
    """Take back what messages said that count no more."""
    system = Operator(name=SYSTEM_ACTOR_NAME, at=at, actor=Actor.SYSTEM)
    return [
        msgspec.structs.replace(
            system.begin(EventKind.RETRACTED, one.agent, one.memory),
            target=one.id,
            session=one.session,
        )
        for one in events
    ]


def draft_decay(found: Observation, at: datetime) -> list[ObservationEvent]:
    """Note that an observation has fallen below the threshold, or that its time is over."""
    if found.expires is not None and found.expires <= at:
        system = Operator(name=SYSTEM_ACTOR_NAME, at=at, actor=Actor.SYSTEM, reason="expired")
        return [system.draft(EventKind.RETIRED, found)]
    system = Operator(name=SYSTEM_ACTOR_NAME, at=at, actor=Actor.SYSTEM)
    return [system.draft(EventKind.DECAY_NOTED, found)]


def refuse_in_states(found: Observation, states: Iterable[ObservationState], what: str) -> None:
    """Refuse to do something to an observation in one of these states."""
    if found.state in {*states}:
        raise InvalidRequest(f"memory {found.id} cannot be {what}")
