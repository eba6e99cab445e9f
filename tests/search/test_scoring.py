"""Scores: what a document is worth to a question, and whether it is worth showing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.search.bm25 import (
    CorpusStatistics,
    DocumentTerms,
    ScoredDocument,
    compute_coverage,
    idf,
    is_match,
    normalize_score,
    rank_documents,
    select_informative,
    total_weight,
    weigh_terms,
)
from memplane.search.tokenizer import count_query_terms, count_terms


def documents_of(texts: Iterable[str]) -> list[DocumentTerms]:
    counted = (count_terms(text) for text in texts)
    return [DocumentTerms(key, one, sum(one.values())) for key, one in enumerate(counted, 1)]


def statistics_of(documents: Iterable[DocumentTerms]) -> CorpusStatistics:
    known = list(documents)
    return CorpusStatistics(
        len(known),
        sum(one.length for one in known),
        Counter(term for one in known for term in one.counts),
    )


def answers(question: str, texts: Iterable[str]) -> tuple[list[ScoredDocument], CorpusStatistics]:
    documents = documents_of(texts)
    statistics = statistics_of(documents)
    return rank_documents(count_query_terms(question), documents, statistics, 10), statistics


def best(question: str, statistics: CorpusStatistics) -> float:
    return total_weight(weigh_terms(count_query_terms(question), statistics))


def telling(question: Mapping[str, int], statistics: CorpusStatistics) -> list[str]:
    return [one.term for one in select_informative(weigh_terms(question, statistics), statistics)]


def matching(question: str, texts: Iterable[str]) -> list[int]:
    scored, statistics = answers(question, texts)
    return [one.key for one in scored if is_match(one, statistics)]


def others(count: int) -> list[str]:
    return [f"Nothing to report from host{number} today." for number in range(count)]


# The formula


def test_a_score_is_that_of_the_formula() -> None:
    documents = [
        DocumentTerms(1, {"kestrel": 2, "nest": 1}, 3),
        *(DocumentTerms(key, {"crow": 1}, 1) for key in range(2, 41)),
    ]
    statistics = CorpusStatistics(40, 42, {"kestrel": 1, "nest": 1, "crow": 39})
    (scored,) = rank_documents({"kestrel": 1}, documents, statistics, 10)
    weight = math.log(1 + (40 - 1 + 0.5) / (1 + 0.5))
    long = 1.2 * (0.25 + 0.75 * 3 / (42 / 40))
    assert scored.key == 1
    assert scored.score == pytest.approx(weight * 2 * 2.2 / (2 + long))
    assert (scored.coverage, scored.informative) == (1.0, 1)


def test_coverage_is_the_share_of_the_questions_weight() -> None:
    documents = [DocumentTerms(key, {"kestrel": 1}, 1) for key in range(1, 31)]
    statistics = CorpusStatistics(100, 100, {"kestrel": 30, "rollout": 2})
    scored = rank_documents({"kestrel": 1, "rollout": 1, "unheard": 1}, documents, statistics, 1)[
        0
    ]
    held, missed = idf(100, 30), idf(100, 2) + idf(100, 0)
    assert scored.coverage == pytest.approx(held / (held + missed))


def test_what_is_rare_counts_more() -> None:
    texts = ["kestrel", "rollout", *["rollout"] * 30]
    scored, _ = answers("kestrel rollout", texts)
    assert scored[0].key == 1


def test_what_is_said_more_often_and_in_fewer_words_comes_first() -> None:
    scored, _ = answers(
        "kestrel",
        ["kestrel and many other birds in the tree", "kestrel", "kestrel, kestrel", *others(30)],
    )
    assert [one.key for one in scored] == [3, 2, 1]


def test_equal_documents_are_in_the_order_of_their_keys() -> None:
    documents = [DocumentTerms(key, {"kestrel": 1}, 1) for key in (5, 3, 9, 1)]
    scored = rank_documents({"kestrel": 1}, documents, statistics_of(documents), 10)
    assert [one.key for one in scored] == [1, 3, 5, 9]


def test_no_more_are_returned_than_asked_for() -> None:
    documents = [DocumentTerms(key, {"kestrel": 1}, 1) for key in range(1, 9)]
    statistics = statistics_of(documents)
    for limit in (0, 1, 7, 8, 100):
        assert len(rank_documents({"kestrel": 1}, documents, statistics, limit)) == min(limit, 8)
    assert rank_documents({"kestrel": 1}, documents, statistics, -1) == []


def test_what_holds_nothing_of_the_question_is_not_returned() -> None:
    scored, statistics = answers("kestrel", others(5))
    assert scored == []
    assert rank_documents({}, documents_of(others(5)), statistics, 10) == []
    assert rank_documents({"kestrel": 1}, [], CorpusStatistics(0, 0, {}), 10) == []


@given(st.integers(-5, 10**9), st.integers(-5, 10**9))
def test_no_term_counts_against_a_document(documents: int, frequency: int) -> None:
    assert idf(documents, frequency) > 0


@given(st.integers(0, 10**6), st.data())
def test_a_term_that_more_documents_hold_says_less(documents: int, data: st.DataObject) -> None:
    fewer = data.draw(st.integers(0, documents))
    more = data.draw(st.integers(fewer, documents))
    assert idf(documents, fewer) >= idf(documents, more)


# Whether it is a match


def test_one_rare_term_is_a_match() -> None:
    texts = ["The kestrel is green.", *others(200)]
    assert matching("When is the kestrel rollout?", texts) == [1]
    assert matching("Did anybody hear when the kestrel rollout begins in Berlin?", texts) == [1]


def test_one_term_that_most_documents_hold_is_none() -> None:
    texts = others(200)
    assert matching("Did they report a kestrel?", texts) == []
    assert matching("Did they report a kestrel?", ["a kestrel", *texts]) == [1]


def test_the_whole_question_is_a_match_however_common_it_is() -> None:
    assert matching("What did they report?", others(30)) == list(range(1, 11))
    assert matching("What was reported today?", others(30)) == list(range(1, 11))
    assert matching("What was reported today?", ["It was reported.", *others(30)])[0] == 2


def test_half_of_the_documents_are_not_most_of_them() -> None:
    texts = ["the kestrel"] * 10 + ["a crow"] * 10
    assert matching("kestrel rollout", texts) == list(range(1, 11))
    assert matching("kestrel rollout", ["the kestrel", *texts]) == []


def test_among_few_documents_every_term_is_a_match() -> None:
    assert matching("Where is the kestrel nest?", ["kestrel"] * 19) == list(range(1, 11))
    assert matching("Where is the kestrel nest?", ["kestrel"] * 20) == []


def test_a_small_part_of_a_long_question_is_no_match() -> None:
    question = " ".join(f"unheard{number}" for number in range(20))
    assert matching(f"{question} kestrel", ["kestrel", *others(50)]) == []
    assert matching(f"{question} kestrel", ["kestrel", *others(5)]) == [1]


def test_nothing_matches_what_is_about_something_else() -> None:
    assert matching("What is the capital of France?", ["I prefer dark roast coffee."]) == []
    assert matching("What is the capital of France?", others(100)) == []


# A score for people


def test_a_document_with_the_whole_question_has_the_full_score() -> None:
    scored, statistics = answers("kestrel rollout", ["Kestrel rollout: Monday.", *others(50)])
    assert normalize_score(scored[0], best("kestrel rollout", statistics)) > 0.9


def test_half_of_a_question_has_about_half_of_the_score() -> None:
    scored, statistics = answers("kestrel rollout", ["Kestrel seen Monday.", *others(50)])
    assert 0.3 < normalize_score(scored[0], best("kestrel rollout", statistics)) < 0.7


def test_the_only_memory_of_an_agent_has_a_score_that_people_understand() -> None:
    for question, least in (("Which coffee do I prefer?", 0.8), ("coffee beans?", 0.3)):
        scored, statistics = answers(question, ["I prefer dark roast coffee."])
        assert normalize_score(scored[0], best(question, statistics)) > least


def test_without_a_question_the_score_is_nothing() -> None:
    assert normalize_score(ScoredDocument(1, 1.0, 1.0, 1), total_weight([])) == 0


# What holds for all

COUNTS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 40), max_size=8)


@st.composite
def collections(draw: st.DrawFn) -> list[DocumentTerms]:
    counted = draw(st.lists(COUNTS, max_size=30))
    return [DocumentTerms(key, one, sum(one.values())) for key, one in enumerate(counted, 1)]


def shuffled(counts: Mapping[str, int], data: st.DataObject) -> dict[str, int]:
    return {term: counts[term] for term in data.draw(st.permutations(list(counts)))}


@given(COUNTS, collections(), st.data())
def test_no_order_changes_a_single_bit(
    question: dict[str, int], documents: list[DocumentTerms], data: st.DataObject
) -> None:
    statistics = statistics_of(documents)
    first = rank_documents(question, documents, statistics, 100)
    again = rank_documents(
        shuffled(question, data),
        [
            DocumentTerms(one.key, shuffled(one.counts, data), one.length)
            for one in data.draw(st.permutations(documents))
        ],
        CorpusStatistics(
            statistics.documents, statistics.terms, shuffled(statistics.frequencies, data)
        ),
        100,
    )
    assert again == first


@given(COUNTS, collections())
def test_every_score_keeps_its_bounds(
    question: dict[str, int], documents: list[DocumentTerms]
) -> None:
    statistics = statistics_of(documents)
    scored = rank_documents(question, documents, statistics, 100)
    assert [one.key for one in scored] == [
        one.key for one in sorted(scored, key=lambda one: (-one.score, one.key))
    ]
    assert {one.key for one in scored} == {
        one.key for one in documents if question.keys() & one.counts.keys()
    }
    for one in scored:
        assert one.score > 0
        assert 0 < one.coverage <= 1 + 1e-9
        assert 0 < normalize_score(one, total_weight(weigh_terms(question, statistics))) <= 1


@given(COUNTS, collections())
def test_a_share_of_the_question_is_that_of_its_score(
    question: dict[str, int], documents: list[DocumentTerms]
) -> None:
    statistics = statistics_of(documents)
    weights = weigh_terms(question, statistics)
    found = {one.key: one.coverage for one in rank_documents(question, documents, statistics, 100)}
    shares = {one.key: compute_coverage(weights, one.counts) for one in documents}
    assert shares == {one.key: found.get(one.key, 0.0) for one in documents}


@given(COUNTS, collections(), collections())
def test_who_else_was_found_changes_no_score(
    question: dict[str, int], some: list[DocumentTerms], more: list[DocumentTerms]
) -> None:
    others_found = [DocumentTerms(one.key + 100, one.counts, one.length) for one in more]
    statistics = statistics_of(some)
    among_all = rank_documents(question, [*others_found, *some], statistics, 100)
    alone = rank_documents(question, some, statistics, 100)
    assert [one for one in among_all if one.key <= 100] == alone


def test_of_a_long_question_the_telling_terms_are_looked_for() -> None:
    question = {f"word{number:02}": 1 for number in range(30)}
    common = {f"word{number:02}": 90 for number in range(20)}
    statistics = CorpusStatistics(100, 1000, {**dict.fromkeys(question, 1), **common})
    assert telling(question, statistics) == [f"word{number:02}" for number in range(20, 30)]
    again = telling(dict(reversed(question.items())), statistics)
    assert again == telling(question, statistics)
    assert telling({"b": 2, "a": 1}, statistics) == ["a", "b"]


def test_what_nobody_ever_said_does_not_hide_what_is_asked() -> None:
    question = {"database": 1, **{f"unheard{number}": 1 for number in range(20)}}
    assert "database" in telling(question, CorpusStatistics(100, 1000, {"database": 3}))
