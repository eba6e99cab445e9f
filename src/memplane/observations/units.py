"""The units that quantities are written in, and how single ones are read (pure)."""

from __future__ import annotations

import re
from enum import StrEnum
from fractions import Fraction
from typing import Final


class Measure(StrEnum):
    """What a quantity counts."""

    COUNT = "count"
    TIMES = "times"
    DURATION = "duration"
    EVERY = "every"
    CLOCK = "clock"
    DAY = "day"
    PERCENT = "percent"
    SIZE = "size"
    DEGREES = "degrees"


SECOND: Final = Fraction(1)
DAY: Final = 86_400 * SECOND
WEEK: Final = 7 * DAY
# A month is thirty days, so that every 30 days is monthly.
DURATIONS: Final = {
    spelling: seconds
    for spellings, seconds in (
        ("ms msec msecs millisecond milliseconds", SECOND / 1000),
        ("s sec secs second seconds", SECOND),
        ("m min mins minute minutes", 60 * SECOND),
        ("h hr hrs hour hours", 3600 * SECOND),
        ("d day days night nights", DAY),
        ("w wk wks week weeks", WEEK),
        ("month months", 30 * DAY),
        ("quarter quarters", 90 * DAY),
        ("yr yrs year years", 365 * DAY),
    )
    for spelling in spellings.split()
}
_SIZES: Final = {
    spelling: Fraction(1024**power)
    for power, spellings in enumerate(
        (
            "b byte bytes",
            "kb kib kilobyte kilobytes",
            "mb mib megabyte megabytes M",
            "gb gib gigabyte gigabytes G",
            "tb tib terabyte terabytes T",
        )
    )
    for spelling in spellings.split()
}
_OTHERS: Final = {
    "%": (Measure.PERCENT, Fraction(1)),
    "percent": (Measure.PERCENT, Fraction(1)),
    "pct": (Measure.PERCENT, Fraction(1)),
    "x": (Measure.TIMES, Fraction(1)),
    "time": (Measure.TIMES, Fraction(1)),
    "times": (Measure.TIMES, Fraction(1)),
    "k": (Measure.COUNT, Fraction(1000)),
    "°c": (Measure.DEGREES, Fraction(1)),
    "°": (Measure.DEGREES, Fraction(1)),
}

_LONGEST_NUMBER: Final = 18
_THOUSANDS: Final = 3
_NOON: Final = 12
_DAY_OF_HOURS: Final = 24
_HOUR: Final = 60
_DIGITS: Final = re.compile(r"[0-9][0-9,_.]*|[^0-9]+")
_TIME: Final = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::[0-9]{2})?(am|pm)?")
_HALF_DAY: Final = re.compile(r"([0-9]{1,2})(am|pm)")
_COMPARED: Final = "~≈±+=<>≤≥"
_BOUNDS: Final = {
    ">": ("over",),
    "<": ("under",),
    ">=": ("at", "least"),
    "≥": ("at", "least"),
    "<=": ("at", "most"),
    "≤": ("at", "most"),
}


def pieces(written: str) -> tuple[str, ...]:
    """Cut a number from what is written onto it: `60-90s` is `60`, `-`, `90` and `s`.

    What only looks like a number, as a version or a date does, stays whole.
    """
    body = written.lstrip(_COMPARED)
    if not body[:1].isascii() or not body[:1].isdigit() or _is_time(body):
        return (written,)
    cut: list[str] = []
    for part in _DIGITS.findall(body):
        more = _piece(part)
        if more is None:
            return (written,)
        cut.extend(more)
    if cut.count("-") > 1 or cut[-1] == "-":
        return (written,)
    return (*_BOUNDS.get(written[: len(written) - len(body)], ()), *cut)


def _piece(part: str) -> tuple[str, ...] | None:
    if part[0].isdigit():
        return (part,) if value_of(part) is not None else None
    if part in {"-", "..", "..."}:
        return ("-",)
    if part.endswith("-") and unit_of(part[:-1]):
        return (part[:-1], "-")
    if part.startswith("-") and part[1:].isalpha():
        return (part[1:],)
    return (part,) if unit_of(part) else None


def _is_time(body: str) -> bool:
    folded = body.casefold()
    return bool(_TIME.fullmatch(folded) or _HALF_DAY.fullmatch(folded))


def value_of(written: str) -> Fraction | None:
    """Read a number: `1,000` is a thousand, `1,5` one and a half."""
    plain = written.rstrip(".,").replace("_", "")
    groups = plain.split(",")
    if len(groups) > 1:
        apart = all(len(group.partition(".")[0]) == _THOUSANDS for group in groups[1:])
        plain = ("" if apart else ".").join(groups)
    digits = plain.replace(".", "", 1)
    if len(plain) > _LONGEST_NUMBER or not (digits.isascii() and digits.isdigit()):
        return None
    return Fraction(f"0{plain}")


def unit_of(written: str) -> tuple[Measure, Fraction] | None:
    """Look a unit up; 5m are minutes and 5M are megabytes."""
    if written in {"M", "G", "T"}:
        return Measure.SIZE, _SIZES[written]
    folded = written.casefold()
    if folded in DURATIONS:
        return Measure.DURATION, DURATIONS[folded]
    if folded in _SIZES:
        return Measure.SIZE, _SIZES[folded]
    return _OTHERS.get(folded)


def minutes_of(written: str) -> Fraction | None:
    """Read `03:00`, `3am` and `3:30pm`."""
    found = _TIME.fullmatch(written)
    short = None if found else _HALF_DAY.fullmatch(written)
    if found:
        hour, minute, half = int(found[1]), int(found[2]), found[3]
    elif short:
        hour, minute, half = int(short[1]), 0, short[2]
    else:
        return None
    if half:
        if not 1 <= hour <= _NOON:
            return None
        hour = hour % _NOON + (_NOON if half == "pm" else 0)
    if hour >= _DAY_OF_HOURS or minute >= _HOUR:
        return None
    return Fraction(hour * _HOUR + minute)
