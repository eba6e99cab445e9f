"""Which turns answer a question, out of what each says, and what was said around it (pure).

A turn alone often has none of the question's words: they are in the question before it, or in
what was said next. So each is scored with its neighbours, weighed by how far away they are, and
with how much else was said about the question at that time. What a user said counts for more
than what an assistant replied. Where texts are compared by meaning, that counts for more than
words. Whoever found the turns, and in whatever order, the outcome is the same to the last bit.
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
# How much an utterance counts by who said it, in tenths too.
_PERSON_SHARE: Final = 10
_ASSISTANT_SHARE: Final = 4
_HUNDREDTHS: Final = _TENTHS * _PERSON_SHARE
_PREVIOUS_WEIGHT: Final = _WINDOW_WEIGHTS[_UTTERANCES_BEFORE - 1] * _PERSON_SHARE
_OWN_WEIGHT: Final = _WINDOW_WEIGHTS[_UTTERANCES_BEFORE] * _PERSON_SHARE
_REPLY_WEIGHT: Final = _WINDOW_WEIGHTS[_UTTERANCES_BEFORE + 1] * _ASSISTANT_SHARE
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
_MAX_JUDGED_BY_MEANING: Final = 10
# How similar in meaning one of the first turns must be. The best of more turns is nearer by
# chance, so it grows with each doubling of their number; enough words make up for some of it.
_MIN_SIMILARITY: Final = 0.25
_MAX_MIN_SIMILARITY: Final = 0.4
_SIMILARITY_PER_DOUBLING: Final = 0.04
_FEW_DOCUMENTS: Final = 64
_SIMILARITY_OF_WORDS: Final = 0.07
_MIN_SIMILARITY_OF_UNKNOWN_NAMES: Final = 0.55


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
        similarities: How similar turns are to it in meaning, by key, where they were compared.
    """

    terms: Mapping[str, int]
    weights: Sequence[TermWeight] = ()
    words: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    periods: Sequence[Period] = ()
    wants_time: bool = False
    similarities: Mapping[int, float] = field(default_factory=dict[int, float])


class Signals(NamedTuple):
    """What each signal gives to a turn, from 0 to 1.

    Args:
        words: How many of the question's words it has, with what was said around it.
        coverage: The share of the question's weight that it has with what was said around it.
        session: How much was said about the question at that time.
        speaker: Whether the question names who said it.
        length: How much it tells.
        asks: Whether it asks something itself.
        dated: Whether it tells a time, when a time is asked for.
        period: Whether it was said at a time that the question names, or soon after.
        meaning: How similar it is to the question, where a model compares them.
        theme: How similar the best of what was said at that time is.
    """

    words: float
    coverage: float
    session: float
    speaker: float
    length: float
    asks: float
    dated: float
    period: float
    meaning: float
    theme: float


_MEANING_EMPHASIS: Final = 1.75
_WORD_WEIGHTS: Final = Signals(
    words=0.7,
    coverage=0.0,
    session=0.2,
    speaker=0.3,
    length=0.3,
    asks=-0.1,
    dated=0.25,
    period=0.4,
    meaning=0.0,
    theme=0.0,
)
_MEANING_WEIGHTS: Final = Signals(
    words=0.48,
    coverage=0.2,
    session=0.0,
    speaker=0.25,
    length=0.2,
    asks=-0.07,
    dated=0.22,
    period=0.55,
    meaning=1.1,
    theme=0.4,
)


class RankedTurn(NamedTuple):
    """A turn and what it is worth.

    `coverage` is the share of the question's weight that it has with what was said around it,
    `similarity` how similar it is in meaning.
    """

    turn: SearchTurn
    score: float
    coverage: float
    signals: Signals
    similarity: float = 0.0


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


_Utterance: TypeAlias = tuple[Mapping[str, int], int, int]
"""The question's terms in something that was said, how long it was, and what its words count."""

