"""Turns that the index has not taken in yet are found by their terms as all others are."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from memplane.search.inverted_index import InvertedIndex
from memplane.search.turn_terms import SearchTurn, TermFinder, format_counts, merge_counts

TERMS = st.text(alphabet="abcäß7.|字", min_size=1, max_size=3)
COUNTS = st.dictionaries(TERMS, st.integers(1, 12), max_size=6)
SAID = st.lists(st.tuples(COUNTS, COUNTS), max_size=8)


def turns_of(said: Sequence[tuple[dict[str, int], dict[str, int]]]) -> list[SearchTurn]:
    return [
        SearchTurn(key, key, str(key), 0, "", 0, format_counts(asked), format_counts(told))
        for key, (asked, told) in enumerate(said, 1)
    ]


@given(SAID, st.sets(TERMS, max_size=6))
def test_a_tail_knows_of_each_turn_what_reading_it_would_find(
    said: list[tuple[dict[str, int], dict[str, int]]], wanted: set[str]
) -> None:
    turns = turns_of(said)
    tail = InvertedIndex()
    tail.add(turns)
    read = TermFinder(wanted).count_in_turns(turns)
    found, held = tail.find_turns(wanted)
    assert {one.key for one in found} == {key for key, one in read.items() if merge_counts(one)}
    for key, one in held.items():
        assert one == read[key]
        # Also in the same order, which decides what an excerpt is cut around.
        assert [list(part) for part in one] == [list(part) for part in read[key]]
    for term in wanted:
        assert tail.count(term) == sum(term in merge_counts(one) for one in read.values())


@given(SAID, st.sets(st.integers(1, 10)), st.sets(TERMS, max_size=6))
def test_what_is_let_go_leaves_no_trace(
    said: list[tuple[dict[str, int], dict[str, int]]], kept: set[int], wanted: set[str]
) -> None:
    turns = turns_of(said)
    tail, again = InvertedIndex(), InvertedIndex()
    tail.add(turns)
    missing = tail.retain_only(sorted(kept))
    again.add(one for one in turns if one.key in kept)
    assert set(missing) == kept - {one.key for one in turns}
    assert dict(tail.find_turns(wanted)[1]) == dict(again.find_turns(wanted)[1])
    assert [tail.count(term) for term in wanted] == [again.count(term) for term in wanted]
    assert len(tail) == len(again)
