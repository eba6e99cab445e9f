"""Two texts line by line, for people to compare (pure)."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import msgspec

MAX_SHOWN_CHARS: Final = 200_000
"""How much of a text a page shows."""
_MAX_LINES: Final = 4_000
_CONTEXT_LINES: Final = 3

LineChange: TypeAlias = Literal["same", "gone", "new", "skipped"]


class DiffLine(msgspec.Struct, frozen=True):
    """A line of two texts: in both, only in the old one or the new one, or some left out."""

    change: LineChange
    text: str


def diff_lines(old: str, new: str) -> Iterator[DiffLine]:
    """Tell two texts apart, with a few lines around; nothing when they are the same."""
    before, after = old.split("\n"), new.split("\n")
    if max(len(before), len(after)) > _MAX_LINES or max(len(old), len(new)) > MAX_SHOWN_CHARS:
        yield DiffLine("skipped", "They are too long to be compared here.")
        return
    at = 0
    groups = difflib.SequenceMatcher(a=before, b=after).get_grouped_opcodes(_CONTEXT_LINES)
    for group in groups:
        yield from _make_skipped_line(group[0][1] - at)
        for kind, start, end, begin, stop in group:
            if kind == "equal":
                yield from _make_lines("same", before[start:end])
            else:
                yield from _make_lines("gone", before[start:end])
                yield from _make_lines("new", after[begin:stop])
        at = group[-1][2]
    yield from _make_skipped_line(len(before) - at if at else 0)


def _make_lines(change: LineChange, lines: list[str]) -> Iterator[DiffLine]:
    return (DiffLine(change, line) for line in lines)


def _make_skipped_line(count: int) -> Iterator[DiffLine]:
    if count:
        yield DiffLine(
            "skipped", "1 line is the same" if count == 1 else f"{count} lines are the same"
        )


def normalise_lines(text: str) -> str:
    """Return a text whose lines end alike, for a page."""
    return text.replace("\r\n", "\n")
