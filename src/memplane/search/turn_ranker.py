"""Which turns answer a question, out of what each says, and what was said around it (pure).

A turn alone often has none of the question's words: they stand in the question before it, or in
what was said next. So each is scored with its neighbours, weighed by how far away they are, and
with how much else was said about the question at that time. Whoever found the turns, and in
whatever order, the outcome is the same to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter, mul
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from memplane.search.bm25 import (
    MAX_TERM_SATURATION,
    MIN_IDF_DOCUMENTS,
    CorpusStatistics,
    TermWeight,
    average_length,
    length_normalization,
    total_weight,
    weigh_terms,
)
from memplane.search.time_expressions import Period, nearness
from memplane.search.turn_terms import (
    QUESTION_SIGN,
    TIME_SIGN,
    MatchedTermCounts,
    SearchTurn,
    TermFinder,
    names_speaker,
    parse_total,
)

# How much the words of each utterance count: three before what was told, that itself, and two
# behind it. In tenths, so that sums are exact.
_WINDOW_WEIGHTS: Final = (2, 4, 7, 10, 6, 2)
_UTTERANCES_BEFORE: Final = 3
_UTTERANCES_AFTER: Final = 2
_TENTHS: Final = 10
_PREVIOUS_WEIGHT: Final = _WINDOW_WEIGHTS[_UTTERANCES_BEFORE - 1]
_OWN_WEIGHT: Final = _WINDOW_WEIGHTS[_UTTERANCES_BEFORE]
# A turn alone is two utterances.
_WINDOW_LENGTH_FACTOR: Final = sum(_WINDOW_WEIGHTS) / (2 * _TENTHS)
_SESSION_GAP_US: Final = 30 * 60 * 1_000_000
_MAX_SESSION_TURNS: Final = 3
_LENGTH_SCALE: Final = math.log1p(40)
# The share of a question that one of the first turns must have. What is lost and what is won
# with it is in docs/recall.md.
_MIN_COVERAGE: Final = 0.15
_MIN_COVERAGE_OF_UNKNOWN_NAMES: Final = 0.5
_MAX_JUDGED_TURNS: Final = 3


@dataclass(frozen=True, slots=True)
class Query:
    """A question.

    Args:
        terms: What it looks for.
        weights: How much each of these says, where that was worked out already.
        words: Its words, as they are written.
        names: The terms of those that look like names.
        periods: The times that it names.
        wants_time: Whether it asks for a time.
        likeness: How alike turns are to it in meaning, by key, where that is known.
    """

    terms: Mapping[str, int]
    weights: Sequence[TermWeight] = ()
    words: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    periods: Sequence[Period] = ()
    wants_time: bool = False
    likeness: Mapping[int, float] = field(default_factory=dict[int, float])


class Signals(NamedTuple):
    """What each signal gives to a turn, from 0 to 1.

    Args:
        words: How many of the question's words it has, with what was said around it.
        session: How much was said about the question at that time.
        speaker: Whether the question names who said it.
        length: How much it tells.
        asks: Whether it asks something itself.
        dated: Whether it tells a time, when a time is asked for.
        period: Whether it was said at a time that the question names, or soon after.
        meaning: How alike it is to the question, where a model compares them.
    """

    words: float
    session: float
    speaker: float
    length: float
    asks: float
    dated: float
    period: float
    meaning: float


_WEIGHTS: Final = Signals(
    words=0.7,
    session=0.2,
    speaker=0.3,
    length=0.3,
    asks=-0.1,
    dated=0.25,
    period=0.4,
    meaning=0.35,
)


class RankedTurn(NamedTuple):
    """A turn and what it is worth.

    `coverage` is the share of the question's weight that it has with what was said around it.
    """

    turn: SearchTurn
    score: float
    coverage: float
    signals: Signals


# As their constructors, in a third of the time.
_signals: Final[Callable[[Iterable[Any]], Signals]] = partial(
    tuple.__new__,  # pyright: ignore[reportUnknownMemberType]
    Signals,
)
_ranked: Final[Callable[[Iterable[Any]], RankedTurn]] = partial(
    tuple.__new__,  # pyright: ignore[reportUnknownMemberType]
    RankedTurn,
)


class SignalShare(msgspec.Struct, frozen=True):
    """What a signal added to a turn's score, and how many turns had more of it, plus one."""

    added: float
    place: int


_Utterance: TypeAlias = tuple[Mapping[str, int], int]
"""The question's terms in something that was said, and how long it was."""

