"""Three-way merge of lines (pure).

Lines are matched by the patience rule: what occurs once on both sides anchors the rest. It reads
like a person's comparison, treats both sides alike, and hostile texts cannot make it slow.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from memplane.persona.merge.conflict_resolver import ConflictResolver

_MAX_DEPTH: Final = 32
LinePair: TypeAlias = tuple[int, int]


def merge_lines(base: str, newer: str, older: str, resolver: ConflictResolver) -> str:
    """Merge two texts line by line. Where changes touch, the newer side's lines stay."""
    before, ours, theirs = (text.split("\n") for text in (base, newer, older))
    merged: list[str] = []
    at = (0, 0, 0)
    for known, our_line, their_line in _stable(base, newer, older):
        if (known, our_line, their_line) != at:
            changed = (before[at[0] : known], ours[at[1] : our_line], theirs[at[2] : their_line])
            merged += _chosen(*changed, resolver)
        if known < len(before):
            merged.append(before[known])
        at = (known + 1, our_line + 1, their_line + 1)
    return "\n".join(merged)


def _stable(base: str, newer: str, older: str) -> Iterator[tuple[int, int, int]]:
    """Yield where a line of the base is on both sides, and the end of all three."""
    ours, theirs = _same_lines(base, newer), _same_lines(base, older)
    for known in sorted(ours.keys() & theirs.keys()):
        yield known, ours[known], theirs[known]
    yield base.count("\n") + 1, newer.count("\n") + 1, older.count("\n") + 1


@lru_cache(maxsize=8)  # a merge that is checked compares each text twice
def _same_lines(first: str, second: str) -> Mapping[int, int]:
    return dict(match_lines(first.split("\n"), second.split("\n")))


def _chosen(
    base: list[str], newer: list[str], older: list[str], resolver: ConflictResolver
) -> list[str]:
    if newer in (older, base):
        return older
    if older != base:
        resolver.decide("\n".join(newer), "\n".join(older))
    return newer


def match_lines(first: Sequence[str], second: Sequence[str]) -> list[LinePair]:
    """Return which lines of two texts are the same line, in order."""
    pairs: list[LinePair] = []
    pending = [(0, len(first), 0, len(second), 0)]
    while pending:
        start, end, begin, stop, level = pending.pop()
        while start < end and begin < stop and first[start] == second[begin]:
            pairs.append((start, begin))
            start, begin = start + 1, begin + 1
        while start < end and begin < stop and first[end - 1] == second[stop - 1]:
            end, stop = end - 1, stop - 1
            pairs.append((end, stop))
        if start == end or begin == stop or level == _MAX_DEPTH:
            continue
        anchors = _anchors(first[start:end], second[begin:stop])
        placed = [(start + left, begin + right) for left, right in anchors]
        pairs += placed
        for (left, right), (to_left, to_right) in _gaps(placed, (start, begin), (end, stop)):
            pending.append((left, to_left, right, to_right, level + 1))
    return sorted(pairs)


def _gaps(
    anchors: list[LinePair], start: LinePair, end: LinePair
) -> Iterator[tuple[LinePair, LinePair]]:
    """Yield what lies between anchors, when there are any."""
    if anchors:
        after = [(left + 1, right + 1) for left, right in anchors]
        yield from zip([start, *after], [*anchors, end], strict=True)


def _anchors(first: Sequence[str], second: Sequence[str]) -> list[LinePair]:
    """Return the longest run of lines that occur once on both sides, in the same order."""
    first_counts, second_counts = Counter(first), Counter(second)
    line_numbers = {line: at for at, line in enumerate(second) if second_counts[line] == 1}
    pairs = [
        (at, line_numbers[line])
        for at, line in enumerate(first)
        if first_counts[line] == 1 and line in line_numbers
    ]
    return _longest_rising(pairs)


def _longest_rising(pairs: Sequence[LinePair]) -> list[LinePair]:
    run_ends: list[int] = []  # the lowest place that a run of each length ends with
    tails: list[int] = []  # which pair that is
    before: list[int] = []
    for number, (_, line_number) in enumerate(pairs):
        length = bisect_left(run_ends, line_number)
        before.append(tails[length - 1] if length else -1)
        run_ends[length : length + 1] = [line_number]
        tails[length : length + 1] = [number]
    run: list[LinePair] = []
    number = tails[-1] if tails else -1
    while number >= 0:
        run.append(pairs[number])
        number = before[number]
    return run[::-1]
