"""How well a document answers a question, out of counts alone (pure).

The formula is BM25 over the live documents of one agent. Whoever found the documents, and in
whatever order, the scores are the same to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

# BM25's own: how soon more of the same counts for little, and how much long documents pay.
_BM25_K1: Final = 1.2
_BM25_B: Final = 0.75
MAX_TERM_SATURATION: Final = _BM25_K1 + 1.0
# Among fewer documents than these, how many of them hold a term says nothing yet.
MIN_IDF_DOCUMENTS: Final = 20
# The share of a question that a document must hold. Of 760 questions about five conversations,
# a document for each turn, it loses nobody a right answer among the first ten.
_MIN_COVERAGE: Final = 0.125
_FULL_COVERAGE: Final = 1.0 - 1e-9
# What a long question asks for beside these is in most turns.
_MAX_QUERY_TERMS: Final = 10


class CorpusStatistics(msgspec.Struct, frozen=True):
    """One agent's live documents: their number, their length together, who holds which term."""

    documents: int
    terms: int
    frequencies: Mapping[str, int]


class DocumentTerms(NamedTuple):
    """What may answer a question: its terms, and how many it has with those that repeat."""

    key: int
    counts: Mapping[str, int]
    length: int


class ScoredDocument(NamedTuple):
    """A document that holds some of a question.

    `coverage` is the share of the question's weight that is held, `informative` how many terms
    are held that tell documents apart.
    """

    key: int
    score: float
    coverage: float
    informative: int


class TermWeight(NamedTuple):
    """A term of a question, and how much it says."""

    term: str
    weight: float
    is_informative: bool


def rank_documents(
    question: Mapping[str, int],
    documents: Iterable[DocumentTerms],
    statistics: CorpusStatistics,
    limit: int,
) -> list[ScoredDocument]:
    """Return the documents that hold some of the question, the best first."""
    counted_documents = (
        (key, {term: counts[term] for term in question if counts.get(term, 0) > 0}, length)
        for key, counts, length in documents
    )
    scored_documents = score_documents(
        weigh_terms(question, statistics), counted_documents, statistics
    )
    scored_documents.sort(key=lambda document: (-document.score, document.key))
    return scored_documents[: max(0, limit)]


def score_documents(
    weights: Sequence[TermWeight],
    documents: Iterable[tuple[int, Mapping[str, int], int]],
    statistics: CorpusStatistics,
) -> list[ScoredDocument]:
    """Return the documents that hold some of the weighed question, in their order.

    A document is counted by the question's terms alone, and those that it has.
    """
    average = average_length(statistics)
    mass = total_weight(weights)
    weighed = {term: (weight, is_informative) for term, weight, is_informative in weights}
    scored_documents: list[ScoredDocument] = []
    for key, counts, length in documents:
        if not counts:
            continue
        slowness = length_normalization(length, average)
        score = matched_weight = 0.0
        informative = 0
        # In the order of the terms, so that the sum is the same to the last bit.
        for term in sorted(counts) if len(counts) > 1 else counts:
            weight, is_informative = weighed[term]
            count = counts[term]
            # What `saturated` returns: to call it would take twice as long as the rest.
            score += weight * (count * MAX_TERM_SATURATION / (count + slowness))
            matched_weight += weight
            informative += is_informative
        if matched_weight > 0:
            scored_documents.append(ScoredDocument(key, score, matched_weight / mass, informative))
    return scored_documents


def compute_coverage(weights: Sequence[TermWeight], counts: Mapping[str, int]) -> float:
    """Return how much of the weighed question a text holds, from 0 to 1."""
    matched_weight = 0.0
    for term, weight, _ in weights:
        if term in counts:
            matched_weight += weight
    return matched_weight / total_weight(weights) if matched_weight > 0 else 0.0


def select_informative(
    weights: Sequence[TermWeight], statistics: CorpusStatistics
) -> Sequence[TermWeight]:
    """Return the terms of a weighed question that say most, in its order; of a short one all.

    What nobody ever said comes last: a page of log lines must not hide what is asked about them.
    """
    if len(weights) <= _MAX_QUERY_TERMS:
        return weights
    known = statistics.frequencies
    weighed = sorted(
        weights, key=lambda weight: (not known.get(weight.term), -weight.weight, weight.term)
    )
    return sorted(weighed[:_MAX_QUERY_TERMS])


def total_weight(weights: Iterable[TermWeight]) -> float:
    """Return the score of a document of average length that holds the whole question once."""
    return sum([weight.weight for weight in weights])


def average_length(statistics: CorpusStatistics) -> float:
    """Return how long a document is."""
    return statistics.terms / statistics.documents if statistics.documents > 0 else 0.0


def normalize_score(scored: ScoredDocument, best: float) -> float:
    """Return a score between 0 and 1 for people: how near it comes to the best possible one."""
    return min(1.0, scored.score / best) if best > 0 else 0.0


def is_match(scored: ScoredDocument, statistics: CorpusStatistics) -> bool:
    """Tell whether a document is worth showing.

    It holds a term that tells documents apart, and enough of the question. One rare term is
    enough of a question of ordinary length; a term that most documents hold is only when it is
    the whole question.
    """
    if scored.coverage >= _FULL_COVERAGE:
        return True
    if scored.informative < 1:
        return False
    return statistics.documents < MIN_IDF_DOCUMENTS or scored.coverage >= _MIN_COVERAGE


def idf(documents: int, frequency: int) -> float:
    """Return how much a term says that so many of the documents hold; it is never negative."""
    documents = max(documents, MIN_IDF_DOCUMENTS)
    frequency = min(max(frequency, 0), documents)
    return math.log1p((documents - frequency + 0.5) / (frequency + 0.5))


def weigh_terms(question: Mapping[str, int], statistics: CorpusStatistics) -> list[TermWeight]:
    """Weigh the terms of a question, in an order that does not depend on the mapping's."""
    documents, frequencies = statistics.documents, statistics.frequencies
    weights: list[TermWeight] = []
    for term in sorted(question):
        frequency = frequencies.get(term, 0)
        weights.append(
            TermWeight(
                term,
                idf(documents, frequency) * saturate(question[term], _BM25_K1),
                documents < MIN_IDF_DOCUMENTS or frequency * 2 <= documents,
            )
        )
    return weights


def length_normalization(length: float, average: float) -> float:
    """Return how slowly more of the same adds to the score of a text of that length."""
    share = length / average if average > 0 else 1.0
    return _BM25_K1 * (1.0 - _BM25_B + _BM25_B * share)


def saturate(count: float, slowness: float) -> float:
    """Return what a count is worth: 1 for the first in a text of average length, then less."""
    return count * MAX_TERM_SATURATION / (count + slowness)
