"""The laws of merging, for every family; and merges that break them, to see that we notice."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from memplane.persona.document_kinds import MergeFamily
from memplane.persona.merge import MergeResult, MergeSide, merge
from memplane.persona.version_order import read_version, sort_newest_first
from tests.persona.merge.laws import (
    SET_LIKE,
    BrokenLawError,
    Merge,
    check_algebra,
    check_association,
    check_lines,
    merge_of,
)
from tests.persona.merge.made import DISPUTED, Meeting, meetings, soup_meetings

FEW = 150
MANY = 2_000
EXAMPLES = [FEW, pytest.param(MANY, marks=[pytest.mark.long, pytest.mark.timeout(1800)])]
THOROUGH = settings(max_examples=5_000, phases=[Phase.generate], derandomize=True)
"""A mistake must be found at every run, and not with luck."""
BY_WORDS = [family for family in SET_LIKE if family is not MergeFamily.ROLLUP]
"""The families in which no two things can be in conflict, as they are made here."""


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("family", MergeFamily)
def test_all_machines_agree_and_meeting_again_changes_nothing(
    family: MergeFamily, examples: int
) -> None:
    @settings(max_examples=examples)
    @given(meetings(family, conflicts=True))
    def holds(meeting: Meeting) -> None:
        check_algebra(merge_of(family), meeting.base, *meeting.sides)
        if family in BY_WORDS:
            # A conflict over one thing does not touch another.
            check_lines(merge_of(family), meeting.base, *meeting.sides, disputed=DISPUTED)

    holds()


@pytest.mark.parametrize("examples", EXAMPLES)
def test_whatever_the_bytes_are(examples: int) -> None:
    @settings(max_examples=examples)
    @given(st.sampled_from(MergeFamily), soup_meetings())
    def holds(family: MergeFamily, meeting: Meeting) -> None:
        check_algebra(merge_of(family), meeting.base, *meeting.sides)

    holds()


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("family", BY_WORDS)
def test_no_line_is_dropped_and_none_returns(family: MergeFamily, examples: int) -> None:
    @settings(max_examples=examples)
    @given(meetings(family))
    def holds(meeting: Meeting) -> None:
        check_lines(merge_of(family), meeting.base, *meeting.sides)

    holds()


@pytest.mark.parametrize("examples", [FEW // 3, EXAMPLES[1]])  # exhaustive in test_sections.py
@pytest.mark.parametrize("family", BY_WORDS)
def test_it_does_not_matter_who_meets_whom_first(family: MergeFamily, examples: int) -> None:
    @settings(max_examples=examples)
    @given(meetings(family, sides=3))
    def holds(meeting: Meeting) -> None:
        check_association(merge_of(family), meeting.base, meeting.sides)

    holds()


def ours_wins(_base: bytes | None, ours: MergeSide, _theirs: MergeSide) -> MergeResult:
    return MergeResult(ours.data)


def drops_their_lines(base: bytes | None, ours: MergeSide, theirs: MergeSide) -> MergeResult:
    """A log merge that keeps the newer side's new lines only."""
    if base in {ours.data, theirs.data} or ours.data == theirs.data:
        return merge(MergeFamily.SECTIONS, base, ours, theirs)
    newer, _ = sort_newest_first(read_version(ours), read_version(theirs))
    return MergeResult(newer.side.data)


def forgets_the_base(_base: bytes | None, ours: MergeSide, theirs: MergeSide) -> MergeResult:
    return merge(MergeFamily.SECTIONS, None, ours, theirs)


def sorts_by_side(base: bytes | None, ours: MergeSide, theirs: MergeSide) -> MergeResult:
    """Puts our text first, as `git merge` does with its markers."""
    merged = merge(MergeFamily.SECTIONS, base, ours, theirs)
    return MergeResult(merged.data, ours.data if merged.data != ours.data else None)


def grows_each_time(base: bytes | None, ours: MergeSide, theirs: MergeSide) -> MergeResult:
    merged = merge(MergeFamily.SECTIONS, base, ours, theirs)
    is_quiet = ours.data == theirs.data or base in {ours.data, theirs.data}
    return merged if is_quiet else MergeResult(merged.data + b"\n<!-- merged -->\n")


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (ours_wins, check_algebra),
        (ours_wins, check_lines),
        (drops_their_lines, check_lines),
        (forgets_the_base, check_algebra),
        (forgets_the_base, check_lines),
        (sorts_by_side, check_algebra),
        (grows_each_time, check_algebra),
        (grows_each_time, check_lines),
    ],
)
def test_a_broken_merge_is_noticed(broken: Merge, check: Callable[..., None]) -> None:
    def is_noticed(meeting: Meeting) -> bool:
        try:
            check(broken, meeting.base, *meeting.sides)
        except BrokenLawError:
            return True
        return False

    found = find(meetings(MergeFamily.SECTIONS), is_noticed, settings=THOROUGH)

    assert is_noticed(found)


def test_a_merge_that_depends_on_the_order_of_meetings_is_noticed() -> None:
    def is_noticed(meeting: Meeting) -> bool:
        try:
            check_association(drops_their_lines, meeting.base, meeting.sides)
        except BrokenLawError:
            return True
        return False

    find(meetings(MergeFamily.SECTIONS, sides=3), is_noticed, settings=THOROUGH)
