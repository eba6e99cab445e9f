"""What answers add up to: recall, NDCG, sessions and latency, and how they changed (pure)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Final

from memplane.errors import InvalidRequest
from memplane.memory.contract import Block

LEAST_FALL: Final = 0.005
"""By how much a share of what should be found may fall and still be as good."""
LEAST_RISE: Final = 0.02
"""By how much the share of false returns may rise and still be as good."""

_DEPTH: Final = 10
_TURNS_OF_A_SESSION: Final = 3
_NOISE_OF_FLOATS: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Found:
    """An entry that was returned, and its score."""

    id: str
    score: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one question, the best first, and what should have.

    `sessions` tells the session of each entry; it is empty where there are none.
    """

    wanted: frozenset[str]
    found: tuple[Found, ...]
    seconds: float
    category: str = ""
    conversation: str = ""
    sessions: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class Figures:
    """The means over some questions; sessions are only known of conversations."""

    questions: int
    recall_at_5: float
    recall_at_10: float
    recall_at_20: float
    ndcg_at_10: float
    session_recall_at_10: float | None = None


@dataclass(frozen=True, slots=True)
class Latency:
    """How long recalls took, one after the other, by the nearest rank."""

    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class Disk:
    """What the database and the text index take on disk."""

    episodes: int
    database_bytes: int
    index_bytes: int
    bytes_per_episode: float


@dataclass(frozen=True, slots=True)
class Report:
    """All figures of one run.

    `false_returns` is the share of questions about another conversation that returned anything.
    """

    overall: Figures
    latency: Latency
    categories: dict[str, Figures] = field(default_factory=dict[str, Figures])
    conversations: dict[str, Figures] = field(default_factory=dict[str, Figures])
    false_returns: float | None = None
    disk: Disk | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """One figure before and now, and whether it got worse by more than it may."""

    name: str
    before: float
    now: float
    worse: bool


def found_in(blocks: Iterable[Block]) -> tuple[Found, ...]:
    """Return the entries that blocks name, in their order and each once."""
    found: dict[str, Found] = {}
    for block in blocks:
        for one in block.entry_ids:
            found.setdefault(one, Found(one, block.score or 0.0))
    return tuple(found.values())


def recall(ids: Sequence[str], wanted: Collection[str], depth: int) -> float:
    """Return the share of what is wanted that is among the first."""
    return len(set(ids[:depth]) & set(wanted)) / len(wanted)


def ndcg(ids: Sequence[str], wanted: Collection[str], depth: int = _DEPTH) -> float:
    """Return the normalised gain of the first: a hit counts less the later it comes."""
    gained = sum(_gain(place) for place, one in enumerate(ids[:depth]) if one in wanted)
    return gained / sum(map(_gain, range(min(len(wanted), depth))))


def _gain(place: int) -> float:
    return 1 / math.log2(place + 2)


def ranked_sessions(found: Iterable[Found], sessions: Mapping[str, int]) -> list[int]:
    """Rank sessions by the sum of their three best turns; of equal ones the first found leads."""
    scores: dict[int, list[float]] = defaultdict(list)
    for one in found:
        if one.id in sessions:
            scores[sessions[one.id]].append(one.score)
    sums = {
        session: math.fsum(sorted(own, reverse=True)[:_TURNS_OF_A_SESSION])
        for session, own in scores.items()
    }
    return sorted(sums, key=lambda session: -sums[session])


def session_recall(answer: Answer) -> float | None:
    """Return the share of the wanted sessions among the first ten; None without sessions."""
    wanted = {answer.sessions[one] for one in answer.wanted if one in answer.sessions}
    if not wanted:
        return None
    first = ranked_sessions(answer.found, answer.sessions)[:_DEPTH]
    return len(wanted.intersection(first)) / len(wanted)


def figures_of(answers: Sequence[Answer]) -> Figures:
    """Return the means over the answers, of which there is at least one."""
    ranked = [([found.id for found in one.found], one.wanted) for one in answers]
    sessions = [share for one in answers if (share := session_recall(one)) is not None]
    return Figures(
        questions=len(answers),
        recall_at_5=fmean(recall(ids, wanted, 5) for ids, wanted in ranked),
        recall_at_10=fmean(recall(ids, wanted, 10) for ids, wanted in ranked),
        recall_at_20=fmean(recall(ids, wanted, 20) for ids, wanted in ranked),
        ndcg_at_10=fmean(ndcg(ids, wanted) for ids, wanted in ranked),
        session_recall_at_10=fmean(sessions) if sessions else None,
    )


def report_of(
    answers: Sequence[Answer], *, false_returns: float | None = None, disk: Disk | None = None
) -> Report:
    """Return the figures over all answers, of which there is at least one, and by their kinds."""
    categories: dict[str, list[Answer]] = defaultdict(list)
    conversations: dict[str, list[Answer]] = defaultdict(list)
    for one in answers:
        categories[one.category].append(one)
        conversations[one.conversation].append(one)
    took = [one.seconds * 1000 for one in answers]
    return Report(
        overall=figures_of(answers),
        latency=Latency(nearest_rank(took, 50), nearest_rank(took, 99)),
        categories={name: figures_of(categories[name]) for name in sorted(categories) if name},
        conversations={name: figures_of(own) for name, own in conversations.items() if name},
        false_returns=false_returns,
        disk=disk,
    )


def nearest_rank(values: Sequence[float], percent: int) -> float:
    """Return the smallest value that so many percent do not exceed; there is at least one."""
    return sorted(values)[max(math.ceil(len(values) * percent / 100) - 1, 0)]


def changes(before: Report, now: Report) -> list[Change]:
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


def _asked(report: Report) -> dict[str, int]:
    asked = {name: one.questions for name, one in report.conversations.items()}
    return {**asked, "": report.overall.questions}


def _described(report: Report) -> str:
    names = ", ".join(report.conversations)
    return f"{report.overall.questions} questions{' about ' if names else ''}{names}"


def _fallen(name: str, before: float | None, now: float | None) -> Change | None:
    if before is None or now is None:
        return None
    return Change(name, before, now, before - now > LEAST_FALL + _NOISE_OF_FLOATS)


def _risen(name: str, before: float | None, now: float | None) -> Change | None:
    if before is None or now is None:
        return None
    return Change(name, before, now, now - before > LEAST_RISE + _NOISE_OF_FLOATS)
