"""What comes of something that was said: which events, on which observations (pure).

Events are drafted here, without ids and numbers: `NEW` stands for an observation that is yet to
get its number, and whoever writes the events gives it one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from memplane.auth.memory_scope import MemoryScope
from memplane.kit.clock import format_milli_timestamp
from memplane.observations import matching
from memplane.observations.aspects import Aspects, aspects_of
from memplane.observations.differences import Signal
from memplane.observations.events import (
    Actor,
    EventKind,
    Evidence,
    ObservationContent,
    ObservationEvent,
    RejectedContent,
)
from memplane.observations.gate import AcceptedAssertion, QuarantinedAssertion, RejectedAssertion
from memplane.observations.matching import Match, Verdict
from memplane.observations.model import ObservationState

NEW_OBSERVATION: Final = -1
"""Stands for an observation that has no number yet."""

MAX_QUOTE_CHARS: Final = 300

_MIN_SHARED_WORDS: Final = 3
_MAX_RESULT_CHARS: Final = 20_000
_MAX_TOOL_RESULTS: Final = 40
"""A session may have seen megabytes; the newest of it comes first."""
_LIVE_STATES: Final = frozenset({ObservationState.ACTIVE, ObservationState.INACTIVE})
_TRASHED_STATES: Final = frozenset({ObservationState.RETIRED, ObservationState.SUPERSEDED})
_OWN_BLOCK: Final = "## Operational Memory ("
_NOT_A_WORD: Final = r"[^A-Za-z0-9_-]"


class ExistingObservation(msgspec.Struct, frozen=True, kw_only=True):
    """An observation that something new may have to do with; all of one service and category.

    Args:
        id: Its number.
        text: What it says.
        state: What it is now.
        confidence: In hundredths, as of now.
        last_supported: When somebody last stood behind it.
        valid_from: Since when it is so.
        merged_into: The number of the one that took its place; 0 when none did.
        reconciled: Those that an operator has said it goes together with.
    """

    id: int
    text: str
    state: ObservationState
    confidence: int
    last_supported: datetime
    valid_from: datetime
    merged_into: int = 0
    reconciled: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionContext:
    """What a session has said and seen so far.

    Args:
        supported: What it has spoken for already; it has one vote on each.
        contradicted: What it has spoken against.
        echoed: What it has only repeated so far; once is enough to know that.
        told: What was put into its prompt.
        tool_results: What tools gave it before.
    """

    supported: frozenset[int] = frozenset()
    contradicted: frozenset[int] = frozenset()
    echoed: frozenset[int] = frozenset()
    told: frozenset[int] = frozenset()
    tool_results: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertionContext:
    """Who says it, when, and where that can be read."""

    scope: MemoryScope
    at: datetime
    evidence: Evidence
    actor: Actor = Actor.AGENT
    who: str = ""
    session: int = 0
    tier: int = 1

    @property
    def agent(self) -> str:
        """Which agent says it."""
        return self.scope.agent

    def draft(self, kind: EventKind, memory: int = 0) -> ObservationEvent:
        """Begin an event of this saying."""
        return ObservationEvent(
            id="",
            ts=format_milli_timestamp(self.at),
            kind=kind,
            agent=self.agent,
            user=self.scope.user,
            view=self.scope.view,
            memory=memory,
            actor=self.actor,
            who=self.who,
            session=self.session,
            tier=self.tier,
            evidence=self.evidence,
        )


def draft_assertion_events(
    said: AcceptedAssertion | QuarantinedAssertion,
    saying: AssertionContext,
    known: Sequence[ExistingObservation],
    hearing: SessionContext,
) -> list[ObservationEvent]:
    """Return what happens because of something that may be remembered.

    Nothing happens when a session says again what it has said before.
    """
    related = matching.matches(
        said.text,
        [matching.Candidate(one.id, one.text, one.confidence) for one in known],
        service=said.service or "",
    )
    by_id = {one.id: one for one in known}
    if isinstance(said, QuarantinedAssertion):
        return _draft_quarantine(said, saying, related, hearing)
    live = [match for match in related if by_id[match.candidate.id].state in _LIVE_STATES]
    against = [match for match in live if match.comparison.verdict is Verdict.CONTRADICTION]
    if (same := _first(related, Verdict.SAME)) is not None:
        kept = _survivor(by_id[same.candidate.id], by_id)
        again = _draft_repetition(said, saying, kept, hearing)
        return [
            *again,
            *_draft_repeated_contradiction(said, saying, kept, against, by_id, hearing),
        ]
    if against:
        return _draft_contradiction(said, saying, against, by_id, hearing)
    if (alike := _first(live, Verdict.UNDECIDED)) is not None:
        number = alike.candidate.id
        return [
            _draft_assertion(said, saying),
            *_draft_conflict(saying, number, "possible_duplicate", alike),
        ]
    return [_draft_assertion(said, saying)]


def draft_rejection(said: RejectedAssertion, saying: AssertionContext) -> ObservationEvent:
    """Return that something was said and is not remembered."""
    meant = said.corrected
    refused = RejectedContent(
        category=said.said.category,
        service=said.said.service,
        text=said.said.text,
        hint=said.hint,
        meant_category=meant.category if meant else "",
        meant_service=meant.service if meant else "",
    )
    # Its words may be what it was refused for, so only the record of them is kept.
    evidence = msgspec.structs.replace(saying.evidence, quote="")
    return msgspec.structs.replace(
        saying.draft(EventKind.REJECTED),
        reason=said.reason.value,
        refused=refused,
        evidence=evidence,
    )


def is_shown_by_tool(text: str, service: str, tool_results: Sequence[str]) -> bool:
    """Say whether a tool showed what an agent says, so that it does not merely repeat its prompt.

    The result has to mention the service, and share a name or a quantity with the text, or three
    of its words.
    """
    own = aspects_of(text, service)
    return any(
        _supports(own, aspects_of(result[:_MAX_RESULT_CHARS], service))
        for result in tool_results[:_MAX_TOOL_RESULTS]
        if _OWN_BLOCK not in result and _mentions(result, service)
    )


def _supports(own: Aspects, seen: Aspects) -> bool:
    if len(own.words & seen.words) >= _MIN_SHARED_WORDS or own.names & seen.names:
        return True
    return any(
        one.measure == other.measure and one.overlaps(other)
        for one in own.quantities
        for other in seen.quantities
    )


def build_conflict_key(one: int, other: int) -> str:
    """Name the conflict between two observations, whichever came first; 0 is no other one."""
    return f"{min(one, other)}-{max(one, other)}" if other else f"{one}"


# What comes of it.


def _draft_quarantine(
    said: QuarantinedAssertion,
    saying: AssertionContext,
    related: Sequence[Match],
    hearing: SessionContext,
) -> list[ObservationEvent]:
    """Keep it until somebody has looked at it, unless it is known already, in whatever state."""
    same = _first(related, Verdict.SAME)
    if same is not None:
        number = same.candidate.id
        is_heard = number in hearing.supported | hearing.echoed
        return (
            [] if is_heard else [_draft_note(saying, EventKind.ECHOED, number, said.reason.value)]
        )
    held = _draft_note(saying, EventKind.QUARANTINED, NEW_OBSERVATION, said.reason.value)
    return [_draft_assertion(said, saying), held]


def _draft_repetition(
    said: AcceptedAssertion,
    saying: AssertionContext,
    same: ExistingObservation,
    hearing: SessionContext,
) -> list[ObservationEvent]:
    if same.id in hearing.supported:
        return []
    why = _explain_no_support(said, saying, same, hearing)
    if not why:
        return [saying.draft(EventKind.REINFORCED, same.id)]
    if same.id in hearing.echoed:
        return []
    echoed = _draft_note(saying, EventKind.ECHOED, same.id, why)
    if same.state not in _TRASHED_STATES:
        return [echoed]
    # What an operator has put away does not come back by itself.
    again = _draft_note(saying, EventKind.CONTESTED, same.id, "said_again")
    return [echoed, msgspec.structs.replace(again, target=build_conflict_key(same.id, 0))]


def _explain_no_support(
    said: AcceptedAssertion,
    saying: AssertionContext,
    same: ExistingObservation,
    hearing: SessionContext,
) -> str:
    """Say why something that is said again does not support what is known; empty when it does."""
    if same.state in _TRASHED_STATES or same.state is ObservationState.QUARANTINED:
        return same.state.value
    if same.id in hearing.told and not is_shown_by_tool(
        said.text, said.service or "", hearing.tool_results
    ):
        return "told"
    return "late" if saying.at < same.last_supported else ""


def _draft_repeated_contradiction(  # noqa: PLR0917 - what was said, by whom, and what is known
    said: AcceptedAssertion,
    saying: AssertionContext,
    same: ExistingObservation,
    against: Sequence[Match],
    by_id: Mapping[int, ExistingObservation],
    hearing: SessionContext,
) -> list[ObservationEvent]:
    """Lower what a statement contradicts that is known already, once in each session.

    Somebody who only repeats the prompt lowers no more than what the prompt told as well.
    """
    why = _explain_no_support(said, saying, same, hearing)
    if why not in {"", "told"}:
        return []
    events: list[ObservationEvent] = []
    for match in against:
        old = by_id[match.candidate.id]
        if (
            old.id in hearing.contradicted | same.reconciled
            or saying.at < old.last_supported
            or (why and old.id not in hearing.told)
        ):
            continue
        events += [
            _draft_vote_against(saying, old.id, same.id),
            *_draft_conflict(saying, old.id, "contradiction", match, new=same.id),
        ]
    return events


def _draft_contradiction(  # noqa: PLR0917 - what was said, by whom, and what is known
    said: AcceptedAssertion,
    saying: AssertionContext,
    against: Sequence[Match],
    by_id: Mapping[int, ExistingObservation],
    hearing: SessionContext,
) -> list[ObservationEvent]:
    """Assert a statement and lower each memory that it contradicts."""
    known = [by_id[match.candidate.id] for match in against]
    newer = next((old for old in known if saying.at < old.last_supported), None)
    if newer is not None:
        # It was so once. What is known now was said later, and stays.
        until = newer.valid_from if saying.at < newer.valid_from else newer.last_supported
        closed = msgspec.structs.replace(
            _draft_assertion(said, saying), valid_to=format_milli_timestamp(until), other=newer.id
        )
        return [closed]
    votes = [
        _draft_vote_against(saying, old.id, NEW_OBSERVATION)
        for old in known
        if old.id not in hearing.contradicted
    ]
    opened = [
        event
        for match in against
        for event in _draft_conflict(saying, match.candidate.id, "contradiction", match)
    ]
    return [*votes, _draft_assertion(said, saying), *opened]


def _draft_vote_against(saying: AssertionContext, old: int, new: int) -> ObservationEvent:
    return msgspec.structs.replace(
        saying.draft(EventKind.CONTRADICTED, old),
        # Its words are the new one's: they are kept there alone, so that they can be purged.
        evidence=msgspec.structs.replace(saying.evidence, supports=False, quote=""),
        other=new,
    )


def _draft_assertion(
    said: AcceptedAssertion | QuarantinedAssertion, saying: AssertionContext
) -> ObservationEvent:
    return msgspec.structs.replace(
        saying.draft(EventKind.ASSERTED, NEW_OBSERVATION),
        said=ObservationContent(
            text=said.text, category=said.category, service=said.service or ""
        ),
        flags=tuple(sorted(flag.value for flag in said.flags)),
    )


def _draft_conflict(
    saying: AssertionContext, old: int, kind: str, match: Match, *, new: int = NEW_OBSERVATION
) -> list[ObservationEvent]:
    """Open a conflict between an observation and the new one; both of them say so."""
    draft = msgspec.structs.replace(
        saying.draft(EventKind.CONTESTED),
        reason=kind,
        signals=tuple(_describe_signal(one) for one in match.comparison.signals),
        evidence=None,
    )
    return [
        msgspec.structs.replace(draft, memory=old, other=new),
        msgspec.structs.replace(draft, memory=new, other=old),
    ]


def _draft_note(
    saying: AssertionContext, kind: EventKind, memory: int, reason: str
) -> ObservationEvent:
    return msgspec.structs.replace(saying.draft(kind, memory), reason=reason)


def _describe_signal(signal: Signal) -> str:
    """Put a signal in words, such as `number: 60s / 30s`."""
    sides = " / ".join(side for side in (signal.old, signal.new) if side)
    return f"{signal.finding}: {sides}" if sides else signal.finding.value


# Looking things up.


def _first(related: Sequence[Match], verdict: Verdict) -> Match | None:
    return next((one for one in related if one.comparison.verdict is verdict), None)


def _survivor(
    one: ExistingObservation, by_id: dict[int, ExistingObservation]
) -> ExistingObservation:
    """Follow merges to the observation that is left."""
    seen = {one.id}
    while one.merged_into in by_id and one.merged_into not in seen:
        one = by_id[one.merged_into]
        seen.add(one.id)
    return one


def _mentions(result: str, service: str) -> bool:
    if not service:
        return True
    words = re.split(_NOT_A_WORD, result.casefold())
    return service.casefold() in words
