"""Memories from elsewhere, as drafts of events.

They come with their own times, so that what was learned long ago has faded since. What is known
already is not added again, and what the closed list of categories does not have waits for an
operator.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import msgspec

from memplane.auth.memory_scope import MemoryScope
from memplane.database.interface import Connection
from memplane.kit.clock import format_milli_timestamp
from memplane.ledger.entry_head import parse_rfc3339
from memplane.observations import event_store, matching, store, validation
from memplane.observations.assertion_parser import find_category
from memplane.observations.assertion_rules import (
    MAX_QUOTE_CHARS,
    NEW_OBSERVATION,
    AssertionContext,
    ExistingObservation,
    SessionContext,
    draft_assertion_events,
    draft_rejection,
)
from memplane.observations.events import Actor, EventKind, Evidence, ObservationEvent
from memplane.observations.gate import GateVerdict, QuarantinedAssertion, RejectedAssertion
from memplane.observations.ingest import IngestPolicy
from memplane.observations.matching import Verdict as Matched
from memplane.observations.model import Assertion, Category, ObservationState, SourceClass
from memplane.observations.reject_reasons import RejectReason
from memplane.observations.requests import ImportedLine

_FALLBACK_CATEGORY: Category = Category.BEHAVIOR
"""What a memory of another category is kept as until somebody has looked at it."""


class MemoryImporter(msgspec.Struct, frozen=True):
    """Takes in memories for an agent."""

    agent: str
    by: str
    source: str
    listening: IngestPolicy

    def drafts(
        self, on: Connection, now: datetime, *, line: ImportedLine
    ) -> list[ObservationEvent]:
        """Return what comes of a memory; nothing when it is known."""
        created = _moment(line.created_at, now, now)
        stood = max(created, _moment(line.last_supported_at or line.updated_at, created, now))
        saying = self._saying(line, created)
        verdict = self._judged(on, line, saying)
        if isinstance(verdict, RejectedAssertion):
            return [draft_rejection(verdict, saying)]
        found = store.list_by_service(on, saying.scope, verdict.category, verdict.service)
        known = store.to_existing_observations(on, found, now, self.listening.profile)
        same = _find_same(verdict.text, verdict.service, known)
        if same is not None:
            return self._kept_with(on, same, line, saying, stood)
        # How sure one may be was settled where it comes from: an import lowers nothing.
        drafts = [
            one
            for one in draft_assertion_events(
                verdict, replace(saying, at=stood), known, SessionContext()
            )
            if one.kind is not EventKind.CONTRADICTED
        ]
        if drafts[0].kind is not EventKind.ASSERTED:
            return drafts
        return [*self._as_it_was(drafts, line, created), *self._since(line, created, stood)]

    def _kept_with(  # noqa: PLR0917 - what is known, what comes, and when
        self,
        on: Connection,
        same: ExistingObservation,
        line: ImportedLine,
        saying: AssertionContext,
        stood: datetime,
    ) -> list[ObservationEvent]:
        """Keep the sessions and the higher confidence of a memory that says what is known.

        What was not imported has its own sessions and confidence, and stays as it is.
        """
        found = store.get_observation(on, self.agent, same.id)
        events = event_store.list_events(on, same.id)
        messages = {one.evidence.message for one in events if one.evidence}
        if found is None or found.origin != SourceClass.IMPORT.value:
            return []
        if not line.sessions or saying.evidence.message in messages:
            return []
        value = max(
            validation.parse_optional_hundredths(line.confidence) or 0, found.standing.value
        )
        again = replace(saying, at=max(stood, same.last_supported))
        worth = msgspec.structs.replace(
            again.draft(EventKind.CONFIDENCE_SET, same.id), value=value, evidence=None
        )
        return [again.draft(EventKind.REINFORCED, same.id), worth]

    def _judged(self, on: Connection, line: ImportedLine, saying: AssertionContext) -> GateVerdict:
        """Judge a memory; one of another category is held back and not refused."""
        rules = self.listening.rules
        said = Assertion(
            category=line.category,
            service=line.service or "",
            text=line.observation,
            source=SourceClass.IMPORT,
        )
        verdict = self.listening.judged(on, said, saying, ())
        is_off_list = find_category(line.category, rules.aliases) is None
        if (
            not isinstance(verdict, RejectedAssertion)
            or verdict.reason is not RejectReason.UNKNOWN_CATEGORY
        ):
            return verdict
        if not is_off_list:
            return verdict
        placed = self.listening.judged(
            on, replace(said, category=_FALLBACK_CATEGORY.value), saying, ()
        )
        if isinstance(placed, RejectedAssertion):
            return placed
        return QuarantinedAssertion(
            reason=RejectReason.UNKNOWN_CATEGORY,
            said=verdict.said,
            text=placed.text,
            category=placed.category,
            service=placed.service,
            flags=placed.flags,
        )

    def _saying(self, line: ImportedLine, at: datetime) -> AssertionContext:
        sessions = ", ".join(line.sessions)
        words = " ".join(line.observation.split())
        return AssertionContext(
            scope=MemoryScope(self.agent),
            at=at,
            evidence=Evidence(
                quote=self.listening.redact(words).value[:MAX_QUOTE_CHARS],
                source=SourceClass.IMPORT,
                message=f"sessions {sessions} of {self.source}" if sessions else self.source,
            ),
            actor=Actor.IMPORT,
            who=self.by,
            tier=line.tier,
        )

    @staticmethod
    def _as_it_was(
        drafts: list[ObservationEvent], line: ImportedLine, created: datetime
    ) -> list[ObservationEvent]:
        """Let a memory begin when it did, with what it was worth."""
        value = validation.parse_optional_hundredths(line.confidence)
        flags = () if find_category(line.category) else (f"category:{line.category[:64]}",)
        return [
            msgspec.structs.replace(
                one, ts=format_milli_timestamp(created), value=value, flags=(*one.flags, *flags)
            )
            if one.kind is EventKind.ASSERTED
            else one
            for one in drafts
        ]

    def _since(
        self, line: ImportedLine, created: datetime, stood: datetime
    ) -> list[ObservationEvent]:
        """Return what happened to it since: how long somebody stood behind it, its state."""
        value = validation.parse_optional_hundredths(line.confidence)
        then = format_milli_timestamp(stood)

        def event(kind: EventKind, value: int | None = None) -> ObservationEvent:
            return ObservationEvent(
                id="",
                ts=then,
                kind=kind,
                agent=self.agent,
                memory=NEW_OBSERVATION,
                actor=Actor.IMPORT,
                who=self.by,
                tier=line.tier,
                value=value,
            )

        since = [event(EventKind.CONFIDENCE_SET, value)] if stood > created else []
        if line.pinned:
            since.append(event(EventKind.PINNED))
        match line.state:
            case ObservationState.INACTIVE:
                since.append(event(EventKind.DEACTIVATED))
            case ObservationState.RETIRED | ObservationState.SUPERSEDED:
                since.append(event(EventKind.RETIRED))
            case ObservationState.QUARANTINED:
                since.append(event(EventKind.QUARANTINED))
            case _:
                pass
        return since


def _moment(text: str, otherwise: datetime, now: datetime) -> datetime:
    """Read a time; one that is none, or has not come yet, counts as another."""
    moment = parse_rfc3339(text) if text else None
    return otherwise if moment is None or moment > now else moment


def _find_same(
    text: str, service: str | None, known: list[ExistingObservation]
) -> ExistingObservation | None:
    """Return the memory that says the same; None if there is none."""
    candidates = [matching.Candidate(one.id, one.text, one.confidence) for one in known]
    best = matching.best_match(text, candidates, service=service or "")
    if best is None or best.comparison.verdict is not Matched.SAME:
        return None
    return next(one for one in known if one.id == best.candidate.id)
