"""Whether two statements about a service say the same, the opposite, or neither (pure).

A wrong "same" loses what one of the two said, a wrong "contradiction" doubts what is true, and
"undecided" costs an operator a look. So whatever is not plainly the same is kept apart. The two
sides are treated alike: exchanged, they get the same verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

import msgspec

from memplane.observations.alignment import Alignment, align, signals_of
from memplane.observations.aspects import Aspects, aspects_of
from memplane.observations.differences import CONFLICTING, Finding, Signal, differences
from memplane.observations.frames import frame_of
from memplane.observations.normalisation import norm_hash

_HUNDRED: Final = 100
_SHORT: Final = 3
_VERBATIM: Final = 60
_IMPLIED: Final = frozenset({"if", "unless", "at_least", "at_most", "every", "each", "all"})
_BINDING: Final = frozenset({"only", "except", "sometimes", "partly", "formerly", "until"})
_PARALLEL: Final = frozenset({Finding.IDENTIFIER, Finding.SAYS_MORE})


class Verdict(StrEnum):
    """What is to be made of two statements."""

    SAME = "same"
    CONTRADICTION = "contradiction"
    UNDECIDED = "undecided"
    DISTINCT = "distinct"


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """From which likeness on what is said of two statements; but for a count in hundredths.

    Args:
        wording: Share of common words from which on each small difference counts.
        close: Share of common groups of letters from which on that is so.
        parallel: Share of common groups of letters from which on words take each other's place.
        opposed: Share of them that opposed words need to contradict.
        related: How much of both on average the other must say to be worth a look.
        same: How much on average to be the same.
        least: How much of each of them to be the same.
        shared: How many telling words or quantities both must have to be the same.
        alone: How much on average is enough where that are fewer.
        contradiction: How much of each of them to contradict.
        covered: How much on average for opposed words to contradict in whatever wording.
    """

    wording: int = 60
    close: int = 50
    parallel: int = 40
    opposed: int = 32
    related: int = 45
    same: int = 50
    least: int = 45
    shared: int = 3
    alone: int = 70
    contradiction: int = 65
    covered: int = 85


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
    if norm_hash(old) == norm_hash(new):
        return Comparison(verdict=Verdict.SAME, similarity=_HUNDRED, trigrams=_HUNDRED, exact=True)
    first, second = aspects_of(old, service), aspects_of(new, service)
    trigrams = _jaccard(first.grams, second.grams)
    one, two = frame_of(old, service), frame_of(new, service)
    alignment = align(one, two)
    is_short = min(len(one.items), len(two.items)) <= _SHORT
    is_close = trigrams >= (thresholds.parallel if is_short else thresholds.close)
    signals = [
        signal
        for signal in signals_of(alignment, is_close=is_close)
        if trigrams >= thresholds.parallel or signal.finding not in _PARALLEL
    ]
    if is_close and _wording(first, second) >= thresholds.wording:
        signals += _small_differences(first, second, alignment)
    verdict = _verdict(
        alignment, frozenset(each.finding for each in signals), trigrams, thresholds
    )
    return Comparison(
        verdict=verdict,
        similarity=alignment.similarity,
        trigrams=trigrams,
        exact=False,
        signals=() if verdict is Verdict.DISTINCT else tuple(dict.fromkeys(signals)),
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


# In nearly the same words each small difference counts.


def _wording(one: Aspects, other: Aspects) -> int:
    """Return the share of words and measures that both have in all of them, in hundredths."""
    first = one.words | {f"<{quantity.measure}>" for quantity in one.quantities}
    second = other.words | {f"<{quantity.measure}>" for quantity in other.quantities}
    return _jaccard(first, second)


def _small_differences(one: Aspects, other: Aspects, alignment: Alignment) -> Iterator[Signal]:
    """Yield what else parts two statements that are worded nearly alike."""
    is_verbatim = _jaccard(one.grams, other.grams) >= _VERBATIM
    for signal in differences(one, other):
        if signal.finding is Finding.SCOPE and not is_verbatim:
            continue
        if signal.finding is Finding.CONDITION and _is_implied(signal, alignment):
            continue
        yield signal


def _is_implied(signal: Signal, alignment: Alignment) -> bool:
    """Say whether a condition may be told by other words: whenever it restarts, after restarts."""
    words = {*signal.old.split(), *signal.new.split()} - _IMPLIED
    only = {item.text for item in (*alignment.old_only, *alignment.new_only)}
    return words.isdisjoint(only) and words.isdisjoint(_BINDING)


def _verdict(
    alignment: Alignment, found: frozenset[Finding], trigrams: int, thresholds: Thresholds
) -> Verdict:
    """Return the first verdict that applies."""
    if alignment.similarity < thresholds.related and not alignment.is_swap:
        return Verdict.DISTINCT
    if found & CONFLICTING:
        is_plain = _is_plain(alignment, found, trigrams, thresholds)
        return Verdict.CONTRADICTION if is_plain else Verdict.UNDECIDED
    if found or alignment.is_cut:
        return Verdict.UNDECIDED
    is_alike = (
        alignment.similarity >= thresholds.same
        and alignment.least_covered >= thresholds.least
        and (alignment.shared >= thresholds.shared or alignment.similarity >= thresholds.alone)
    )
    return Verdict.SAME if is_alike else Verdict.UNDECIDED


def _is_plain(
    alignment: Alignment, found: frozenset[Finding], trigrams: int, thresholds: Thresholds
) -> bool:
    """Say whether two statements contradict each other, and do not merely differ."""
    if Finding.TURNED_TWICE in found or alignment.swapped or any(alignment.more()):
        return False
    if found >= {Finding.NUMBER, Finding.OPPOSED}:
        # Starting takes a minute, and stopping takes ten seconds.
        return False
    # A reason that one of them gives takes nothing away from what both speak of.
    is_covered = alignment.similarity >= thresholds.covered
    needed = max(
        thresholds.parallel if Finding.NEGATION in found else 0,
        thresholds.opposed if Finding.OPPOSED in found and not is_covered else 0,
    )
    return alignment.least_covered >= thresholds.contradiction and trigrams >= needed


def _jaccard(one: frozenset[str], other: frozenset[str]) -> int:
    return len(one & other) * _HUNDRED // max(1, len(one | other))
