"""What comes of something that was said: which events, on which observations (pure).

Events are drafted here, without ids and numbers: `NEW` stands for an observation that is yet to
get its number, and whoever writes the events gives it one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from memplane.clock import milli_stamp
from memplane.observations import matching
from memplane.observations.aspects import Aspects, aspects_of
from memplane.observations.differences import Signal
from memplane.observations.events import Actor, Event, Evidence, Kind, Refused, Said
from memplane.observations.gate import Accepted, Quarantined, Rejected
from memplane.observations.matching import Match, Verdict
from memplane.observations.model import State

NEW: Final = -1
"""Stands for an observation that has no number yet."""

LONGEST_QUOTE: Final = 300

_SHARED_WORDS: Final = 3
_LOOKED_AT: Final = 20_000
_RESULTS_LOOKED_AT: Final = 40
"""A session may have seen megabytes; the newest of it comes first."""
_OPEN: Final = frozenset({State.ACTIVE, State.INACTIVE})
_CLOSED: Final = frozenset({State.RETIRED, State.SUPERSEDED})
_OWN_BLOCK: Final = "## Operational Memory ("
_NOT_A_WORD: Final = r"[^A-Za-z0-9_-]"


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """An observation that something new may have to do with; all of one service and category.

    Args:
        id: Its number.
        text: What it says.
        state: What it is now.
        confidence: In hundredths, as of now.
        last_supported: When somebody last stood behind it.
        valid_from: Since when it is so.
        merged_into: The number of the one that took its place; 0 when none did.
    """

    id: int
    text: str
    state: State
    confidence: int
    last_supported: datetime
    valid_from: datetime
    merged_into: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hearing:
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
class Saying:
    """Who says it, when, and where that can be read."""

    agent: str
    at: datetime
    evidence: Evidence
    actor: Actor = Actor.AGENT
    who: str = ""
    session: int = 0
    tier: int = 1

    def draft(self, kind: Kind, memory: int = 0) -> Event:
        """Begin an event of this saying."""
        return Event(
            id="",
            ts=milli_stamp(self.at),
            kind=kind,
            agent=self.agent,
            memory=memory,
            actor=self.actor,
            who=self.who,
            session=self.session,
            tier=self.tier,
            evidence=self.evidence,
        )


def consequences(
    said: Accepted | Quarantined, saying: Saying, known: Sequence[Known], hearing: Hearing
) -> list[Event]:
    """Return what happens because of something that may be remembered.

    Nothing happens when a session says again what it has said before.
    """
    related = matching.matches(
        said.text,
        [matching.Candidate(one.id, one.text, one.confidence) for one in known],
        service=said.service or "",
    )
    by_id = {one.id: one for one in known}
    if isinstance(said, Quarantined):
        return _held_back(said, saying, related, hearing)
    if (same := _first(related, Verdict.SAME)) is not None:
        return _said_again(said, saying, _survivor(by_id[same.candidate.id], by_id), hearing)
    live = [match for match in related if by_id[match.candidate.id].state in _OPEN]
    if (against := _first(live, Verdict.CONTRADICTION)) is not None:
        old = by_id[against.candidate.id]
        has_voted = old.id in hearing.contradicted
        return _contradicting(said, saying, old, against, has_voted=has_voted)
    if (alike := _first(live, Verdict.UNDECIDED)) is not None:
        number = alike.candidate.id
        return [_asserted(said, saying), *_contested(saying, number, "possible_duplicate", alike)]
    return [_asserted(said, saying)]


def refusal(said: Rejected, saying: Saying) -> Event:
    """Return that something was said and is not remembered."""
    meant = said.corrected
    refused = Refused(
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
        saying.draft(Kind.REJECTED), reason=said.reason.value, refused=refused, evidence=evidence
    )


def is_fresh(text: str, service: str, tool_results: Sequence[str]) -> bool:
    """Say whether a tool showed what an agent says, so that it does not merely repeat its prompt.

    The result has to mention the service, and share a name or a quantity with the text, or three
    of its words.
    """
    own = aspects_of(text, service)
    return any(
        _bears_out(own, aspects_of(result[:_LOOKED_AT], service))
        for result in tool_results[:_RESULTS_LOOKED_AT]
        if _OWN_BLOCK not in result and _mentions(result, service)
    )


def _bears_out(own: Aspects, seen: Aspects) -> bool:
    if len(own.words & seen.words) >= _SHARED_WORDS or own.names & seen.names:
        return True
    return any(
        one.measure == other.measure and one.overlaps(other)
        for one in own.quantities
        for other in seen.quantities
    )


def conflict_key(one: int, other: int) -> str:
    """Name the conflict between two observations, whichever came first; 0 is no other one."""
    return f"{min(one, other)}-{max(one, other)}" if other else f"{one}"


# What comes of it.


def _held_back(
    said: Quarantined, saying: Saying, related: Sequence[Match], hearing: Hearing
) -> list[Event]:
    """Keep it until somebody has looked at it, unless it is known already, in whatever state."""
    same = _first(related, Verdict.SAME)
    if same is not None:
        number = same.candidate.id
        is_heard = number in hearing.supported | hearing.echoed
        return [] if is_heard else [_noted(saying, Kind.ECHOED, number, said.reason.value)]
    held = _noted(saying, Kind.QUARANTINED, NEW, said.reason.value)
    return [_asserted(said, saying), held]


def _said_again(said: Accepted, saying: Saying, same: Known, hearing: Hearing) -> list[Event]:
    if same.id in hearing.supported:
        return []
    why = _no_support(said, saying, same, hearing)
    if not why:
        return [saying.draft(Kind.REINFORCED, same.id)]
    if same.id in hearing.echoed:
        return []
    echoed = _noted(saying, Kind.ECHOED, same.id, why)
    if same.state not in _CLOSED:
        return [echoed]
    # What an operator has put away does not come back by itself.
    again = _noted(saying, Kind.CONTESTED, same.id, "said_again")
    return [echoed, msgspec.structs.replace(again, target=conflict_key(same.id, 0))]


def _no_support(said: Accepted, saying: Saying, same: Known, hearing: Hearing) -> str:
    """Say why something that is said again does not support what is known; empty when it does."""
    if same.state in _CLOSED or same.state is State.QUARANTINED:
        return same.state.value
    if same.id in hearing.told and not is_fresh(
        said.text, said.service or "", hearing.tool_results
    ):
        return "told"
    return "late" if saying.at < same.last_supported else ""


def _contradicting(
    said: Accepted, saying: Saying, old: Known, match: Match, *, has_voted: bool
) -> list[Event]:
    if saying.at < old.last_supported:
        # It was so once. What is known now was said later, and stays.
        until = old.valid_from if saying.at < old.valid_from else old.last_supported
        closed = msgspec.structs.replace(
            _asserted(said, saying), valid_to=milli_stamp(until), other=old.id
        )
        return [closed]
    against = msgspec.structs.replace(
        saying.draft(Kind.CONTRADICTED, old.id),
        # Its words are the new one's: they are kept there alone, so that they can be purged.
        evidence=msgspec.structs.replace(saying.evidence, supports=False, quote=""),
        other=NEW,
    )
    votes = [] if has_voted else [against]
    return [*votes, _asserted(said, saying), *_contested(saying, old.id, "contradiction", match)]


def _asserted(said: Accepted | Quarantined, saying: Saying) -> Event:
    return msgspec.structs.replace(
        saying.draft(Kind.ASSERTED, NEW),
        said=Said(text=said.text, category=said.category, service=said.service or ""),
        flags=tuple(sorted(flag.value for flag in said.flags)),
    )


def _contested(saying: Saying, old: int, kind: str, match: Match) -> list[Event]:
    """Open a conflict between an observation and the new one; both of them say so."""
    draft = msgspec.structs.replace(
        saying.draft(Kind.CONTESTED),
        reason=kind,
        signals=tuple(_told(one) for one in match.comparison.signals),
        evidence=None,
    )
    return [
        msgspec.structs.replace(draft, memory=old, other=NEW),
        msgspec.structs.replace(draft, memory=NEW, other=old),
    ]


def _noted(saying: Saying, kind: Kind, memory: int, reason: str) -> Event:
    return msgspec.structs.replace(saying.draft(kind, memory), reason=reason)


def _told(signal: Signal) -> str:
    """Put a signal in words, such as `number: 60s / 30s`."""
    sides = " / ".join(side for side in (signal.old, signal.new) if side)
    return f"{signal.finding}: {sides}" if sides else signal.finding.value


# Looking things up.


def _first(related: Sequence[Match], verdict: Verdict) -> Match | None:
    return next((one for one in related if one.comparison.verdict is verdict), None)


def _survivor(one: Known, by_id: dict[int, Known]) -> Known:
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
