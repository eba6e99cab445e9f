"""Numbers, durations, sizes and times of day, however they are written (pure).

`60s`, `60 seconds`, `1 minute` and `one minute` are one quantity; so are `weekly`, `every week`
and `every 7 days`. What is read are words, each by rules that look a few words ahead, so the time
it takes grows with the length alone. Values are fractions, never floats.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Final, NamedTuple, TypeAlias

import msgspec

from memplane.observations.units import (
    DAY,
    DURATIONS,
    SECOND,
    WEEK,
    Measure,
    minutes_of,
    unit_of,
    value_of,
)


class Word(NamedTuple):
    """A word of a text, as it is written, with the clause it stands in, and whether it is code."""

    written: str
    clause: int
    code: bool = False

    @property
    def folded(self) -> str:
        """The word without regard to capitals."""
        return self.written.casefold()


class Quantity(msgspec.Struct, frozen=True):
    """A value, or a range of values, in the smallest unit of what is counted."""

    measure: Measure
    low: Fraction
    high: Fraction

    def __str__(self) -> str:
        value = f"{self.low}" if self.low == self.high else f"{self.low}..{self.high}"
        return f"{self.measure}:{value}"

    def overlaps(self, other: Quantity) -> bool:
        """Say whether a value can be both: 60 to 90 seconds and 60 seconds."""
        return self.low <= other.high and other.low <= self.high

    def is_near(self, other: Quantity) -> bool:
        """Say whether both are one quantity to people: twelve months are a year."""
        if self.overlaps(other):
            return True
        if self.measure not in {Measure.DURATION, Measure.EVERY} or self.high < _MONTH:
            return False
        return abs(self.high - other.high) * 20 <= max(self.high, other.high)


Read: TypeAlias = "tuple[tuple[Quantity, ...], int] | None"
"""The quantities that begin at a place, and the place behind them."""
_Number: TypeAlias = "tuple[Fraction, int] | None"

_MONTH: Final = 28 * DAY
_PERIODS: Final = {
    "hourly": 3600 * SECOND,
    "daily": DAY,
    "nightly": DAY,
    "weekly": WEEK,
    "biweekly": 2 * WEEK,
    "fortnightly": 2 * WEEK,
    "monthly": 30 * DAY,
    "quarterly": 90 * DAY,
    "yearly": 365 * DAY,
    "annually": 365 * DAY,
}
_EVERY: Final = frozenset({"every", "each", "per"})
_ONCE_IN: Final = _EVERY | {"a", "an"}
_OFTEN: Final = {"once": Fraction(1), "twice": Fraction(2), "thrice": Fraction(3)}
_WEEKDAYS: Final = {
    spelling: Fraction(number)
    for number, name in enumerate(
        ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    )
    for spelling in (name, f"{name}s")
}
_HOURS: Final = {"midnight": Fraction(0), "noon": Fraction(720)}
_ONES: Final = {
    word: Fraction(number)
    for number, word in enumerate(
        (
            *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
            *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen"),
            *("eighteen", "nineteen"),
        ),
        1,
    )
}
_TENS: Final = {
    word: Fraction(10 * number)
    for number, word in enumerate(
        ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"), 2
    )
}
_BETWEEN: Final = frozenset({"to", "or", "and", "-"})
_SINGLE: Final = frozenset({"a", "an", "one"})
_POINTING: Final = frozenset(
    {"the", "this", "that", "which", "each", "every", "other", "another", "first", "second"}
)


def quantities_at(words: Sequence[Word], at: int) -> Read:
    """Read the quantities that begin at a place, if any do."""
    return _recurring(words, at) or _clock(words, at) or _weekday(words, at) or _amount(words, at)


def _lasting(words: Sequence[Word], at: int) -> Fraction | None:
    """Return how long the unit at a place lasts, if it is one of time."""
    return DURATIONS.get(words[at].folded) if at < len(words) else None


def _number(words: Sequence[Word], at: int) -> _Number:
    """Read a number at a place, in digits or in words."""
    if at >= len(words):
        return None
    word = words[at].folded
    if word[0].isdigit():
        value = value_of(word)
        return None if value is None else (value, at + 1)
    following = words[at + 1].folded if at + 1 < len(words) else ""
    if word in _TENS:
        ones = _ONES.get(following, Fraction(0))
        return (_TENS[word] + ones, at + 2) if 0 < ones < 10 else (_TENS[word], at + 1)  # noqa: PLR2004 - digits
    if word == "half" and following in _SINGLE:
        return (Fraction(1, 2), at + 2) if _lasting(words, at + 2) else None
    if word in _SINGLE:
        return _single(words, at)
    return (_ONES[word], at + 1) if word in _ONES else None


def _single(words: Sequence[Word], at: int) -> _Number:
    """Read `a minute`, `one time` and `a couple of minutes`; `a second try` is none of these."""
    following = [word.folded for word in words[at + 1 : at + 4]]
    if following[:2] == ["couple", "of"] and _lasting(words, at + 3):
        return Fraction(2), at + 3
    if not following:
        return None
    if words[at].folded == "one":
        # `the second one works` counts nothing.
        stands_for = _ends(words, at) or (at and words[at - 1].folded in _POINTING)
        return None if stands_for else (Fraction(1), at + 1)
    if following[0] == "second" and not _ends(words, at + 1):
        return None
    return (Fraction(1), at + 1) if len(following[0]) > 1 and _lasting(words, at + 1) else None


def _ends(words: Sequence[Word], at: int) -> bool:
    """Say whether a word is the last of its clause."""
    return at + 1 >= len(words) or words[at + 1].clause != words[at].clause


def _amount(words: Sequence[Word], at: int) -> Read:
    """Read a number or a range with its unit, and the smaller units that follow it."""
    begin = at + 1 if words[at].folded == "between" else at
    first = _number(words, begin)
    if first is None:
        return None
    low, place = first
    low_unit = unit_of(words[place].written) if place < len(words) else None
    high, end = _upper(words, place + 1 if low_unit else place) or (low, place)
    if high == low and end == place:
        if begin != at:
            return None
        return _with_unit(words, low, place)
    unit = unit_of(words[end].written) if end < len(words) else None
    if low_unit and not unit and words[end - 2].folded != "-":
        # `60 seconds or 3 tries` are two things.
        return _with_unit(words, low, place)
    measure, factor = unit or low_unit or (Measure.COUNT, Fraction(1))
    low_factor = low_unit[1] if low_unit and low_unit[0] == measure else factor
    bounds = sorted((low * low_factor, high * factor))
    return (Quantity(measure, bounds[0], bounds[1]),), end + 1 if unit else end


def _upper(words: Sequence[Word], at: int) -> _Number:
    """Read the upper end of a range."""
    if at >= len(words) or words[at].folded not in _BETWEEN:
        return None
    found = _number(words, at + 1)
    if found is None or words[at].folded != "and":
        return found
    # `60 and 90 seconds` is a range only behind `between`; `1 minute and 30 seconds` is a sum.
    between = any(word.folded == "between" for word in words[max(0, at - 3) : at])
    return found if between else None


def _with_unit(words: Sequence[Word], value: Fraction, at: int) -> Read:
    unit = unit_of(words[at].written) if at < len(words) else None
    if unit is None:
        return (Quantity(Measure.COUNT, value, value),), at
    measure, factor = unit
    total, end = value * factor, at + 1
    while measure is Measure.DURATION and (more := _smaller(words, end, factor)):
        total, end, factor = total + more[0], more[1], more[2]
    return (Quantity(measure, total, total),), end


def _smaller(
    words: Sequence[Word], at: int, factor: Fraction
) -> tuple[Fraction, int, Fraction] | None:
    """Read a duration in a smaller unit, as the `30 seconds` of `1 minute 30 seconds`."""
    begin = at + 1 if at < len(words) and words[at].folded == "and" else at
    found = _number(words, begin)
    if found is None:
        return None
    lasting = _lasting(words, found[1])
    if lasting is None or lasting >= factor:
        return None
    return found[0] * lasting, found[1] + 1, lasting


def _recurring(words: Sequence[Word], at: int) -> Read:
    """Read how often something comes: weekly, every 2 weeks, twice a day, every Sunday."""
    word = words[at].folded
    if word in _PERIODS:
        return (_every(_PERIODS[word]),), at + 1
    times, place = _how_often(words, at)
    if times:
        if place + 1 < len(words) and words[place].folded in _ONCE_IN:
            period = _period(words, place + 1)
            if period:
                return (_every(period[0] / times),), period[1]
        if word in {"twice", "thrice"} or (word == "once" and _ends(words, at)):
            return (Quantity(Measure.TIMES, times, times),), at + 1
        return None
    if word in _EVERY and at + 1 < len(words):
        return _each(words, at + 1)
    return None


def _how_often(words: Sequence[Word], at: int) -> tuple[Fraction, int]:
    word = words[at].folded
    if word in _OFTEN:
        return _OFTEN[word], at + 1
    found = _number(words, at)
    if found and found[0] and found[1] < len(words) and words[found[1]].folded == "times":
        return found[0], found[1] + 1
    return Fraction(0), at


def _each(words: Sequence[Word], at: int) -> Read:
    if words[at].folded in _WEEKDAYS:
        # The day itself is read next.
        return (_every(WEEK),), at
    found = _period(words, at)
    return ((_every(found[0]),), found[1]) if found else None


def _period(words: Sequence[Word], at: int) -> _Number:
    """Read a length of time, with or without a number before it."""
    if words[at].folded == "other":
        lasting = _lasting(words, at + 1)
        return (2 * lasting, at + 2) if lasting else None
    lasting = _lasting(words, at)
    if lasting:
        return lasting, at + 1
    found = _number(words, at)
    lasting = _lasting(words, found[1]) if found else None
    return (found[0] * lasting, found[1] + 1) if found and lasting else None


def _every(period: Fraction) -> Quantity:
    return Quantity(Measure.EVERY, period, period)


def _weekday(words: Sequence[Word], at: int) -> Read:
    word = words[at].folded
    if word not in _WEEKDAYS:
        return None
    day = Quantity(Measure.DAY, _WEEKDAYS[word], _WEEKDAYS[word])
    return ((_every(WEEK), day) if word.endswith("ys") else (day,)), at + 1


def _clock(words: Sequence[Word], at: int) -> Read:
    """Read a time of day, in minutes after midnight."""
    word = words[at].folded
    if word in _HOURS:
        return (Quantity(Measure.CLOCK, _HOURS[word], _HOURS[word]),), at + 1
    following = words[at + 1].folded if at + 1 < len(words) else ""
    for tried, end in _halves(word, following, at):
        minutes = minutes_of(tried)
        if minutes is not None:
            return (Quantity(Measure.CLOCK, minutes, minutes),), end
    return None


def _halves(word: str, following: str, at: int) -> Iterator[tuple[str, int]]:
    if following in {"am", "pm"}:
        yield word + following, at + 2
    yield word, at + 1
