"""Finding what an agent remembers about a question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from memplane.memory import rows as table
from memplane.memory.artefacts import Artefact, Kind
from memplane.memory.blocks import Findings, Match, Shares, Weighty, matches_only, mixed
from memplane.memory.contract import Ask, Recalled
from memplane.memory.episode import Episode
from memplane.memory.question import Question, question_of
from memplane.memory.rows import About
from memplane.records.store import Connection
from memplane.retrieval.index import TextIndex
from memplane.retrieval.scoring import (
    Document,
    Scored,
    Statistics,
    best_possible,
    idf,
    is_match,
    rank,
    relative,
)
from memplane.retrieval.words import question_terms

SCORED_EXACTLY: Final = 24
_CANDIDATES: Final = 24
_MATCHES: Final = 8
_LOOKED_INTO: Final = 5
_FEW_TERMS: Final = 2
_WEIGHTY_KINDS: Final = (Kind.AFFECT, Kind.DECISION, Kind.COMMITMENT, Kind.FACT)
_WEIGHTY_FROM: Final = 60
_WEIGHTY_LOOKED_AT: Final = 32
_LINES: Final = 8
_RECENT: Final = 4


def recalled(rows: Connection, index: TextIndex | None, ask: Ask, shares: Shares) -> Recalled:
    """Answer a question from the rows and the index; without an index it takes longer."""
    known = table.about(rows, ask.agent)
    question = Question(ask.text, ()) if ask.text else question_of(ask.messages)
    terms = _terms(question)
    if known is None or not known.episodes or not terms:
        return Recalled()
    likely = max(_CANDIDATES, 2 * (ask.limit or 0))
    sought = _ranked(_Searching(rows, index, known, likely), terms)
    matched = _matches(rows, known, sought, ask.limit or _MATCHES)
    matches = [one.match for one in matched]
    if ask.limit is not None:
        found = Findings(matches=matches)
        return matches_only(found, limit=ask.limit, max_bytes=ask.max_bytes, explain=ask.explain)
    weighty = _weighty(rows, known, sought, matched=bool(matches))
    if not matches and not weighty:
        return Recalled()
    recent = table.newest(rows, known.number, _RECENT)
    newest = table.timeline(rows, known.number, _LINES)
    said = {question.text, *question.context}
    found = Findings(
        matches=matches,
        weighty=weighty,
        timeline=list(dict.fromkeys((*newest, *(line for one in matched for line in one.lines)))),
        recent=[one for one in recent if one.question not in said],
        noise=table.noise_of(rows, known),
        newest=recent[0].at if recent else 0,
    )
    return mixed(found, shares, max_bytes=ask.max_bytes, explain=ask.explain)


@dataclass(frozen=True, slots=True)
class _Matched:
    """A match, and the line of the timeline for the stretch that it is in."""

    match: Match
    lines: Sequence[Artefact]


def _terms(question: Question) -> Mapping[str, int]:
    """Return the words to look for; a question of hardly any takes some from what came before."""
    terms = dict(question_terms(question.text)) if question.text.strip() else {}
    if len(terms) < _FEW_TERMS:
        for earlier in question.context[-1:]:
            terms = {**question_terms(earlier), **terms}
    return terms


@dataclass(frozen=True, slots=True)
class _Sought:
    """The words that were looked for, what they are worth here, and what has them."""

    terms: Mapping[str, int]
    statistics: Statistics
    scored: Sequence[Scored]
    counts: Mapping[int, Mapping[str, int]]

    def held(self, key: int) -> dict[str, float]:
        """Return the words that an episode has of the question, and what each says."""
        documents, frequencies = self.statistics.documents, self.statistics.frequencies
        return {
            term: round(idf(documents, frequencies[term]), 4)
            for term in self.terms
            if term in self.counts[key]
        }

    def coverage(self, text: str) -> float:
        """Return how much of the question a text has, from 0 to 1."""
        counts = _terms_in(text)
        document = Document(0, counts, sum(counts.values()))
        found = rank(self.terms, [document], self.statistics, limit=1)
        return found[0].parts["coverage"] if found else 0.0


@lru_cache(4096)
def _terms_in(text: str) -> Mapping[str, int]:
    """Return the words of something weighty, which is looked at again with every question."""
    return question_terms(text)


@dataclass(frozen=True, slots=True)
class _Searching:
    """Where an agent's episodes are looked for, and how many of them are scored."""

    rows: Connection
    index: TextIndex | None
    known: About
    likely: int


