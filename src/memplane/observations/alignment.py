"""How two frames lie on each other: what both say, and what only one of them does (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from memplane.observations.differences import Finding, Signal
from memplane.observations.frames import Frame, Item, Part, scale
from memplane.observations.quantities import Quantity
from memplane.observations.units import Measure

_HUNDRED: Final = 100
_TURNING: Final = frozenset(
    {"start", "enable", "fast", "increase", "automatic", "delete", "detect"}
)
_TELLING: Final = 90
_SLIGHT: Final = 30
_LIGHT: Final = 45
_SURE: Final = 75
_WHOLE: Final = 94
_OPPOSING: Final = frozenset({"un", "dis", "in"})
_BROAD: Final = frozenset({"start", "fix", "need"})
_DUTY: Final = frozenset({"must", "have to", "should"})
_SIMILAR: Final = 80
_PREFIX: Final = 5
_SHORTEST: Final = 4
_ASIDE_PERCENT: Final = 30
_QUANTITY_WEIGHT: Final = 120


@dataclass(frozen=True, slots=True)
class Alignment:
    """What came of laying two frames on each other.

    Args:
        old_covered: How much of the older statement the newer one says, in hundredths.
        new_covered: How much of the newer statement the older one says.
        turned: Meanings that one has turned around.
        has_both: Whether one tells of a thing and its opposite where the other has one of them.
        parity: Whether the turns of both differ by an odd number.
        is_unsure: Whether one of them has a word that may turn it or not.
        loose: How many turns of each have no counterpart.
        old_only: What only the older one tells.
        new_only: What only the newer one tells.
        shared: How many telling words both have.
        exchanged: Words that stand beside the same word, and are not the same.
        numbers: Quantities on one scale that differ.
        old_numbers: Quantities that only the older one has.
        new_numbers: Those that only the newer one has.
        is_reversed: Whether one says before where the other says after.
        is_cut: Whether one is so long that only its beginning was looked at.
    """

    old_covered: int
    new_covered: int
    turned: tuple[tuple[str, str], ...]
    has_both: bool
    parity: bool
    is_unsure: bool
    loose: tuple[int, int]
    old_only: tuple[Item, ...]
    new_only: tuple[Item, ...]
    shared: int
    exchanged: tuple[tuple[Item, Item], ...]
    numbers: tuple[tuple[Quantity, Quantity], ...]
    old_numbers: tuple[Quantity, ...]
    new_numbers: tuple[Quantity, ...]
    is_reversed: bool
    is_cut: bool

    @property
    def swapped(self) -> tuple[tuple[Item, Item], ...]:
        """The words that take each other's place and tell something."""
        return tuple(
            (one, two)
            for one, two in self.exchanged
            if max(one.weight, two.weight) >= _TELLING and min(one.weight, two.weight) > _SLIGHT
        )

    @property
    def is_swap(self) -> bool:
        """Whether all that parts the two are words in each other's place."""
        places = {item.text for pair in self.swapped for item in pair}
        return bool(places) and all(
            item.text in places or item.weight < _SLIGHT
            for item in (*self.old_only, *self.new_only)
        )

    def more(self, weight: int = _TELLING) -> tuple[str, str]:
        """Return what makes one of them narrower: names, or words where it says all else too."""
        old = [item for item in self.old_only if _narrows(item, weight)]
        new = [item for item in self.new_only if _narrows(item, weight)]
        return (
            _narrowing(old, is_whole=not new and self.new_covered >= _WHOLE),
            _narrowing(new, is_whole=not old and self.old_covered >= _WHOLE),
        )

    @property
    def similarity(self) -> int:
        """How much of both the other says on average."""
        return (self.old_covered + self.new_covered) // 2

    @property
    def least_covered(self) -> int:
        """How much the other says of the statement that is covered less."""
        return min(self.old_covered, self.new_covered)


def align(old: Frame, new: Frame) -> Alignment:
    """Lay two frames on each other."""
    there = _counterparts(old.items, new.items)
    back = _counterparts(new.items, old.items)
    numbers = _numbers(old, new)
    turned = _turned(old, new, there, back)
    loose = (_loose(old, new, there, back), _loose(new, old, back, there))
    return Alignment(
        old_covered=_covered(
            old.items, there, len(old.quantities), numbers.matched + numbers.old_apart
        ),
        new_covered=_covered(
            new.items, back, len(new.quantities), numbers.matched + numbers.new_apart
        ),
        turned=turned,
        has_both=_has_both(old, new),
        parity=(len(turned) + sum(loose)) % 2 == 1,
        is_unsure=old.is_open or new.is_open or _may_turn(old, there) or _may_turn(new, back),
        loose=loose,
        old_only=_only(old, there),
        new_only=_only(new, back),
        shared=min(_shared(old, there), _shared(new, back)) + numbers.matched,
        exchanged=tuple(_exchanged(old, new, there, back)),
        numbers=numbers.apart,
        old_numbers=numbers.old,
        new_numbers=numbers.new,
        is_reversed=_is_reversed(old, new, there, back),
        is_cut=old.is_cut or new.is_cut,
    )


