"""P3: a disk that is full or cannot be written to is reported, and afterwards all goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ledger.proofs.small_disk import Outcome

REPOSITORY = Path(__file__).parents[3]
SHORTEST, LONGEST = 1500, 1 << 20


def outcome_of(folder: Path, scenario: str, max_bytes: int) -> Outcome:
    module = "tests.ledger.proofs.small_disk"
    ran = subprocess.run(
        ["unshare", "-m", sys.executable, "-m", module, str(folder), scenario, str(max_bytes)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return Outcome(**json.loads(ran.stdout))


def refusals(outcome: Outcome, when: str) -> set[str]:
    return {error.partition(":")[0] for error in outcome.refused[when].values()}


@pytest.mark.parametrize("max_bytes", [SHORTEST, 4096, LONGEST])
def test_a_full_disk_is_reported_and_room_is_used_at_once(max_bytes: int, tmp_path: Path) -> None:
    outcome = outcome_of(tmp_path, "filled", max_bytes)
    assert outcome.problems == []
    assert len(outcome.acked["full"]) > 10
    assert refusals(outcome, "full") == {"NotRecorded"}
    assert len(outcome.refused["full"]) == 10
    assert outcome.refused["free"] == {}
    assert len(outcome.acked["free"]) == 5


@pytest.mark.parametrize("max_bytes", [SHORTEST, 4096, LONGEST])
def test_what_a_full_disk_left_half_written_is_gone_after_the_next_open(
    max_bytes: int, tmp_path: Path
) -> None:
    outcome = outcome_of(tmp_path, "filled_and_left", max_bytes)
    assert outcome.problems == []
    assert refusals(outcome, "full") == {"NotRecorded"}


def test_a_disk_that_cannot_be_written_to_is_reported_and_still_read(tmp_path: Path) -> None:
    outcome = outcome_of(tmp_path, "read_only", LONGEST)
    assert outcome.problems == []
    assert refusals(outcome, "full") == {"NotRecorded"}
    assert outcome.acked["full"] == []
    assert outcome.refused["free"] == {}
