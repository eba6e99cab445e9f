"""Observations beside what was said: those that a question is about, in its answer.

An observation is told when the question names its service, or has much of its words. It takes its
share of the answer; what is least worth of the rest makes way.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from memplane.clock import milli_stamp
from memplane.memory.blocks import within_wire
from memplane.memory.contract import MOST_BLOCKS, MOST_BYTES, Ask, Block, Recalled, Why
from memplane.memory.sanitising import sanitised
from memplane.observations import rows, views
from memplane.observations.confidence import Profile
from memplane.observations.prompt import Candidate, decimal, one_line
from memplane.records.store import Connection
from memplane.retrieval.words import question_terms, terms_of

KIND: Final = "observation"
SOURCE: Final = "memplane"
_PREFIX: Final = "observation-"
_MOST: Final = 3
_WORDS: Final = 40
_WORD: Final = re.compile(r"[^\W_][\w-]*")
_SHARE: Final = 8
"""One part in so many of an answer's bytes is for observations."""
_SHARED: Final = 2
_PART: Final = 40


@dataclass(frozen=True, slots=True)
class Relevant:
    """An observation that a question is about, and how much of its words are in it."""

    candidate: Candidate
    named: bool
    shared: frozenset[str]
    coverage: int
    entries: tuple[str, ...] = ()


def looked_up(
    on: Connection, agent: str, question: str, *, now: datetime, profile: Profile
) -> list[Relevant]:
    """Look for the observations of an agent that a question is about."""
    if not question.strip() or not rows.has_any(on, agent):
        return []
    written = _WORD.findall(question)[:_WORDS]
    names = list(dict.fromkeys(name for one in written for name in (one, one.casefold())))
    words = " OR ".join(f'"{one}"' for one in dict.fromkeys(map(str.casefold, written)))
    found = (
        views.candidate(one, now, profile, ())
        for one in rows.tellable_about(on, agent, names, words)
    )
    best = relevant(question, [one for one in found if one is not None])[:_MOST]
    return [replace(one, entries=rows.entries_of(on, one.candidate.id)) for one in best]


def relevant(question: str, candidates: Iterable[Candidate]) -> list[Relevant]:
    """Return the observations that a question is about, the best first."""
    asked = question_terms(question)
    found = (_relevance(asked, one) for one in candidates) if asked else ()
    return sorted(
        (one for one in found if one is not None),
        key=lambda one: (
            not one.named,
            -len(one.shared),
            -one.candidate.confidence,
            one.candidate.id,
        ),
    )


def _relevance(asked: Mapping[str, int], candidate: Candidate) -> Relevant | None:
    own = terms_of(candidate.text)
    name = terms_of(candidate.service or "")
    named = bool(name) and name.keys() <= asked.keys()
    shared = frozenset(asked.keys() & own.keys())
    others = len(asked.keys() - name.keys()) or 1
    coverage = len(shared) * 100 // others
    if named or (len(shared) >= _SHARED and coverage >= _PART):
        return Relevant(candidate, named, shared, coverage)
    return None


def beside(answer: Recalled, found: Sequence[Relevant], ask: Ask) -> Recalled:
    """Put observations before what was said, within the limits of an answer."""
    if not found or ask.limit is not None:
        return answer
    share = min(ask.max_bytes, MOST_BYTES) // _SHARE
    blocks: list[Block] = []
    for one in found[:_MOST]:
        block = _block(one, explain=ask.explain)
        if _size([*blocks, block]) <= share:
            blocks.append(block)
    said = list(answer.memories)
    while said and (
        len(blocks) + len(said) > MOST_BLOCKS or _size(blocks) + _size(said) > ask.max_bytes
    ):
        said.pop()
    both = [*blocks, *said]
    return within_wire(both) if ask.max_bytes <= MOST_BYTES else Recalled(memories=tuple(both))


def observations_in(block_ids: Collection[str]) -> frozenset[int]:
    """Return the observations among the memories of a prompt."""
    numbers = (one.removeprefix(_PREFIX) for one in block_ids if one.startswith(_PREFIX))
    return frozenset(int(one) for one in numbers if one.isdecimal() and one.isascii())


def _block(found: Relevant, *, explain: bool) -> Block:
    one = found.candidate
    about = f"{one.service}: " if one.service else ""
    marked = ", contested" if one.contested else ""
    text, sure = one_line(one.text), decimal(one.confidence)
    why = Why(part=KIND, terms=dict.fromkeys(sorted(found.shared), 1.0)) if explain else None
    return Block(
        text=sanitised(f"[{one.category}] {about}{text} (confidence: {sure}){marked}"),
        score=one.confidence / 100,
        kind=KIND,
        source=SOURCE,
        ts=milli_stamp(one.last_supported),
        id=f"{_PREFIX}{one.id}",
        entry_ids=found.entries,
        why=why,
    )


def _size(blocks: Iterable[Block]) -> int:
    return sum(len(one.text.encode()) for one in blocks)