_SILENCE: Final[Sequence[_Utterance]] = ((dict[str, int](), 0, _PERSON_SHARE),) * max(
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
    matches: Mapping[int, MatchedTermCounts] | None = None,
) -> list[RankedTurn]:
    """Return the turns that have words of the question, the best first.

    Args:
        query: What is looked for.
        runs: The turns to rank. The turns of a run follow each other without a gap in the
            agent's order; between runs there are others.
        statistics: Of all of the agent's turns, each with what was asked and told.
        matches: What turns have of the terms, by key; without it, it is looked for.
    """
    turns = [turn for run in runs for turn in run]
    if matches is None:
        matches = TermFinder(query.terms).count_in_turns(turns)
    windows = _score_runs(runs, matches, _WeighedQuery.of(query, statistics))
    similarities = query.similarities
    weights = _MEANING_WEIGHTS if similarities else _WORD_WEIGHTS
    groups = _group_sessions(turns)
    scores = [window[0] for window in windows]
    sessions = _sum_best(groups, scores)
    themes = _sum_best(groups, [similarities.get(turn.key, 0.0) for turn in turns])
    best = max(scores, default=0.0) or 1.0
    most = max(sessions, default=0.0) or 1.0
    # Beside meaning, words count for as much as the best turn has of the question: where hardly
    # any is there, they are there by chance, and meaning counts for more.
    trust = max((window[1] for window in windows), default=0.0) if similarities else 1.0
    emphasis = _MEANING_EMPHASIS - trust
    ranked: list[tuple[float, int, str, RankedTurn]] = []
    for turn, (words, coverage, length, has_words), session, theme in zip(
        turns, windows, sessions, themes, strict=True
    ):
        if has_words or turn.key in similarities:
            key, at, id_, _, speaker, signs, _, _ = turn
            similarity = similarities.get(key, 0.0)
            signals = _signals(
                (
                    trust * words / best,
                    coverage,
                    session / most,
                    1.0 if speaker and names_speaker(speaker, query.words) else 0.0,
                    min(1.0, math.log1p(length) / _LENGTH_SCALE),
                    1.0 if signs & QUESTION_SIGN else 0.0,
                    1.0 if query.wants_time and signs & TIME_SIGN else 0.0,
                    nearness(at, query.periods) if query.periods else 0.0,
                    emphasis * similarity,
                    emphasis * theme / _MAX_SESSION_TURNS,
                )
            )
            score = sum(map(mul, weights, signals))
            ranked_turn = _ranked((turn, score, coverage, signals, similarity))
            ranked.append((-score, -at, id_, ranked_turn))
    ranked.sort(key=itemgetter(0, 1, 2))
    return [ranked_turn for *_, ranked_turn in ranked]


def has_answer(query: Query, ranked: Sequence[RankedTurn], statistics: CorpusStatistics) -> bool:
    """Tell whether one of the best turns is near enough to the question to be shown at all."""
    if not query.similarities:
        return _has_enough_words(query, ranked[:_MAX_JUDGED_TURNS], statistics)
    similarity = _min_similarity(query, statistics)
    coverage = _min_coverage(query, statistics)
    with_words = _min_similarity_among(statistics) - _SIMILARITY_OF_WORDS
    return any(
        turn.similarity >= similarity
        or (turn.coverage >= coverage and turn.similarity >= with_words)
        for turn in ranked[:_MAX_JUDGED_BY_MEANING]
    )


def _has_enough_words(
    query: Query, judged: Sequence[RankedTurn], statistics: CorpusStatistics
) -> bool:
    if statistics.documents < MIN_IDF_DOCUMENTS:
        return True
    coverage = _min_coverage(query, statistics)
    return any(turn.coverage >= coverage for turn in judged)


def _is_about_unknown(query: Query, statistics: CorpusStatistics) -> bool:
    """Say whether a question has names, and none of them was ever heard."""
    known = (statistics.frequencies.get(name, 0) for name in query.names)
    return bool(query.names) and not any(known)


def _min_coverage(query: Query, statistics: CorpusStatistics) -> float:
    if _is_about_unknown(query, statistics):
        return _MIN_COVERAGE_OF_UNKNOWN_NAMES
    return _MIN_COVERAGE


def _min_similarity(query: Query, statistics: CorpusStatistics) -> float:
    if _is_about_unknown(query, statistics):
        return _MIN_SIMILARITY_OF_UNKNOWN_NAMES
    return _min_similarity_among(statistics)


def _min_similarity_among(statistics: CorpusStatistics) -> float:
    doublings = math.log2(max(statistics.documents, _FEW_DOCUMENTS) / _FEW_DOCUMENTS)
    return min(_MIN_SIMILARITY + _SIMILARITY_PER_DOUBLING * doublings, _MAX_MIN_SIMILARITY)


def explain_rank(turn: RankedTurn, ranked: Sequence[RankedTurn]) -> dict[str, SignalShare]:
    """Explain a turn's place: for each signal what it gave, and its place by that alone."""
    has_meaning = any(other.signals.meaning for other in ranked)
    weights = _MEANING_WEIGHTS if has_meaning else _WORD_WEIGHTS
    return {
        name: SignalShare(round(value * weight, 4), 1 + sum(all_[at] > value for all_ in signals))
        for signals in ([other.signals for other in ranked],)
        for at, (name, value, weight) in enumerate(
            zip(Signals._fields, turn.signals, weights, strict=True)
        )
        if value and weight
    }


