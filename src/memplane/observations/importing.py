"""Memories from elsewhere, as drafts of events.

They come with their own times, so that what was learned long ago has faded since. What is known
already is not added again, and what the closed list of categories does not have waits for an
operator.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import msgspec

from memplane.clock import milli_stamp
from memplane.ledger.heads import instant
from memplane.observations import matching, rows, wording
from memplane.observations.contract import ImportedLine
from memplane.observations.deciding import (
    LONGEST_QUOTE,
    NEW,
    Hearing,
    Known,
    Saying,
    consequences,
    refusal,
)
from memplane.observations.events import Actor, Event, Evidence, Kind
from memplane.observations.gate import Quarantined, Rejected, Verdict
from memplane.observations.learning import Listening
from memplane.observations.matching import Verdict as Matched
from memplane.observations.model import Assertion, Category, Source, State
from memplane.observations.reading import category_of
from memplane.observations.reasons import Reason
from memplane.records.store import Connection

_IN_PLACE: Category = Category.BEHAVIOR
"""What a memory of another category is kept as until somebody has looked at it."""


class Importing(msgspec.Struct, frozen=True):
    """Takes in memories for an agent."""

    agent: str
    by: str
    source: str
    listening: Listening

    def drafts(self, on: Connection, now: datetime, *, line: ImportedLine) -> list[Event]:
        """Return what comes of a memory; nothing when it is known."""
        created = _moment(line.created_at, now, now)
        stood = max(created, _moment(line.last_supported_at or line.updated_at, created, now))
        saying = self._saying(line, created)
        verdict = self._judged(on, line, saying)
        if isinstance(verdict, Rejected):
            return [refusal(verdict, saying)]
        found = rows.with_text(on, self.agent, verdict.category, verdict.service)
        known = rows.known(found, now, self.listening.profile)
        if _is_known(verdict.text, verdict.service, known):
            return []
        drafts = consequences(verdict, replace(saying, at=stood), known, Hearing())
        if drafts[0].kind is not Kind.ASSERTED and drafts[0].kind is not Kind.CONTRADICTED:
            return drafts
        return [*self._as_it_was(drafts, line, created), *self._since(line, created, stood)]

    def _judged(self, on: Connection, line: ImportedLine, saying: Saying) -> Verdict:
        """Judge a memory; one of another category is held back and not refused."""
        rules = self.listening.rules
        said = Assertion(
            category=line.category,
            service=line.service or "",
            text=line.observation,
            source=Source.IMPORT,
        )
        verdict = self.listening.judged(on, said, saying, ())
        is_off_list = category_of(line.category, rules.aliases) is None
        if not isinstance(verdict, Rejected) or verdict.reason is not Reason.UNKNOWN_CATEGORY:
            return verdict
        if not is_off_list:
            return verdict
        placed = self.listening.judged(on, replace(said, category=_IN_PLACE.value), saying, ())
        if isinstance(placed, Rejected):
            return placed
        return Quarantined(
            reason=Reason.UNKNOWN_CATEGORY,
            said=verdict.said,
            text=placed.text,
            category=placed.category,
            service=placed.service,
            flags=placed.flags,
        )

    def _saying(self, line: ImportedLine, at: datetime) -> Saying:
        sessions = ", ".join(line.sessions)
        words = " ".join(line.observation.split())
        return Saying(
            agent=self.agent,
            at=at,
            evidence=Evidence(
                quote=self.listening.redact(words).value[:LONGEST_QUOTE],
                source=Source.IMPORT,
                message=f"sessions {sessions} of {self.source}" if sessions else self.source,
            ),
            actor=Actor.IMPORT,
            who=self.by,
            tier=line.tier,
        )

    @staticmethod
    def _as_it_was(drafts: list[Event], line: ImportedLine, created: datetime) -> list[Event]:
        """Let a memory begin when it did, with what it was worth."""
        value = wording.hundredths_if_given(line.confidence)
        flags = () if category_of(line.category) else (f"category:{line.category[:64]}",)
        return [
            msgspec.structs.replace(
                one, ts=milli_stamp(created), value=value, flags=(*one.flags, *flags)
            )
            if one.kind is Kind.ASSERTED
            else one
            for one in drafts
        ]

    def _since(self, line: ImportedLine, created: datetime, stood: datetime) -> list[Event]:
        """Return what happened to it since: how long somebody stood behind it, its state."""
        value = wording.hundredths_if_given(line.confidence)
        then = milli_stamp(stood)

        def event(kind: Kind, value: int | None = None) -> Event:
            return Event(
                id="",
                ts=then,
                kind=kind,
                agent=self.agent,
                memory=NEW,
                actor=Actor.IMPORT,
                who=self.by,
                tier=line.tier,
                value=value,
            )

        since = [event(Kind.CONFIDENCE_SET, value)] if stood > created else []
        if line.pinned:
            since.append(event(Kind.PINNED))
        match line.state:
            case State.INACTIVE:
                since.append(event(Kind.DEACTIVATED))
            case State.RETIRED | State.SUPERSEDED:
                since.append(event(Kind.RETIRED))
            case State.QUARANTINED:
                since.append(event(Kind.QUARANTINED))
            case _:
                pass
        return since


def _moment(text: str, otherwise: datetime, now: datetime) -> datetime:
    """Read a time; one that is none, or has not come yet, counts as another."""
    moment = instant(text) if text else None
    return otherwise if moment is None or moment > now else moment


def _is_known(text: str, service: str | None, known: list[Known]) -> bool:
    candidates = [matching.Candidate(one.id, one.text, one.confidence) for one in known]
    best = matching.best_match(text, candidates, service=service or "")
    return best is not None and best.comparison.verdict is Matched.SAME
