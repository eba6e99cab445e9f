"""What ranking knows of a turn: its terms as they are written down, its speaker, its signs."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.search.tokenizer import count_terms
from memplane.search.turn_terms import (
    NO_TERMS,
    QUESTION_SIGN,
    TIME_SIGN,
    SearchTurn,
    TermFinder,
    extract_name_terms,
    extract_speaker,
    extract_turn_terms,
    extract_words,
    format_counts,
    merge_counts,
    names_speaker,
    parse_counts,
    parse_total,
    repeat_terms,
)

TERMS = st.text(alphabet="abcäß7.|字", min_size=1, max_size=4)
COUNTS = st.dictionaries(TERMS, st.integers(1, 12), max_size=8)


def turn_of(asked: str, told: str, key: int = 1) -> SearchTurn:
    one = extract_turn_terms(asked, told)
    return SearchTurn(
        key, 0, str(key), one.length, one.speaker, one.signs, one.user_terms, one.agent_terms
    )


@given(COUNTS)
def test_counts_are_read_as_they_were_written(counts: dict[str, int]) -> None:
    written = format_counts(counts)
    assert parse_counts(written) == counts
    assert parse_total(written) == sum(counts.values())
    assert parse_counts(written, written) == {term: 2 * count for term, count in counts.items()}
    assert format_counts(dict(reversed(counts.items()))) == written


@given(st.lists(COUNTS, max_size=6), st.sets(TERMS, max_size=6))
def test_what_is_looked_for_is_found_in_the_text_that_has_it(
    texts: list[dict[str, int]], wanted: set[str]
) -> None:
    held = TermFinder(wanted).count_in_texts([format_counts(one) for one in texts])
    expected = [{term: one[term] for term in one if term in wanted} for one in texts]
    assert held == expected


@given(st.text(max_size=60), st.text(max_size=60))
def test_what_any_text_says_can_be_found_in_it(asked: str, told: str) -> None:
    turn = turn_of(asked, told)
    both = Counter(count_terms(asked)) + Counter(count_terms(told))
    held = TermFinder(both).count_in_turns([turn])[turn.key]
    assert held == (count_terms(asked), count_terms(told))
    assert merge_counts(held) == both
    assert turn.length == sum(both.values())


def test_a_text_without_terms_is_written_as_such() -> None:
    assert extract_turn_terms("", "the of and").agent_terms == NO_TERMS
    assert TermFinder(["kestrel"]).count_in_texts([NO_TERMS, NO_TERMS]) == [{}, {}]
    assert TermFinder([]).count_in_texts(["1\nkestrel 1\n"]) == [{}]


def test_a_part_of_a_term_is_not_that_term() -> None:
    written = format_counts({"kestrel": 2, "kes": 1})
    assert TermFinder(["kestr", "trel", "2", "kes", "l"]).count_in_texts([written]) == [{"kes": 1}]
    both = TermFinder(["trel", "kestrel"]).count_in_texts([written, format_counts({"trel": 12})])
    assert both == [{"kestrel": 2}, {"trel": 12}]


@pytest.mark.parametrize(
    ("told", "speaker"),
    [
        ("Ada: good morning", "Ada"),
        ("Ada Byron: good morning", "Ada Byron"),
        ("  Jean-Luc: bonjour", "Jean-Luc"),
        ("Anaïs: bonjour", "Anaïs"),
        ("good morning", ""),
        ("https://example.org: a page", ""),
        ("12:30 is fine", ""),
        ("The plan is this one: first we rest", ""),
        ("Ada:no blank", ""),
        ("", ""),
        ("A" * 200 + ": long", ""),
    ],
)
def test_who_speaks_stands_before_what_is_told(told: str, speaker: str) -> None:
    assert extract_speaker(told) == speaker


def test_a_speaker_is_named_by_a_part_of_the_name() -> None:
    words = extract_words("Where did Ada's brother go with Jean-Luc?")
    assert names_speaker("Ada Byron", words)
    assert names_speaker("Jean-Luc", words)
    assert not names_speaker("Bo", words)
    assert not names_speaker("", words)
    assert not names_speaker("ada", words)


@pytest.mark.parametrize(
    ("told", "signs"),
    [
        ("We met yesterday.", TIME_SIGN),
        ("Shall we meet?", QUESTION_SIGN),
        ("Shall we meet on Monday? ", QUESTION_SIGN | TIME_SIGN),
        ("We met.", 0),
        ("行きますか\uff1f", QUESTION_SIGN),
    ],
)
def test_signs_say_how_something_was_told(told: str, signs: int) -> None:
    assert extract_turn_terms("", told).signs == signs


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Where does Caroline live?", {"carolin"}),
        ("What did we say to Ada and Bo?", {"ada", "bo"}),
        ("Where is it? Nobody knows.", set[str]()),
        ("Kestrel or osprey?", set[str]()),
        ("where is the key", set[str]()),
        ("In July, Ada left", {"ada"}),
        ("What happened last November, on Tuesday or in March?", set[str]()),
        ("What did Zoe\u0308 say in Q3?", {"zoë"}),
    ],
)
def test_names_are_capitals_inside_a_sentence(question: str, names: set[str]) -> None:
    assert extract_name_terms(question) == names


@given(COUNTS, st.integers(1, 14))
def test_terms_are_repeated_as_often_as_they_were_counted(
    counts: dict[str, int], most: int
) -> None:
    found = Counter(repeat_terms(format_counts(counts), "7|", most))
    assert found == {f"7|{term}": min(count, most) for term, count in counts.items()}
