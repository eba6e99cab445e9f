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
_SATURATION: Final = 1.2
_LENGTH_COUNTS: Final = 0.75
MOST: Final = _SATURATION + 1.0
# Among fewer documents than these, how many of them hold a term says nothing yet.
FEW: Final = 20
# The share of a question that a document must hold. Of 760 questions about five conversations,
# a document for each turn, it loses nobody a right answer among the first ten.
_ENOUGH: Final = 0.125
_ALL: Final = 1.0 - 1e-9
# What a long question asks for beside these is in most turns.
_MOST_TERMS: Final = 10


class Statistics(msgspec.Struct, frozen=True):
    """One agent's live documents: their number, their length together, who holds which term."""

    documents: int
    terms: int
    frequencies: Mapping[str, int]


class Document(NamedTuple):
    """What may answer a question: its terms, and how many it has with those that repeat."""

    key: int
    counts: Mapping[str, int]
    length: int


class Scored(NamedTuple):
    """A document that holds some of a question.

    `coverage` is the share of the question's weight that is held, `informative` how many terms
    are held that tell documents apart.
    """

    key: int
    score: float
    coverage: float
    informative: int


class Weight(NamedTuple):
    """A term of a question, and how much it says."""

    term: str
    weight: float
    is_informative: bool


def rank(
    question: Mapping[str, int],
    documents: Iterable[Document],
    statistics: Statistics,
    limit: int,
) -> list[Scored]:
    """Return the documents that hold some of the question, the best first."""
    held = (
        (key, {term: counts[term] for term in question if counts.get(term, 0) > 0}, length)
        for key, counts, length in documents
    )
    found = score_each(weights_of(question, statistics), held, statistics)
    found.sort(key=lambda one: (-one.score, one.key))
    return found[: max(0, limit)]


def score_each(
    weights: Sequence[Weight],
    documents: Iterable[tuple[int, Mapping[str, int], int]],
    statistics: Statistics,
) -> list[Scored]:
    """Return the documents that hold some of the weighed question, in their order.

    A document is counted by the question's terms alone, and those that it has.
    """
    average = average_of(statistics)
    mass = mass_of(weights)
    weighed = {term: (weight, is_informative) for term, weight, is_informative in weights}
    found: list[Scored] = []
    for key, counts, length in documents:
        if not counts:
            continue
        slowness = slowness_of(length, average)
        score = held = 0.0
        informative = 0
        # In the order of the terms, so that the sum is the same to the last bit.
        for term in sorted(counts) if len(counts) > 1 else counts:
            weight, is_informative = weighed[term]
            count = counts[term]
            # What `saturated` returns: to call it would take twice as long as the rest.
            score += weight * (count * MOST / (count + slowness))
            held += weight
            informative += is_informative
        if held > 0:
            found.append(Scored(key, score, held / mass, informative))
    return found


def coverage_of(weights: Sequence[Weight], counts: Mapping[str, int]) -> float:
    """Return how much of the weighed question a text holds, from 0 to 1."""
    held = 0.0
    for term, weight, _ in weights:
        if term in counts:
            held += weight
    return held / mass_of(weights) if held > 0 else 0.0


def most_telling(weights: Sequence[Weight], statistics: Statistics) -> Sequence[Weight]:
    """Return the terms of a weighed question that say most, in its order; of a short one all.

    What nobody ever said comes last: a page of log lines must not hide what is asked about them.
    """
    if len(weights) <= _MOST_TERMS:
        return weights
    known = statistics.frequencies
    weighed = sorted(weights, key=lambda one: (not known.get(one.term), -one.weight, one.term))
    return sorted(weighed[:_MOST_TERMS])


def mass_of(weights: Iterable[Weight]) -> float:
    """Return the score of a document of average length that holds the whole question once."""
    return sum([one.weight for one in weights])


def average_of(statistics: Statistics) -> float:
    """Return how long a document is."""
    return statistics.terms / statistics.documents if statistics.documents > 0 else 0.0


def relative(scored: Scored, best: float) -> float:
    """Return a score between 0 and 1 for people: how near it comes to the best possible one."""
    return min(1.0, scored.score / best) if best > 0 else 0.0


def is_match(scored: Scored, statistics: Statistics) -> bool:
    """Tell whether a document is worth showing.

    It holds a term that tells documents apart, and enough of the question. One rare term is
    enough of a question of ordinary length; a term that most documents hold is only when it is
    the whole question.
    """
    if scored.coverage >= _ALL:
        return True
    if scored.informative < 1:
        return False
    return statistics.documents < FEW or scored.coverage >= _ENOUGH


def idf(documents: int, frequency: int) -> float:
    """Return how much a term says that so many of the documents hold; it is never negative."""
    documents = max(documents, FEW)
    frequency = min(max(frequency, 0), documents)
    return math.log1p((documents - frequency + 0.5) / (frequency + 0.5))


def weights_of(question: Mapping[str, int], statistics: Statistics) -> list[Weight]:
    """Weigh the terms of a question, in an order that does not depend on the mapping's."""
    documents, frequencies = statistics.documents, statistics.frequencies
    weights: list[Weight] = []
    for term in sorted(question):
        frequency = frequencies.get(term, 0)
        weights.append(
            Weight(
                term,
                idf(documents, frequency) * saturated(question[term], _SATURATION),
                documents < FEW or frequency * 2 <= documents,
            )
        )
    return weights


def slowness_of(length: float, average: float) -> float:
    """Return how slowly more of the same adds to the score of a text of that length."""
    share = length / average if average > 0 else 1.0
    return _SATURATION * (1.0 - _LENGTH_COUNTS + _LENGTH_COUNTS * share)


def saturated(count: float, slowness: float) -> float:
    """Return what a count is worth: 1 for the first in a text of average length, then less."""
    return count * MOST / (count + slowness)
