"""Where stretches begin and end, and the line that tells of one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.episodes.episode import Episode
from memplane.episodes.stretches import (
    begins_stretch_after,
    extract_topics,
    format_timeline_line,
    split_stretches,
)
from memplane.search.sentence_splitter import Sentence, split_sentences

MINUTE = 60_000_000
NOON = 1_775_217_600_000_000


def at(*minutes: float) -> list[Episode]:
    """Turns that many minutes after noon."""
    return [
        Episode(f"e{number:03}", NOON + int(minute * MINUTE), "What?", "That.")
        for number, minute in enumerate(minutes)
    ]


def sizes(turns: Sequence[Episode]) -> list[int]:
    return [len(stretch) for stretch in split_stretches(turns)]


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        ((), []),
        ((0,), [1]),
        ((0, 0, 0), [3]),
        ((0, 29.99), [2]),
        ((0, 30), [1, 1]),
        ((0, 29, 58, 87), [4]),
        ((0, 10, 45, 50), [2, 2]),
        (tuple(range(20)), [20]),
        (tuple(range(21)), [20, 1]),
        (tuple(range(40)), [20, 20]),
        ((*range(20), 50), [20, 1]),
    ],
)
def test_a_stretch_ends_at_a_gap_or_when_it_is_full(
    minutes: tuple[float, ...], expected: list[int]
) -> None:
    assert sizes(at(*minutes)) == expected


def test_turns_without_a_time_are_no_part_of_a_stretch_with_one() -> None:
    turns = [Episode("a", 0, "", ""), Episode("b", 0, "", ""), *at(0)]
    assert sizes(turns) == [2, 1]


MOMENTS = st.lists(
    st.tuples(st.integers(0, 3 * 10**10), st.text("ab", min_size=1, max_size=3)), unique=True
)


@given(MOMENTS)
def test_every_turn_is_in_one_stretch_in_its_order(moments: list[tuple[int, str]]) -> None:
    turns = [Episode(name, when, "", "") for when, name in sorted(moments)]
    stretches = list(split_stretches(turns))
    assert [turn for stretch in stretches for turn in stretch] == turns
    assert all(stretches)
    for stretch, following in pairwise(stretches):
        assert begins_stretch_after(stretch[-1], len(stretch), following[0])
    for stretch in stretches:
        for count, turn in enumerate(stretch[1:], 1):
            assert not begins_stretch_after(stretch[count - 1], count, turn)


@given(st.permutations(at(*range(0, 200, 7))), st.sets(st.integers(0, 28)))
def test_stretches_depend_on_the_turns_and_not_on_their_arrival(
    turns: list[Episode], gone: set[int]
) -> None:
    sorted_turns = sorted(turns, key=lambda turn: (turn.at, turn.id))
    assert list(split_stretches(sorted_turns)) == list(split_stretches(at(*range(0, 200, 7))))
    left = [turn for number, turn in enumerate(sorted_turns) if number not in gone]
    assert [turn for stretch in split_stretches(left) for turn in stretch] == left


def test_a_stretch_without_one_turn_shrinks_and_without_all_is_gone() -> None:
    turns = at(0, 5, 10, 15, 20)
    assert sizes(turns) == [5]
    assert sizes(turns[:2] + turns[3:]) == [4]
    assert sizes([]) == []


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        ((0,), "2026-04-03 12:00, 1 turn"),
        ((0, 0.5), "2026-04-03 12:00, 2 turns"),
        ((0, 40), "2026-04-03 12:00 to 12:40, 2 turns"),
        ((715, 725), "2026-04-03 23:55 to 2026-04-04 00:05, 2 turns"),
    ],
)
def test_the_line_says_when(minutes: tuple[float, ...], expected: str) -> None:
    assert format_timeline_line(at(*minutes), [], 160) == expected


@pytest.mark.parametrize("when", [0, 1 << 80, -(1 << 80)])
def test_a_line_without_a_time_says_so(when: int) -> None:
    assert (
        format_timeline_line([Episode("a", when, "", "")], ["tea"], 160) == "undated, 1 turn: tea"
    )


def test_the_line_holds_what_fits() -> None:
    topics = ["tea", "x" * 200, "é" * 70, "coffee"]
    line = format_timeline_line(at(0), topics, 160)
    assert line == "2026-04-03 12:00, 1 turn: tea, coffee"
    assert len(format_timeline_line(at(0), ["é" * 60, "x"], 160).encode()) <= 160


def said(*texts: str) -> list[Sentence]:
    return [sentence for text in texts for sentence in split_sentences(text)]


def test_topics_are_what_comes_up_most() -> None:
    asked = said(
        "How does the kestrel rollout work?",
        "Can I see my invoices?",
        "And what of the kestrel rollout on Friday?",
    )
    found = extract_topics(asked, [*asked, *said("The kestrel rollout is slow.")])
    assert found[0] == "kestrel rollout"
    assert "invoices" in found
    assert extract_topics([], asked) == []
    assert extract_topics(said("What is it, then?"), asked) == []


def test_topics_keep_the_case_of_names() -> None:
    asked = said("Tell me about Postgres and the Search Service.")
    assert extract_topics(asked, asked) == ["Search Service", "Postgres"]
