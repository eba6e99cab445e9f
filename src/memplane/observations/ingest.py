"""Learning: what was said, through the gate, held against what is known."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import msgspec

from memplane.auth.memory_scope import MemoryScope
from memplane.database.interface import Connection
from memplane.ledger.entry_head import parse_rfc3339
from memplane.observations import matching, session_store, store
from memplane.observations.api_types import IngestReceipt
from memplane.observations.assertion_parser import (
    MalformedAssertion,
    ParsedAssertion,
    parse_assertions,
    parse_structured,
)
from memplane.observations.assertion_rules import (
    MAX_QUOTE_CHARS,
    AssertionContext,
    SessionContext,
    draft_assertion_events,
    draft_rejection,
)
from memplane.observations.confidence import Profile
from memplane.observations.events import EventKind, Evidence, ObservationEvent
from memplane.observations.gate import (
    AcceptedAssertion,
    GateRules,
    GateVerdict,
    QuarantinedAssertion,
    RedactText,
    RejectedAssertion,
    judge_assertion,
)
from memplane.observations.model import SourceClass
from memplane.observations.reject_reasons import RejectReason
from memplane.observations.requests import Heard, HeardText
from memplane.observations.views import reject_view


class IngestPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What everything that is said is judged by.

    Args:
        redact: Takes secrets out of a text.
        profile: How belief grows and fades.
        rules: What this installation goes by; the services that are known are added to them.
    """

    redact: RedactText
    profile: Profile
    rules: GateRules

    def judged(
        self,
        on: Connection,
        said: ParsedAssertion,
        saying: AssertionContext,
        tool_results: Sequence[str],
    ) -> GateVerdict:
        """Say what becomes of an assertion."""
        return judge_assertion(
            said,
            redact=self.redact,
            rules=replace(
                self.rules, services=self.rules.services | store.list_services(on, saying.scope)
            ),
            asserted=session_store.count_assertions(on, saying.session),
            tool_results=tool_results,
        )

    def drafts(
        self,
        on: Connection,
        said: ParsedAssertion,
        saying: AssertionContext,
        hearing: SessionContext,
    ) -> list[ObservationEvent]:
        """Return what comes of something that was said in a session."""
        verdict = self.judged(on, said, saying, hearing.tool_results)
        if isinstance(verdict, RejectedAssertion):
            return self._refused(on, verdict, saying)
        if self._repeats_shared(on, verdict, saying, hearing):
            return []
        known = store.list_by_service(on, saying.scope, verdict.category, verdict.service)
        as_known = store.to_existing_observations(on, known, saying.at, self.profile)
        return draft_assertion_events(verdict, saying, as_known, hearing)

    def _repeats_shared(
        self,
        on: Connection,
        said: AcceptedAssertion | QuarantinedAssertion,
        saying: AssertionContext,
        hearing: SessionContext,
    ) -> bool:
        """Say whether a user's turn only says again what its prompt was told and all may know.

        What a user says is held against what that user's turns said, and changes nothing shared.
        """
        if saying.scope.is_shared or not hearing.told:
            return False
        shared = MemoryScope(saying.agent)
        known = store.list_by_service(on, shared, said.category, said.service)
        told = [
            matching.Candidate(one.id, one.text, one.standing.value)
            for one in known
            if one.id in hearing.told
        ]
        best = matching.best_match(said.text, told, service=said.service or "")
        return best is not None and best.comparison.verdict is matching.Verdict.SAME

    @staticmethod
    def _refused(
        on: Connection, verdict: RejectedAssertion, saying: AssertionContext
    ) -> list[ObservationEvent]:
        said = verdict.said
        key = verdict.reason.value, said.category, said.service, said.text
        if saying.session and key in session_store.list_rejection_keys(on, saying.session):
            return []
        is_one_more = verdict.reason is RejectReason.SESSION_CAP
        if is_one_more and session_store.has_asserted(on, saying.session, said):
            return []
        return [draft_rejection(verdict, saying)]


class SourcedAssertion(msgspec.Struct, frozen=True):
    """One thing that was said, and where."""

    said: ParsedAssertion
    evidence: Evidence
    at: datetime | None


def extract_assertions(
    heard: Heard, aliases: Mapping[str, str], redact: RedactText
) -> list[SourcedAssertion]:
    """Return what was said in a session, in order."""
    found = [
        _statement(said, text, redact)
        for text in heard.texts
        for said in parse_assertions(
            text.text, source=text.source, aliases=aliases, aborted=text.aborted
        )
    ]
    nowhere = HeardText(text="")
    return [
        *found,
        *(
            _statement(said, nowhere, redact)
            for said in parse_structured(heard.structured, aliases=aliases)
        ),
    ]


def _statement(said: ParsedAssertion, text: HeardText, redact: RedactText) -> SourcedAssertion:
    words = said.said.text if isinstance(said, MalformedAssertion) else said.text
    evidence = Evidence(
        quote=redact(" ".join(words.split())).value[:MAX_QUOTE_CHARS],
        source=text.source if text.text else SourceClass.AGENT,
        message=text.message,
        line=text.line,
        offset=text.offset,
        digest=text.digest,
    )
    return SourcedAssertion(said, evidence, parse_rfc3339(text.at) if text.at else None)


class IngestOutcome(msgspec.Struct):
    """What became of all that was heard, gathered while it is learned."""

    events: list[ObservationEvent] = msgspec.field(default_factory=list[ObservationEvent])

    def receipt(self) -> IngestReceipt:
        """Put it together."""
        return IngestReceipt(
            asserted=self._memories({EventKind.ASSERTED}),
            reinforced=self._memories({EventKind.REINFORCED}),
            contradicted=self._memories({EventKind.CONTRADICTED}),
            echoed=self._memories({EventKind.ECHOED}),
            quarantined=self._memories({EventKind.QUARANTINED}),
            retracted=sum(one.kind is EventKind.RETRACTED for one in self.events),
            rejects=tuple(
                reject_view(one) for one in self.events if one.kind is EventKind.REJECTED
            ),
        )

    def _memories(self, kinds: Collection[EventKind]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(one.memory for one in self.events if one.kind in kinds))


def attach_entry(evidence: Evidence, entry: str) -> Evidence:
    """Say which turn of a ledger an evidence is."""
    return msgspec.structs.replace(evidence, entry=entry)
