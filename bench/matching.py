"""How well two statements are told apart, on both halves of the labelled pairs, and how fast."""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench.row import Row
from memplane.observations.matching import compare
from tests.observations import pairs_blind, pairs_development
from tests.observations.matching_figures import MatchingFigures, judge_pairs

COMPARISON_GOAL_MS = 0.3


def run() -> Iterator[Row]:
    halves = {"development": pairs_development.PAIRS, "blind": pairs_blind.PAIRS}
    for half, pairs in halves.items():
        yield from _figures(half, judge_pairs(pairs))
    yield _speed()


def _figures(half: str, found: MatchingFigures) -> Iterator[Row]:
    for what, percent, goal in (
        ("same, precision", found.precision_percent("same"), 95),
        ("same, recall", found.recall_percent("same"), 80),
        ("contradicting, precision", found.precision_percent("contradicting"), 95),
        ("contradicting, recall", found.recall_percent("contradicting"), None),
        ("undecided, both kept", found.kept_percent("undecided"), 95),
        ("distinct, both kept", found.kept_percent("distinct"), 98),
    ):
        yield Row(
            f"{what}, {half} half of {found.pairs} pairs",
            f"{percent:.1f} %",
            "-" if goal is None else f">= {goal} %",
            None if goal is None else percent >= goal,
        )


def _speed() -> Row:
    pairs = pairs_development.PAIRS
    for _, service, old, new, _ in pairs:
        compare(old, new, service=service)
    began = time.process_time()
    for _, service, old, new, _ in pairs:
        compare(old, new, service=service)
    took = (time.process_time() - began) * 1000 / len(pairs)
    return Row(
        "a comparison of two statements that were read before",
        f"{took:.2f} ms of the processor",
        f"<= {COMPARISON_GOAL_MS} ms",
        took <= COMPARISON_GOAL_MS,
    )
