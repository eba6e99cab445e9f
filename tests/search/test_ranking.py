"""The order of turns that answer a question, and whether any of them does."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.search.bm25 import CorpusStatistics
from memplane.search.time_expressions import asks_for_time, parse_periods
from memplane.search.tokenizer import count_query_terms
from memplane.search.turn_ranker import (
    Query,
    RankedTurn,
    explain_rank,
    has_answer,
    rank_turns,
)
from memplane.search.turn_terms import (
    SearchTurn,
    extract_name_terms,
    extract_turn_terms,
    extract_words,
    parse_counts,
)

MINUTE = 60 * 1_000_000
DAY = 24 * 60 * MINUTE
NOW = 20_000 * DAY


def turn(key: int, asked: str, told: str, at: int | None = None) -> SearchTurn:
    one = extract_turn_terms(asked, told)
    when = NOW - DAY + key * MINUTE if at is None else at
    return SearchTurn(
        key,
        when,
        f"t{key:03}",
        one.length,
        one.speaker,
        one.signs,
        one.user_terms,
        one.agent_terms,
    )


def statistics_of(turns: Sequence[SearchTurn], others: int = 200) -> CorpusStatistics:
    """Count the turns, among others that have none of their words."""
    held = Counter(term for one in turns for term in parse_counts(one.user_terms, one.agent_terms))
    terms = sum(one.length for one in turns) + 10 * others
    return CorpusStatistics(len(turns) + others, terms, held)


def asked_of(question: str) -> Query:
    return Query(
        terms=count_query_terms(question),
        words=extract_words(question),
        names=extract_name_terms(question),
        periods=parse_periods(question, NOW),
        wants_time=asks_for_time(question),
    )


def ranked(question: str, *runs: Sequence[SearchTurn]) -> list[RankedTurn]:
    known = statistics_of([one for run in runs for one in run])
    return rank_turns(asked_of(question), runs, known)


def keys(question: str, *runs: Sequence[SearchTurn]) -> list[int]:
    return [one.turn.key for one in ranked(question, *runs)]


# What was said around a turn


def test_what_was_said_before_counts_for_what_is_told_next() -> None:
    """The answer itself has no word of the question, and still comes before a mere mention."""
    talk = [
        turn(1, "", "Ada: I moved here from another country four years ago."),
        turn(2, "Ada: I moved here from another country four years ago.", "Bo: Oh, which?"),
        turn(3, "Bo: Oh, which?", "Ada: Sweden. The winters were dark and the country is long."),
    ]
    elsewhere = [turn(9, "", "Bo: My cousin moved.", at=NOW - 9 * DAY)]
    assert keys("Which country did Ada move here from?", talk, elsewhere)[-1] == 9


def test_a_turn_without_any_word_of_the_question_is_not_an_answer() -> None:
    talk = [
        turn(1, "Shall we rest?", "We rest."),
        turn(2, "And the kestrel?", "The kestrel nests on the tower."),
        turn(3, "Thanks.", "You are welcome."),
    ]
    assert keys("Where does the kestrel nest?", talk) == [2]


def test_a_pause_parts_what_was_said() -> None:
    before = turn(1, "", "The kestrel nests on the tower in the harbour.", at=NOW - 2 * DAY)
    soon = turn(2, "", "It is a nest of sticks.", at=NOW - 2 * DAY + MINUTE)
    late = turn(2, "", "It is a nest of sticks.", at=NOW - DAY)
    near = {one.turn.key: one for one in ranked("kestrel nest", [before, soon])}
    apart = {one.turn.key: one for one in ranked("kestrel nest", [before, late])}
    assert near[2].coverage == pytest.approx(1.0)
    assert apart[2].coverage < near[2].coverage


def test_a_question_that_repeats_what_was_told_is_heard_once() -> None:
    passed_on = [turn(1, "", "Kestrel on the tower."), turn(2, "Kestrel on the tower.", "Good.")]
    said_twice = [
        turn(1, "", "Kestrel on the tower."),
        turn(2, "Kestrel on a tower now.", "Good."),
    ]
    assert ranked("kestrel", passed_on)[0].score <= ranked("kestrel", said_twice)[0].score


def test_several_turns_about_it_at_one_time_lift_each_other() -> None:
    some = [turn(n, "", f"The kestrel is seen again, {n} times.") for n in range(1, 4)]
    alone = [turn(8, "", "The kestrel is seen again, 8 times.", at=NOW - 20 * DAY)]
    by_key = {one.turn.key: one.signals.session for one in ranked("kestrel", some, alone)}
    assert by_key[1] == by_key[2] == by_key[3] == 1.0
    assert by_key[8] < 0.7


# Signs beside the words


def test_who_is_named_in_the_question_comes_first() -> None:
    ada = turn(1, "", "Ada: I paint boats in summer.", at=NOW - 2 * DAY)
    bo = turn(2, "", "Bo: I paint boats in summer.", at=NOW - DAY)
    assert keys("What does Ada paint?", [ada], [bo])[0] == 1
    assert keys("What does Bo paint?", [ada], [bo])[0] == 2


def test_a_question_of_when_wants_a_time() -> None:
    dated = turn(1, "", "We painted the boat last Tuesday, all of it.", at=NOW - 5 * DAY)
    undated = turn(2, "", "We painted the boat, and we liked all of it.", at=NOW - 4 * DAY)
    assert keys("When did we paint the boat?", [dated], [undated])[0] == 1
    assert keys("Who painted the boat?", [dated], [undated])[0] == 2


def test_a_time_that_the_question_names_is_looked_at() -> None:
    recent = turn(1, "", "We painted the boat green.", at=NOW - 3 * DAY)
    old = turn(2, "", "We painted the boat green.", at=NOW - 400 * DAY)
    assert keys("What did we paint last week?", [recent], [old])[0] == 1
    assert keys("What did we paint?", [recent], [old])[0] == 1  # the newer one, all else equal
    assert keys("What did we paint 400 days ago?", [recent], [old])[0] == 2


def test_who_asks_comes_behind_who_tells() -> None:
    asks = turn(1, "", "Ada: which kestrel nests on the tower in the harbour?")
    tells = turn(2, "", "Ada: that kestrel nests on the tower in the harbour.", at=NOW - 9 * DAY)
    assert keys("kestrel tower", [asks], [tells]) == [2, 1]


# The same whatever the order


@st.composite
def talks(draw: st.DrawFn) -> list[list[SearchTurn]]:
    words = st.sampled_from("kestrel tower nest harbour boat ada paint rest green".split())  # noqa: SIM905
    text = st.lists(words, max_size=6).map(" ".join)
    runs: list[list[SearchTurn]] = []
    key = 0
    for size in draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)):
        run: list[SearchTurn] = []
        for _ in range(size):
            key += 1
            run.append(turn(key, draw(text), draw(text)))
        runs.append(run)
    return runs


@given(talks(), st.randoms())
def test_the_order_of_runs_does_not_matter(
    runs: list[list[SearchTurn]], some: random.Random
) -> None:
    shuffled = some.sample(runs, len(runs))
    question = "Where does the kestrel nest, Ada?"
    assert ranked(question, *runs) == ranked(question, *shuffled)


@given(talks())
def test_what_is_ranked_has_words_and_a_share_of_the_question(
    runs: list[list[SearchTurn]],
) -> None:
    found = ranked("kestrel nest tower", *runs)
    wanted = {"kestrel", "nest", "tower"}
    having = {
        one.key
        for run in runs
        for one in run
        if wanted & parse_counts(one.user_terms, one.agent_terms).keys()
    }
    assert {one.turn.key for one in found} == having
    assert all(0 < one.coverage <= 1 + 1e-9 for one in found)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


# Whether it is worth showing


def judged(question: str, run: Sequence[SearchTurn], **more: Any) -> bool:
    known = statistics_of(run, **more)
    asked = asked_of(question)
    return has_answer(asked, rank_turns(asked, [run], known), known)


TALK = [turn(1, "Where is the boat?", "Ada: the boat is in the harbour.")]


@pytest.mark.parametrize(
    ("question", "shown"),
    [
        ("Where is the boat?", True),
        ("Which harbour has Ada chosen for her old boat?", True),
        ("What did Zora say about her boat, the invoice and the contract?", False),
        ("Is Zora in the harbour with the boat?", True),  # most of it is there
        ("Which invoices, contracts, payments, offers and letters mention a boat?", False),
    ],
)
def test_a_question_about_something_else_is_not_answered(question: str, *, shown: bool) -> None:
    assert judged(question, TALK) == shown


def test_nothing_is_no_answer() -> None:
    assert not has_answer(asked_of("boat"), [], statistics_of(TALK))


# Explaining


def test_each_signal_says_what_it_added_and_its_place() -> None:
    ada = turn(1, "", "Ada: I paint boats in summer.", at=NOW - 2 * DAY)
    bo = turn(2, "", "Bo: boats.", at=NOW - DAY)
    found = ranked("What does Ada paint on boats?", [ada], [bo])
    why = explain_rank(found[0], found)
    assert why["words"].place == why["speaker"].place == why["length"].place == 1
    assert sum(one.added for one in why.values()) == pytest.approx(found[0].score, abs=1e-3)
    assert explain_rank(found[1], found)["words"].place == 2
    assert "speaker" not in explain_rank(found[1], found)
