"""Two texts line by line, for people to compare (pure)."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import msgspec

LONGEST: Final = 200_000
"""How much of a text a page shows."""
_MOST_LINES: Final = 4_000
_AROUND: Final = 3

Change: TypeAlias = Literal["same", "gone", "new", "skipped"]


class Line(msgspec.Struct, frozen=True):
    """A line of two texts: in both, only in the old one or the new one, or some left out."""

    change: Change
    text: str


def compared(old: str, new: str) -> Iterator[Line]:
    """Tell two texts apart, with a few lines around; nothing when they are the same."""
    before, after = old.split("\n"), new.split("\n")
    if max(len(before), len(after)) > _MOST_LINES or max(len(old), len(new)) > LONGEST:
        yield Line("skipped", "They are too long to be compared here.")
        return
    at = 0
    groups = difflib.SequenceMatcher(a=before, b=after).get_grouped_opcodes(_AROUND)
    for group in groups:
        yield from _left_out(group[0][1] - at)
        for kind, start, end, begin, stop in group:
            if kind == "equal":
                yield from _each("same", before[start:end])
            else:
                yield from _each("gone", before[start:end])
                yield from _each("new", after[begin:stop])
        at = group[-1][2]
    yield from _left_out(len(before) - at if at else 0)


def _each(change: Change, lines: list[str]) -> Iterator[Line]:
    return (Line(change, line) for line in lines)


def _left_out(count: int) -> Iterator[Line]:
    if count:
        yield Line(
            "skipped", "1 line is the same" if count == 1 else f"{count} lines are the same"
        )


def readable(data: bytes) -> str:
    """Return a text for a page, whatever the bytes are."""
    return data.decode("utf-8", "replace").replace("\r\n", "\n")
