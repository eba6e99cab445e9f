"""What operators do to observations, as events (pure).

Nothing is overwritten: each act is drafted as events that can be undone. An act that makes no
sense for an observation as it is now is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

import msgspec

from memplane.clock import milli_stamp
from memplane.errors import InvalidRequest
from memplane.observations import confidence
from memplane.observations.confidence import Profile
from memplane.observations.events import Actor, Event, Kind, Said
from memplane.observations.folding import NEVER, PURGED_TEXT, Observation
from memplane.observations.model import Category, State

_PUT_AWAY: Final = frozenset({State.RETIRED, State.SUPERSEDED})
GONE: Final = _PUT_AWAY | {State.PURGED}
OURSELVES: Final = "memplane"
NOT_UNDONE: Final = frozenset({Kind.PURGED})
"""What nobody can take back."""


class Operator(msgspec.Struct, frozen=True, kw_only=True):
    """Who does it, and when."""

    name: str
    at: datetime
    reason: str = ""
    actor: Actor = Actor.OPERATOR

    def draft(self, kind: Kind, found: Observation) -> Event:
        """Begin an event on an observation."""
        return self.begin(kind, found.agent, found.id)

    def begin(self, kind: Kind, agent: str, memory: int) -> Event:
        """Begin an event."""
        return Event(
            id="",
            ts=milli_stamp(self.at),
            kind=kind,
            agent=agent,
            memory=memory,
            actor=self.actor,
            who=self.name,
            tier=0,
            reason=self.reason,
        )


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be different; what is None stays as it is, and an empty service is none."""

    text: str | None = None
    category: Category | None = None
    service: str | None = None
    confidence: int | None = None
    active: bool | None = None
    pinned: bool | None = None
    expires: str | None = None
    """A moment, or `never`."""


def edited(found: Observation, edit: Edit, by: Operator, profile: Profile) -> list[Event]:
    """Change what an observation says, how sure we are of it, or whether it is told.

    Raises:
        InvalidRequest: It was purged, or is in the trash.
    """
    refuse(found, {State.PURGED}, "edited: its words are gone for good")
    refuse(found, _PUT_AWAY, "edited: it is in the trash. Restore it first")
    drafts = [*_rewritten(found, edit, by)]
    if edit.pinned is not None and edit.pinned != found.standing.pinned:
        drafts.append(by.draft(Kind.PINNED if edit.pinned else Kind.UNPINNED, found))
    if edit.active is False and (drafts or found.state is State.ACTIVE):
        drafts.append(by.draft(Kind.DEACTIVATED, found))
    if edit.active is True and found.state is State.INACTIVE and edit.confidence is None:
        drafts += restored(found, by, profile)
    return drafts


def _rewritten(found: Observation, edit: Edit, by: Operator) -> Iterable[Event]:
    said = Said(text=edit.text, category=edit.category, service=edit.service)
    is_same = (
        edit.text in {None, found.text}
        and edit.category in {None, found.category}
        and edit.service in {None, found.service or ""}
    )
    expiry = edit.expires if edit.expires != _expiry_of(found) else None
    if not is_same or expiry is not None:
        yield msgspec.structs.replace(
            by.draft(Kind.EDITED, found), said=said, value=edit.confidence, expires=expiry or ""
        )
    elif edit.confidence is not None:
        yield msgspec.structs.replace(by.draft(Kind.CONFIDENCE_SET, found), value=edit.confidence)


def _expiry_of(found: Observation) -> str:
    return milli_stamp(found.expires) if found.expires else NEVER


def retired(found: Observation, by: Operator) -> list[Event]:
    """Put an observation into the trash.

    Raises:
        InvalidRequest: It is there already.
    """
    refuse(found, GONE, "retired: it is in the trash")
    return [by.draft(Kind.RETIRED, found)]


