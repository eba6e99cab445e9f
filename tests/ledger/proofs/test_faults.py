"""P3: a system call that fails gives a reported error or none, and never a silent promise."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.ledger.proofs.ledgers import (
    kept_aside,
    line_of,
    problems_of,
    record_tokens,
    verdicts,
)
from tests.ledger.proofs.starts import NOTHING, Start, starts
from tests.ledger.proofs.straced import Ran, every_call, run_traced, synced_again
from tests.ledger.proofs.worker import Job
from tests.ledger.proofs.workers import Said, Workers

# The machine may be busy; a hang shows all the same.
pytestmark = pytest.mark.timeout(600)

ERRORS = ("ENOSPC", "EIO", "EDQUOT", "EROFS", "EMFILE", "EINTR")
TURNS = 20
NOBODY = 65534
LINE = len(line_of("n-0-0")) + 1


@dataclass(frozen=True, slots=True)
class Fault:
    start: Start
    call: str
    number: int
    error: str

    @property
    def name(self) -> str:
        return f"{self.start.name}-{self.call}-{self.number}-{self.error}"

    def run(self, workers: Workers, root: Path) -> Ran:
        job = Job(str(self.start.placed(root)), "n", turns=TURNS)
        inject = f"{self.call}:error={self.error}:when={self.number}"
        return run_traced(workers, job, calls=[self.call], inject=inject)


def all_faults(workers: Workers, scratch: Path) -> list[Fault]:
    return [
        Fault(start, call, number, error)
        for start in starts(scratch)
        for call, number in every_call(
            workers, Job(str(start.placed(scratch / f"counted-{start.name}")), "n", turns=TURNS)
        )
        for error in ERRORS
    ]


def answer_problems(said: Said) -> list[str]:
    """Say what is wrong with the answers: each turn got one, and one fault cost one turn."""
    found = [
        f"{token} was refused with {error}"
        for token, error in said.refused.items()
        if not error.startswith("NotRecorded")
    ]
    if said.hung:
        found.append("it hung")
    if not said.closed or said.status:
        found.append(f"it ended with {said.status}")
    if len(said.acked) + len(said.refused) != TURNS:
        found.append(f"{TURNS} turns got {len(said.acked)} + {len(said.refused)} answers")
    if len(said.refused) > 1:
        found.append(f"one fault cost {len(said.refused)} turns: {said.refused}")
    return found


def problems_after(workers: Workers, fault: Fault, root: Path) -> list[str]:
    ran = fault.run(workers, root)
    if not ran.injected:
        return ["the fault never came"]
    found = answer_problems(ran.said)
    record_tokens(root, "after")
    found += fault.start.problems(root, [*ran.said.acked, "after"], [*ran.said.refused])
    found += verdicts(root)
    return found + [f"{path.name} was left behind" for path in kept_aside(root)]


@pytest.mark.parametrize(
    "runs",
    [250, pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.timeout(3600)])],
)
def test_a_failed_call_is_reported_and_costs_one_turn_at_most(
    runs: int, workers: Workers, rng: random.Random, memory: Path
) -> None:
    faults = all_faults(workers, memory)
    assert len(faults) > 900
    chosen = rng.sample(faults, min(runs, len(faults)))
    found = {fault.name: problems_after(workers, fault, memory / fault.name) for fault in chosen}
    assert failures(found) == {}


def failures(found: Mapping[str, list[str]]) -> dict[str, list[str]]:
    return {name: told for name, told in sorted(found.items()) if told}


@pytest.mark.parametrize("error", ["EMFILE", "EIO"])
def test_a_recorder_that_cannot_read_its_anchors_still_answers(
    error: str, workers: Workers, memory: Path
) -> None:
    """The first file that a recorder opens is the anchors."""
    fault = Fault(NOTHING, "openat", 1, error)
    assert problems_after(workers, fault, memory / "ledger") == []


def test_a_ledger_below_a_folder_that_cannot_be_listed_is_recorded(
    workers: Workers, memory: Path
) -> None:
    """A service's folder often lies below one that it may only pass through."""
    memory.chmod(0o711)
    (memory / "passed").mkdir(mode=0o711)
    root = memory / "passed" / "ledger"
    root.mkdir()
    os.chown(root, NOBODY, NOBODY)
    job = Job(str(root), "n", turns=3, user=NOBODY)
    said = Said()
    workers.hear_to_the_end(workers.start(job), said)
    assert said.refused == {}
    assert len(said.acked) == 3


# A limit on the size of files makes writes short


@pytest.mark.parametrize("limit", [1, 100, 700, 711, 1100, 1900])
def test_a_short_write_is_reported_and_leaves_nothing(
    limit: int, workers: Workers, memory: Path
) -> None:
    root = memory / "ledger"
    job = Job(str(root), "n", turns=TURNS, max_bytes=1 << 20, largest_file=limit)
    job = replace(job, limited=tuple(range(4, 10)))
    said = Said()
    workers.hear_to_the_end(workers.start(job), said)
    assert said.closed
    assert not said.hung
    longer = [number for number in job.limited if (number + 1) * LINE > limit]
    assert sorted(said.refused) == [job.token(0, number) for number in longer]
    assert all(error.startswith("NotRecorded") for error in said.refused.values())
    record_tokens(root, "after")
    acked = [*said.acked, "after"]
    assert problems_of(root, acked=acked, attempted=acked) == []
    assert verdicts(root) == []


def test_a_write_that_ignores_how_much_was_written_is_noticed(
    workers: Workers, memory: Path
) -> None:
    """The control: it acknowledges a turn of which the disk took a part."""
    root = memory / "ledger"
    job = Job(str(root), "n", turns=8, max_bytes=1 << 20, largest_file=5 * LINE - 50, limited=(4,))
    said = Said()
    workers.hear_to_the_end(workers.start(replace(job, mutant="ignore-short-writes")), said)
    assert job.token(0, 4) in said.acked
    record_tokens(root, "after")
    lost = [f"{job.token(0, 4)} was acknowledged and is lost"]
    assert set(lost) <= set(problems_of(root, acked=said.acked, attempted=[*said.acked, "after"]))


# After a failed sync nobody knows what the disk has


def fail_a_sync(workers: Workers, root: Path, number: int, mutant: str = "") -> Ran:
    job = Job(str(root), "n", turns=TURNS, mutant=mutant)
    calls = ["fdatasync", "fsync", "close"]
    return run_traced(workers, job, calls=calls, inject=f"fdatasync:error=EIO:when={number}")


@pytest.mark.parametrize("number", [*range(1, 12), 25])
def test_a_file_that_failed_to_sync_is_never_synced_again(
    number: int, workers: Workers, memory: Path
) -> None:
    ran = fail_a_sync(workers, memory / "ledger", number)
    assert ran.injected
    assert synced_again(ran.trace) == []
    assert answer_problems(ran.said) == []


def test_a_second_sync_of_the_same_file_is_noticed(workers: Workers, memory: Path) -> None:
    ran = fail_a_sync(workers, memory / "ledger", 3, mutant="sync-again")
    assert answer_problems(ran.said) == []
    assert synced_again(ran.trace)


@pytest.mark.parametrize(
    "words",
    [
        {"refused": {"x": "OSError 'full'"}},
        {"acked": ["n"]},
        {"closed": False},
        {"hung": True},
        {"status": 1},
    ],
)
def test_answers_that_are_wrong_are_noticed(words: dict[str, Any]) -> None:
    right = Said(acked=["n"] * TURNS, closed=True)
    assert answer_problems(right) == []
    assert answer_problems(replace(right, **words))