def _ranked(where: _Searching, terms: Mapping[str, int]) -> _Sought:
    """Score the agent's episodes: all of them when they are few, else the likely ones."""
    rows, index, known = where.rows, where.index, where.known
    if index is None or known.episodes <= SCORED_EXACTLY:
        found = table.all_searchable(rows, known.number)
        counts = {one.key: table.counts_in(one.packed) for one in found}
        frequencies = _frequencies(terms, counts.values())
    else:
        tail = {one.key: one for one in table.searchable_tail(rows, known.number)}
        keys = index.candidates(known.number, list(terms), where.likely)
        indexed = [key for key in keys if key not in tail]
        found = [*table.searchable_in(rows, known.number, indexed), *tail.values()]
        counts = {one.key: table.counts_in(one.packed) for one in found}
        new = (counts[one.key] for one in tail.values() if not one.known)
        frequencies = _frequencies(terms, new)
        for term, count in index.frequencies(known.number, list(terms)).items():
            frequencies[term] += count
    statistics = Statistics(known.episodes, known.terms, frequencies)
    documents = [Document(one.key, counts[one.key], one.length) for one in found]
    order = {one.key: (-one.at, one.id) for one in found}
    scored = rank(terms, documents, statistics, limit=len(documents))
    scored.sort(key=lambda one: (-one.score, order[one.key]))
    return _Sought(terms, statistics, scored, counts)


def _frequencies(terms: Iterable[str], found: Iterable[Mapping[str, int]]) -> dict[str, int]:
    counted = dict.fromkeys(terms, 0)
    for counts in found:
        for term in counted.keys() & counts.keys():
            counted[term] += 1
    return counted


def _matches(rows: Connection, known: About, sought: _Sought, limit: int) -> list[_Matched]:
    statistics = sought.statistics
    best = best_possible(sought.terms, statistics)
    matching = [one for one in sought.scored if is_match(one, statistics)][:limit]
    episodes = table.episodes_by_key(rows, known.number, [one.key for one in matching])
    found: list[_Matched] = []
    for place, (one, turn) in enumerate(zip(matching, episodes, strict=True)):
        derived: list[Artefact] = []
        if place < _LOOKED_INTO:
            derived = table.derived_from(rows, known.number, (turn.at, turn.id))
        match = Match(
            turn,
            relative(one, best),
            sought.held(one.key),
            one.parts["coverage"],
            _salience(derived, turn),
        )
        found.append(_Matched(match, [one for one in derived if one.kind is Kind.TIMELINE]))
    return found


def _salience(derived: Iterable[Artefact], turn: Episode) -> int:
    """Say how much weight a turn has, by what was derived from it."""
    weights = (
        one.salience for one in derived if one.kind in _WEIGHTY_KINDS and turn.id in one.sources
    )
    return max(weights, default=0)


def _weighty(rows: Connection, known: About, sought: _Sought, *, matched: bool) -> list[Weighty]:
    """Return what was said with weight, nearest to the question first.

    Beside a match a weak overlap is not asked for; alone there must be one.
    """
    looked_at = table.artefacts(
        rows, known.number, _WEIGHTY_KINDS, least=_WEIGHTY_FROM, limit=_WEIGHTY_LOOKED_AT
    )
    found = [Weighty(one, sought.coverage(one.text)) for one in looked_at]
    found.sort(key=lambda one: -(one.coverage * 100 + one.artefact.salience))
    return [one for one in found if matched or one.coverage > 0]