def _narrows(item: Item, weight: int) -> bool:
    """Say whether a word makes a statement narrower; that something starts or fails does not."""
    is_telling = item.weight >= weight and item.part is Part.MAIN and not item.is_bad
    return is_telling and item.meanings.keys().isdisjoint(_BROAD)


def _narrowing(items: Sequence[Item], *, is_whole: bool) -> str:
    return " ".join(item.text for item in items if is_whole or item.is_name)


def signals_of(alignment: Alignment, *, is_close: bool) -> Iterator[Signal]:
    """Yield what parts two statements, conflicts first; in a close wording, each word counts."""
    yield from _conflicts(alignment)
    for old, new in alignment.exchanged if is_close else alignment.swapped:
        yield Signal(Finding.IDENTIFIER, old.text, new.text)
    numbers = (alignment.old_numbers, alignment.new_numbers)
    if any(numbers):
        yield Signal(Finding.NUMBER_ON_ONE_SIDE, *(" ".join(map(str, each)) for each in numbers))
    more = alignment.more(_LIGHT if is_close else _TELLING)
    if any(more):
        yield Signal(Finding.SAYS_MORE, *more)


def _conflicts(alignment: Alignment) -> Iterator[Signal]:
    for one, two in alignment.numbers:
        yield Signal(Finding.NUMBER, str(one), str(two))
    # With it, it works; without it, it does not: there the word that is denied is the same.
    is_even = (
        bool(alignment.turned)
        and all(one != two for one, two in alignment.turned)
        and not alignment.parity
        and not any(alignment.loose)
    )
    if alignment.has_both or is_even:
        yield Signal(Finding.TURNED_TWICE)
    if alignment.parity:
        yield from _turns(alignment)
    if alignment.is_reversed:
        yield Signal(Finding.REVERSED)


def _turns(alignment: Alignment) -> Iterator[Signal]:
    if not alignment.is_unsure:
        yield from (Signal(Finding.OPPOSED, *pair) for pair in alignment.turned)
        if not alignment.turned:
            yield Signal(Finding.NEGATION, *map(str, alignment.loose))
    elif alignment.turned or alignment.similarity < _SURE:
        yield Signal(Finding.TURNED_TWICE)


@dataclass(frozen=True, slots=True)
class _Counterpart:
    place: int = -1
    likeness: int = 0
    is_turned: bool = False
    is_apart: bool = False
    is_denied_alike: bool = False


_NONE: Final = _Counterpart()


def _counterparts(items: Sequence[Item], others: Sequence[Item]) -> list[_Counterpart]:
    """Find for each item the one on the other side that says the same, or the opposite.

    What both say in the same word belongs together; it stands for another if nothing else does.
    """
    own = {item.text for item in items} & {item.text for item in others}
    return [
        max(
            (
                _compared(item, other, place, is_apart=item.text not in own and other.text in own)
                for place, other in enumerate(others)
                if item.text not in own or item.text == other.text
            ),
            key=_rank,
            default=_NONE,
        )
        for item in items
    ]


def _rank(found: _Counterpart) -> tuple[bool, bool, int, bool, bool, int]:
    return (
        found.likeness > 0,
        not found.is_apart,
        found.likeness,
        not found.is_turned,
        found.is_denied_alike,
        -found.place,
    )


def _compared(item: Item, other: Item, place: int, *, is_apart: bool) -> _Counterpart:
    likeness, is_turned = _likeness(item, other)
    if not likeness:
        return _NONE
    if is_apart and (is_turned or item.meanings.keys().isdisjoint(other.meanings)):
        return _NONE
    is_denied_alike = item.is_denied == other.is_denied
    return _Counterpart(place, likeness, is_turned, is_apart, is_denied_alike)