def restored(found: Observation, by: Operator, profile: Profile) -> list[Event]:
    """Take an observation out of the trash, or switch it on again; it is told from now on.

    Raises:
        InvalidRequest: There is nothing to restore.
    """
    refuse(found, {State.PURGED}, "restored: its words are gone for good")
    refuse(found, {State.ACTIVE}, "restored: it is active")
    refuse(found, {State.QUARANTINED}, "restored: it waits in quarantine. Approve it")
    now = confidence.at(found.standing, by.at, profile)
    value = profile.threshold if now < profile.threshold else None
    return [msgspec.structs.replace(by.draft(Kind.RESTORED, found), value=value)]


def pinned(found: Observation, by: Operator, *, pin: bool) -> list[Event]:
    """Keep an observation from fading, or let it fade again."""
    refuse(found, GONE, "pinned: it is in the trash")
    if found.standing.pinned == pin:
        return []
    return [by.draft(Kind.PINNED if pin else Kind.UNPINNED, found)]


def approved(found: Observation, by: Operator) -> list[Event]:
    """Let an observation out of quarantine.

    Raises:
        InvalidRequest: It is not there.
    """
    if found.state is not State.QUARANTINED:
        raise InvalidRequest(f"memory {found.id} is not in quarantine: it is {found.state}")
    return [by.draft(Kind.APPROVED, found)]


def adjusted(found: Observation, by: Operator, profile: Profile, *, change: int) -> list[Event]:
    """Raise or lower the confidence from what it is worth now."""
    value = confidence.clamped(confidence.at(found.standing, by.at, profile) + change)
    return edited(found, Edit(confidence=value), by, profile)


def merged(found: Observation, into: Observation, by: Operator) -> list[Event]:
    """Let one observation take the place of another.

    Raises:
        InvalidRequest: They are one, of different agents, or one of them is gone.
    """
    refuse(found, GONE, "merged: it is in the trash")
    refuse(into, GONE, "merged into: it is in the trash")
    if found.id == into.id or found.agent != into.agent:
        raise InvalidRequest(f"memory {found.id} cannot be merged into memory {into.id}")
    return [msgspec.structs.replace(by.draft(Kind.MERGED, found), other=into.id)]


def purged(found: Observation, by: Operator) -> list[Event]:
    """Leave nothing of an observation's words; only that there was one."""
    refuse(found, {State.PURGED}, "purged: it is already")
    said = Said(text=PURGED_TEXT, category=found.category, service=found.service or "")
    return [
        msgspec.structs.replace(by.draft(Kind.PURGED, found), said=said, session=found.session)
    ]


# Taking back.


def undone(events: Sequence[Event], by: Operator) -> list[Event]:
    """Take back what was done in one go.

    Raises:
        InvalidRequest: Some of it cannot be taken back.
    """
    if any(one.kind in NOT_UNDONE for one in events):
        raise InvalidRequest("a purge cannot be undone: the words are gone for good")
    return [
        msgspec.structs.replace(by.begin(Kind.UNDONE, one.agent, one.memory), target=one.id)
        for one in events
    ]


def retracted(events: Iterable[Event], at: datetime) -> list[Event]:
    """Take back what messages said that count no more."""
    system = Operator(name=OURSELVES, at=at, actor=Actor.SYSTEM)
    return [
        msgspec.structs.replace(
            system.begin(Kind.RETRACTED, one.agent, one.memory), target=one.id, session=one.session
        )
        for one in events
    ]


def faded(found: Observation, at: datetime) -> list[Event]:
    """Note that an observation has fallen below the threshold, or that its time is over."""
    if found.expires is not None and found.expires <= at:
        system = Operator(name=OURSELVES, at=at, actor=Actor.SYSTEM, reason="expired")
        return [system.draft(Kind.RETIRED, found)]
    system = Operator(name=OURSELVES, at=at, actor=Actor.SYSTEM)
    return [system.draft(Kind.DECAY_NOTED, found)]


def refuse(found: Observation, states: Iterable[State], what: str) -> None:
    """Refuse to do something to an observation in one of these states."""
    if found.state in {*states}:
        raise InvalidRequest(f"memory {found.id} cannot be {what}")
