"""The operator's desk: what is asked for, as drafts of events. Nothing is written here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, cast

import msgspec

from memplane.errors import ConcurrencyError, InvalidRequest, MemplaneError, UnknownMemory
from memplane.observations import (
    conflicts,
    curating,
    event_rows,
    rows,
    session_rows,
    wording,
)
from memplane.observations.conflicts import Conflict
from memplane.observations.contract import (
    AcceptAsked,
    ActAsked,
    BulkAsked,
    BulkResult,
    MemoryChange,
    MemoryWanted,
    RejectView,
    ResolveAsked,
)
from memplane.observations.curating import Edit, Operator
from memplane.observations.deciding import LONGEST_QUOTE, NEW, Hearing, Saying, consequences
from memplane.observations.events import Actor, Event, Evidence, Kind
from memplane.observations.folding import Observation, counted
from memplane.observations.gate import Accepted, Rejected
from memplane.observations.learning import Listening
from memplane.observations.model import Assertion, Source, State
from memplane.observations.reasons import Reason
from memplane.observations.wording import wrong
from memplane.records.store import Connection

_HIGHEST_TIER: Final = 3
_Do: TypeAlias = Callable[[int], list[Event]]


class Desk(msgspec.Struct, frozen=True):
    """An operator who looks at the memories of an agent, or of all; every method drafts."""

    on: Connection
    agent: str | None
    by: Operator
    listening: Listening

    def existing(self, memory: int) -> Observation:
        """Return an observation.

        Raises:
            UnknownMemory: There is none with that number for that agent.
        """
        found = rows.one(self.on, self.agent, memory)
        if found is None:
            raise UnknownMemory(f"there is no memory {memory}")
        return found

    def added(self, agent: str, wanted: MemoryWanted, key: str = "") -> list[Event]:
        """Write a memory down. What is known already is stood behind, out of the trash too."""
        if not 0 <= wanted.tier <= _HIGHEST_TIER:
            raise wrong("tier", f"the tiers are 0 to {_HIGHEST_TIER}")
        said = self._checked(_assertion(wanted), agent)
        value = wording.hundredths_if_given(wanted.confidence)
        expires = wording.expiry(wanted.expires_at) if wanted.expires_at else ""
        drafts = self._said(agent, said)
        about = subject_of(drafts)
        if about == NEW:
            drafts = [
                msgspec.structs.replace(one, value=value, expires=expires, tier=wanted.tier)
                if one.kind is Kind.ASSERTED
                else one
                for one in drafts
            ]
        elif value is not None:
            drafts.append(self._begun(Kind.CONFIDENCE_SET, agent, about, value=value))
        # The key is on what was made, so that it finds that again.
        made = next(place for place, one in enumerate(drafts) if one.memory == about)
        drafts[made] = msgspec.structs.replace(drafts[made], key=key)
        if wanted.pinned:
            drafts.append(self._begun(Kind.PINNED, agent, about))
        if not wanted.active:
            drafts.append(self._begun(Kind.DEACTIVATED, agent, about))
        return drafts

    def _said(self, agent: str, said: Accepted) -> list[Event]:
        """Hold an operator's words against what is known; they count where an agent's do not."""
        known = rows.with_text(self.on, agent, said.category, said.service)
        saying = Saying(
            agent=agent,
            at=self.by.at,
            evidence=Evidence(quote=said.text[:LONGEST_QUOTE], source=Source.OPERATOR),
            actor=self.by.actor,
            who=self.by.name,
            tier=0,
        )
        drafts = consequences(
            said, saying, rows.known(known, self.by.at, self.listening.profile), Hearing()
        )
        if drafts[0].kind is not Kind.ECHOED:
            return drafts
        found = next(one for one in known if one.id == drafts[0].memory)
        if found.state is State.QUARANTINED:
            return curating.approved(found, self.by)
        if found.state in curating.GONE:
            return self._with_moot(curating.restored(found, self.by, self.listening.profile))
        return [saying.draft(Kind.REINFORCED, found.id)]

    def changed(
        self, memory: int, change: MemoryChange, version: int | None = None
    ) -> list[Event]:
        """Edit a memory.

        Raises:
            ConcurrencyError: It has another version by now.
        """
        found = self.existing(memory)
        if version is not None and version != found.version:
            raise ConcurrencyError(
                f"memory {memory} was changed meanwhile: it has version {found.version}, and "
                f"yours was made of version {version}. Look at it again"
            )
        said = self._checked(_assertion_after(found, change), found.agent)
        edit = Edit(
            text=said.text if change.observation is not msgspec.UNSET else None,
            category=said.category if change.category is not msgspec.UNSET else None,
            service=(said.service or "") if change.service is not msgspec.UNSET else None,
            confidence=wording.hundredths_if_given(change.confidence),
            active=None if isinstance(change.active, msgspec.UnsetType) else change.active,
            pinned=None if isinstance(change.pinned, msgspec.UnsetType) else change.pinned,
            expires=wording.expiry_if_given(change),
        )
        return curating.edited(found, edit, self.by, self.listening.profile)

    # Acts.

    def acted(self, memory: int, asked: ActAsked) -> list[Event]:
        """Do one of the acts that are buttons."""
        found, profile = self.existing(memory), self.listening.profile
        match asked.act:
            case "retire":
                return self._with_moot(curating.retired(found, self.by))
            case "restore":
                return self._with_moot(curating.restored(found, self.by, profile))
            case "pin" | "unpin":
                return curating.pinned(found, self.by, pin=asked.act == "pin")
            case "approve":
                return curating.approved(found, self.by)
            case "merge":
                return self._merged(found, asked.into)
            case "undo":
                return self._taken_back(memory)
            case "purge":
                return self._purged(found, asked.confirm)

    def _merged(self, found: Observation, into: int | None) -> list[Event]:
        if into is None:
            raise wrong("into", "say which memory it is merged into")
        return self._with_moot(curating.merged(found, self.existing(into), self.by))

    def _purged(self, found: Observation, confirmed: str) -> list[Event]:
        if confirmed.strip() != f"purge {found.id}":
            raise wrong("confirm", f"its words will be gone for good: say `purge {found.id}`")
        # Conflicts say what two memories differ in, so each goes, also one that is over. The last
        # event is the one that stays, so the others come before it.
        mine = rows.conflicts_of(self.on, found.id, is_open=None)
        over = [event for one in mine for event in conflicts.resolved(one, "moot", self.by)]
        return [*over, *curating.purged(found, self.by)]

    def bulked(self, asked: BulkAsked) -> tuple[list[Event], list[BulkResult]]:
        """Do something to several memories, and say of each whether it can be done."""
        drafts: list[Event] = []
        results: list[BulkResult] = []
        do = self._each(asked)
        for memory in dict.fromkeys(asked.ids):
            try:
                drafts += do(memory)
                results.append(BulkResult(id=memory, ok=True))
            except MemplaneError as error:
                results.append(BulkResult(id=memory, ok=False, message=str(error)))
        return drafts, results

    def _each(self, asked: BulkAsked) -> _Do:
        """Return what is done to each memory.

        Raises:
            InvalidRequest: The value does not fit the action.
        """
        match asked.action:
            case "delete" | "retire":
                return lambda memory: self.acted(memory, ActAsked(act="retire"))
            case "restore" | "pin" | "unpin" | "approve" as act:
                return lambda memory: self.acted(memory, ActAsked(act=act))
            case "merge":
                into = wording.whole(asked.value)
                merge = ActAsked(act="merge", into=into)
                return lambda memory: [] if memory == into else self.acted(memory, merge)
            case "adjust_confidence":
                step = wording.difference(asked.value)
                return lambda memory: self._adjusted(memory, step)
            case "set_confidence" | "set_category" | "set_service":
                change = _change(asked)
                return lambda memory: self.changed(memory, change)

    def _adjusted(self, memory: int, step: int) -> list[Event]:
        found, profile = self.existing(memory), self.listening.profile
        return curating.adjusted(found, self.by, profile, change=step)

    def undone(self, batch: str) -> list[Event]:
        """Take back what was done in one go.

        Raises:
            InvalidRequest: Nothing was done under that name, or it was taken back already.
        """
        events = event_rows.events_in_batch(self.on, self.agent, batch)
        if not events:
            raise InvalidRequest("there is nothing to undo")
        standing = {
            one.id
            for memory in {one.memory for one in events}
            for one in counted(event_rows.events_of(self.on, memory))
        }
        left = [one for one in events if one.id in standing]
        if not left:
            raise InvalidRequest("that was undone already")
        return curating.undone(left, self.by)

    def _taken_back(self, memory: int) -> list[Event]:
        """Take back the last thing that an operator did to a memory and that stands."""
        acts = [
            one
            for one in counted(event_rows.events_of(self.on, memory))
            if one.actor is Actor.OPERATOR and one.kind is not Kind.UNDONE
        ]
        batch = acts[-1].batch if acts else ""
        if any(one.kind is Kind.ASSERTED and one.batch == batch for one in acts):
            # Without it there would be no such memory, and nothing to look at.
            raise InvalidRequest(f"memory {memory} was only written down: retire it instead")
        return self.undone(batch)

    # Conflicts and rejects.

    def conflict(self, key: str) -> Conflict:
        """Return a conflict.

        Raises:
            UnknownMemory: There is none for that agent.
        """
        listed = rows.conflicts(self.on, self.agent, is_open=None)
        found = next((one for one in listed if one.key == key), None)
        if found is None:
            raise UnknownMemory(f"there is no conflict {key}")
        return found

    def resolved(self, key: str, asked: ResolveAsked) -> list[Event]:
        """End a conflict."""
        found = self.conflict(key)
        sides = {one: self.existing(one) for one in (found.a, found.b) if one}
        others = {
            one: [each for each in rows.conflicts_of(self.on, one) if each.key != key]
            for one in sides
        }
        if asked.resolution != "merge" or not found.b or not found.is_open:
            return conflicts.settled(found, asked.resolution, sides, by=self.by, others=others)
        kept, gone = (found.a, found.b) if asked.keep == "a" else (found.b, found.a)
        drafts = curating.merged(sides[gone], sides[kept], self.by)
        if asked.observation is not None:
            drafts += self.changed(kept, MemoryChange(observation=asked.observation))
        over = conflicts.resolved(found, "merge", self.by)
        return [*drafts, *over, *conflicts.moot(others[gone], self.by)]

    def reject(self, reject_id: str) -> RejectView:
        """Return a reject.

        Raises:
            UnknownMemory: There is none for that agent.
        """
        found = session_rows.reject(self.on, self.agent, reject_id)
        if found is None:
            raise UnknownMemory(f"there is no reject {reject_id}")
        return found

    def accepted(self, reject_id: str, asked: AcceptAsked) -> list[Event]:
        """Remember a reject after all, as the operator reads it."""
        found = self.reject(reject_id)
        if found.accepted_as is not None:
            raise InvalidRequest(f"that is memory {found.accepted_as} already")
        is_corrected = bool(found.corrected_category)
        meant = found.corrected_service if is_corrected else found.service
        wanted = MemoryWanted(
            category=asked.category or found.corrected_category or found.category,
            service=(meant if asked.service is None else asked.service) or None,
            observation=found.observation if asked.observation is None else asked.observation,
        )
        drafts = self.added(found.agent, wanted)
        taken = self.by.begin(Kind.TAKEN_UP, found.agent, subject_of(drafts))
        return [*drafts, msgspec.structs.replace(taken, target=reject_id)]

    # What they have in common.

    def _checked(self, asserted: Assertion, agent: str) -> Accepted:
        """Pass an operator's words through the gate.

        Raises:
            InvalidRequest: They may not be remembered; it says which field is wrong.
        """
        nowhere = Evidence(quote="", source=Source.OPERATOR)
        saying = Saying(agent=agent, at=self.by.at, evidence=nowhere)
        verdict = self.listening.judged(self.on, asserted, saying, ())
        if isinstance(verdict, Accepted):
            return verdict
        if isinstance(verdict, Rejected):
            raise wording.refused(verdict.reason)
        # An operator is asked to write it right, or knows what is new.
        if verdict.reason is Reason.SWAPPED:
            raise wording.refused(verdict.reason)
        return Accepted(
            text=verdict.text,
            category=verdict.category,
            service=verdict.service,
            flags=verdict.flags,
        )

    def _with_moot(self, drafts: Sequence[Event]) -> list[Event]:
        """End the conflicts of a memory that goes, or that came back."""
        found = rows.conflicts_of(self.on, drafts[0].memory)
        return [*drafts, *conflicts.moot(found, self.by)]

    def _begun(self, kind: Kind, agent: str, memory: int, *, value: int | None = None) -> Event:
        return msgspec.structs.replace(self.by.begin(kind, agent, memory), value=value)


def subject_of(drafts: Sequence[Event]) -> int:
    """Return the memory that an operator's words became, or stand behind."""
    new = [one.memory for one in drafts if one.kind is Kind.ASSERTED]
    return new[0] if new else drafts[0].memory


def _assertion(wanted: MemoryWanted) -> Assertion:
    return Assertion(
        category=wanted.category,
        service=wanted.service or "",
        text=wanted.observation,
        source=Source.OPERATOR,
    )


def _assertion_after(found: Observation, change: MemoryChange) -> Assertion:
    """Return what a memory would say after a change."""

    def given(value: object, otherwise: str | None) -> str:
        return cast("str", (otherwise if value is msgspec.UNSET else value) or "")

    return Assertion(
        category=given(change.category, found.category.value),
        service=given(change.service, found.service),
        text=given(change.observation, found.text),
        source=Source.OPERATOR,
    )


def _change(asked: BulkAsked) -> MemoryChange:
    match asked.action:
        case "set_confidence":
            return MemoryChange(confidence=wording.number(asked.value))
        case "set_category":
            return MemoryChange(category=wording.name(asked.value))
        case _:
            return MemoryChange(service=wording.name(asked.value) or None)