def _score_runs(
    runs: Iterable[Sequence[SearchTurn]],
    matches: Mapping[int, MatchedTermCounts],
    sought: _WeighedQuery,
) -> list[_WindowScore]:
    """Score each turn with what was said around it."""
    scores: list[_WindowScore] = []
    for run in runs:
        if len(run) == 1:  # as most are, and it takes half the time
            scores.append(_score_single_turn(run[0], matches[run[0].key], sought))
            continue
        utterances: list[_Utterance] = []
        places: list[int] = []
        before: SearchTurn | None = None
        for turn in run:
            user_counts, agent_counts = matches[turn.key]
            agent_length = parse_total(turn.agent_terms)
            if before is not None and turn.at - before.at >= _SESSION_GAP_US:
                utterances += _SILENCE
                before = None
            repeats = before is not None and turn.user_terms == before.agent_terms
            if repeats or _has_speaker(turn, agent_length):
                # Where programs pass on a talk, the question is what was told last.
                if not repeats:
                    utterances.append((user_counts, turn.length - agent_length, _PERSON_SHARE))
                places.append(len(utterances))
                utterances.append((agent_counts, agent_length, _PERSON_SHARE))
            else:
                places.append(len(utterances))
                utterances.append((user_counts, turn.length - agent_length, _PERSON_SHARE))
                utterances.append((agent_counts, agent_length, _ASSISTANT_SHARE))
            before = turn
        scores += [
            _score_window(utterances, place, sought, has_words=any(matches[turn.key]))
            for place, turn in zip(places, run, strict=True)
        ]
    return scores


def _has_speaker(turn: SearchTurn, agent_length: int) -> bool:
    """Say whether a person said what was told: there is a name before it, or nothing was query."""
    return bool(turn.speaker) or turn.length == agent_length


def _score_single_turn(
    turn: SearchTurn, matches: MatchedTermCounts, sought: _WeighedQuery
) -> _WindowScore:
    """Return what `_score_window` does where nothing else was said around a turn."""
    user_counts, agent_counts = matches
    agent_length = parse_total(turn.agent_terms)
    user_length = turn.length - agent_length
    by_person = _has_speaker(turn, agent_length)
    user_weight = _PREVIOUS_WEIGHT if by_person else _OWN_WEIGHT
    agent_weight = _OWN_WEIGHT if by_person else _REPLY_WEIGHT
    counts = {term: user_weight * count for term, count in user_counts.items()}
    for term, count in agent_counts.items():
        counts[term] = counts.get(term, 0) + agent_weight * count
    weighed_length = user_weight * user_length + agent_weight * agent_length
    own_length = agent_length if by_person else user_length
    return _score_counts(counts, weighed_length, sought, own_length, has_words=bool(counts))


def _score_window(
    utterances: Sequence[_Utterance], place: int, sought: _WeighedQuery, *, has_words: bool
) -> _WindowScore:
    """Return the BM25 of an utterance and those around it, as if they were one text."""
    counts: dict[str, int] = {}
    weighed_length = 0
    first = place - _UTTERANCES_BEFORE if place > _UTTERANCES_BEFORE else 0
    around = utterances[first : place + _UTTERANCES_AFTER + 1]
    for distance_weight, (term_counts, length, share) in zip(
        _WINDOW_WEIGHTS[first - place + _UTTERANCES_BEFORE :], around, strict=False
    ):
        weight = distance_weight * share
        weighed_length += weight * length
        if term_counts:
            for term, count in term_counts.items():
                counts[term] = counts.get(term, 0) + weight * count
    return _score_counts(counts, weighed_length, sought, utterances[place][1], has_words=has_words)


def _score_counts(
    counts: Mapping[str, int],
    weighed_length: int,
    sought: _WeighedQuery,
    own_length: int,
    *,
    has_words: bool,
) -> _WindowScore:
    """Score how often each term was said, and how long all of it is, both in hundredths."""
    if not counts:
        return 0.0, 0.0, own_length, has_words
    slowness = length_normalization(weighed_length / _HUNDREDTHS, sought.average)
    weights = sought.weights
    score = covered = 0.0
    # In the order of the terms, so that the sum is the same to the last bit.
    for term in sorted(counts) if len(counts) > 1 else counts:
        weight, count = weights[term], counts[term] / _HUNDREDTHS
        # What `saturated` returns: to call it would take as long as the rest.
        score += weight * (count * MAX_TERM_SATURATION / (count + slowness))
        covered += weight
    return (
        score,
        covered / sought.total_weight if sought.total_weight > 0 else 0.0,
        own_length,
        has_words,
    )


def _group_sessions(turns: Sequence[SearchTurn]) -> list[list[int]]:
    """Return the places of turns that are not half an hour apart, together."""
    order = sorted(range(len(turns)), key=[turn.at for turn in turns].__getitem__)
    groups: list[list[int]] = []
    before = -math.inf
    for place in order:
        at = turns[place].at
        if at - before >= _SESSION_GAP_US:
            groups.append([])
        groups[-1].append(place)
        before = at
    return groups


def _sum_best(groups: Iterable[Sequence[int]], scores: Sequence[float]) -> list[float]:
    """Return for each turn the sum of the best few scores of its session."""
    sums = [0.0] * len(scores)
    for places in groups:
        best = sorted([scores[place] for place in places], reverse=True)
        total = sum(best[:_MAX_SESSION_TURNS])
        for place in places:
            sums[place] = total
    return sums