def _likeness(item: Item, other: Item) -> tuple[int, bool]:
    """Return how alike two words are, in hundredths, and whether one is the other's opposite."""
    if item.is_name and other.is_name:
        return (_HUNDRED if item.text == other.text or _is_akin(item, other) else 0), False
    if item.text != other.text and _is_opposite(item.text, other.text):
        return _HUNDRED, True
    both = item.meanings.keys() & other.meanings.keys()
    if both:
        return _HUNDRED, all(item.meanings[name] != other.meanings[name] for name in both)
    if item.text == other.text:
        return _HUNDRED, False
    return (_SIMILAR if _is_akin(item, other) else 0), False


def _is_opposite(one: str, two: str) -> bool:
    """Say whether one word is the other with what makes it the opposite: seal and unseal."""
    if one.endswith(two):
        return one.removesuffix(two) in _OPPOSING
    return two.endswith(one) and two.removesuffix(one) in _OPPOSING


def _is_akin(item: Item, other: Item) -> bool:
    """Say whether two words begin alike, or are a number with and without what it numbers."""
    if item.is_name or other.is_name:
        return (
            ":" in item.text + other.text
            and item.text.rpartition(":")[2] == other.text.rpartition(":")[2]
        )
    one, two = sorted((item.text, other.text), key=len)
    if two == one + "s":
        return True
    if two == "re" + one and not item.meanings and not other.meanings:
        return True
    if " " in two or len(one) < _SHORTEST:
        return False
    if len(one) >= _PREFIX and one[:_PREFIX] == two[:_PREFIX]:
        return True
    return two.startswith(one)


def _covered(
    items: Sequence[Item], found: Sequence[_Counterpart], numbers: int, matched: int
) -> int:
    total = _QUANTITY_WEIGHT * numbers
    common = _QUANTITY_WEIGHT * matched
    for item, counterpart in zip(items, found, strict=True):
        weight = item.weight
        if item.part is not Part.MAIN and not counterpart.likeness:
            weight = weight * _ASIDE_PERCENT // _HUNDRED
        total += weight
        common += weight * counterpart.likeness // _HUNDRED
    return common * _HUNDRED // total if total else 0


def _turned(
    old: Frame, new: Frame, there: Sequence[_Counterpart], back: Sequence[_Counterpart]
) -> tuple[tuple[str, str], ...]:
    pairs = [
        (place, counterpart.place)
        for place, counterpart in enumerate(there)
        if counterpart.is_turned and back[counterpart.place].is_turned
    ]
    # To stay connected and to disconnect differ in one turn, though in two words.
    turns: list[tuple[int, int]] = []
    for one, two in pairs:
        if all(one != left and two != right for left, right in turns):
            turns.append((one, two))
    return tuple((old.items[one].text, new.items[two].text) for one, two in turns)


def _has_both(old: Frame, new: Frame) -> bool:
    common = {item.text for item in old.items} & {item.text for item in new.items}
    one, two = _poles(old, common), _poles(new, common)
    return any(len(one[name]) != len(two[name]) for name in one.keys() & two.keys())


def _poles(frame: Frame, common: set[str]) -> dict[str, set[bool]]:
    poles: dict[str, set[bool]] = {}
    for item in frame.items:
        for name in item.states if item.text not in common else ():
            poles.setdefault(name, set()).add(item.meanings[name])
    return poles


def _is_one_sided(counterpart: _Counterpart, back: Sequence[_Counterpart]) -> bool:
    """Say whether a word is turned around by one that has a counterpart of its own."""
    return counterpart.is_turned and not back[counterpart.place].is_turned


def _loose(
    frame: Frame,
    other: Frame,
    found: Sequence[_Counterpart],
    back: Sequence[_Counterpart],
) -> int:
    """Count the turns that have no counterpart; those in a reason that only one gives are none."""
    turns = frame.denials
    # What happens otherwise turns once, however much of it is bad: fails with "no route to host".
    is_told = any(item.is_bad and item.part is Part.THREAT for item in frame.items)
    for item, counterpart in zip(frame.items, found, strict=True):
        if counterpart.likeness and not _is_one_sided(counterpart, back):
            turns += item.is_denied and not other.items[counterpart.place].is_denied
        elif item.part is not Part.REASON:
            is_message = is_told and item.part is Part.THREAT
            turns += item.is_bad + (item.is_denied and not is_message)
    return turns


def _may_turn(frame: Frame, found: Sequence[_Counterpart]) -> bool:
    """Say whether a frame alone has a word that undoes something, as stop or delay do."""
    return any(
        (item.is_bad and counterpart.is_apart)
        or (
            not counterpart.likeness
            and item.meanings.keys() & _TURNING
            and any(item.meanings.values())
        )
        for item, counterpart in zip(frame.items, found, strict=True)
    )


