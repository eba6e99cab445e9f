"""Whether two statements about a service say the same, the opposite, or neither (pure).

A wrong "same" loses what one of the two said, a wrong "contradiction" doubts what is true, and
"undecided" costs an operator a look. So whatever is not plainly the same is kept apart. The two
sides are treated alike: exchanged, they get the same verdict.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from memplane.observations.aspects import Aspects, aspects_of
from memplane.observations.differences import CONFLICTING, Finding, Signal, differences
from memplane.observations.normalising import norm_hash

_HUNDRED: Final = 100


class Verdict(StrEnum):
    """What is to be made of two statements."""

    SAME = "same"
    CONTRADICTION = "contradiction"
    UNDECIDED = "undecided"
    DISTINCT = "distinct"


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """From which likeness on what is said of two statements, in hundredths.

    Args:
        same: Likeness that is needed to be the same.
        contradiction: Likeness that is needed to contradict.
        undecided: Likeness that is worth a look.
        shared: Of all that both say, how much both must say to be the same. A short statement is
            wholly contained in many a long one, which says more.
    """

    same: int = 60
    contradiction: int = 30
    undecided: int = 45
    shared: int = 50


DEFAULT: Final = Thresholds()


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What came out of comparing two statements.

    Args:
        verdict: What is to be made of them.
        similarity: How alike they are, in hundredths.
        trigrams: How alike their letters are, in hundredths; it breaks ties.
        exact: Whether they differ in form only.
        signals: All that was found, conflicts first.
    """

    verdict: Verdict
    similarity: int
    trigrams: int
    exact: bool
    signals: tuple[Signal, ...] = ()


class Candidate(msgspec.Struct, frozen=True):
    """A memory that a new statement may match; the confidence is in hundredths."""

    id: int
    text: str
    confidence: int


class Match(msgspec.Struct, frozen=True):
    """A memory with what came out of comparing it."""

    candidate: Candidate
    comparison: Comparison


def compare(
    old: str, new: str, thresholds: Thresholds = DEFAULT, *, service: str = ""
) -> Comparison:
    """Compare two statements of one category.

    The name of the service they are both about parts nothing: one may say it, the other not.
    """
    first, second = aspects_of(old, service), aspects_of(new, service)
    trigrams = _jaccard(first.grams, second.grams)
    if norm_hash(old) == norm_hash(new):
        return Comparison(verdict=Verdict.SAME, similarity=_HUNDRED, trigrams=_HUNDRED, exact=True)
    shared, contained = _likeness(first, second)
    similarity = max(shared, contained)
    if similarity < min(thresholds.contradiction, thresholds.undecided):
        # Most pairs have little in common, and what they differ in is nobody's concern.
        return Comparison(
            verdict=Verdict.DISTINCT, similarity=similarity, trigrams=trigrams, exact=False
        )
    signals = [*differences(first, second)]
    if shared < thresholds.shared and similarity >= thresholds.same:
        signals.append(Signal(Finding.SAYS_MORE))
    return Comparison(
        verdict=_verdict(similarity, frozenset(each.finding for each in signals), thresholds),
        similarity=similarity,
        trigrams=trigrams,
        exact=False,
        signals=tuple(signals),
    )


def matches(
    new: str,
    candidates: Iterable[Candidate],
    thresholds: Thresholds = DEFAULT,
    *,
    service: str = "",
) -> tuple[Match, ...]:
    """Return the memories that a statement has to do with, the best match first.

    One that says the same comes before one that is contradicted, and that before one to look at;
    then the more alike, the more believed, and the older one comes first.
    """
    found = (Match(one, compare(one.text, new, thresholds, service=service)) for one in candidates)
    related = (match for match in found if match.comparison.verdict is not Verdict.DISTINCT)
    return tuple(sorted(related, key=_rank))


def best_match(
    new: str,
    candidates: Iterable[Candidate],
    *,
    service: str = "",
) -> Match | None:
    """Return the memory that a statement is to be held against; none if it is about no other."""
    return next(iter(matches(new, candidates, service=service)), None)


def _rank(match: Match) -> tuple[int, bool, int, int, int, int]:
    found = match.comparison
    order = (Verdict.SAME, Verdict.CONTRADICTION, Verdict.UNDECIDED, Verdict.DISTINCT)
    return (
        order.index(found.verdict),
        not found.exact,
        -found.similarity,
        -found.trigrams,
        -match.candidate.confidence,
        match.candidate.id,
    )


def _verdict(similarity: int, found: frozenset[Finding], thresholds: Thresholds) -> Verdict:
    """Return the first verdict that applies."""
    alike = similarity >= thresholds.same
    if alike and Finding.IDENTIFIER in found:
        return Verdict.UNDECIDED
    if similarity >= thresholds.contradiction and found & CONFLICTING:
        return Verdict.CONTRADICTION
    if alike and found:
        return Verdict.UNDECIDED
    if alike:
        return Verdict.SAME
    return Verdict.UNDECIDED if similarity >= thresholds.undecided else Verdict.DISTINCT


# How alike two statements are.


def _likeness(one: Aspects, other: Aspects) -> tuple[int, int]:
    """Return the share of what both say in all, and in the shorter of the two, in hundredths."""
    first = one.words | {f"<{quantity.measure}>" for quantity in one.quantities}
    second = other.words | {f"<{quantity.measure}>" for quantity in other.quantities}
    if one.words and other.words and not one.words & other.words:
        # That both name a duration joins nothing: everything takes its time.
        return 0, 0
    if not first or not second:
        return 0, 0
    common = len(first & second)
    contained = common * _HUNDRED // min(len(first), len(second))
    return common * _HUNDRED // len(first | second), contained


def _jaccard(one: frozenset[str], other: frozenset[str]) -> int:
    return len(one & other) * _HUNDRED // max(1, len(one | other))
