from __future__ import annotations

from hashlib import sha256
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memplane.persona.version_order import (
    EARLIEST_INSTANT,
    MergeSide,
    read_instant,
    read_version,
    sort_newest_first,
)


def _text(modified: str | None, body: str = "") -> bytes:
    line = f"modified: {modified}\n" if modified else ""
    return f"---\nname: a\n{line}---\n{body}".encode()


EARLY, LATE = "2026-07-01T10:00:00Z", "2026-07-02T10:00:00Z"


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        pytest.param(
            MergeSide(_text(LATE), EARLY), MergeSide(_text(EARLY), LATE), id="modified decides"
        ),
        pytest.param(
            MergeSide(_text(None, "a"), LATE), MergeSide(_text(None), EARLY), id="else first seen"
        ),
        pytest.param(
            MergeSide(_text(None), LATE), MergeSide(_text(EARLY), ""), id="one side lacks it"
        ),
        pytest.param(
            MergeSide(_text(LATE), ""), MergeSide(_text(None), EARLY), id="the other lacks it"
        ),
        pytest.param(
            MergeSide(_text(None), EARLY), MergeSide(_text("soon"), ""), id="what is no time"
        ),
        pytest.param(
            MergeSide(_text("2026-07-01T12:00:01+02:00"), ""),
            MergeSide(_text(EARLY), ""),
            id="offsets",
        ),
        pytest.param(
            MergeSide(_text("2026-07-01T10:00:00.001Z"), ""),
            MergeSide(_text(EARLY), ""),
            id="fractions",
        ),
    ],
)
def test_newer_is_what_was_written_later(newer: MergeSide, older: MergeSide) -> None:
    pair = [read_version(newer), read_version(older)]

    assert sort_newest_first(*pair) == sort_newest_first(*reversed(pair)) == tuple(pair)


def test_at_the_same_instant_the_greater_hash_is_newer() -> None:
    texts = sorted((_text(EARLY, "a"), _text(EARLY, "b")), key=lambda one: sha256(one).digest())

    first, _ = sort_newest_first(*(read_version(MergeSide(one, "")) for one in texts))

    assert first.side.data == texts[1]


@pytest.mark.parametrize(
    "text", [None, "", "soon", "2026-13-01", "99999-01-01", "0001-01-01T00:00:00+23:00"]
)
def test_what_is_no_instant_is_none(text: str | None) -> None:
    assert read_instant(text) is None


def test_what_nobody_knows_the_time_of_is_older_than_all() -> None:
    assert read_version(MergeSide(b"")).instant == EARLIEST_INSTANT


_TIMES = st.sampled_from([None, "", "soon", EARLY, LATE, "2026-07-01"])


@settings(max_examples=300)
@given(st.lists(st.tuples(_TIMES, _TIMES, st.sampled_from("ab")), min_size=3, max_size=3))
def test_three_versions_never_beat_each_other_in_a_ring(
    made: list[tuple[str | None, str | None, str]],
) -> None:
    versions = [
        read_version(MergeSide(_text(modified, body), changed or ""))
        for modified, changed, body in made
    ]
    for one, other, third in permutations(versions, 3):
        if sort_newest_first(one, other)[0] == one and sort_newest_first(other, third)[0] == other:
            assert sort_newest_first(one, third)[0].rank == one.rank
