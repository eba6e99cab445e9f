"""What a statement says, whatever its wording: what it is about, its turns and its order (pure).

A frame has the words of a statement with their meanings, what each denial turns around, how much
each quantity is, and what comes before what. Two frames are compared in `alignment`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from fractions import Fraction
from functools import lru_cache
from typing import Final

from memplane.observations import vocabulary
from memplane.observations.aspects import spoken_tokens
from memplane.observations.meanings import PREFIX, Meaning, lexicon, spelling
from memplane.observations.normalisation import Sort, WordToken
from memplane.observations.quantities import Quantity
from memplane.observations.units import DAY, Measure, unit_of

_REMEMBERED: Final = 4096
_MOST_TOKENS: Final = 100
_NAME_WEIGHT: Final = 120
_WORD_WEIGHT: Final = 100
_WEAK_WEIGHT: Final = 15
_TELLING: Final = 50
_DENIALS: Final = vocabulary.NEGATIONS | {"unless", "nor", "nobodi", "nowher"}
_NOT_DENIED: Final = frozenset({"only", "matter", "just"})
_OTHERWISE: Final = frozenset({"otherwis", "els", "else"})
_REASONS: Final = frozenset({"because", "due", "sinc", "so", "since", "therefor", "henc"})
_EARLIER: Final = frozenset({"before", "prior", "ahead"})
_LATER: Final = frozenset({"after", "once", "following"})
_UNTIL: Final = frozenset({"until", "till"})
_JOINTS: Final = frozenset(
    {
        "if",
        "when",
        "whenever",
        "unless",
        "while",
        "because",
        "or",
        "and",
        "but",
        "until",
        "after",
        "before",
        "once",
        "even",
        "although",
    }
)
_AT_ONCE: Final = frozenset({"immedi", "instant"})
_REFUSALS: Final = ("http:4", "http:5")
_REFUSED: Final = frozenset({"work", "allow"})
_NO_STATES: Final[frozenset[str]] = frozenset()
_ASKING: Final = frozenset(
    {
        "need",
        "must",
        "should",
        "requir",
        "clean",
        "delet",
        "purg",
        "run",
        "restart",
        "rotat",
        "renew",
        "start",
        "check",
        "wait",
    }
)
_SWITCHED: Final = frozenset({"turn", "switch"})
_SWITCHES: Final = {"on": "enabl", "off": "disabl"}
_REACH: Final = 3
_SHORTEST: Final = 2
_QUARTER: Final = 90 * DAY
_SAME_SCALE: Final = {Measure.EVERY: Measure.DURATION, Measure.TIMES: Measure.COUNT}


class Part(Enum):
    """What a part of a statement is for."""

    MAIN = auto()
    REASON = auto()
    THREAT = auto()


@dataclass(frozen=True, slots=True)
class Item:
    """A word or phrase of a statement.

    Args:
        text: Its stem, or its stems.
        meanings: What it may mean: each meaning, and whether it is turned around.
        weight: How much it tells, in hundredths.
        clause: The number of the clause it stands in.
        segment: The number of the condition, reason or other part of a clause it stands in.
        states: Those meanings that say by themselves that something works or does not.
        is_name: Whether it looks like the name of something.
        is_denied: Whether a denial stands before it, and its meaning is not turned around.
        part: Whether it belongs to what is said, to a reason, or to what happens otherwise.
    """

    text: str
    meanings: Mapping[str, bool]
    weight: int
    clause: int
    segment: int = 0
    states: frozenset[str] = frozenset()
    is_name: bool = False
    is_denied: bool = False
    part: Part = Part.MAIN

    @property
    def is_bad(self) -> bool:
        """Whether it says that something does not work or is not there."""
        return bool(self.states) and all(self.meanings[name] for name in self.states)


@dataclass(frozen=True, slots=True)
class Frame:
    """What a statement says.

    Args:
        items: Its words and phrases, in order.
        quantities: How much, how long and how often, on comparable scales.
        denials: How many turns stand by themselves.
        is_open: Whether it tells what happens otherwise, and not in words that are known as bad.
        is_cut: Whether it is so long that only its beginning is looked at.
        earlier: The places of the items that come before others.
        later: The places of those that come after.
    """

    items: tuple[Item, ...]
    quantities: tuple[Quantity, ...]
    denials: int
    is_open: bool
    is_cut: bool
    earlier: frozenset[int]
    later: frozenset[int]


@lru_cache(_REMEMBERED)
def frame_of(text: str, service: str) -> Frame:
    """Return what a text says about a service."""
    spoken = spoken_tokens(text, service)
    tokens = spoken[:_MOST_TOKENS]
    asides = _asides(tokens)
    items: list[Item] = []
    places: list[int] = []  # of each token, the number of items before it
    denials: list[tuple[int, int]] = []  # the number of items before each, and how far it reaches
    at = segment = 0
    while at < len(tokens):
        length, item = _item_at(tokens, at, asides.part_of(at))
        segment += _begins_segment(tokens, at)
        places.extend([len(items)] * length)
        if length == 1 and _denies(tokens, at):
            denials.append((len(items), 1 if tokens[at].text == "no" else _REACH))
        elif denials and tokens[at].text in _UNTIL and _is_denied(tokens, at):
            # Not until it is up: once it is up.
            denials.pop()
        elif item is not None:
            items.append(replace(item, segment=segment))
        at += length
    left = _bind(items, denials)
    earlier, later, exchanges = _order(tokens, items, places)
    return Frame(
        items=tuple(items),
        quantities=tuple(_quantities(tokens)),
        denials=left + asides.turns + exchanges,
        is_open=asides.is_open,
        is_cut=len(spoken) > len(tokens),
        earlier=earlier,
        later=later,
    )


# Words and phrases.


def _item_at(tokens: Sequence[WordToken], at: int, part: Part) -> tuple[int, Item | None]:
    """Read the longest phrase, or else the word, that begins at a place; tell its length."""
    token = tokens[at]
    if token.quantity is not None:
        return 1, None
    switched = _switched(tokens, at)
    if switched:
        return 1, _meant((switched,), lexicon().meanings[switched,], token, part)
    for length in range(min(lexicon().longest, len(tokens) - at), 0, -1):
        phrase = tokens[at : at + length]
        stems = tuple(map(spelling, phrase))
        if phrase[-1].clause != token.clause:
            continue
        found = lexicon().meanings.get(stems)
        if found:
            return length, _meant(stems, found, token, part)
        if length > 1 and stems in lexicon().weak:
            return length, Item(" ".join(stems), {}, _WEAK_WEIGHT, token.clause, part=part)
    return 1, None if token.sort is Sort.PLAIN else _word(token, part)


def _switched(tokens: Sequence[WordToken], at: int) -> str:
    """Return the stem that a `turn … off` or `switch … on` stands for; else nothing."""
    if spelling(tokens[at]) not in _SWITCHED:
        return ""
    for token in tokens[at + 1 : at + _REACH + 2]:
        if token.text in _SWITCHES and token.clause == tokens[at].clause:
            return _SWITCHES[token.text]
    return ""


def _word(token: WordToken, part: Part) -> Item:
    """Return what a word says that is in no table."""
    if token.named or token.sort is Sort.NAME:
        states = _REFUSED if token.text.startswith(_REFUSALS) else _NO_STATES
        return Item(
            token.text,
            dict.fromkeys(states, True),
            _NAME_WEIGHT,
            token.clause,
            states=states,
            is_name=True,
            part=part,
        )
    found = lexicon().akin.get(token.written[:PREFIX], ())
    if found and len(token.written) >= PREFIX:
        return _meant((token.written,), found, token, part)
    weight = _WEAK_WEIGHT if (token.written,) in lexicon().weak else _WORD_WEIGHT
    return Item(token.written, {}, weight, token.clause, part=part)


def _meant(stems: tuple[str, ...], found: Sequence[Meaning], token: WordToken, part: Part) -> Item:
    weight = _WEAK_WEIGHT if stems in lexicon().weak else min(each.weight for each in found)
    return Item(
        " ".join(stems),
        {each.name: each.is_opposite for each in found},
        weight,
        token.clause,
        states=frozenset(each.name for each in found if each.is_state),
        part=part,
    )


# Denials, reasons and what happens otherwise.


@dataclass(frozen=True, slots=True)
class _Asides:
    """The places of tokens in reasons, and in what happens otherwise; how often that turns."""

    reasons: frozenset[int]
    otherwise: frozenset[int]
    turns: int
    is_open: bool

    def part_of(self, place: int) -> Part:
        """Return the part that a token belongs to."""
        if place in self.otherwise:
            return Part.THREAT
        return Part.REASON if place in self.reasons else Part.MAIN


def _asides(tokens: Sequence[WordToken]) -> _Asides:
    reasons: set[int] = set()
    otherwise: set[int] = set()
    turns, is_open = 0, False
    for at, token in enumerate(tokens):
        if token.text in _REASONS:
            reasons.update(_clause_from(tokens, at))
        elif token.text in _OTHERWISE or (token.text == "or" and _begins_threat(tokens, at)):
            clause = set(_clause_from(tokens, at))
            if len(clause) == 1:
                # It fails otherwise.
                clause = {
                    place for place, each in enumerate(tokens) if each.clause == token.clause
                }
            otherwise |= clause
            is_bad = any(_is_bad(tokens[place]) for place in clause)
            turns += is_bad
            is_open = not is_bad
    return _Asides(frozenset(reasons), frozenset(otherwise), turns, is_open)


def _clause_from(tokens: Sequence[WordToken], at: int) -> Iterator[int]:
    for place in range(at, len(tokens)):
        if tokens[place].clause != tokens[at].clause and place > at + 1:
            return
        yield place


def _begins_threat(tokens: Sequence[WordToken], at: int) -> bool:
    """Say whether an `or` tells what happens otherwise: restart it or it leaks."""
    behind = [token for token in tokens[at + 1 :] if token.clause == tokens[at].clause]
    if at < _SHORTEST or not behind or behind[0].quantity:
        return False
    if any(map(_is_bad, behind)):
        return True
    is_asked = spelling(tokens[0]) in _ASKING or tokens[at - 1].clause != tokens[at].clause
    return is_asked and len(behind) >= _SHORTEST


def _is_bad(token: WordToken) -> bool:
    found = lexicon().meanings.get((token.written,), ())
    return token.text in _DENIALS or any(each.is_state and each.is_opposite for each in found)


def _denies(tokens: Sequence[WordToken], at: int) -> bool:
    following = tokens[at + 1].text if at + 1 < len(tokens) else ""
    if tokens[at].text in {"fail", "refus", "unabl", "deni"} and following == "to":
        return True
    return tokens[at].text in _DENIALS and following not in _NOT_DENIED


def _bind(items: list[Item], denials: Sequence[tuple[int, int]]) -> int:
    """Turn around what a denial stands right before; return how many stand by themselves."""
    left = 0
    for place, reach in denials:
        near = [
            at
            for at in range(place, min(place + reach, len(items)))
            if items[at].segment == items[place].segment
        ]
        bound = next(
            (at for at in near if items[at].weight > _WEAK_WEIGHT or _is_turnable(items[at])), None
        )
        if bound is None:
            left += 1
        elif not _is_turnable(items[bound]):
            items[bound] = replace(items[bound], is_denied=not items[bound].is_denied)
        else:
            turned = {name: not opposite for name, opposite in items[bound].meanings.items()}
            items[bound] = replace(items[bound], meanings=turned)
    return left


def _is_turnable(item: Item) -> bool:
    return bool(item.states) or "need" in item.meanings


def _begins_segment(tokens: Sequence[WordToken], at: int) -> bool:
    return (at > 0 and tokens[at].clause != tokens[at - 1].clause) or tokens[at].text in _JOINTS


# Quantities.


def _quantities(tokens: Sequence[WordToken]) -> Iterator[Quantity]:
    """Yield the quantities, also those that take more words than one reads elsewhere."""
    at = 0
    while at < len(tokens):
        quantity = tokens[at].quantity
        if quantity is None or (
            at and tokens[at - 1].text == "at" and tokens[at].text == "times:1"
        ):
            yield from _vague(tokens, at)
            at += 1
        else:
            read, length = _longer(quantity, tokens[at + 1 : at + 3])
            yield read
            at += length


def _vague(tokens: Sequence[WordToken], at: int) -> Iterator[Quantity]:
    """Read `immediately`, `at once` and `half-minute`."""
    if tokens[at].written in _AT_ONCE or tokens[at].quantity:
        yield Quantity(Measure.DURATION, Fraction(0), Fraction(0))
    elif tokens[at].written == "half" and at + 1 < len(tokens):
        stem = tokens[at + 1].written
        unit = unit_of(stem) or unit_of(f"{stem}e")
        if unit is not None and unit[0] is Measure.DURATION:
            yield Quantity(Measure.DURATION, unit[1] / 2, unit[1] / 2)


def _longer(quantity: Quantity, following: Sequence[WordToken]) -> tuple[Quantity, int]:
    """Read an hour and a half, a minute or two, and four in the morning."""
    words = [token.text for token in following]
    if words == ["and", "half"]:
        return Quantity(quantity.measure, quantity.low * 3 / 2, quantity.high * 3 / 2), 3
    whole = following[1].quantity if len(following) > 1 else None
    if whole and words[0] == "or" and whole.measure is Measure.COUNT:
        # A minute or two.
        return Quantity(quantity.measure, quantity.low, quantity.high * whole.high), 3
    if whole and words[0] == "of" and quantity.low == _QUARTER:
        return Quantity(whole.measure, whole.low / 4, whole.high / 4), 3
    if words == ["in", "morn"] and quantity.measure is Measure.COUNT:
        return Quantity(Measure.CLOCK, quantity.low * 60, quantity.high * 60), 3
    return quantity, 1


def scale(quantity: Quantity) -> Measure:
    """Return what a quantity can be compared in: every hour is as long as an hour."""
    return _SAME_SCALE.get(quantity.measure, quantity.measure)


# What comes before what.


def _order(
    tokens: Sequence[WordToken], items: Sequence[Item], places: Sequence[int]
) -> tuple[frozenset[int], frozenset[int], int]:
    """Return the places of what comes earlier and later; of nothing if that is told twice.

    What fails before something else has to come after it. That takes up one turn, which is
    returned as well.
    """
    nothing: frozenset[int] = frozenset()
    marks = [at for at in range(len(tokens)) if _is_mark(tokens, at)]
    if len(marks) != 1:
        return nothing, nothing, 0
    at = marks[0]
    clause = tokens[at].clause
    before = [place for place in range(places[at]) if items[place].clause == clause]
    behind = [place for place in range(places[at], len(items)) if items[place].clause == clause]
    following = [place for place, item in enumerate(items) if item.clause == clause + 1]
    if _marked(tokens[at]) == "first":
        return _telling(items, before), nothing, 0
    near = _telling(items, behind[:_REACH])
    front = _telling(items, before or following)
    if not front:
        front = _telling(items, behind) - near
    is_before = _marked(tokens[at]) in _EARLIER
    is_exchanged = is_before and _is_denied(tokens, at)
    earlier, later = (front, near) if is_before and not is_exchanged else (near, front)
    takes_turn = near and is_exchanged and any(map(_is_bad, _clause_before(tokens, at)))
    return earlier - later, later - earlier, 1 if takes_turn else 0


def _marked(token: WordToken) -> str:
    return token.text if token.sort is Sort.PLAIN else token.written


def _is_mark(tokens: Sequence[WordToken], at: int) -> bool:
    """Say whether a word puts one thing before another."""
    word = _marked(tokens[at])
    if word == "first":
        return at + 1 == len(tokens) or tokens[at + 1].clause != tokens[at].clause
    return word in _EARLIER or word in _LATER or (word in _UNTIL and _is_denied(tokens, at))


def _is_denied(tokens: Sequence[WordToken], at: int) -> bool:
    """Say whether something fails, or must not be, before something else."""
    before = _clause_before(tokens, at)
    rest = (token for token in tokens if token.clause != tokens[at].clause)
    # If it starts before that, it fails; it may also help if it does. Two turns cancel out.
    fails_then = any(token.text == "if" for token in before) and any(map(_is_bad, rest))
    return any(map(_is_bad, before)) is not fails_then


def _clause_before(tokens: Sequence[WordToken], at: int) -> list[WordToken]:
    return [token for token in tokens[:at] if token.clause == tokens[at].clause]


def _telling(items: Sequence[Item], places: Sequence[int]) -> frozenset[int]:
    """Return the places of the things among some words."""
    return frozenset(
        place
        for place in places
        if items[place].weight > _TELLING
        and not items[place].states
        and not items[place].meanings.keys() & {"start", "need"}
    )
