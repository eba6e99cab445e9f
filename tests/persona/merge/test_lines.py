from __future__ import annotations

import time
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from memplane.persona.merge.conflict_resolver import ConflictResolver
from memplane.persona.merge.line_merge import match_lines, merge_lines

LINES = st.lists(st.sampled_from("abcde"), max_size=12)
TEXTS = LINES.map("\n".join)


@settings(max_examples=300)
@given(LINES, LINES)
def test_matches_are_equal_lines_in_the_same_order(one: list[str], other: list[str]) -> None:
    found = match_lines(one, other)

    assert all(one[left] == other[right] for left, right in found)
    assert all(first[0] < then[0] and first[1] < then[1] for first, then in pairwise(found))


@settings(max_examples=300)
@given(LINES)
def test_a_text_matches_itself_whole(one: list[str]) -> None:
    assert match_lines(one, one) == [(at, at) for at in range(len(one))]


@settings(max_examples=300)
@given(TEXTS, TEXTS)
def test_an_unchanged_side_never_wins(base: str, changed: str) -> None:
    resolver = ConflictResolver()

    assert merge_lines(base, changed, base, resolver) == changed
    assert merge_lines(base, base, changed, resolver) == changed
    assert merge_lines(base, changed, changed, resolver) == changed
    assert not resolver.older_lost


@settings(max_examples=300)
@given(TEXTS, TEXTS, TEXTS)
def test_who_is_newer_matters_only_in_a_conflict(base: str, one: str, other: str) -> None:
    resolver = ConflictResolver()
    merged = merge_lines(base, one, other, resolver)

    if not resolver.older_lost:
        assert merge_lines(base, other, one, ConflictResolver()) == merged


def test_no_text_makes_it_slow() -> None:
    # Every level finds one anchor and leaves almost everything for the next.
    one = [word for number in range(20_000) for word in (f"a{number}", f"b{number // 2}")]
    began = time.process_time()

    match_lines(one, one[::-1])
    match_lines(["x", "y"] * 50_000, ["y", "x", "z"] * 50_000)

    assert time.process_time() - began < 5
