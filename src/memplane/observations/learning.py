"""Learning: what was said, through the gate, held against what is known."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import msgspec

from memplane.ledger.heads import instant
from memplane.observations import rows, session_rows
from memplane.observations.confidence import Profile
from memplane.observations.contract import Heard, HeardReceipt, HeardText
from memplane.observations.deciding import LONGEST_QUOTE, Hearing, Saying, consequences, refusal
from memplane.observations.events import Event, Evidence, Kind
from memplane.observations.gate import Redact, Rejected, Rules, Verdict, judge
from memplane.observations.model import Source
from memplane.observations.reading import Misread, Said, read, structured
from memplane.observations.reasons import Reason
from memplane.observations.views import reject_view
from memplane.records.store import Connection


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """What everything that is said is judged by.

    Args:
        redact: Takes secrets out of a text.
        profile: How belief grows and fades.
        rules: What this installation goes by; the services that are known are added to them.
    """

    redact: Redact
    profile: Profile
    rules: Rules

    def judged(
        self, on: Connection, said: Said, saying: Saying, tool_results: Sequence[str]
    ) -> Verdict:
        """Say what becomes of an assertion."""
        return judge(
            said,
            redact=self.redact,
            rules=replace(self.rules, services=self._services(on, saying.agent)),
            asserted=session_rows.spoken(on, saying.session),
            tool_results=tool_results,
        )

    def _services(self, on: Connection, agent: str) -> frozenset[str]:
        sql = "SELECT name FROM services WHERE agent = ? AND name IS NOT NULL"
        return self.rules.services | {name for (name,) in on.rows(sql, (agent,))}

    def drafts(self, on: Connection, said: Said, saying: Saying, hearing: Hearing) -> list[Event]:
        """Return what comes of something that was said in a session."""
        verdict = self.judged(on, said, saying, hearing.tool_results)
        if isinstance(verdict, Rejected):
            return self._refused(on, verdict, saying)
        known = rows.with_text(on, saying.agent, verdict.category, verdict.service)
        as_known = rows.known(known, saying.at, self.profile)
        return consequences(verdict, saying, as_known, hearing)

    @staticmethod
    def _refused(on: Connection, verdict: Rejected, saying: Saying) -> list[Event]:
        said = verdict.said
        key = verdict.reason.value, said.category, said.service, said.text
        if saying.session and key in session_rows.refused(on, saying.session):
            return []
        is_one_more = verdict.reason is Reason.SESSION_CAP
        if is_one_more and session_rows.has_said(on, saying.session, said):
            return []
        return [refusal(verdict, saying)]


class Statement(msgspec.Struct, frozen=True):
    """One thing that was said, and where."""

    said: Said
    evidence: Evidence
    at: datetime | None


def statements(heard: Heard, aliases: Mapping[str, str], redact: Redact) -> list[Statement]:
    """Return what was said in a session, in order."""
    found = [
        _statement(said, text, redact)
        for text in heard.texts
        for said in read(text.text, source=text.source, aliases=aliases, aborted=text.aborted)
    ]
    nowhere = HeardText(text="")
    return [
        *found,
        *(
            _statement(said, nowhere, redact)
            for said in structured(heard.structured, aliases=aliases)
        ),
    ]


def _statement(said: Said, text: HeardText, redact: Redact) -> Statement:
    words = said.said.text if isinstance(said, Misread) else said.text
    evidence = Evidence(
        quote=redact(" ".join(words.split())).value[:LONGEST_QUOTE],
        source=text.source if text.text else Source.AGENT,
        message=text.message,
        line=text.line,
        offset=text.offset,
        digest=text.digest,
    )
    return Statement(said, evidence, instant(text.at) if text.at else None)


class Outcome(msgspec.Struct):
    """What became of all that was heard, gathered while it is learned."""

    events: list[Event] = msgspec.field(default_factory=list[Event])

    def receipt(self) -> HeardReceipt:
        """Put it together."""
        return HeardReceipt(
            asserted=self._memories({Kind.ASSERTED}),
            reinforced=self._memories({Kind.REINFORCED}),
            contradicted=self._memories({Kind.CONTRADICTED}),
            echoed=self._memories({Kind.ECHOED}),
            quarantined=self._memories({Kind.QUARANTINED}),
            retracted=sum(one.kind is Kind.RETRACTED for one in self.events),
            rejects=tuple(reject_view(one) for one in self.events if one.kind is Kind.REJECTED),
        )

    def _memories(self, kinds: Collection[Kind]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(one.memory for one in self.events if one.kind in kinds))


def with_entry(evidence: Evidence, entry: str) -> Evidence:
    """Say which turn of a ledger an evidence is."""
    return msgspec.structs.replace(evidence, entry=entry)
