"""What parts two statements: conflicts, other names, numbers and conditions on one side (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from memplane.observations import vocabulary
from memplane.observations.aspects import Aspects
from memplane.observations.quantities import Quantity
from memplane.observations.units import Measure


class Finding(StrEnum):
    """Why two statements are not simply the same.

    The first four speak for a contradiction; the others for keeping both.
    """

    NUMBER = "number"
    NEGATION = "negation"
    OPPOSED = "opposed"
    REVERSED = "reversed"
    IDENTIFIER = "identifier"
    NUMBER_ON_ONE_SIDE = "number_on_one_side"
    CONDITION = "condition"
    RANGE = "range"
    ORDER = "order"
    SCOPE = "scope"
    SAYS_MORE = "says_more"
    TURNED_TWICE = "turned_twice"


class Signal(msgspec.Struct, frozen=True):
    """Something that was found, and what each side has of it."""

    finding: Finding
    old: str = ""
    new: str = ""


CONFLICTING: Final = frozenset(
    {Finding.NUMBER, Finding.NEGATION, Finding.OPPOSED, Finding.REVERSED}
)
"""What speaks for a contradiction."""


def differences(one: Aspects, other: Aspects) -> Iterator[Signal]:
    """Yield all that parts two statements, conflicts first."""
    yield from _conflicts(one, other)
    yield from _unmatched_quantities(one, other)
    yield from _conditions(one, other)
    if one.spelling == other.spelling and _is_reordered(one, other):
        yield Signal(Finding.ORDER)


def _conflicts(one: Aspects, other: Aspects) -> Iterator[Signal]:
    if one.words and other.words and not one.words & other.words:
        return
    yield from _different_quantities(one, other)
    if "only" not in one.conditions ^ other.conditions:
        yield from _opposed(one, other, vocabulary.OPPOSED)
    if one.spelling == other.spelling:
        yield from _reversed(one, other)
    if (one.denials - other.denials) % 2 == 0:
        yield from _before_and_after(one, other)


def _different_quantities(one: Aspects, other: Aspects) -> Iterator[Signal]:
    for measure in Measure:
        first, second = _apart(one, other, measure)
        if first and second:
            if all(
                left != right and left.is_near(right) and not _is_range(left, right)
                for left in first
                for right in second
            ):
                continue
            met = any(left.overlaps(right) for left in first for right in second)
            yield Signal(Finding.RANGE if met else Finding.NUMBER, _shown(first), _shown(second))


def _is_range(one: Quantity, other: Quantity) -> bool:
    return one.low != one.high or other.low != other.high


def _unmatched_quantities(one: Aspects, other: Aspects) -> Iterator[Signal]:
    for measure in Measure:
        first, second = _apart(one, other, measure)
        if bool(first) != bool(second):
            yield Signal(Finding.NUMBER_ON_ONE_SIDE, _shown(first), _shown(second))


def _apart(
    one: Aspects, other: Aspects, measure: Measure
) -> tuple[tuple[Quantity, ...], tuple[Quantity, ...]]:
    """Return the quantities of a measure that only one side has."""
    first = Counter(quantity for quantity in one.quantities if quantity.measure is measure)
    second = Counter(quantity for quantity in other.quantities if quantity.measure is measure)
    return tuple(first - second), tuple(second - first)


def _shown(quantities: Iterable[Quantity]) -> str:
    return " ".join(sorted(map(str, quantities)))


def _opposed(one: Aspects, other: Aspects, pairs: Iterable[tuple[str, str]]) -> Iterator[Signal]:
    for first, second in pairs:
        for left, right in ((first, second), (second, first)):
            if (
                left in one.said
                and right in other.said
                and right not in one.said
                and left not in other.said
            ):
                yield Signal(Finding.OPPOSED, left, right)


def _reversed(one: Aspects, other: Aspects) -> Iterator[Signal]:
    """Find what stands behind a relation here and before it there, and before against after."""
    first, second = _behind(one), _behind(other)
    for relation in sorted(vocabulary.DIRECTIONS & first.keys() & second.keys()):
        left, right = first[relation], second[relation]
        if left.isdisjoint(right) and left & other.words and right & one.words:
            yield Signal(Finding.REVERSED, " ".join(sorted(left)), " ".join(sorted(right)))


def _before_and_after(one: Aspects, other: Aspects) -> Iterator[Signal]:
    first, second = _behind(one), _behind(other)
    for here, there in (("before", "after"), ("after", "before")):
        if here in first and there in second and here not in second and there not in first:
            left, right = first[here], second[there]
            if left & right or not left or not right:
                yield Signal(Finding.OPPOSED, here, there)


def _behind(view: Aspects) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for relation, thing in view.relations:
        found.setdefault(relation, set()).update({thing} - {""})
    return {relation: frozenset(things) for relation, things in found.items()}


def _conditions(one: Aspects, other: Aspects) -> Iterator[Signal]:
    left = one.conditions - other.conditions - _implied_by(other)
    right = other.conditions - one.conditions - _implied_by(one)
    if left or right:
        yield Signal(Finding.CONDITION, " ".join(sorted(left)), " ".join(sorted(right)))
    if one.denials == other.denials:
        yield from _until_and_after(one, other)
    first, second = _new_things(one, other), _new_things(other, one)
    if first or second:
        yield Signal(Finding.CONDITION, " ".join(first), " ".join(second))
    if (one.bound != other.bound and _markers(one) == _markers(other)) or _has_one_pole(
        one, other
    ):
        yield Signal(Finding.SCOPE)


def _implied_by(view: Aspects) -> frozenset[str]:
    """Return the conditions that a statement tells otherwise: only with it, and not without it."""
    tells_only = view.denials > 0 or not view.said.isdisjoint({"must", "need"})
    return frozenset({"only"}) if tells_only else frozenset()


def _until_and_after(one: Aspects, other: Aspects) -> Iterator[Signal]:
    """Find what ends with a thing here and begins with it there."""
    first, second = _behind(one), _behind(other)
    for here, there in (("until", "after"), ("after", "until")):
        if first.get(here, frozenset()) & second.get(there, frozenset()):
            yield Signal(Finding.CONDITION, here, there)


def _has_one_pole(one: Aspects, other: Aspects) -> bool:
    """Say whether one side has both of two opposed words and the other one of them."""
    for pair in vocabulary.OPPOSED:
        first, second = one.said.intersection(pair), other.said.intersection(pair)
        if first and second and first != second and first & second:
            return True
    return False


def _new_things(one: Aspects, other: Aspects) -> list[str]:
    """Return what one side relates to and the other does not speak of, or relates otherwise."""
    there: dict[str, set[str]] = {}
    for relation, thing in _narrowing(other):
        there.setdefault(thing, set()).add(relation)
    return sorted(
        thing
        for relation, thing in _narrowing(one)
        if thing not in other.words or relation not in there.get(thing, {relation})
    )


def _narrowing(view: Aspects) -> Iterator[tuple[str, str]]:
    narrow = frozenset(vocabulary.RELATIONS.values())
    yield from ((name, thing) for name, thing in view.relations if name in narrow and thing)


def _markers(view: Aspects) -> list[str]:
    return sorted(marker for marker, _ in view.bound)


def _is_reordered(one: Aspects, other: Aspects) -> bool:
    """Say whether what both say stands in another order, as in A feeds B and B feeds A.

    What follows the same relation on both sides may be moved: after a restart, wait.
    """
    both = {text for text, _ in one.order} & {text for text, _ in other.order}
    first = [part for part in one.order if part[0] in both]
    second = [part for part in other.order if part[0] in both]
    if _texts(first, both) == _texts(second, both) or _is_rotated(first, second):
        return False
    kept = both - _moved(one, other)
    return _texts(first, kept) != _texts(second, kept)


def _texts(order: Sequence[tuple[str, str]], kept: Container[str]) -> list[str]:
    return [text for text, _ in order if text in kept]


def _is_rotated(first: Sequence[tuple[str, str]], second: Sequence[tuple[str, str]]) -> bool:
    """Say whether one part was moved to the other end: `if A, B` and `B if A`."""
    at = next((place for place, part in enumerate(second) if part[0] == first[0][0]), 0)
    turned = [*second[at:], *second[:at]]
    if [text for text, _ in turned] != [text for text, _ in first]:
        return False
    split = len(second) - at
    return any(first[place][1] and first[place][1] == turned[place][1] for place in (0, split))


def _moved(one: Aspects, other: Aspects) -> frozenset[str]:
    """Return what stands behind a relation that both have once."""
    counts = [Counter(name for name, _ in view.relations) for view in (one, other)]
    common = one.relations & other.relations
    return frozenset(thing for name, thing in common if all(each[name] == 1 for each in counts))
