"""What answers add up to: recall, NDCG, sessions and latency, and how they changed (pure)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Final

from memplane.episodes.api_types import MemoryBlock
from memplane.errors import InvalidRequest

MAX_RECALL_LOSS: Final = 0.005
"""By how much a share of what should be found may fall and still be as good."""
MAX_FALSE_RETURN_RISE: Final = 0.02
"""By how much the share of false returns may rise and still be as good."""

_DEFAULT_DEPTH: Final = 10
_MAX_SESSION_TURNS: Final = 3
_FLOAT_TOLERANCE: Final = 1e-9
_Z_95: Final = 1.96


@dataclass(frozen=True, slots=True)
class RetrievedEntry:
    """An entry that was returned, and its score."""

    id: str
    score: float


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """What came back for one question, the best first, and what should have.

    `sessions` tells the session of each entry; it is empty where there are none.
    """

    wanted: frozenset[str]
    found: tuple[RetrievedEntry, ...]
    seconds: float
    category: str = ""
    conversation: str = ""
    sessions: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class RecallMetrics:
    """The means over some questions; sessions are only known of conversations.

    A hit is a question of which anything wanted is among the first. The margin is that of the 95 %
    confidence interval of recall@10.
    """

    questions: int
    recall_at_5: float
    recall_at_10: float
    recall_at_20: float
    ndcg_at_10: float
    session_recall_at_10: float | None = None
    session_hit_at_10: float | None = None
    hit_at_1: float = 0.0
    hit_at_3: float = 0.0
    recall_at_10_margin: float = 0.0


@dataclass(frozen=True, slots=True)
class Latency:
    """How long recalls took, one after the other, by the nearest rank."""

    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """What the database and the text index take on disk."""

    episodes: int
    database_bytes: int
    index_bytes: int
    bytes_per_episode: float


@dataclass(frozen=True, slots=True)
class RecallReport:
    """All figures of one run.

    `false_returns` is the share of questions about another conversation that returned anything,
    `unanswerable_returns` that of questions which nothing in their own conversation answers.
    """

    overall: RecallMetrics
    latency: Latency
    categories: dict[str, RecallMetrics] = field(default_factory=dict[str, RecallMetrics])
    conversations: dict[str, RecallMetrics] = field(default_factory=dict[str, RecallMetrics])
    false_returns: float | None = None
    disk: DiskUsage | None = None
    unanswerable_returns: float | None = None


@dataclass(frozen=True, slots=True)
class MetricChange:
    """One figure before and now, and whether it got worse by more than it may."""

    name: str
    before: float
    now: float
    worse: bool


def extract_entries(blocks: Iterable[MemoryBlock]) -> tuple[RetrievedEntry, ...]:
    """Return the entries that blocks name, in their order and each once."""
    found: dict[str, RetrievedEntry] = {}
    for block in blocks:
        for one in block.entry_ids:
            found.setdefault(one, RetrievedEntry(one, block.score or 0.0))
    return tuple(found.values())


def compute_recall(ids: Sequence[str], wanted: Collection[str], depth: int) -> float:
    """Return the share of what is wanted that is among the first."""
    return len(set(ids[:depth]) & set(wanted)) / len(wanted)


def compute_ndcg(
    ids: Sequence[str], wanted: Collection[str], depth: int = _DEFAULT_DEPTH
) -> float:
    """Return the normalised gain of the first: a hit counts less the later it comes."""
    gained = sum(_gain(place) for place, one in enumerate(ids[:depth]) if one in wanted)
    return gained / sum(map(_gain, range(min(len(wanted), depth))))


def _gain(place: int) -> float:
    return 1 / math.log2(place + 2)


def rank_sessions(found: Iterable[RetrievedEntry], sessions: Mapping[str, int]) -> list[int]:
    """Rank sessions by the sum of their three best turns; of equal ones the first found leads."""
    scores: dict[int, list[float]] = defaultdict(list)
    for one in found:
        if one.id in sessions:
            scores[sessions[one.id]].append(one.score)
    sums = {
        session: math.fsum(sorted(own, reverse=True)[:_MAX_SESSION_TURNS])
        for session, own in scores.items()
    }
    return sorted(sums, key=lambda session: -sums[session])


def compute_session_recall(answer: QuestionResult) -> float | None:
    """Return the share of the wanted sessions among the first ten; None without sessions."""
    wanted = {answer.sessions[one] for one in answer.wanted if one in answer.sessions}
    if not wanted:
        return None
    first = rank_sessions(answer.found, answer.sessions)[:_DEFAULT_DEPTH]
    return len(wanted.intersection(first)) / len(wanted)


def compute_metrics(answers: Sequence[QuestionResult]) -> RecallMetrics:
    """Return the means over the answers, of which there is at least one."""
    ranked = [([found.id for found in one.found], one.wanted) for one in answers]
    sessions = [share for one in answers if (share := compute_session_recall(one)) is not None]
    at_10 = [compute_recall(ids, wanted, 10) for ids, wanted in ranked]
    return RecallMetrics(
        questions=len(answers),
        recall_at_5=fmean(compute_recall(ids, wanted, 5) for ids, wanted in ranked),
        recall_at_10=fmean(at_10),
        recall_at_20=fmean(compute_recall(ids, wanted, 20) for ids, wanted in ranked),
        ndcg_at_10=fmean(compute_ndcg(ids, wanted) for ids, wanted in ranked),
        session_recall_at_10=fmean(sessions) if sessions else None,
        session_hit_at_10=fmean(share > 0 for share in sessions) if sessions else None,
        hit_at_1=fmean(compute_recall(ids, wanted, 1) > 0 for ids, wanted in ranked),
        hit_at_3=fmean(compute_recall(ids, wanted, 3) > 0 for ids, wanted in ranked),
        recall_at_10_margin=_Z_95 * stdev(at_10) / math.sqrt(len(at_10)) if at_10[1:] else 0.0,
    )


def build_report(
    answers: Sequence[QuestionResult],
    *,
    false_returns: float | None = None,
    disk: DiskUsage | None = None,
) -> RecallReport:
    """Return the figures over all answers and by their kinds.

    At least one of the questions has an answer; those that have none only count for
    `unanswerable_returns`.
    """
    unanswerable = [one for one in answers if not one.wanted]
    answers = [one for one in answers if one.wanted]
    categories: dict[str, list[QuestionResult]] = defaultdict(list)
    conversations: dict[str, list[QuestionResult]] = defaultdict(list)
    for one in answers:
        categories[one.category].append(one)
        conversations[one.conversation].append(one)
    took = [one.seconds * 1000 for one in answers]
    return RecallReport(
        overall=compute_metrics(answers),
        latency=Latency(compute_percentile(took, 50), compute_percentile(took, 99)),
        categories={
            name: compute_metrics(categories[name]) for name in sorted(categories) if name
        },
        conversations={name: compute_metrics(own) for name, own in conversations.items() if name},
        false_returns=false_returns,
        disk=disk,
        unanswerable_returns=(
            fmean(bool(one.found) for one in unanswerable) if unanswerable else None
        ),
    )


def compute_percentile(values: Sequence[float], percent: int) -> float:
    """Return the smallest value that so many percent do not exceed; there is at least one."""
    return sorted(values)[max(math.ceil(len(values) * percent / 100) - 1, 0)]


def compare_reports(before: RecallReport, now: RecallReport) -> list[MetricChange]:
    """Compare what is judged with an earlier run over the same questions.

    Raises:
        InvalidRequest: The earlier run asked other questions.
    """
    if _asked(before) != _asked(now):
        raise InvalidRequest(
            f"the baseline is of other data: {_described(before)} there, {_described(now)} here"
        )
    was, is_now = before.overall, now.overall
    compared = [
        _fallen("recall@10", was.recall_at_10, is_now.recall_at_10),
        _fallen("NDCG@10", was.ndcg_at_10, is_now.ndcg_at_10),
        _fallen("session recall@10", was.session_recall_at_10, is_now.session_recall_at_10),
        _risen("false returns", before.false_returns, now.false_returns),
    ]
    return [one for one in compared if one is not None]


def _asked(report: RecallReport) -> dict[str, int]:
    asked = {name: one.questions for name, one in report.conversations.items()}
    return {**asked, "": report.overall.questions}


def _described(report: RecallReport) -> str:
    names = ", ".join(report.conversations)
    return f"{report.overall.questions} questions{' about ' if names else ''}{names}"


def _fallen(name: str, before: float | None, now: float | None) -> MetricChange | None:
    if before is None or now is None:
        return None
    return MetricChange(name, before, now, before - now > MAX_RECALL_LOSS + _FLOAT_TOLERANCE)


def _risen(name: str, before: float | None, now: float | None) -> MetricChange | None:
    if before is None or now is None:
        return None
    return MetricChange(name, before, now, now - before > MAX_FALSE_RETURN_RISE + _FLOAT_TOLERANCE)
