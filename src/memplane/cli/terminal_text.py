"""Text for a terminal: how wide it is, where it breaks, values for a glance (pure)."""

from __future__ import annotations

import unicodedata
from datetime import datetime, timedelta
from typing import Final

_WIDE_CLASSES: Final = frozenset("WF")
_AGE_UNITS: Final = (
    (timedelta(days=365), "y"),
    (timedelta(days=30), "mo"),
    (timedelta(days=7), "w"),
    (timedelta(days=1), "d"),
    (timedelta(hours=1), "h"),
    (timedelta(minutes=1), "min"),
)
_BAR_HALF_CELLS: Final = 10
"""The half cells of a bar."""


def count_columns(text: str) -> int:
    """Count the columns that a text takes."""
    if text.isascii():
        return len(text)
    return sum(_cells_of(one) for one in text)


def _cells_of(one: str) -> int:
    if unicodedata.combining(one):
        return 0
    return 2 if unicodedata.east_asian_width(one) in _WIDE_CLASSES else 1


def wrap_text(text: str, width: int) -> list[str]:
    """Break a text into lines of so many columns: between words, or in a word that is too long."""
    lines = [""]
    for word in text.split():
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if count_columns(joined) <= width:
            lines[-1] = joined
            continue
        pieces = _pieces(word, width)
        lines = [*lines, *pieces] if lines[-1] else [*lines[:-1], *pieces]
    return lines


def _pieces(word: str, width: int) -> list[str]:
    pieces, taken = [""], 0
    for one in word:
        size = _cells_of(one)
        if pieces[-1] and taken + size > width:
            pieces.append("")
            taken = 0
        pieces[-1] += one
        taken += size
    return pieces


def format_confidence(value: float) -> str:
    """Write a confidence as prompts do: 0.9, 0.95, 1.0."""
    return f"{value:.2f}".removesuffix("0")


def draw_bar(value: float) -> str:
    """Draw a value between 0 and 1, five columns wide."""
    halves = max(0, min(_BAR_HALF_CELLS, round(value * _BAR_HALF_CELLS)))
    drawn = "█" * (halves // 2) + "▌" * (halves % 2)
    return drawn.ljust(_BAR_HALF_CELLS // 2, "░")


def format_age(then: datetime, now: datetime) -> str:
    """Say how long ago something was, or how long it takes until it is."""
    apart = abs(now - then)
    for size, unit in _AGE_UNITS:
        if apart >= size:
            told = f"{apart // size} {unit}"
            return f"{told} ago" if then <= now else f"in {told}"
    return "now"