_SILENCE: Final[Sequence[_Utterance]] = ((dict[str, int](), 0),) * max(
    _UTTERANCES_BEFORE, _UTTERANCES_AFTER
)


_WindowScore: TypeAlias = tuple[float, float, int, bool]
"""How well a turn answers with what was said around it, and its share of the question; how much
the turn tells, and whether it has any of the question itself."""


class _WeighedQuery(msgspec.Struct, frozen=True):
    """What is looked for: how much each term says, and all of them; how long texts are here."""

    weights: Mapping[str, float]
    total_weight: float
    average: float

    @classmethod
    def of(cls, query: Query, statistics: CorpusStatistics) -> _WeighedQuery:
        weighed = query.weights or weigh_terms(query.terms, statistics)
        weights = {term_weight.term: term_weight.weight for term_weight in weighed}
        return cls(
            weights, total_weight(weighed), average_length(statistics) * _WINDOW_LENGTH_FACTOR
        )


def rank_turns(
    query: Query,
    runs: Sequence[Sequence[SearchTurn]],
    statistics: CorpusStatistics,
    counts: Mapping[int, MatchedTermCounts] | None = None,
) -> list[RankedTurn]:
    """Return the turns that have words of the question, the best first.

    Args:
        query: What is looked for.
        runs: The turns to rank. The turns of a run follow each other without a gap in the
            agent's order; between runs there are others.
        statistics: Of all of the agent's turns, each with what was asked and told.
        counts: What turns have of the terms, by key; without it, it is looked for.
    """
    turns = [turn for run in runs for turn in run]
    if counts is None:
        counts = TermFinder(query.terms).count_in_turns(turns)
    window_scores = _score_runs(runs, counts, _WeighedQuery.of(query, statistics))
    sessions = _sessions(turns, window_scores)
    best = max(map(itemgetter(0), window_scores), default=0.0) or 1.0
    best_session = max(sessions, default=0.0) or 1.0
    alike = max(query.likeness.values(), default=0.0) or 1.0
    ranked: list[tuple[float, int, str, RankedTurn]] = []
    for turn, (words, coverage, agent_length, has_words), session in zip(
        turns, window_scores, sessions, strict=True
    ):
        if has_words:
            key, at, id_, _, speaker, signs, _, _ = turn
            signals = _signals(
                (
                    words / best,
                    session / best_session,
                    1.0 if speaker and names_speaker(speaker, query.words) else 0.0,
                    min(1.0, math.log1p(agent_length) / _LENGTH_SCALE),
                    1.0 if signs & QUESTION_SIGN else 0.0,
                    1.0 if query.wants_time and signs & TIME_SIGN else 0.0,
                    nearness(at, query.periods) if query.periods else 0.0,
                    query.likeness.get(key, 0.0) / alike if query.likeness else 0.0,
                )
            )
            score = sum(map(mul, _WEIGHTS, signals))
            ranked.append((-score, -at, id_, _ranked((turn, score, coverage, signals))))
    ranked.sort(key=itemgetter(0, 1, 2))
    return [ranked_turn for *_, ranked_turn in ranked]


def has_enough_coverage(
    query: Query, ranked: Sequence[RankedTurn], statistics: CorpusStatistics
) -> bool:
    """Tell whether the best turns have enough of the question to be worth showing at all.

    A question about names that were never heard must have half of it there.
    """
    known = (statistics.frequencies.get(name, 0) for name in query.names)
    min_coverage = (
        _MIN_COVERAGE_OF_UNKNOWN_NAMES if query.names and not any(known) else _MIN_COVERAGE
    )
    is_small_corpus = statistics.documents < MIN_IDF_DOCUMENTS
    return is_small_corpus or any(
        ranked_turn.coverage >= min_coverage for ranked_turn in ranked[:_MAX_JUDGED_TURNS]
    )


def explain_rank(turn: RankedTurn, ranked: Sequence[RankedTurn]) -> dict[str, SignalShare]:
    """Explain a turn's place: for each signal what it gave, and its place by that alone."""
    return {
        name: SignalShare(round(value * weight, 4), 1 + sum(all_[at] > value for all_ in signals))
        for signals in ([other.signals for other in ranked],)
        for at, (name, value, weight) in enumerate(
            zip(Signals._fields, turn.signals, _WEIGHTS, strict=True)
        )
        if value
    }


