"""Finding what an agent remembers about a question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple, Protocol

import msgspec

from memplane.memory import rows as table
from memplane.memory.artefacts import Artefact, Kind
from memplane.memory.blocks import Findings, Match, Shares, Weighty, matches_only, mixed
from memplane.memory.contract import Ask, Recalled
from memplane.memory.episode import Episode
from memplane.memory.injections import said_at
from memplane.memory.question import Question, question_of
from memplane.memory.rows import About
from memplane.memory.tails import Tails
from memplane.records.store import Connection
from memplane.retrieval.index import TextIndex
from memplane.retrieval.ranking import Asked, Ranked, answers, explained, rank_turns
from memplane.retrieval.scoring import (
    Scored,
    Statistics,
    Weight,
    coverage_of,
    idf,
    is_match,
    mass_of,
    most_telling,
    relative,
    score_each,
    weights_of,
)
from memplane.retrieval.tail import Tail
from memplane.retrieval.times import asks_when, periods_in
from memplane.retrieval.turns import Finder, Held, Turn, names_in, together, words_of
from memplane.retrieval.words import question_terms

SCORED_EXACTLY: Final = 24
_MATCHES: Final = 8
_LOOKED_INTO: Final = 2
_FEW_TERMS: Final = 2
_MOST_TERMS: Final = 256
_WEIGHTY_LOOKED_AT: Final = 32
_LINES: Final = 8
_RECENT: Final = 4


class _Reach(NamedTuple):
    """How many likely turns are ranked, and how many of these bring what was said around them."""

    turns: int
    with_neighbours: int


# A prompt's few matches are found as well by looking at less; whoever asks for turns wants many.
_FOR_A_PROMPT: Final = _Reach(20, 4)
_FOR_A_SEARCH: Final = _Reach(32, 6)


def recalled(
    rows: Connection,
    index: TextIndex | None,
    ask: Ask,
    question: Question,
    *,
    shares: Shares,
    now: Now,
    tails: Tails,
) -> Recalled:
    """Answer a question from the rows and the index; without an index it takes longer."""
    known = table.about(rows, ask.agent)
    terms = _terms(question)
    if known is None or not known.episodes or not terms:
        return Recalled()
    reach = _FOR_A_PROMPT if ask.limit is None else _FOR_A_SEARCH
    likely = max(reach.turns, ask.limit or 0)
    here = frozenset(ask.without)
    if ask.here:
        here |= said_at(rows, ask.agent, ask.here)
    sought = _sought(_Searching(rows, index, tails, known, likely, here), terms)
    asked = _asked(question, sought, now.at)
    ranking = _Ranking(rows, known, sought, reach.with_neighbours, now.meant, here)
    matched = _matches(ranking, asked, ask)
    matches = [one.match for one in matched]
    if ask.limit is not None:
        found = Findings(matches=matches)
        return matches_only(found, limit=ask.limit, max_bytes=ask.max_bytes, explain=ask.explain)
    weighty = _weighty(rows, known, sought, matched=bool(matches))
    weighty = [one for one in weighty if not here.issuperset(one.artefact.sources)]
    if not matches and not weighty:
        return Recalled()
    steps: set[str] = set()
    newest_turns = table.newest(rows, known.number, _RECENT)
    recent = [one for one in newest_turns if not _is_another_step(one, steps)]
    newest = table.timeline(rows, known.number, _LINES)
    lines = dict.fromkeys((*newest, *(line for one in matched for line in one.lines)))
    said = {question.text, *question.context}
    found = Findings(
        matches=matches,
        weighty=weighty,
        timeline=[one for one in lines if not here.issuperset(one.sources)],
        recent=[one for one in recent if one.question not in said and one.id not in here],
        noise=table.noise_of(rows, known),
        newest=recent[0].at if recent else 0,
    )
    return mixed(found, shares, max_bytes=ask.max_bytes, explain=ask.explain)


def asked_in(ask: Ask) -> Question:
    """Return what is asked: a text, or the end of a conversation."""
    return Question(ask.text, ()) if ask.text else question_of(ask.messages)


class Now(msgspec.Struct, frozen=True):
    """When a question is asked, and what it means, where that is known."""

    at: int
    meant: Meant | None = None


class Meant(Protocol):
    """A question that can be compared with turns by meaning."""

    def likeness(self, rows: Connection, number: int, keys: list[int]) -> dict[int, float]:
        """Return how alike turns are to it, from 0 to 1; those that can be compared only."""
        ...


class _Matched(msgspec.Struct, frozen=True):
    """A match, and the line of the timeline for the stretch that it is in."""

    match: Match
    lines: Sequence[Artefact]


def _terms(question: Question) -> Mapping[str, int]:
    """Return the words to look for; a question of hardly any takes some from what came before."""
    terms = dict(question_terms(question.text)) if question.text.strip() else {}
    if len(terms) < _FEW_TERMS:
        for earlier in question.context[-1:]:
            terms = {**question_terms(earlier), **terms}
    return dict(islice(terms.items(), _MOST_TERMS))


def _asked(question: Question, sought: _Sought, now: int) -> Asked:
    return Asked(
        terms=sought.terms,
        weights=sought.weights,
        words=words_of(question.text),
        names=names_in(question.text),
        periods=periods_in(question.text, now),
        wants_time=asks_when(question.text),
    )


class _Sought(msgspec.Struct, frozen=True):
    """The words that were looked for, what they are worth here, and the turns that have them.

    `held` is what was found of them in turns so far, by key.
    """

    terms: Mapping[str, int]
    weights: Sequence[Weight]
    statistics: Statistics
    matching: Sequence[Scored]
    turns: Mapping[int, Turn]
    finder: Finder
    held: dict[int, Held]

    def look_into(self, turns: Iterable[Turn]) -> None:
        """Find the words in turns that were not looked into yet."""
        new = [turn for turn in turns if turn.key not in self.held]
        self.held.update(self.finder.by_turn(new))

    def worth(self) -> dict[str, float]:
        """Return what each of the words says."""
        documents, frequencies = self.statistics.documents, self.statistics.frequencies
        return {term: round(idf(documents, frequencies[term]), 4) for term in self.terms}

    def coverage(self, text: str) -> float:
        """Return how much of the question a text has, from 0 to 1."""
        return coverage_of(self.weights, _terms_in(text))


@lru_cache(4096)
def _terms_in(text: str) -> Mapping[str, int]:
    """Return the words of something weighty, which is looked at again with every question."""
    return question_terms(text)


class _Searching(msgspec.Struct, frozen=True):
    """Where an agent's episodes are looked for, and how many of them are scored.

    Those that were said `here` stand in the conversation that asks.
    """

    rows: Connection
    index: TextIndex | None
    tails: Tails
    known: About
    likely: int
    here: frozenset[str]


def _sought(where: _Searching, terms: Mapping[str, int]) -> _Sought:
    """Find the turns that have words of the question: the likely ones of all that there are."""
    rows, index, known = where.rows, where.index, where.known
    tail = Tail()
    if index is None or known.episodes <= SCORED_EXACTLY:
        found = table.all_searchable(rows, known.number)
        statistics = _statistics(known, dict.fromkeys(terms, 0), found)
        weights = most_telling(weights_of(terms, statistics), statistics)
    else:
        tail, uncounted, changed = where.tails.of(rows, known.number)
        counted = index.frequencies(known.number, list(terms))
        if tail:
            counted = {term: count + tail.count(term) for term, count in counted.items()}
        statistics = _statistics(known, counted, uncounted)
        weights = most_telling(weights_of(terms, statistics), statistics)
        wanted = where.likely + min(len(where.here), where.likely)
        keys = index.candidates(known.number, [one.term for one in weights], wanted)
        new = {turn.key for turn in (*uncounted, *changed)}
        indexed = [key for key in keys if key not in new and key not in tail]
        found = [*table.searchable_in(rows, known.number, indexed), *uncounted, *changed]
    telling = {one.term: terms[one.term] for one in weights}
    finder = Finder(telling)
    held = finder.by_turn(found)
    waiting, held_waiting = tail.having(telling)
    held.update(held_waiting)
    turns = {turn.key: turn for turn in (*found, *waiting) if turn.id not in where.here}
    documents = [(key, together(held[key]), turn.length) for key, turn in turns.items()]
    scored = score_each(weights, documents, statistics)
    likely = _best(scored, turns, statistics)[: where.likely]
    return _Sought(telling, weights, statistics, likely, turns, finder, held)


def _best(
    scored: Sequence[Scored], turns: Mapping[int, Turn], statistics: Statistics
) -> list[Scored]:
    """Return what is worth showing, the best first; of equal ones the newest."""
    matching = [one for one in scored if is_match(one, statistics)]
    matching.sort(key=lambda one: (-one.score, -turns[one.key].at, turns[one.key].id))
    return matching


def _statistics(known: About, counted: dict[str, int], uncounted: Sequence[Turn]) -> Statistics:
    """Count who has which term: what was counted already, and the turns that were not."""
    if uncounted:
        for held in Finder(counted).by_turn(uncounted).values():
            for term in together(held):
                counted[term] += 1
    return Statistics(known.episodes, known.terms, counted)


class _Ranking(msgspec.Struct, frozen=True):
    """The turns that were found, and what the question means, where that is known."""

    rows: Connection
    known: About
    sought: _Sought
    with_neighbours: int
    meant: Meant | None
    here: frozenset[str]


def _matches(where: _Ranking, asked: Asked, ask: Ask) -> list[_Matched]:
    """Rank the turns that have words of the question, and those around them."""
    rows, known, sought = where.rows, where.known, where.sought
    if not sought.matching:
        return []
    having = [sought.turns[one.key] for one in sought.matching]
    runs = table.around(rows, known.number, having, where.with_neighbours)
    if where.meant is not None:
        keys = [turn.key for run in runs for turn in run]
        asked = replace(asked, likeness=where.meant.likeness(rows, known.number, keys))
    sought.look_into(turn for run in runs for turn in run)
    ranked = rank_turns(asked, runs, sought.statistics, sought.held)
    if where.here:
        # A turn here may stand around one from elsewhere, and has helped to rank that.
        ranked = [one for one in ranked if one.turn.id not in where.here]
    if not ranked or not answers(asked, ranked, sought.statistics):
        return []
    best = relative(sought.matching[0], mass_of(sought.weights))
    worth = sought.worth()
    found: list[_Matched] = []
    for place, (one, episode) in enumerate(_shown(where, ranked, ask.limit)):
        derived: list[Artefact] = []
        if place < _LOOKED_INTO and ask.limit is None:
            derived = table.derived_from(rows, known.number, (episode.at, episode.id))
        match = Match(
            episode,
            best * one.score / ranked[0].score,
            {term: worth[term] for term in together(sought.held[one.turn.key])},
            one.coverage,
            _salience(derived, episode),
            explained(one, ranked) if ask.explain else {},
        )
        found.append(_Matched(match, [one for one in derived if one.kind is Kind.TIMELINE]))
    return found


def _shown(
    where: _Ranking, ranked: Sequence[Ranked], limit: int | None
) -> list[tuple[Ranked, Episode]]:
    """Choose the turns that are told; a prompt's memories are few, and are not all of one loop."""
    shown: list[tuple[Ranked, Episode]] = []
    wanted, at = limit or _MATCHES, 0
    steps: set[str] = set()
    while at < len(ranked) and (missing := wanted - len(shown)):
        batch = ranked[at : at + missing]
        keys = [one.turn.key for one in batch]
        episodes = table.episodes_by_key(where.rows, where.known.number, keys)
        for one, episode in zip(batch, episodes, strict=True):
            if limit is not None or not _is_another_step(episode, steps):
                shown.append((one, episode))
        at += missing
    return shown


def _is_another_step(turn: Episode, steps: set[str]) -> bool:
    """Say whether a step of the same tool loop is told already; all of them have its question."""
    if not turn.calls or not turn.question:
        return False
    is_told = turn.question in steps
    steps.add(turn.question)
    return is_told


def _salience(derived: Iterable[Artefact], turn: Episode) -> int:
    """Say how much weight a turn has, by what was derived from it."""
    weights = (
        one.salience
        for one in derived
        if one.kind in table.WEIGHTY_KINDS and turn.id in one.sources
    )
    return max(weights, default=0)


def _weighty(rows: Connection, known: About, sought: _Sought, *, matched: bool) -> list[Weighty]:
    """Return what was said with weight, nearest to the question first.

    Beside a match a weak overlap is not asked for; alone there must be one.
    """
    looked_at = table.weighty(rows, known.number, _WEIGHTY_LOOKED_AT)
    found = [Weighty(one, sought.coverage(one.text)) for one in looked_at]
    found.sort(key=lambda one: -(one.coverage * 100 + one.artefact.salience))
    return [one for one in found if matched or one.coverage > 0]
