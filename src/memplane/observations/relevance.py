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

from memplane.auth.memory_scope import ReadScope
from memplane.database.interface import Connection
from memplane.episodes.api_types import (
    DEFAULT_RECALL_BYTES,
    MAX_BLOCKS,
    BlockExplanation,
    MemoryBlock,
    RecallRequest,
    RecallResponse,
)
from memplane.episodes.provenance import Trust
from memplane.episodes.response_builder import limit_response_bytes
from memplane.episodes.untrusted_share import limit_untrusted
from memplane.exchange.sanitizer import sanitize_text
from memplane.kit.clock import format_milli_timestamp
from memplane.observations import store, views
from memplane.observations.confidence import Profile
from memplane.observations.prompt_block import PromptCandidate, escape_line, format_confidence
from memplane.search.tokenizer import count_query_terms, count_terms

OBSERVATION_BLOCK_KIND: Final = "observation"
OBSERVATION_BLOCK_SOURCE: Final = "memplane"
_PREFIX: Final = "observation-"
_MAX_OBSERVATIONS: Final = 3
_MAX_QUESTION_WORDS: Final = 40
_WORD: Final = re.compile(r"[^\W_][\w-]*")
_BUDGET_DIVISOR: Final = 8
"""One part in so many of an answer's bytes is for observations."""
_MIN_SHARED_WORDS: Final = 2
_MIN_COVERAGE_PERCENT: Final = 40


@dataclass(frozen=True, slots=True)
class RelevantObservation:
    """An observation that a question is about, and how much of its words are in it."""

    candidate: PromptCandidate
    named: bool
    shared: frozenset[str]
    coverage: int
    entries: tuple[str, ...] = ()


def find_relevant(
    on: Connection, scope: ReadScope, question: str, *, now: datetime, profile: Profile
) -> list[RelevantObservation]:
    """Look for the observations that a question is about, of those that may be told."""
    if not question.strip() or not store.has_injectable(on, scope):
        return []
    written = _WORD.findall(question)[:_MAX_QUESTION_WORDS]
    names = list(dict.fromkeys(name for one in written for name in (one, one.casefold())))
    words = " OR ".join(f'"{one}"' for one in dict.fromkeys(map(str.casefold, written)))
    found = (
        views.prompt_candidate(one, now, profile, ())
        for one in store.find_injectable(on, scope, names, words)
    )
    best = rank_relevant(question, [one for one in found if one is not None])[:_MAX_OBSERVATIONS]
    return [
        replace(one, entries=store.list_evidence_entries(on, one.candidate.id)) for one in best
    ]


def rank_relevant(
    question: str, candidates: Iterable[PromptCandidate]
) -> list[RelevantObservation]:
    """Return the observations that a question is about, the best first."""
    asked = count_query_terms(question)
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


def _relevance(asked: Mapping[str, int], candidate: PromptCandidate) -> RelevantObservation | None:
    own = count_terms(candidate.text)
    name = count_terms(candidate.service or "")
    named = bool(name) and name.keys() <= asked.keys()
    shared = frozenset(asked.keys() & own.keys())
    others = len(asked.keys() - name.keys()) or 1
    coverage = len(shared) * 100 // others
    if named or (len(shared) >= _MIN_SHARED_WORDS and coverage >= _MIN_COVERAGE_PERCENT):
        return RelevantObservation(candidate, named, shared, coverage)
    return None


def add_observations(
    answer: RecallResponse, found: Sequence[RelevantObservation], ask: RecallRequest
) -> RecallResponse:
    """Put observations before what was said, within the limits of an answer."""
    if not found or ask.limit is not None or ask.source:
        return answer
    share = min(ask.max_bytes, DEFAULT_RECALL_BYTES) // _BUDGET_DIVISOR
    blocks: list[MemoryBlock] = []
    for one in found[:_MAX_OBSERVATIONS]:
        block = _block(one, explain=ask.explain)
        if _size([*blocks, block]) <= share:
            blocks.append(block)
    said = list(answer.memories)
    while said and (
        len(blocks) + len(said) > MAX_BLOCKS or _size(blocks) + _size(said) > ask.max_bytes
    ):
        said.pop()
    both = limit_untrusted([*blocks, *said])
    return (
        limit_response_bytes(both)
        if ask.max_bytes <= DEFAULT_RECALL_BYTES
        else RecallResponse(memories=tuple(both))
    )


def parse_observation_ids(block_ids: Collection[str]) -> frozenset[int]:
    """Return the observations among the memories of a prompt."""
    numbers = (one.removeprefix(_PREFIX) for one in block_ids if one.startswith(_PREFIX))
    return frozenset(int(one) for one in numbers if one.isdecimal() and one.isascii())


def _block(found: RelevantObservation, *, explain: bool) -> MemoryBlock:
    one = found.candidate
    about = f"{one.service}: " if one.service else ""
    marked = ", contested" if one.contested else ""
    text, sure = escape_line(one.text), format_confidence(one.confidence)
    why = (
        BlockExplanation(
            part=OBSERVATION_BLOCK_KIND, terms=dict.fromkeys(sorted(found.shared), 1.0)
        )
        if explain
        else None
    )
    return MemoryBlock(
        text=sanitize_text(f"[{one.category}] {about}{text} (confidence: {sure}){marked}"),
        score=one.confidence / 100,
        kind=OBSERVATION_BLOCK_KIND,
        source=OBSERVATION_BLOCK_SOURCE,
        ts=format_milli_timestamp(one.last_supported),
        id=f"{_PREFIX}{one.id}",
        entry_ids=found.entries,
        origin=one.origin,
        trust=one.trust,
        sources=(one.origin,) if one.trust is Trust.UNTRUSTED else (),
        why=why,
    )


def _size(blocks: Iterable[MemoryBlock]) -> int:
    return sum(len(one.text.encode()) for one in blocks)
