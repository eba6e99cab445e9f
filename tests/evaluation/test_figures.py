"""Figures against cases that were computed by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memplane.episodes.api_types import MemoryBlock
from memplane.errors import InvalidRequest
from memplane.evaluation.metrics import (
    Latency,
    QuestionResult,
    RecallMetrics,
    RecallReport,
    RetrievedEntry,
    build_report,
    compare_reports,
    compute_metrics,
    compute_ndcg,
    compute_percentile,
    compute_recall,
    compute_session_recall,
    extract_entries,
    rank_sessions,
)


def answer(wanted: str, found: str, **more: object) -> QuestionResult:
    """Make an answer whose ids are letters; the scores fall from 1."""
    ranked = tuple(RetrievedEntry(one, 1 / (place + 1)) for place, one in enumerate(found))
    return replace(QuestionResult(frozenset(wanted), ranked, 0.001), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ids", "wanted", "depth", "share"),
    [
        ("abc", "b", 5, 1.0),
        ("abc", "bx", 5, 0.5),
        ("abc", "x", 5, 0.0),
        ("abcdef", "f", 5, 0.0),
        ("abcdef", "f", 6, 1.0),
        ("", "a", 5, 0.0),
        ("abcdef", "abcdef", 5, 5 / 6),
    ],
)
def test_recall_is_the_share_of_the_evidence_among_the_first(
    ids: str, wanted: str, depth: int, share: float
) -> None:
    assert compute_recall(list(ids), set(wanted), depth) == pytest.approx(share)


@pytest.mark.parametrize(
    ("ids", "wanted", "value"),
    [
        ("a", "a", 1.0),
        ("xa", "a", 0.63093),
        ("xayb", "ab", 0.65092),
        ("ab", "ba", 1.0),
        ("ax", "ab", 0.61315),
        ("xyz", "a", 0.0),
        ("0123456789a", "a", 0.0),
        ("abcdefghij", "abcdefghijkl", 1.0),
    ],
)
def test_ndcg_counts_a_late_hit_less(ids: str, wanted: str, value: float) -> None:
    assert compute_ndcg(list(ids), set(wanted)) == pytest.approx(value, abs=1e-5)


def test_entries_that_several_blocks_name_count_once_where_they_first_stand() -> None:
    blocks = [
        MemoryBlock(text="1", score=0.9, entry_ids=("a", "b")),
        MemoryBlock(text="2", entry_ids=()),
        MemoryBlock(text="3", score=0.5, entry_ids=("b", "c")),
        MemoryBlock(text="4", entry_ids=("d",)),
    ]
    assert extract_entries(blocks) == (
        RetrievedEntry("a", 0.9),
        RetrievedEntry("b", 0.9),
        RetrievedEntry("c", 0.5),
        RetrievedEntry("d", 0.0),
    )


def test_sessions_are_ranked_by_their_three_best_turns() -> None:
    sessions = {"a": 1, "b": 2, "c": 2, "d": 2, "e": 2, "f": 3}
    found = [
        RetrievedEntry("a", 1.3),
        *(RetrievedEntry(one, 0.4) for one in "bcde"),
        RetrievedEntry("f", 0.1),
    ]
    assert rank_sessions(found, sessions) == [1, 2, 3]
    assert rank_sessions([RetrievedEntry("a", 1.1), *found[1:]], sessions) == [2, 1, 3]


def test_of_equal_sessions_the_first_found_leads_and_strangers_are_none() -> None:
    found = [RetrievedEntry("x", 9.0), RetrievedEntry("b", 0.5), RetrievedEntry("a", 0.5)]
    assert rank_sessions(found, {"a": 1, "b": 2}) == [2, 1]


def test_session_recall_looks_at_ten_sessions() -> None:
    letters = "abcdefghijk"
    sessions = {one: place for place, one in enumerate(letters)}
    asked = {"sessions": sessions}
    assert compute_session_recall(answer("j", letters, **asked)) == 1.0
    assert compute_session_recall(answer("k", letters, **asked)) == 0.0
    assert compute_session_recall(answer("jk", letters, **asked)) == 0.5
    assert compute_session_recall(answer("ab", "a", sessions={"a": 1, "b": 1})) == 1.0
    assert compute_session_recall(answer("a", "a")) is None


def test_figures_are_means_over_questions() -> None:
    found = "abcdefghijklmnopqrstuvwxyz"
    means = compute_metrics([answer("a", found), answer("gt", found), answer("oz", found)])
    assert means.questions == 3
    assert means.recall_at_5 == pytest.approx(1 / 3)
    assert means.recall_at_10 == pytest.approx((1 + 0.5 + 0) / 3)
    assert means.recall_at_20 == pytest.approx((1 + 1 + 0.5) / 3)
    assert means.ndcg_at_10 == pytest.approx((1 + (1 / 3) / 1.63093 + 0) / 3, abs=1e-5)
    assert means.session_recall_at_10 is None


@pytest.mark.parametrize(
    ("count", "p50", "p99"), [(1, 1, 1), (2, 1, 2), (100, 50, 99), (200, 100, 198)]
)
def test_latencies_are_those_of_the_nearest_rank(count: int, p50: int, p99: int) -> None:
    took = [float(one) for one in range(count, 0, -1)]
    assert (compute_percentile(took, 50), compute_percentile(took, 99)) == (p50, p99)


def test_a_report_groups_by_category_and_by_conversation() -> None:
    report = build_report(
        [
            answer("a", "a", category="temporal", conversation="second", seconds=0.004),
            answer("a", "b", category="multi-hop", conversation="first", seconds=0.002),
            answer("a", "ba", category="multi-hop", conversation="second", seconds=0.003),
        ],
        false_returns=0.25,
    )
    assert list(report.categories) == ["multi-hop", "temporal"]
    assert report.categories["multi-hop"].recall_at_10 == 0.5
    assert report.conversations["second"].questions == 2
    assert report.conversations["second"].recall_at_10 == 1.0
    assert report.overall.recall_at_10 == pytest.approx(2 / 3)
    assert report.latency == Latency(p50_ms=3.0, p99_ms=4.0)
    assert report.false_returns == 0.25


def test_questions_without_a_category_are_only_in_all() -> None:
    report = build_report([answer("a", "a"), answer("a", "b", category="work")])
    assert list(report.categories) == ["work"]
    assert report.conversations == {}
    assert report.overall.questions == 2


def made(
    *, sessions: float | None = 0.9, false_returns: float | None = 0.1, **more: float
) -> RecallReport:
    shares = {"recall_at_10": 0.7, "ndcg_at_10": 0.5, **more}
    overall = RecallMetrics(
        questions=10,
        recall_at_5=0.6,
        recall_at_20=0.8,
        session_recall_at_10=sessions,
        **shares,
    )
    return RecallReport(overall, Latency(1.0, 2.0), false_returns=false_returns)


@pytest.mark.parametrize(
    ("now", "worse"),
    [
        (made(), []),
        (made(recall_at_10=0.695), []),
        (made(recall_at_10=0.6949), ["recall@10"]),
        (made(recall_at_10=0.9, ndcg_at_10=0.494), ["NDCG@10"]),
        (made(sessions=0.89), ["session recall@10"]),
        (made(false_returns=0.12), []),
        (made(false_returns=0.13), ["false returns"]),
        (made(recall_at_10=1.0, ndcg_at_10=1.0, sessions=1.0, false_returns=0.0), []),
        (replace(made(), latency=Latency(100.0, 900.0)), []),
    ],
)
def test_only_what_got_worse_by_more_than_it_may_is_worse(
    now: RecallReport, worse: list[str]
) -> None:
    compared = compare_reports(made(), now)
    assert [one.name for one in compared if one.worse] == worse
    assert len(compared) == 4


def test_what_one_run_has_not_is_not_compared() -> None:
    compared = compare_reports(made(), made(sessions=None, false_returns=None))
    assert [one.name for one in compared] == ["recall@10", "NDCG@10"]


def test_a_run_over_other_questions_is_no_baseline() -> None:
    other = replace(made(), overall=replace(made().overall, questions=11))
    with pytest.raises(InvalidRequest, match="11 questions there, 10 questions here"):
        compare_reports(other, made())
    named = replace(made(), conversations={"harbour": made().overall})
    with pytest.raises(InvalidRequest, match="10 questions about harbour here"):
        compare_reports(made(), named)
