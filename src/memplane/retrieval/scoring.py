"""How well a document answers a question, out of counts alone (pure).

The formula is BM25 over the live documents of one agent. Whoever found the documents, and in
whatever order, the scores are the same to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

# BM25's own: how soon more of the same counts for little, and how much long documents pay.
_SATURATION: Final = 1.2
_LENGTH_COUNTS: Final = 0.75
# Among fewer documents than these, how many of them hold a term says nothing yet.
FEW: Final = 20
# The share of a question that a document must hold. Of 760 questions about five conversations,
# a document for each turn, it loses nobody a right answer among the first ten.
_ENOUGH: Final = 0.125
_ALL: Final = 1.0 - 1e-9
# What a long question asks for beside these is in most turns.
_MOST_TERMS: Final = 10


@dataclass(frozen=True, slots=True)
class Statistics:
    """One agent's live documents: their number, their length together, who holds which term."""

    documents: int
    terms: int
    frequencies: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Document:
    """What may answer a question: its terms, and how many it has with those that repeat."""

    key: int
    counts: Mapping[str, int]
    length: int


@dataclass(frozen=True, slots=True)
class Scored:
    """A document that holds some of a question.

    `parts` explains it: `bm25`, `coverage` (the share of the question's weight that is held) and
    `informative` (how many terms are held that tell documents apart).
    """

    key: int
    score: float
    parts: Mapping[str, float]


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
    weighed = weights_of(question, statistics)
    weights = {one.term: one for one in weighed}
    average = statistics.terms / statistics.documents if statistics.documents > 0 else 0.0
    found: list[tuple[float, int, float, int]] = []
    for document in documents:
        slowness = slowness_of(document.length, average)
        score, held, informative = _scores(document.counts, weights, slowness)
        if held > 0:
            found.append((-score, document.key, held, informative))
    found.sort()
    mass = sum(one.weight for one in weighed)
    return [
        Scored(
            key,
            -negated,
            {"bm25": -negated, "coverage": held / mass, "informative": float(informative)},
        )
        for negated, key, held, informative in found[: max(0, limit)]
    ]


def most_telling(question: Mapping[str, int], statistics: Statistics) -> dict[str, int]:
    """Return the terms of a question that say most; of a short one all.

    What nobody ever said comes last: a page of log lines must not hide what is asked about them.
    """
    if len(question) <= _MOST_TERMS:
        return dict(question)
    known = statistics.frequencies
    weighed = sorted(
        weights_of(question, statistics),
        key=lambda one: (not known.get(one.term), -one.weight, one.term),
    )
    return {one.term: question[one.term] for one in weighed[:_MOST_TERMS]}


def best_possible(question: Mapping[str, int], statistics: Statistics) -> float:
    """Return the score of a document of average length that holds the whole question once."""
    return sum(one.weight for one in weights_of(question, statistics))


def relative(scored: Scored, best: float) -> float:
    """Return a score between 0 and 1 for people: how near it comes to the best possible one."""
    return min(1.0, scored.score / best) if best > 0 else 0.0


def is_match(scored: Scored, statistics: Statistics) -> bool:
    """Tell whether a document is worth showing.

    It holds a term that tells documents apart, and enough of the question. One rare term is
    enough of a question of ordinary length; a term that most documents hold is only when it is
    the whole question.
    """
    if scored.parts["coverage"] >= _ALL:
        return True
    if scored.parts["informative"] < 1:
        return False
    return statistics.documents < FEW or scored.parts["coverage"] >= _ENOUGH


def idf(documents: int, frequency: int) -> float:
    """Return how much a term says that so many of the documents hold; it is never negative."""
    documents = max(documents, FEW)
    frequency = min(max(frequency, 0), documents)
    return math.log1p((documents - frequency + 0.5) / (frequency + 0.5))


def weights_of(question: Mapping[str, int], statistics: Statistics) -> list[Weight]:
    """Weigh the terms of a question, in an order that does not depend on the mapping's."""
    weights: list[Weight] = []
    for term in sorted(question):
        frequency = statistics.frequencies.get(term, 0)
        said = saturated(question[term], _SATURATION)
        weights.append(
            Weight(
                term,
                idf(statistics.documents, frequency) * said,
                statistics.documents < FEW or frequency * 2 <= statistics.documents,
            )
        )
    return weights


def _scores(
    counts: Mapping[str, int], weights: Mapping[str, Weight], slowness: float
) -> tuple[float, float, int]:
    """Return a document's score, the weight of the terms it holds, and how many tell it apart."""
    score = held = 0.0
    informative = 0
    for term in sorted(weights.keys() & counts.keys()):
        count, (_, weight, is_informative) = counts[term], weights[term]
        if count > 0:
            score += weight * saturated(count, slowness)
            held += weight
            informative += is_informative
    return score, held, informative


def slowness_of(length: float, average: float) -> float:
    """Return how slowly more of the same adds to the score of a text of that length."""
    share = length / average if average > 0 else 1.0
    return _SATURATION * (1.0 - _LENGTH_COUNTS + _LENGTH_COUNTS * share)


def saturated(count: float, slowness: float) -> float:
    """Return what a count is worth: 1 for the first in a text of average length, then less."""
    return count * (_SATURATION + 1.0) / (count + slowness)
