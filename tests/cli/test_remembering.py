"""`memplane retain`, `recall`, `forget` and `rebuild` as commands, with nothing running."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.memory.remembering import entry, raw
from tests.support.running import memplane


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return tmp_path / "home"


def retained(own: Path, text: str) -> str:
    done = memplane(own, "retain", "--agent", "a", "--json", text)
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["id"])


def test_entries_are_retained_from_a_file_and_from_standard_input(
    own: Path, tmp_path: Path
) -> None:
    file = tmp_path / "entries.jsonl"
    entries = [entry(f"Fact {number} about bird{number}") for number in range(3)]
    file.write_bytes(b"\n".join(map(raw, [*entries, entries[0]])))
    done = memplane(own, "retain", "--agent", "a", "--entries", str(file))
    assert done.returncode == 0, done.stderr
    assert "3 retained, 1 known already" in done.stdout
    missing = memplane(own, "retain", "--agent", "a", "--entries", str(tmp_path / "nothing"))
    assert missing.returncode == 1
    assert "cannot be read" in missing.stderr


@pytest.mark.parametrize("words", [["retain", "--agent", "a"], ["retain", "--agent", "a", " "]])
def test_nothing_to_retain_is_said_so(own: Path, words: list[str]) -> None:
    done = memplane(own, *words)
    assert done.returncode != 0
    assert done.stderr


def test_the_agent_may_come_from_the_settings(own: Path) -> None:
    env = {"MEMPLANE_AGENT": "a"}
    assert memplane(own, "retain", "The osprey nests in Lisbon.", env=env).returncode == 0
    assert "Lisbon" in memplane(own, "recall", "osprey", env=env).stdout


@pytest.mark.parametrize(
    "more", [["--limit", "0"], ["--limit", "51"], ["--max-bytes", "70000"], ["--limit", "x"]]
)
def test_what_cannot_be_asked_is_said_so(own: Path, more: list[str]) -> None:
    done = memplane(own, "recall", "--agent", "a", *more, "osprey")
    assert done.returncode in {1, 2}
    assert "limit" in done.stderr or "asked" in done.stderr


def test_an_entry_is_forgotten_and_verified(own: Path) -> None:
    identifier = retained(own, "The osprey nests on the roof of the harbour office.")
    words = ("forget", "--agent", "a", "--entry-id", identifier)
    done = memplane(own, *words, "--verify")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Forgot 1 entries for a" in done.stdout
    assert "places searched; 0 still have something" in done.stdout
    assert memplane(own, "recall", "--agent", "a", "osprey").returncode == 1
    again = memplane(own, *words)
    assert "Skipped 1 already-tombstoned entries" in again.stdout
    assert "memory is what the ledgers say" in memplane(own, "rebuild").stdout


def test_a_purge_wants_the_agents_name_and_leaves_no_byte(own: Path) -> None:
    identifier = retained(own, "The osprey nests on the roof of the harbour office.")
    words = ("forget", "--agent", "a", "--entry-id", identifier, "--purge")
    refused = memplane(own, *words)
    assert refused.returncode == 1
    assert "nothing was erased" in refused.stderr
    assert "osprey" in memplane(own, "recall", "--agent", "a", "osprey").stdout
    wrong = memplane(own, *words, "--confirm", "b")
    assert wrong.returncode == 1
    done = memplane(own, *words, "--confirm", "a", "--verify", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    receipt = json.loads(done.stdout)
    assert receipt["purged"] == [identifier]
    assert all(one["clean"] for one in receipt["checked"])
    files = [path for path in own.rglob("*") if path.is_file()]
    assert not [path for path in files if b"osprey" in path.read_bytes()]
    verified = memplane(own, "history", "verify", "--received")
    assert verified.returncode == 0, verified.stdout


def test_forgetting_needs_an_entry_and_an_agent(own: Path) -> None:
    assert "at least one --entry-id is required" in memplane(own, "forget", "--agent", "a").stderr
    assert "say which agent" in memplane(own, "forget", "--entry-id", "x").stderr
    unfit = memplane(own, "forget", "svc", "--entry-id", "x", "--purge")
    assert unfit.returncode == 1
    assert "--purge erases from memplane's own ledgers" in unfit.stderr
