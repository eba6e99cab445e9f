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

_SHORT: Final = 4


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
    yield from _identifiers(one, other)
    yield from _unmatched_quantities(one, other)
    yield from _conditions(one, other)
    if _is_reordered(one, other):
        yield Signal(Finding.ORDER)


def _conflicts(one: Aspects, other: Aspects) -> Iterator[Signal]:
    if one.words and other.words and not one.words & other.words:
        return
    yield from _different_quantities(one, other)
    opposed = list(_opposed(one, other, vocabulary.OPPOSED))
    polar = [*_opposed(one, other, vocabulary.POLAR), *_belittled(one, other)]
    denied = (one.denials - other.denials) % 2 == 1
    if denied and len(polar) == 1:
        # `never fails` and `works`: two turns that take each other back, or so it seems.
        yield Signal(Finding.TURNED_TWICE, polar[0].old, polar[0].new)
    else:
        if denied:
            yield Signal(Finding.NEGATION, str(one.denials), str(other.denials))
        yield from polar
    yield from opposed
    yield from _reversed(one, other)


def _different_quantities(one: Aspects, other: Aspects) -> Iterator[Signal]:
    for measure in Measure:
        first, second = _apart(one, other, measure)
        if first and second:
            met = any(left.overlaps(right) for left in first for right in second)
            yield Signal(Finding.RANGE if met else Finding.NUMBER, _shown(first), _shown(second))


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


def _belittled(one: Aspects, other: Aspects) -> Iterator[Signal]:
    """Find a word whose opposite the other side has: safe and unsafe."""
    for left, right in ((one, other), (other, one)):
        for word in sorted(left.words - right.words):
            for prefix in vocabulary.BELITTLING:
                if _has_stem(prefix + word, right.words - left.words):
                    pair = (word, prefix + word)
                    yield Signal(Finding.OPPOSED, *(pair if left is one else pair[::-1]))


def _has_stem(word: str, stems: frozenset[str]) -> bool:
    """Look for a stem; with a prefix the stemmer may cut more of a word, or less."""
    return any(
        word == made or (len(made) > _SHORT and (word.startswith(made) or made == word[:-1]))
        for made in stems
    )


def _reversed(one: Aspects, other: Aspects) -> Iterator[Signal]:
    """Find what stands behind a relation here and before it there, and before against after."""
    first, second = _behind(one), _behind(other)
    for relation in sorted(vocabulary.DIRECTIONS & first.keys() & second.keys()):
        left, right = first[relation], second[relation]
        if left.isdisjoint(right) and left & other.words and right & one.words:
            yield Signal(Finding.REVERSED, " ".join(sorted(left)), " ".join(sorted(right)))
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


def _identifiers(one: Aspects, other: Aspects) -> Iterator[Signal]:
    """Find words that take each other's place, and names that only one side has."""
    poles = _poles(one, other)
    first = one.words - other.words - poles
    second = other.words - one.words - poles
    if (_verbs(first, one, other) and _verbs(second, other, one)) or (
        first & one.names or second & other.names
    ):
        yield Signal(Finding.IDENTIFIER, " ".join(sorted(first)), " ".join(sorted(second)))


def _verbs(only: frozenset[str], one: Aspects, other: Aspects) -> frozenset[str]:
    """Return what only one side has, its light verbs too; to depend on a thing is to need it."""
    found = only | (one.light - other.light)
    if "need" in other.light | one.light and "depend" in one.words | other.words:
        return found - {"need", "depend"}
    return found


def _poles(one: Aspects, other: Aspects) -> frozenset[str]:
    """Return the words that are opposed here: they conflict, they do not name."""
    signals = (
        *_opposed(one, other, (*vocabulary.OPPOSED, *vocabulary.POLAR)),
        *_belittled(one, other),
    )
    return frozenset(word for signal in signals for word in (signal.old, signal.new))


def _conditions(one: Aspects, other: Aspects) -> Iterator[Signal]:
    if one.conditions != other.conditions:
        yield Signal(
            Finding.CONDITION,
            " ".join(sorted(one.conditions - other.conditions)),
            " ".join(sorted(other.conditions - one.conditions)),
        )
    first, second = _new_things(one, other), _new_things(other, one)
    if first or second:
        yield Signal(Finding.CONDITION, " ".join(first), " ".join(second))
    if (one.bound != other.bound and _markers(one) == _markers(other)) or _has_one_pole(
        one, other
    ):
        yield Signal(Finding.SCOPE)


def _has_one_pole(one: Aspects, other: Aspects) -> bool:
    """Say whether one side has both of two opposed words and the other one of them."""
    for pair in (*vocabulary.OPPOSED, *vocabulary.POLAR):
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
