"""P1a: whatever moment a recorder is killed at, what it acknowledged is there, once."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from memplane.ledger.folder import list_ledger_agents
from memplane.ledger.writer import LedgerOptions
from tests.ledger.proofs.ledgers import problems_of, record, turn_of, verdicts
from tests.ledger.proofs.worker import Job
from tests.ledger.proofs.workers import Said, Workers, kill

# The machine may be busy; a hang shows all the same.
pytestmark = pytest.mark.timeout(600)

AGENTS = ("analyst", "builder", "critic")
KILLS_OF_ONE_LEDGER = 20
OPTIONS = LedgerOptions(max_bytes=3000)


@dataclass(slots=True)
class History:
    """What was promised about one ledger, over all the recorders that were killed."""

    acked: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    unknown: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def add(self, job: Job, said: Said) -> None:
        """Each writer waits for its answer, so one turn of each may be there unacknowledged."""
        for writer in range(job.writers):
            mine = job.token(writer, 0).removesuffix("0")
            acked = [token for token in said.acked if token.startswith(mine)]
            agent = job.agent_of(writer)
            self.acked.setdefault(agent, []).extend(acked)
            if len(acked) < job.turns:
                self.unknown.setdefault(agent, []).append(job.token(writer, len(acked)))

    def problems(self, root: Path) -> list[str]:
        found: list[str] = []
        for agent in list_ledger_agents(root):
            acked = self.acked.get(agent, [])
            attempted = [*acked, *self.unknown.get(agent, [])]
            found += problems_of(root, agent, acked=acked, attempted=attempted)
            found += verdicts(root, agent)
        return found


def killed(workers: Workers, job: Job, acks: int) -> Said:
    said = Said()
    pid = workers.start(job)
    if workers.hear(said, until_acks=acks):
        kill(pid)
        workers.hear(said)
    return said


def reopened(root: Path, history: History, name: str) -> None:
    """Recover every agent's ledger by recording one more turn in each."""
    agents = list(list_ledger_agents(root))
    record(root, *(turn_of(f"{name}-{agent}", agent) for agent in agents), options=OPTIONS)
    for agent in agents:
        history.acked.setdefault(agent, []).append(f"{name}-{agent}")


def kill_again_and_again(workers: Workers, root: Path, rng: random.Random, kills: int) -> int:
    """Kill recorders of one ledger; returns how many turns were acknowledged."""
    history = History()
    acks = 0
    for number in range(kills):
        job = Job(str(root), f"k{number}", AGENTS, rng.randint(1, 9), 1000, OPTIONS.max_bytes)
        said = killed(workers, job, rng.randint(0, 30))
        assert said.status == -9
        assert said.refused == {}
        history.add(job, said)
        acks += len(said.acked)
        if rng.random() < 0.7:  # otherwise the next recorder recovers, and is killed too
            reopened(root, history, f"r{number}")
            assert history.problems(root) == [], f"kill {number} of {root}"
    reopened(root, history, "last")
    assert history.problems(root) == []
    return acks


@pytest.mark.parametrize(
    "kills", [200, pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.timeout(3600)])]
)
def test_a_kill_loses_doubles_and_invents_nothing(
    kills: int, workers: Workers, rng: random.Random, tmp_path: Path, memory: Path
) -> None:
    acks = 0
    for number in range(kills // KILLS_OF_ONE_LEDGER):
        # A disk makes a kill during a sync likely, memory makes one between them likely.
        root = (tmp_path, memory)[number % 2] / f"ledger{number}"
        acks += kill_again_and_again(workers, root, rng, KILLS_OF_ONE_LEDGER)
    assert acks > kills


def test_the_proof_notices_lost_doubled_altered_and_invented_turns(tmp_path: Path) -> None:
    record(tmp_path, *(turn_of(f"t{number}") for number in range(4)))
    whole = ["t0", "t1", "t2", "t3"]
    assert problems_of(tmp_path, acked=whole, attempted=whole) == []
    path = tmp_path / "analyst" / "history.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)

    def noticed(changed: Sequence[bytes], attempted: Sequence[str] = tuple(whole)) -> list[str]:
        path.write_bytes(b"".join(changed))
        return problems_of(tmp_path, acked=attempted, attempted=attempted)

    assert noticed(lines[1:]) == ["t0 was acknowledged and is lost"]
    assert noticed([*lines, lines[0]]) == ["t0 is there 2 times"]
    assert noticed(lines, whole[1:]) == ["t0 was invented"]
    altered = lines[0].replace(b'"path":"/v1"', b'"path":"/v2"')
    assert noticed([altered, *lines[1:]]) == ["t0 has the id of other bytes", "t0 was altered"]


def test_a_recorder_that_acknowledges_too_early_is_noticed(
    workers: Workers, tmp_path: Path
) -> None:
    """The control: an acknowledgement for a turn that was never handed over."""
    job = Job(str(tmp_path / "ledger"), "k", AGENTS, 3, 5)
    said = Said()
    workers.start(job)
    workers.hear(said)
    assert said.closed
    history = History()
    history.add(job, said)
    assert history.problems(tmp_path / "ledger") == []
    history.add(replace(job, prefix="early"), Said(acked=["early-0-0"]))
    assert history.problems(tmp_path / "ledger") == ["early-0-0 was acknowledged and is lost"]
