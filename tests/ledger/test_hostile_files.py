"""What lies in a ledger's folder may be anything; nothing is followed, and nothing hangs."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from memplane.errors import NotRecorded
from memplane.kit.clock import system_clock
from memplane.kit.durable_files import sync_data
from memplane.ledger import agent_writer
from memplane.ledger.anchors import read_anchors
from memplane.ledger.chain_verification import verify_ledger
from memplane.ledger.folder import AgentFolder, list_ledger_agents
from memplane.ledger.reader import open_page, read_entries
from memplane.ledger.segments import FileModes
from memplane.ledger.writer import LedgerOptions, SyncPolicy, open_ledger
from tests.support.turns import record, turn

SEVENTH = "analyst/segments/00000007.jsonl"


async def filled(root: Path, agent: str = "analyst") -> None:
    turns = [turn(f"turn {n}", agent=agent) for n in range(9)]
    await record(root, turns, LedgerOptions(max_bytes=1700))


def dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def pipe(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()


def elsewhere(path: Path) -> None:
    victim = path.parent.parent.parent / "victim"
    victim.write_bytes(b'{"precious":1}\n{"unterminated":1}')
    path.symlink_to(victim)


@pytest.mark.parametrize("put", [dangling, pipe, folder, elsewhere])
async def test_a_segment_that_is_no_ordinary_file_is_none(
    put: Callable[[Path], None], tmp_path: Path
) -> None:
    root = tmp_path / "ledger"
    await filled(root)
    put(root / SEVENTH)
    assert len(list(read_entries(AgentFolder(root, "analyst")))) == 9
    await record(root, [turn("after")])
    assert len(list(read_entries(AgentFolder(root, "analyst")))) == 10


@pytest.mark.parametrize("name", ["history.jsonl", "chain.jsonl", "lock"])
@pytest.mark.parametrize("put", [dangling, pipe, folder, elsewhere])
async def test_a_file_that_is_no_ordinary_one_stops_its_agent_and_no_other(
    name: str, put: Callable[[Path], None], tmp_path: Path
) -> None:
    root = tmp_path / "ledger"
    (root / "analyst").mkdir(parents=True)
    put(root / "analyst" / name)
    async with open_ledger(root, scrub=lambda one: one, clock=system_clock) as ledger:
        if not (name == "lock" and put is pipe):  # a lock is a lock, whatever the file is
            with pytest.raises(NotRecorded):
                await ledger.append(turn("hello"))
        await ledger.append(turn("hello", agent="writer"))
    victim = root / "victim"
    assert not victim.exists() or victim.read_bytes().endswith(b'{"unterminated":1}')
    assert not (root / "nowhere").exists()
    assert not list(root.glob(".memplane/quarantine/*/*"))
    assert list(read_entries(AgentFolder(root, "analyst"))) == []


async def test_a_folder_that_is_a_link_is_no_agents(tmp_path: Path) -> None:
    await filled(tmp_path, "writer")
    (tmp_path / "analyst").symlink_to("writer")
    assert list_ledger_agents(tmp_path) == ["writer"]
    assert list(read_entries(AgentFolder(tmp_path, "analyst"))) == []
    with pytest.raises(NotRecorded, match="symbolic links"):
        await record(tmp_path, [turn("hello")])
    assert len(list(read_entries(AgentFolder(tmp_path, "writer")))) == 9


async def test_a_lock_that_was_removed_still_keeps_writers_apart(tmp_path: Path) -> None:
    async with (
        open_ledger(tmp_path, scrub=lambda one: one, clock=system_clock) as one,
        open_ledger(tmp_path, scrub=lambda one: one, clock=system_clock) as other,
    ):
        await one.append(turn("first"))
        lock = tmp_path / "analyst" / "lock"
        with lock.open() as held:
            # An acknowledged turn may still be on its way into the chain, under this lock.
            fcntl.flock(held, fcntl.LOCK_EX)
            lock.unlink()
        for number in range(20):
            await other.append(turn(f"other {number}"))
            await one.append(turn(f"one {number}"))
    report = verify_ledger(AgentFolder(tmp_path, "analyst"), read_anchors(tmp_path)["analyst"])
    assert (report.entries, report.findings) == (41, [])


async def test_few_files_are_open_however_many_segments_there_are(tmp_path: Path) -> None:
    await record(tmp_path, [turn(f"turn {n}") for n in range(150)], LedgerOptions(max_bytes=1))
    before = len(list(Path("/proc/self/fd").iterdir()))
    with open_page(AgentFolder(tmp_path, "analyst"), limit=120) as page:
        for _ in page.lines():
            assert len(list(Path("/proc/self/fd").iterdir())) <= before + 4
    assert len(page.entries) == 120


@pytest.mark.parametrize("mode", [0o600, 0o660])
async def test_everything_has_the_ledgers_permissions(mode: int, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        options = LedgerOptions(max_bytes=1700, modes=FileModes(mode))
        await record(tmp_path / "ledger", [turn(f"turn {n}") for n in range(9)], options)
    finally:
        os.umask(before)
    found = {
        path.relative_to(tmp_path / "ledger").as_posix(): stat.S_IMODE(path.stat().st_mode)
        for path in (tmp_path / "ledger").rglob("*")
        if path.is_file() and "segments" not in path.parts and path.name != "index.jsonl"
    }
    assert set(found) >= {"analyst/lock", "analyst/chain.jsonl", ".memplane/anchors.jsonl"}
    assert set(found.values()) == {mode}


async def test_a_late_sync_that_fails_is_told_and_never_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []

    def failing(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        if len(synced) == 1:
            raise OSError(5, "Input/output error")
        sync_data(descriptor)

    monkeypatch.setattr(agent_writer, "sync_data", failing)
    options = LedgerOptions(syncing=SyncPolicy.INTERVAL)
    async with open_ledger(
        tmp_path, scrub=lambda one: one, clock=system_clock, options=options
    ) as ledger:
        await ledger.append(turn("first"))
    assert "may be lost" in ledger.figures.degraded
    assert synced.count(synced[0]) == 1
    await record(tmp_path, [turn("second")], options)
    assert len(list(read_entries(AgentFolder(tmp_path, "analyst")))) == 2


async def test_equal_turns_of_another_recorder_are_counted_and_ours_are_findings(
    tmp_path: Path,
) -> None:
    [made] = await record(tmp_path / "one", [turn("same")])
    other = tmp_path / "other" / "analyst"
    other.mkdir(parents=True)
    (other / "history.jsonl").write_bytes((made.line + b"\n") * 3)
    for _ in range(2):
        report = verify_ledger(AgentFolder(tmp_path / "other", "analyst"), None)
        assert (report.repeated, report.findings) == (2, [])
        await record(tmp_path / "other", [turn("another")])
    with (tmp_path / "one" / "analyst" / "history.jsonl").open("ab") as file:
        file.write(made.line + b"\n")
    anchor = read_anchors(tmp_path / "one")["analyst"]
    report = verify_ledger(AgentFolder(tmp_path / "one", "analyst"), anchor)
    assert [one.problem for one in report.findings] == ["repeated"]


@pytest.mark.parametrize("number", ["1e999", "-7", "99999999999999999999", '"x"', "null"])
async def test_a_chain_with_impossible_numbers_is_damage(number: str, tmp_path: Path) -> None:
    await filled(tmp_path)
    folder = AgentFolder(tmp_path, "analyst")
    shutil.copy(folder.chain, tmp_path / "copy")
    lines = folder.chain.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b'"offset":', b'"offset":%s,"x":' % number.encode())
    folder.chain.write_bytes(b"".join(lines))
    assert verify_ledger(folder, read_anchors(tmp_path)["analyst"]).findings
