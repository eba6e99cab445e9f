"""What every merge promises, as checks that any merge can be given to, also a broken one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from memplane.persona.document_kinds import MergeFamily
from memplane.persona.merge import MergeResult, MergeSide, merge
from memplane.persona.version_order import EARLIEST_INSTANT, read_instant

Merge = Callable[[bytes | None, MergeSide, MergeSide], MergeResult]
SET_LIKE = tuple(
    family for family in MergeFamily if family not in {MergeFamily.FACT, MergeFamily.OPAQUE}
)


class BrokenLawError(AssertionError):
    """A merge did not keep a promise."""


def merge_of(family: MergeFamily) -> Merge:
    return partial(merge, family)


def check_algebra(merging: Merge, base: bytes | None, one: MergeSide, other: MergeSide) -> None:
    """Whatever the texts are: all machines agree, and meeting again changes nothing."""
    merged = merging(base, one, other)
    _require(merged == merging(base, other, one), "it depends on which side is ours", merged)
    for side in (one, other):
        _require(
            merging(base, side, side) == MergeResult(side.data), "the same twice changed", side
        )
        again = merging(base, later(merged, one, other), side)
        _require(again.data == merged.data, "a merged text changed when it met its side", again)
        if base is not None:
            kept = merging(base, MergeSide(base, side.changed), side)
            _require(kept == MergeResult(side.data), "an unchanged side won", kept)


def check_lines(
    merging: Merge,
    base: bytes | None,
    one: MergeSide,
    other: MergeSide,
    *,
    disputed: frozenset[str] = frozenset(),
) -> None:
    """No line goes that neither side removed, and none returns that one side removed.

    Of lines that may be in conflict nothing is asked.
    """
    before, ours, theirs = (
        lines_of(data) - disputed for data in (base or b"", one.data, other.data)
    )
    merged = merging(base, one, other)
    found = lines_of(merged.data) - disputed
    removed = (before - ours) | (before - theirs)
    _require(not found & removed, "a removed line returned", found & removed)
    _require(found >= (ours | theirs) - removed, "a line was dropped", (ours | theirs) - found)
    if not disputed:
        _require(found <= ours | theirs, "a line came from nowhere", found - ours - theirs)
        _require(merged.lost is None, "nothing was in conflict", merged)


def check_association(merging: Merge, base: bytes | None, sides: Iterable[MergeSide]) -> None:
    """Over a common base it does not matter who meets whom first."""
    one, other, third = sides
    left = later(merging(base, one, other), one, other)
    right = later(merging(base, other, third), other, third)
    first, second = merging(base, left, third), merging(base, one, right)
    _require(lines_of(first.data) == lines_of(second.data), "the order of meetings counts", first)


def later(merged: MergeResult, *sides: MergeSide) -> MergeSide:
    """Return a merged text as a side: it was changed when the later of its sides was."""
    changed = max(
        (side.changed for side in sides), key=lambda text: read_instant(text) or EARLIEST_INSTANT
    )
    return MergeSide(merged.data, changed)


def lines_of(data: bytes) -> frozenset[str]:
    return frozenset(line for line in data.decode().split("\n") if line.strip())


def _require(holds: object, law: str, seen: object) -> None:
    if not holds:
        raise BrokenLawError(f"{law}: {seen}")
