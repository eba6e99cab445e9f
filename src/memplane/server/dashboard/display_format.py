"""How things are shown to people: ages, numbers, differences between texts (pure)."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec

_AGE_UNITS: Final = (
    (60, 1, "s"),
    (3600, 60, "min"),
    (86_400, 3600, "h"),
    (86_400 * 60, 86_400, "d"),
    (86_400 * 730, 86_400 * 30, "months"),
)
_YEAR_S: Final = 86_400 * 365
_WORDS: Final = re.compile(r"\s+|[^\s]+")
_MAX_SEARCH_CHARS: Final = 200
_EVENT_DESCRIPTIONS: Final = {
    "asserted": "written down",
    "decay_noted": "faded",
    "deactivated": "switched off",
    "confidence_set": "confidence set",
    "contested": "conflict opened",
    "resolved": "conflict settled",
    "retired": "moved to the trash",
    "superseded": "replaced",
    "taken_up": "accepted",
    "reject_accepted": "reject accepted",
    "rejected": "not remembered",
    "injected": "told to a prompt",
}
_INVISIBLE_CATEGORIES: Final = frozenset({"Cf", "Cc", "Co", "Cs", "Zl", "Zp"})


def format_age(stamp: str | None, now: datetime) -> str:
    """Say how long ago something was, or how long it will be: `3 d ago`, `in 2 h`."""
    if not stamp:
        return "never"
    seconds = (now - datetime.fromisoformat(stamp).astimezone(UTC)).total_seconds()
    span = abs(seconds)
    if span < 5:  # noqa: PLR2004 - nobody counts these
        return "now"
    text = next(
        (f"{int(span // unit)} {name}" for below, unit, name in _AGE_UNITS if span < below),
        f"{int(span // _YEAR_S)} years",
    )
    return f"{text} ago" if seconds > 0 else f"in {text}"


def format_confidence(confidence: float) -> str:
    """Write a confidence: 0.9, 0.95, 1.0."""
    return f"{confidence:.2f}".removesuffix("0")


def format_number(value: float) -> str:
    """Write a number with thousands apart."""
    return f"{value:,}"


def escape_invisible(text: str) -> str:
    """Return a text in which nothing hides: what cannot be seen is shown as a code."""
    return "".join(
        one
        if unicodedata.category(one) not in _INVISIBLE_CATEGORIES or one == "\n"
        else f"\u27e8{ord(one):04X}\u27e9"
        for one in text
    )


def describe_event(kind: str) -> str:
    """Say what an event was, in words."""
    return _EVENT_DESCRIPTIONS.get(kind) or kind.replace("_", " ")


class HighlightPart(msgspec.Struct, frozen=True):
    """A part of a text, and whether it is what was looked for."""

    text: str
    is_hit: bool


def highlighted(text: str, search: str) -> list[HighlightPart]:
    """Split a text where words begin like one that was looked for."""
    words = "".join(one if one.isalnum() else " " for one in search[:_MAX_SEARCH_CHARS]).split()
    if not words:
        return [HighlightPart(text, is_hit=False)]
    pattern = rf"(?<!\w)((?:{'|'.join(map(re.escape, words))})\w*)"
    parts = re.split(pattern, text, flags=re.IGNORECASE)
    return [HighlightPart(part, is_hit=bool(at % 2)) for at, part in enumerate(parts) if part]


class WordChange(msgspec.Struct, frozen=True):
    """A part of two texts: in both, only in the old one, or only in the new one."""

    text: str
    change: Literal["same", "gone", "new"]


def word_diff(old: str, new: str) -> Iterator[WordChange]:
    """Tell two texts apart, word by word."""
    before, after = _WORDS.findall(old), _WORDS.findall(new)
    matcher = difflib.SequenceMatcher(a=before, b=after, autojunk=False)
    for kind, first, last, start, end in matcher.get_opcodes():
        if kind == "equal":
            yield WordChange("".join(before[first:last]), "same")
            continue
        if last > first:
            yield WordChange("".join(before[first:last]), "gone")
        if end > start:
            yield WordChange("".join(after[start:end]), "new")
