"""What holds for all families: bytes, line endings, texts that never met."""

from __future__ import annotations

import pytest

from memplane.persona.kinds import Family
from memplane.persona.merge import BODIES, Merged, Side, merge
from tests.persona.merge.meeting import EARLIER, LATER

HEAD = b"---\nname: a\ndescription: b\ntype: c\n---\n\n"
BASE = HEAD + b"## A\n\n- one\n"


def test_every_family_that_can_be_read_has_a_merge() -> None:
    assert {*BODIES, Family.OPAQUE} == set(Family)


@pytest.mark.parametrize("family", Family)
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
    family: Family, odd: bytes
) -> None:
    assert merge(family, BASE, Side(BASE, LATER), Side(odd, EARLIER)) == Merged(odd)
    assert merge(family, BASE, Side(odd, EARLIER), Side(odd, LATER)) == Merged(odd)
    windows = BASE.replace(b"\n", b"\r\n")
    assert merge(family, BASE, Side(windows, LATER), Side(odd, EARLIER)) == Merged(odd)


@pytest.mark.parametrize("family", Family)
def test_what_is_no_text_is_kept_whole(family: Family) -> None:
    binary = BASE + b"\xff"

    assert merge(family, BASE, Side(binary, LATER), Side(BASE + b"- x\n", EARLIER)) == Merged(
        binary, BASE + b"- x\n"
    )
    assert merge(family, BASE, Side(binary, EARLIER), Side(BASE + b"- x\n", LATER)) == Merged(
        BASE + b"- x\n", binary
    )


@pytest.mark.parametrize("family", Family)
def test_an_empty_text_never_wins_over_one_that_it_never_met(family: Family) -> None:
    merged = merge(family, None, Side(HEAD, LATER), Side(BASE, EARLIER))

    assert merged == Merged(BASE)


def test_what_an_empty_text_says_in_its_frontmatter_is_kept_aside() -> None:
    empty = HEAD.replace(b"name: a", b"name: z")

    assert merge(Family.FACT, None, Side(empty, LATER), Side(BASE, EARLIER)) == Merged(BASE, empty)


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

    merged = merge(Family.SECTIONS, BASE, Side(one, EARLIER), Side(other, LATER))

    assert merged.data == (BASE + b"- three\n- two\n").replace(b"\n", eol)


def test_mixed_endings_become_the_ones_that_most_lines_have() -> None:
    windows = BASE.replace(b"\n", b"\r\n")

    merged = merge(
        Family.SECTIONS,
        windows,
        Side(windows + b"- two\n", LATER),
        Side(windows + b"- three\r\n", EARLIER),
    )

    assert merged.data == (BASE + b"- two\n- three\n").replace(b"\n", b"\r\n")


def test_a_byte_order_mark_stays() -> None:
    mark = b"\xef\xbb\xbf"

    merged = merge(
        Family.SECTIONS,
        mark + BASE,
        Side(mark + BASE + b"- two\n", LATER),
        Side(mark + BASE + b"- three\n", EARLIER),
    )

    assert merged.data == mark + BASE + b"- two\n- three\n"


def test_a_merge_that_would_not_settle_keeps_one_side_whole() -> None:
    # Each side has opened a fence that it does not close; together they would close each other.
    one, other = Side(b"## A\n\n```\n- a\n", LATER), Side(b"```\n- b\n", EARLIER)

    assert merge(Family.SECTIONS, None, one, other) == Merged(one.data, other.data)
