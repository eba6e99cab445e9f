"""P1b: a recorder killed at each of its system calls has lost nothing."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.ledger.proofs.ledgers import record_tokens, verdicts
from tests.ledger.proofs.starts import Start, starts, unclean
from tests.ledger.proofs.straced import every_call, run_traced
from tests.ledger.proofs.worker import Job
from tests.ledger.proofs.workers import Workers

# The machine may be busy; a hang shows all the same.
pytestmark = pytest.mark.timeout(600)

TURNS = 12


@dataclass(frozen=True, slots=True)
class KillAt:
    start: Start
    call: str
    number: int

    @property
    def name(self) -> str:
        return f"{self.start.name}-{self.call}-{self.number}"


def all_kills(workers: Workers, scratch: Path, turns: int) -> list[KillAt]:
    return [
        KillAt(start, call, number)
        for start in starts(scratch)
        for call, number in calls_from(workers, start, scratch, turns)
    ]


def calls_from(workers: Workers, start: Start, scratch: Path, turns: int) -> list[tuple[str, int]]:
    root = start.placed(scratch / f"counted-{start.name}-{turns}")
    return every_call(workers, Job(str(root), "n", turns=turns))


def problems_after(workers: Workers, kill: KillAt, root: Path, turns: int = TURNS) -> list[str]:
    job = Job(str(kill.start.placed(root)), "n", turns=turns)
    ran = run_traced(
        workers, job, calls=[kill.call], inject=f"{kill.call}:signal=KILL:when={kill.number}"
    )
    if ran.said.status != -9:
        return [f"the kill never came: {ran.said}"]
    record_tokens(root, "after")
    acked = [*ran.said.acked, "after"]
    unknown = [job.token(0, len(ran.said.acked))]
    return [*kill.start.problems(root, acked, unknown), *verdicts(root)]


@pytest.mark.parametrize("runs", [20, pytest.param(10_000, marks=pytest.mark.long)])
def test_a_kill_at_a_call_loses_doubles_and_invents_nothing(
    runs: int, workers: Workers, rng: random.Random, memory: Path
) -> None:
    kills = all_kills(workers, memory, TURNS)
    assert len(kills) > 300
    chosen = rng.sample(kills, min(runs, len(kills)))
    found = {kill.name: problems_after(workers, kill, memory / kill.name) for kill in chosen}
    assert {name: told for name, told in found.items() if told} == {}


def test_a_kill_while_mending_keeps_every_torn_byte(workers: Workers, memory: Path) -> None:
    start = unclean(memory / "unclean")
    kills = [
        KillAt(start, call, number) for call, number in calls_from(workers, start, memory, turns=1)
    ]
    found = {kill.name: problems_after(workers, kill, memory / kill.name, 1) for kill in kills}
    assert {name: told for name, told in found.items() if told} == {}
