"""The operator's desk: what is asked for, as drafts of events. Nothing is written here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, TypeAlias, cast

import msgspec

from memplane.auth.memory_scope import MemoryScope, make_scope
from memplane.database.interface import Connection
from memplane.errors import ConcurrencyError, InvalidRequest, MemplaneError, UnknownMemory
from memplane.observations import (
    conflicts,
    event_store,
    operator_events,
    session_store,
    store,
    validation,
)
from memplane.observations.api_types import BulkResult, RejectView
from memplane.observations.assertion_rules import (
    MAX_QUOTE_CHARS,
    NEW_OBSERVATION,
    AssertionContext,
    SessionContext,
    draft_assertion_events,
)
from memplane.observations.conflicts import Conflict
from memplane.observations.events import Actor, EventKind, Evidence, ObservationEvent
from memplane.observations.gate import AcceptedAssertion, RejectedAssertion
from memplane.observations.ingest import IngestPolicy
from memplane.observations.model import Assertion, ObservationState, SourceClass
from memplane.observations.operator_events import ObservationEdit, Operator
from memplane.observations.projection import Observation, filter_effective_events
from memplane.observations.reject_reasons import RejectReason
from memplane.observations.requests import (
    AcceptAsked,
    ActAsked,
    BulkRequest,
    MemoryCreate,
    MemoryPatch,
    ResolveAsked,
)
from memplane.observations.rollback import (
    ROLLBACK_BATCH_PREFIX,
    draft_rollback,
    draft_support,
)
from memplane.observations.validation import field_error

_MAX_TIER: Final = 3
_ADMISSIONS: Final = {
    "approve": operator_events.draft_approval,
    "share": operator_events.draft_share,
}
_DraftOne: TypeAlias = Callable[[int], list[ObservationEvent]]


class OperatorCommands(msgspec.Struct, frozen=True):
    """An operator who looks at the memories of an agent, or of all; every method drafts."""

    on: Connection
    agent: str | None
    by: Operator
    listening: IngestPolicy
    sees_forgotten: bool = False
    """Whether memories of which only forgotten turns speak are there for this operator."""

    def existing(self, memory: int) -> Observation:
        """Return an observation.

        Raises:
            UnknownMemory: There is none with that number for that agent.
        """
        found = store.get_observation(self.on, self.agent, memory)
        if found is None or (found.unsupported and not self.sees_forgotten):
            raise UnknownMemory(f"there is no memory {memory}")
        return found

    def added(
        self, agent: str, wanted: MemoryCreate, key: str = "", *, entry: str = ""
    ) -> list[ObservationEvent]:
        """Write a memory down. What is known already is stood behind, out of the trash too.

        `entry` is the turn of a ledger that the words come from, if any.
        """
        if not 0 <= wanted.tier <= _MAX_TIER:
            raise field_error("tier", f"the tiers are 0 to {_MAX_TIER}")
        scope = make_scope(agent, wanted.user, wanted.view)
        said = self._checked(_assertion(wanted), agent)
        value = validation.parse_optional_hundredths(wanted.confidence)
        expires = validation.parse_expiry(wanted.expires_at) if wanted.expires_at else ""
        drafts = self._said(scope, said, entry)
        about = find_subject(drafts)
        if about == NEW_OBSERVATION:
            drafts = [
                msgspec.structs.replace(one, value=value, expires=expires, tier=wanted.tier)
                if one.kind is EventKind.ASSERTED
                else one
                for one in drafts
            ]
        elif value is not None:
            drafts.append(self._begun(EventKind.CONFIDENCE_SET, scope, about, value=value))
        # The key is on what was made, so that it finds that again.
        made = next(place for place, one in enumerate(drafts) if one.memory == about)
        drafts[made] = msgspec.structs.replace(drafts[made], key=key)
        if wanted.pinned:
            drafts.append(self._begun(EventKind.PINNED, scope, about))
        if not wanted.active:
            drafts.append(self._begun(EventKind.DEACTIVATED, scope, about))
        return drafts

    def _said(
        self, scope: MemoryScope, said: AcceptedAssertion, entry: str = ""
    ) -> list[ObservationEvent]:
        """Hold an operator's words against what is known; they count where an agent's do not."""
        known = store.list_by_service(self.on, scope, said.category, said.service)
        saying = AssertionContext(
            scope=scope,
            at=self.by.at,
            evidence=Evidence(
                quote=said.text[:MAX_QUOTE_CHARS], source=SourceClass.OPERATOR, entry=entry
            ),
            actor=self.by.actor,
            who=self.by.name,
            tier=0,
        )
        drafts = draft_assertion_events(
            said,
            saying,
            store.to_existing_observations(self.on, known, self.by.at, self.listening.profile),
            SessionContext(),
        )
        if drafts[0].kind is not EventKind.ECHOED:
            return drafts
        found = next(one for one in known if one.id == drafts[0].memory)
        if found.state is ObservationState.QUARANTINED:
            return operator_events.draft_approval(found, self.by)
        if found.state in operator_events.REMOVED_STATES:
            return self._with_moot(
                operator_events.draft_restore(found, self.by, self.listening.profile)
            )
        return [saying.draft(EventKind.REINFORCED, found.id)]

    def changed(
        self, memory: int, change: MemoryPatch, version: int | None = None
    ) -> list[ObservationEvent]:
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
        edit = ObservationEdit(
            text=said.text if change.observation is not msgspec.UNSET else None,
            category=said.category if change.category is not msgspec.UNSET else None,
            service=(said.service or "") if change.service is not msgspec.UNSET else None,
            confidence=validation.parse_optional_hundredths(change.confidence),
            active=None if isinstance(change.active, msgspec.UnsetType) else change.active,
            pinned=None if isinstance(change.pinned, msgspec.UnsetType) else change.pinned,
            expires=validation.parse_optional_expiry(change),
        )
        return operator_events.draft_edit(found, edit, self.by, self.listening.profile)

    # Acts.

    def acted(self, memory: int, asked: ActAsked) -> list[ObservationEvent]:
        """Do one of the acts that are buttons."""
        found, profile = self.existing(memory), self.listening.profile
        match asked.act:
            case "retire":
                return self._with_moot(operator_events.draft_retire(found, self.by))
            case "restore":
                return self._with_moot(operator_events.draft_restore(found, self.by, profile))
            case "pin" | "unpin":
                return operator_events.draft_pin(found, self.by, pin=asked.act == "pin")
            case "approve" | "share":
                return _ADMISSIONS[asked.act](found, self.by)
            case "merge":
                return self._merged(found, asked.into)
            case "undo":
                return self._taken_back(memory)
            case "purge":
                return self._purged(found, asked.confirm)

    def _merged(self, found: Observation, into: int | None) -> list[ObservationEvent]:
        if into is None:
            raise field_error("into", "say which memory it is merged into")
        return self._with_moot(operator_events.draft_merge(found, self.existing(into), self.by))

    def _purged(self, found: Observation, confirmed: str) -> list[ObservationEvent]:
        if confirmed.strip() != f"purge {found.id}":
            raise field_error(
                "confirm", f"its words will be gone for good: say `purge {found.id}`"
            )
        # Conflicts say what two memories differ in, so each goes, also one that is over. The last
        # event is the one that stays, so the others come before it.
        mine = store.list_conflicts_of(self.on, found.id, is_open=None)
        over = [
            event for one in mine for event in conflicts.resolve_conflict(one, "moot", self.by)
        ]
        return [*over, *operator_events.draft_purge(found, self.by)]

    def draft_bulk(self, asked: BulkRequest) -> tuple[list[ObservationEvent], list[BulkResult]]:
        """Do something to several memories, and say of each whether it can be done."""
        drafts: list[ObservationEvent] = []
        results: list[BulkResult] = []
        do = self._each(asked)
        for memory in dict.fromkeys(asked.ids):
            try:
                drafts += do(memory)
                results.append(BulkResult(id=memory, ok=True))
            except MemplaneError as error:
                results.append(BulkResult(id=memory, ok=False, message=str(error)))
        return drafts, results

    def _each(self, asked: BulkRequest) -> _DraftOne:
        """Return what is done to each memory.

        Raises:
            InvalidRequest: The value does not fit the action.
        """
        match asked.action:
            case "delete" | "retire":
                return lambda memory: self.acted(memory, ActAsked(act="retire"))
            case "restore" | "pin" | "unpin" | "approve" | "share" as act:
                return lambda memory: self.acted(memory, ActAsked(act=act))
            case "merge":
                into = validation.parse_integer(asked.value)
                merge = ActAsked(act="merge", into=into)
                return lambda memory: [] if memory == into else self.acted(memory, merge)
            case "adjust_confidence":
                step = validation.parse_confidence_delta(asked.value)
                return lambda memory: self._adjusted(memory, step)
            case "set_confidence" | "set_category" | "set_service":
                change = _change(asked)
                return lambda memory: self.changed(memory, change)

    def _adjusted(self, memory: int, step: int) -> list[ObservationEvent]:
        found, profile = self.existing(memory), self.listening.profile
        return operator_events.draft_confidence_change(found, self.by, profile, change=step)

    def undone(self, batch: str) -> list[ObservationEvent]:
        """Take back what was done in one go.

        Raises:
            UnknownMemory: Nothing was done under that name.
            InvalidRequest: It was taken back already.
        """
        events = event_store.list_batch_events(self.on, self.agent, batch)
        if not events:
            raise UnknownMemory(f"there is no change {batch}")
        standing = {
            one.id
            for memory in {one.memory for one in events}
            for one in filter_effective_events(event_store.list_events(self.on, memory))
        }
        # What is about no observation, such as a reject, is always undone with the others.
        left = [one for one in events if one.id in standing or not one.memory]
        if not any(one.id in standing for one in events):
            raise InvalidRequest("that was undone already")
        drafts = operator_events.draft_undo(left, self.by)
        return [*drafts, *self._supported_again(batch, drafts)]

    def _supported_again(
        self, batch: str, drafts: Sequence[ObservationEvent]
    ) -> list[ObservationEvent]:
        """Stand behind what comes back when a rollback is undone: its turns stay forgotten."""
        if not batch.startswith(ROLLBACK_BATCH_PREFIX):
            return []
        memories = sorted({one.memory for one in drafts if one.memory})
        histories = [event_store.list_events(self.on, memory) for memory in memories]
        forgotten = store.find_forgotten_entries(
            self.on, [one for events in histories for one in events]
        )
        return draft_support(
            histories, drafts, self.by, profile=self.listening.profile, forgotten=forgotten
        )

    def rolled_back(
        self, agent: str, entries: Collection[str], sessions: Collection[int]
    ) -> list[ObservationEvent]:
        """Take back what turns and sessions of an agent did to observations."""
        said = event_store.list_entry_events(self.on, agent, entries)
        for session in sessions:
            said += event_store.list_session_events(self.on, agent, session)
        said = [
            one
            for one in {one.id: one for one in said}.values()
            if one.memory or not event_store.is_undone(self.on, one.id)
        ]
        memories = sorted({one.memory for one in said if one.memory})
        return draft_rollback(
            said,
            {memory: event_store.list_events(self.on, memory) for memory in memories},
            {memory: store.list_conflicts_of(self.on, memory) for memory in memories},
            self.by,
            profile=self.listening.profile,
        )

    def _taken_back(self, memory: int) -> list[ObservationEvent]:
        """Take back the last thing that an operator did to a memory and that stands."""
        acts = [
            one
            for one in filter_effective_events(event_store.list_events(self.on, memory))
            if one.actor is Actor.OPERATOR and one.kind is not EventKind.UNDONE
        ]
        if not acts:
            raise InvalidRequest("there is nothing to undo")
        batch = acts[-1].batch
        if any(one.kind is EventKind.ASSERTED and one.batch == batch for one in acts):
            # Without it there would be no such memory, and nothing to look at.
            raise InvalidRequest(f"memory {memory} was only written down: retire it instead")
        return self.undone(batch)

    # Conflicts and rejects.

    def conflict(self, key: str) -> Conflict:
        """Return a conflict.

        Raises:
            UnknownMemory: There is none for that agent.
        """
        listed = store.list_conflicts(self.on, self.agent, is_open=None)
        found = next((one for one in listed if one.key == key), None)
        if found is None:
            raise UnknownMemory(f"there is no conflict {key}")
        return found

    def resolved(self, key: str, asked: ResolveAsked) -> list[ObservationEvent]:
        """End a conflict."""
        found = self.conflict(key)
        sides = {one: self.existing(one) for one in (found.a, found.b) if one}
        others = {
            one: [each for each in store.list_conflicts_of(self.on, one) if each.key != key]
            for one in sides
        }
        if asked.resolution != "merge" or not found.b or not found.is_open:
            return conflicts.settle_conflict(
                found, asked.resolution, sides, by=self.by, others=others
            )
        kept, gone = (found.a, found.b) if asked.keep == "a" else (found.b, found.a)
        drafts = operator_events.draft_merge(sides[gone], sides[kept], self.by)
        if asked.observation is not None:
            drafts += self.changed(kept, MemoryPatch(observation=asked.observation))
        over = conflicts.resolve_conflict(found, "merge", self.by)
        return [*drafts, *over, *conflicts.close_moot_conflicts(others[gone], self.by)]

    def reject(self, reject_id: str) -> RejectView:
        """Return a reject.

        Raises:
            UnknownMemory: There is none for that agent.
        """
        found = session_store.get_reject(self.on, self.agent, reject_id)
        if found is None:
            raise UnknownMemory(f"there is no reject {reject_id}")
        return found

    def accepted(self, reject_id: str, asked: AcceptAsked) -> list[ObservationEvent]:
        """Remember a reject after all, as the operator reads it."""
        found = self.reject(reject_id)
        if found.accepted_as is not None:
            raise InvalidRequest(f"that is memory {found.accepted_as} already")
        is_corrected = bool(found.corrected_category)
        meant = found.corrected_service if is_corrected else found.service
        wanted = MemoryCreate(
            category=asked.category or found.corrected_category or found.category,
            service=(meant if asked.service is None else asked.service) or None,
            observation=found.observation if asked.observation is None else asked.observation,
            user=found.user or None,
            view=found.view or None,
        )
        refused = event_store.select_events(self.on, "id = ?", reject_id)
        entry = next((one.evidence.entry for one in refused if one.evidence), "")
        drafts = self.added(found.agent, wanted, entry=entry)
        taken = self.by.begin(EventKind.TAKEN_UP, found.agent, find_subject(drafts))
        return [*drafts, msgspec.structs.replace(taken, target=reject_id)]

    # What they have in common.

    def _checked(self, asserted: Assertion, agent: str) -> AcceptedAssertion:
        """Pass an operator's words through the gate.

        Raises:
            InvalidRequest: They may not be remembered; it says which field is wrong.
        """
        nowhere = Evidence(quote="", source=SourceClass.OPERATOR)
        saying = AssertionContext(scope=MemoryScope(agent), at=self.by.at, evidence=nowhere)
        verdict = self.listening.judged(self.on, asserted, saying, ())
        if isinstance(verdict, AcceptedAssertion):
            return verdict
        if isinstance(verdict, RejectedAssertion):
            raise validation.rejection_error(verdict.reason)
        # An operator is asked to write it right, or knows what is new.
        if verdict.reason is RejectReason.SWAPPED:
            raise validation.rejection_error(verdict.reason)
        return AcceptedAssertion(
            text=verdict.text,
            category=verdict.category,
            service=verdict.service,
            flags=verdict.flags,
        )

    def _with_moot(self, drafts: Sequence[ObservationEvent]) -> list[ObservationEvent]:
        """End the conflicts of a memory that goes, or that came back."""
        found = store.list_conflicts_of(self.on, drafts[0].memory)
        return [*drafts, *conflicts.close_moot_conflicts(found, self.by)]

    def _begun(
        self, kind: EventKind, scope: MemoryScope, memory: int, *, value: int | None = None
    ) -> ObservationEvent:
        begun = self.by.begin(kind, scope.agent, memory)
        return msgspec.structs.replace(begun, value=value, user=scope.user, view=scope.view)


def find_subject(drafts: Sequence[ObservationEvent]) -> int:
    """Return the memory that an operator's words became, or stand behind."""
    new = [one.memory for one in drafts if one.kind is EventKind.ASSERTED]
    return new[0] if new else drafts[0].memory


def _assertion(wanted: MemoryCreate) -> Assertion:
    return Assertion(
        category=wanted.category,
        service=wanted.service or "",
        text=wanted.observation,
        source=SourceClass.OPERATOR,
    )


def _assertion_after(found: Observation, change: MemoryPatch) -> Assertion:
    """Return what a memory would say after a change."""

    def given(value: object, otherwise: str | None) -> str:
        return cast("str", (otherwise if value is msgspec.UNSET else value) or "")

    return Assertion(
        category=given(change.category, found.category.value),
        service=given(change.service, found.service),
        text=given(change.observation, found.text),
        source=SourceClass.OPERATOR,
    )


def _change(asked: BulkRequest) -> MemoryPatch:
    match asked.action:
        case "set_confidence":
            return MemoryPatch(confidence=validation.parse_number(asked.value))
        case "set_category":
            return MemoryPatch(category=validation.parse_name(asked.value))
        case _:
            return MemoryPatch(service=validation.parse_name(asked.value) or None)