def _shared(frame: Frame, found: Sequence[_Counterpart]) -> int:
    return sum(
        counterpart.likeness > 0 and item.weight > _LIGHT
        for item, counterpart in zip(frame.items, found, strict=True)
    )


def _only(frame: Frame, found: Sequence[_Counterpart]) -> tuple[Item, ...]:
    return tuple(
        item
        for item, counterpart in zip(frame.items, found, strict=True)
        if not counterpart.likeness
    )


def _exchanged(
    old: Frame, new: Frame, there: Sequence[_Counterpart], back: Sequence[_Counterpart]
) -> Iterator[tuple[Item, Item]]:
    """Yield words of either side that stand beside the same word, and are not the same."""
    for place, counterpart in enumerate(there):
        one = old.items[place]
        if counterpart.likeness or one.part is not Part.MAIN:
            continue
        for step in (-1, 1):
            beside = place + step
            if not 0 <= beside < len(there) or not _is_mutual(beside, there, back):
                continue
            opposite = there[beside].place - step
            if not 0 <= opposite < len(back) or back[opposite].likeness:
                continue
            two = new.items[opposite]
            if max(one.weight, two.weight) > _SLIGHT and not _DUTY & {one.text, two.text}:
                yield one, two


def _is_mutual(place: int, there: Sequence[_Counterpart], back: Sequence[_Counterpart]) -> bool:
    """Say whether a word has a counterpart that has it as its own."""
    return there[place].likeness > 0 and back[there[place].place].place == place


@dataclass(frozen=True, slots=True)
class _Numbers:
    matched: int
    apart: tuple[tuple[Quantity, Quantity], ...]
    old: tuple[Quantity, ...]
    new: tuple[Quantity, ...]

    @property
    def old_apart(self) -> int:
        """How many of the older statement's quantities differ from one on the same scale."""
        return len({one for one, _ in self.apart})

    @property
    def new_apart(self) -> int:
        """The same of the newer statement."""
        return len({two for _, two in self.apart})


def _numbers(old: Frame, new: Frame) -> _Numbers:
    left, right = list(old.quantities), list(new.quantities)
    matched = 0
    for quantity in old.quantities:
        same = next((each for each in right if _is_near(quantity, each)), None)
        if same is not None:
            left.remove(quantity)
            right.remove(same)
            matched += 1
    apart = tuple((one, two) for one in left for two in right if one.measure is two.measure)
    told = {one.measure for one, _ in apart} | _implied(old, new)
    return _Numbers(
        matched,
        apart,
        tuple(_news(left, new, told)),
        tuple(_news(right, old, told)),
    )


def _implied(old: Frame, new: Frame) -> set[Measure]:
    """Return what need not be said: that a day comes each week, and an hour each day."""
    both = {each.measure for each in old.quantities} & {each.measure for each in new.quantities}
    return {Measure.EVERY} if both & {Measure.DAY, Measure.CLOCK} else set()


def _news(quantities: Sequence[Quantity], other: Frame, told: set[Measure]) -> Iterator[Quantity]:
    """Yield the quantities that tell something the other statement does not."""
    for quantity in quantities:
        is_known = any(_is_near(quantity, each) for each in other.quantities)
        if quantity.measure not in told and not is_known and not _is_vague(quantity, other.items):
            yield quantity


def _is_vague(quantity: Quantity, others: Sequence[Item]) -> bool:
    """Say whether a quantity tells nothing new: at once, or one where nobody speaks of all."""
    if quantity.measure is Measure.COUNT and quantity.low == quantity.high == 1:
        return not any("every" in item.meanings for item in others)
    if quantity.measure is Measure.COUNT:
        return any(item.text.endswith(f":{quantity.low}") for item in others)
    return not quantity.high


def _is_near(one: Quantity, other: Quantity) -> bool:
    return scale(one) is scale(other) and one.is_near(other)


def _is_reversed(
    old: Frame, new: Frame, there: Sequence[_Counterpart], back: Sequence[_Counterpart]
) -> bool:
    """Say whether what comes earlier in one comes later in the other."""
    along = across = 0
    for place, counterpart in enumerate(there):
        if _is_mutual(place, there, back):
            here = (place in old.earlier) - (place in old.later)
            opposite = (counterpart.place in new.earlier) - (counterpart.place in new.later)
            along += here * opposite > 0
            across += here * opposite < 0
    return across > along
