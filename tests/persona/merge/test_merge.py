"""What holds for all families: bytes, line endings, texts that never met."""

from __future__ import annotations

import pytest

from memplane.persona.document_kinds import MergeFamily
from memplane.persona.merge import BODY_MERGES, MergeResult, MergeSide, merge
from tests.persona.merge.meeting import EARLIER, LATER

HEAD = b"---\nname: a\ndescription: b\ntype: c\n---\n\n"
BASE = HEAD + b"## A\n\n- one\n"


def test_every_family_that_can_be_read_has_a_merge() -> None:
    assert {*BODY_MERGES, MergeFamily.OPAQUE} == set(MergeFamily)


@pytest.mark.parametrize("family", MergeFamily)
@pytest.mark.parametrize(
    "odd",
    [
        HEAD + b"##   A\n\n\n\n-   one\n*  two  ",
        BASE.replace(b"\n", b"\r\n") + b"mixed\n",
        b"\xef\xbb\xbf" + BASE + b"more",
        b"\xff\xfe\x00not text",
        b"",
        b"---\nname: a\n",
    ],
)
def test_when_one_side_is_unchanged_the_other_is_taken_byte_for_byte(
    family: MergeFamily, odd: bytes
) -> None:
    assert merge(family, BASE, MergeSide(BASE, LATER), MergeSide(odd, EARLIER)) == MergeResult(odd)
    assert merge(family, BASE, MergeSide(odd, EARLIER), MergeSide(odd, LATER)) == MergeResult(odd)
    windows = BASE.replace(b"\n", b"\r\n")
    assert merge(family, BASE, MergeSide(windows, LATER), MergeSide(odd, EARLIER)) == MergeResult(
        odd
    )


@pytest.mark.parametrize("family", MergeFamily)
def test_what_is_no_text_is_kept_whole(family: MergeFamily) -> None:
    binary = BASE + b"\xff"

    assert merge(
        family, BASE, MergeSide(binary, LATER), MergeSide(BASE + b"- x\n", EARLIER)
    ) == MergeResult(binary, BASE + b"- x\n")
    assert merge(
        family, BASE, MergeSide(binary, EARLIER), MergeSide(BASE + b"- x\n", LATER)
    ) == MergeResult(BASE + b"- x\n", binary)


@pytest.mark.parametrize("family", MergeFamily)
def test_an_empty_text_never_wins_over_one_that_it_never_met(family: MergeFamily) -> None:
    merged = merge(family, None, MergeSide(HEAD, LATER), MergeSide(BASE, EARLIER))

    assert merged == MergeResult(BASE)


def test_what_an_empty_text_says_in_its_frontmatter_is_kept_aside() -> None:
    empty = HEAD.replace(b"name: a", b"name: z")

    assert merge(
        MergeFamily.FACT, None, MergeSide(empty, LATER), MergeSide(BASE, EARLIER)
    ) == MergeResult(BASE, empty)


@pytest.mark.parametrize(
    ("ours", "theirs", "eol"),
    [
        (b"\r\n", b"\n", b"\r\n"),
        (b"\n", b"\n", b"\n"),
        (b"\r\n", b"\r\n", b"\r\n"),
    ],
)
def test_the_line_ending_is_that_of_the_side_that_changed_it(
    ours: bytes, theirs: bytes, eol: bytes
) -> None:
    one = (BASE + b"- two\n").replace(b"\n", ours)
    other = (BASE + b"- three\n").replace(b"\n", theirs)

    merged = merge(MergeFamily.SECTIONS, BASE, MergeSide(one, EARLIER), MergeSide(other, LATER))

    assert merged.data == (BASE + b"- three\n- two\n").replace(b"\n", eol)


def test_mixed_endings_become_the_ones_that_most_lines_have() -> None:
    windows = BASE.replace(b"\n", b"\r\n")

    merged = merge(
        MergeFamily.SECTIONS,
        windows,
        MergeSide(windows + b"- two\n", LATER),
        MergeSide(windows + b"- three\r\n", EARLIER),
    )

    assert merged.data == (BASE + b"- two\n- three\n").replace(b"\n", b"\r\n")


def test_a_byte_order_mark_stays() -> None:
    mark = b"\xef\xbb\xbf"

    merged = merge(
        MergeFamily.SECTIONS,
        mark + BASE,
        MergeSide(mark + BASE + b"- two\n", LATER),
        MergeSide(mark + BASE + b"- three\n", EARLIER),
    )

    assert merged.data == mark + BASE + b"- two\n- three\n"


def test_a_merge_that_would_not_settle_keeps_one_side_whole() -> None:
    # Each side has opened a fence that it does not close; together they would close each other.
    one, other = MergeSide(b"## A\n\n```\n- a\n", LATER), MergeSide(b"```\n- b\n", EARLIER)

    assert merge(MergeFamily.SECTIONS, None, one, other) == MergeResult(one.data, other.data)