def _score_runs(
    runs: Iterable[Sequence[SearchTurn]],
    counts: Mapping[int, MatchedTermCounts],
    sought: _WeighedQuery,
) -> list[_WindowScore]:
    """Score each turn with what was said around it."""
    window_scores: list[_WindowScore] = []
    for run in runs:
        if len(run) == 1:  # as most are, and it takes half the time
            window_scores.append(_score_single_turn(run[0], counts[run[0].key], sought))
            continue
        utterances: list[_Utterance] = []
        positions: list[int] = []
        before: SearchTurn | None = None
        for turn in run:
            user_counts, agent_counts = counts[turn.key]
            length = parse_total(turn.agent_terms)
            if before is not None and turn.at - before.at >= _SESSION_GAP_US:
                utterances += _SILENCE
                before = None
            # Where programs pass on a talk, the question is what was told last.
            if before is None or turn.user_terms != before.agent_terms:
                utterances.append((user_counts, turn.length - length))
            positions.append(len(utterances))
            utterances.append((agent_counts, length))
            before = turn
        window_scores += [_score_window(utterances, position, sought) for position in positions]
    return window_scores


def _score_single_turn(
    turn: SearchTurn, held: MatchedTermCounts, sought: _WeighedQuery
) -> _WindowScore:
    """Return what `_heard_at` does where nothing else was said around a turn."""
    user_counts, agent_counts = held
    length = parse_total(turn.agent_terms)
    if user_counts:
        counts = {term: _PREVIOUS_WEIGHT * count for term, count in user_counts.items()}
        for term, count in agent_counts.items():
            counts[term] = counts.get(term, 0) + _OWN_WEIGHT * count
    else:
        counts = {term: _OWN_WEIGHT * count for term, count in agent_counts.items()}
    tenths = _PREVIOUS_WEIGHT * (turn.length - length) + _OWN_WEIGHT * length
    return _score_counts(counts, tenths, sought, length, has_words=bool(counts))


def _score_window(
    utterances: Sequence[_Utterance], position: int, sought: _WeighedQuery
) -> _WindowScore:
    """Return the BM25 of an utterance and those around it, as if they were one text."""
    counts: dict[str, int] = {}
    tenths = 0
    first = position - _UTTERANCES_BEFORE if position > _UTTERANCES_BEFORE else 0
    window = utterances[first : position + _UTTERANCES_AFTER + 1]
    for share, (held, length) in zip(
        _WINDOW_WEIGHTS[first - position + _UTTERANCES_BEFORE :], window, strict=False
    ):
        tenths += share * length
        if held:
            for term, count in held.items():
                counts[term] = counts.get(term, 0) + share * count
    own_counts, length = utterances[position]
    # There is always something before it: what was asked, or told last.
    has_words = bool(own_counts or utterances[position - 1][0])
    return _score_counts(counts, tenths, sought, length, has_words=has_words)


def _score_counts(
    counts: Mapping[str, int],
    tenths: int,
    sought: _WeighedQuery,
    own_length: int,
    *,
    has_words: bool,
) -> _WindowScore:
    """Score what was heard: how often each term, and how long all of it is, in tenths."""
    if not counts:
        return 0.0, 0.0, own_length, False
    slowness = length_normalization(tenths / _TENTHS, sought.average)
    weights = sought.weights
    score = covered = 0.0
    # In the order of the terms, so that the sum is the same to the last bit.
    for term in sorted(counts) if len(counts) > 1 else counts:
        weight, count = weights[term], counts[term] / _TENTHS
        # What `saturated` returns: to call it would take as long as the rest.
        score += weight * (count * MAX_TERM_SATURATION / (count + slowness))
        covered += weight
    return (
        score,
        covered / sought.total_weight if sought.total_weight > 0 else 0.0,
        own_length,
        has_words,
    )


def _sessions(turns: Sequence[SearchTurn], window_scores: Sequence[_WindowScore]) -> list[float]:
    """Return for each turn how much was said about the question around that time.

    It is the sum of the best few scores among turns that are not half an hour apart.
    """
    order = sorted(range(len(turns)), key=[turn.at for turn in turns].__getitem__)
    together: list[list[int]] = []
    before = -math.inf
    for position in order:
        at = turns[position].at
        if at - before >= _SESSION_GAP_US:
            together.append([])
        together[-1].append(position)
        before = at
    session_scores = [0.0] * len(turns)
    for positions in together:
        best = sorted([window_scores[position][0] for position in positions], reverse=True)
        total = sum(best[:_MAX_SESSION_TURNS])
        for position in positions:
            session_scores[position] = total
    return session_scores
