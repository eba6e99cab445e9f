"""Tombstones: durable, shared with claw, and never lost by a line that is broken."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import random
import shutil
import stat
import threading
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.errors import LedgerError, UnknownAgent
from memplane.ledger import tombstones as module
from memplane.ledger.tombstones import (
    ForgottenIds,
    Tombstone,
    append_tombstones,
    get_mirror_root,
    list_agents_with_tombstones,
    read_tombstones,
    read_tombstones_since,
    replicate_tombstones,
)
from tests.support.crash_states import Recorder, state_at

WHEN = "2026-03-01T12:00:00Z"
CLAW = (
    b'{"version":1,"ts":"2026-01-02T03:04:05Z","agent_id":"a","memory_service":"old",'
    b'"entry_id":"hist1_claw"}\n'
)


def stone(entry_id: str, service: str = "mem", reason: str = "") -> Tombstone:
    return Tombstone(WHEN, "a", service, entry_id, reason)


def file_of(root: Path) -> Path:
    return root / "a" / "tombstones.jsonl"


def written(root: Path, data: bytes) -> Path:
    file_of(root).parent.mkdir(parents=True, exist_ok=True)
    file_of(root).write_bytes(data)
    return file_of(root)


def ids(root: Path) -> list[str]:
    return list(read_tombstones(root, "a"))


def test_a_line_has_the_members_of_the_format(tmp_path: Path) -> None:
    append_tombstones(tmp_path, "a", [stone("x"), stone("y", reason="asked")])
    first, second = file_of(tmp_path).read_bytes().splitlines()
    told = {"version": 1, "ts": WHEN, "agent_id": "a", "memory_service": "mem", "entry_id": "x"}
    assert json.loads(first) == told
    assert list(json.loads(first)) == list(told)
    assert json.loads(second) == {**told, "entry_id": "y", "reason": "asked"}
    assert read_tombstones(tmp_path, "a") == {"x": stone("x"), "y": stone("y", reason="asked")}


def test_files_and_folders_are_private_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        append_tombstones(tmp_path / "new" / "root", "a", [stone("x")])
    finally:
        os.umask(before)
    for path, mode in (("", 0o700), ("a", 0o700), ("a/tombstones.jsonl", 0o600)):
        assert stat.S_IMODE((tmp_path / "new" / "root" / path).stat().st_mode) == mode


def test_lines_that_claw_wrote_are_read(tmp_path: Path) -> None:
    written(tmp_path, CLAW)
    append_tombstones(tmp_path, "a", [stone("x")])
    assert ids(tmp_path) == ["hist1_claw", "x"]
    assert file_of(tmp_path).read_bytes().startswith(CLAW)


def test_nothing_is_an_empty_answer(tmp_path: Path) -> None:
    assert read_tombstones(tmp_path / "no", "a") == {}
    assert read_tombstones_since(tmp_path / "no", "a", 99).offset == 0
    assert list_agents_with_tombstones(tmp_path / "no") == []


def test_agents_are_named(tmp_path: Path) -> None:
    for agent in ("b", "a"):
        append_tombstones(tmp_path, agent, [stone("x")])
    (tmp_path / "empty").mkdir()
    (tmp_path / ".memplane").mkdir()
    assert list_agents_with_tombstones(tmp_path) == ["a", "b"]


@pytest.mark.parametrize("agent", ["..", "a/b", "", ".hidden", "a..b"])
def test_a_name_that_leads_elsewhere_is_refused(agent: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownAgent):
        append_tombstones(tmp_path, agent, [stone("x")])
    with pytest.raises(UnknownAgent):
        read_tombstones(tmp_path, agent)
    assert list(tmp_path.rglob("*.jsonl")) == []


def test_the_first_tombstone_of_an_entry_counts(tmp_path: Path) -> None:
    append_tombstones(tmp_path, "a", [stone("x", "one"), stone("x", "two")])
    assert read_tombstones(tmp_path, "a")["x"].memory_service == "one"
    assert len(read_tombstones_since(tmp_path, "a").tombstones) == 2


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"\x00\x00",
        b"\xff",
        b"{}",
        b'{"entry_id":""}',
        b'{"entry_id":" "}',
        b'{"entry_id":5}',
        b"[" * 100_000,
        b'{"entry_id":"' + b"x" * (1 << 20) + b'"}',
    ],
)
def test_malformed_lines_are_counted_and_passed_over(line: bytes, tmp_path: Path) -> None:
    written(tmp_path, b"\n" + CLAW + line + b"\n  \n" + CLAW.replace(b"hist1_claw", b"later"))
    added = read_tombstones_since(tmp_path, "a")
    assert [one.entry_id for one in added.tombstones] == ["hist1_claw", "later"]
    assert added.malformed == 1
    assert added.offset == file_of(tmp_path).stat().st_size


@given(
    entry_id=st.text(st.characters(codec=None), min_size=1).filter(lambda text: text.strip()),
    reason=st.text(st.characters(codec=None)),
)
def test_every_id_and_reason_comes_back(
    entry_id: str, reason: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("tombstones")
    append_tombstones(root, "a", [stone(entry_id, reason=reason)])
    assert read_tombstones(root, "a") == {entry_id: stone(entry_id, reason=reason)}
    assert read_tombstones_since(root, "a").malformed == 0


# A last line that was cut off


def test_a_whole_last_line_counts_and_gets_its_newline(tmp_path: Path) -> None:
    written(tmp_path, CLAW.rstrip())
    assert ids(tmp_path) == ["hist1_claw"]
    append_tombstones(tmp_path, "a", [stone("x")])
    assert ids(tmp_path) == ["hist1_claw", "x"]
    assert file_of(tmp_path).read_bytes().count(b"\n") == 2


@pytest.mark.parametrize("cut", [1, 20, len(CLAW) - 2])
def test_a_fragment_is_kept_aside_before_something_is_added(cut: int, tmp_path: Path) -> None:
    written(tmp_path, CLAW + CLAW[:cut])
    assert read_tombstones_since(tmp_path, "a").malformed == 0
    append_tombstones(tmp_path, "a", [stone("x")])
    assert ids(tmp_path) == ["hist1_claw", "x"]
    assert read_tombstones_since(tmp_path, "a").malformed == 0, "claw could not read the file"
    (aside,) = file_of(tmp_path).parent.glob("torn-*")
    assert aside.read_bytes() == CLAW[:cut]


def test_every_cut_of_a_file_keeps_its_whole_lines(tmp_path: Path) -> None:
    append_tombstones(tmp_path, "a", [stone("x"), stone("y"), stone("z")])
    data = file_of(tmp_path).read_bytes()
    for cut in range(len(data)):
        written(tmp_path, data[:cut])
        whole = ids(tmp_path)
        assert whole == ["x", "y", "z"][: len(whole)]
        assert len(whole) >= data[:cut].count(b"\n")
        append_tombstones(tmp_path, "a", [stone("new")])
        assert ids(tmp_path) == [*whole, "new"]
        assert read_tombstones_since(tmp_path, "a").malformed == 0


# Reading what was added


def test_a_follower_reads_only_what_is_new(tmp_path: Path) -> None:
    append_tombstones(tmp_path, "a", [stone("x")])
    first = read_tombstones_since(tmp_path, "a")
    assert read_tombstones_since(tmp_path, "a", first.offset).tombstones == ()
    append_tombstones(tmp_path, "a", [stone("y")])
    second = read_tombstones_since(tmp_path, "a", first.offset)
    assert [one.entry_id for one in second.tombstones] == ["y"]
    assert second.offset == file_of(tmp_path).stat().st_size


def test_a_line_that_is_not_finished_is_read_when_it_is(tmp_path: Path) -> None:
    path = written(tmp_path, CLAW + CLAW[:30])
    first = read_tombstones_since(tmp_path, "a")
    assert first.offset == len(CLAW)
    with path.open("ab") as file:
        file.write(CLAW[30:].replace(b"hist1_claw", b"later"))
    second = read_tombstones_since(tmp_path, "a", first.offset)
    assert [one.entry_id for one in second.tombstones] == ["later"]


@pytest.mark.parametrize("offset", [5, 10_000, -3])
def test_an_offset_of_another_file_reads_all_of_this_one(offset: int, tmp_path: Path) -> None:
    append_tombstones(tmp_path, "a", [stone("x"), stone("y")])
    assert len(read_tombstones_since(tmp_path, "a", offset).tombstones) == 2


def test_forgotten_ids_come_from_every_place_and_are_looked_at_again(tmp_path: Path) -> None:
    one, other = tmp_path / "one", get_mirror_root(tmp_path / "ledgers")
    forgotten = ForgottenIds((one, other), "a")
    forgotten.refresh()
    assert "x" not in forgotten
    append_tombstones(one, "a", [stone("x")])
    assert "x" not in forgotten
    forgotten.refresh()
    append_tombstones(other, "a", [stone("y")])
    forgotten.refresh()
    assert "x" in forgotten
    assert "y" in forgotten
    assert "z" not in forgotten
    append_tombstones(one, "a", [stone("z")])
    forgotten.refresh()
    assert "z" in forgotten
    shutil.rmtree(one)
    forgotten.refresh()
    assert "x" in forgotten


def test_places_learn_from_each_other(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    written(one, CLAW)
    append_tombstones(other, "a", [stone("x")])
    replicate_tombstones((one, other), "a")
    assert set(ids(one)) == set(ids(other)) == {"hist1_claw", "x"}
    before = file_of(one).read_bytes(), file_of(other).read_bytes()
    replicate_tombstones((one, other), "a")
    assert (file_of(one).read_bytes(), file_of(other).read_bytes()) == before


# Files that cannot be used are never an absence


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    file_of(tmp_path).mkdir(parents=True)
    with pytest.raises(LedgerError, match="cannot be read"):
        read_tombstones(tmp_path, "a")
    with pytest.raises(LedgerError, match="not written"):
        append_tombstones(tmp_path, "a", [stone("x")])


@pytest.mark.parametrize("linked", ["a", "a/tombstones.jsonl"])
def test_links_are_not_followed(linked: str, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    written(victim, CLAW)
    before = file_of(victim).read_bytes()
    root = tmp_path / "root"
    (root / linked).parent.mkdir(parents=True)
    (root / linked).symlink_to(victim / linked)
    with pytest.raises(LedgerError):
        append_tombstones(root, "a", [stone("x")])
    with pytest.raises(LedgerError):
        read_tombstones(root, "a")
    assert file_of(victim).read_bytes() == before


def test_a_pipe_is_refused_and_hangs_nobody(tmp_path: Path) -> None:
    file_of(tmp_path).parent.mkdir()
    os.mkfifo(file_of(tmp_path))
    with pytest.raises(LedgerError):
        read_tombstones(tmp_path, "a")
    with pytest.raises(LedgerError):
        append_tombstones(tmp_path, "a", [stone("x")])


@pytest.mark.parametrize("call", ["write_all", "sync_file"])
def test_what_may_not_be_durable_is_not_there_either(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_tombstones(tmp_path, "a", [stone("x")])
    with monkeypatch.context() as patch:

        def fail(descriptor: int, data: bytes = b"") -> None:
            os.write(descriptor, data[: len(data) // 2])
            raise OSError(5, "the disk is gone")

        patch.setattr(module, call, fail)
        with pytest.raises(LedgerError, match="not written"):
            append_tombstones(tmp_path, "a", [stone("y")])
    assert ids(tmp_path) == ["x"]
    append_tombstones(tmp_path, "a", [stone("y")])
    assert ids(tmp_path) == ["x", "y"]


# Several processes, and power that fails


def add_many(root: Path, name: str, count: int) -> None:
    for number in range(count):
        append_tombstones(root, "a", [stone(f"{name}-{number}"), stone(f"{name}-{number}-b")])


def test_processes_lose_none_of_each_others_lines(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=add_many, args=(tmp_path, name, 50)) for name in "wxyz"]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
        assert one.exitcode == 0
    added = read_tombstones_since(tmp_path, "a")
    assert added.malformed == 0
    assert len({one.entry_id for one in added.tombstones}) == len(added.tombstones) == 400


def test_a_line_that_is_being_written_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, b"")
    asked = threading.Event()

    def flock(descriptor: int, operation: int) -> None:
        asked.set()
        fcntl.flock(descriptor, operation)

    patched = SimpleNamespace(flock=flock, LOCK_EX=fcntl.LOCK_EX)
    monkeypatch.setattr(module, "fcntl", patched)
    waiting = threading.Thread(target=append_tombstones, args=(tmp_path, "a", [stone("x")]))
    with path.open("ab", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(CLAW[:30])
        waiting.start()
        assert asked.wait(30)
        file.write(CLAW[30:])
    waiting.join()
    assert ids(tmp_path) == ["hist1_claw", "x"]


def lost_in(folder: Path, scratch: Path, *, honest: bool, states: int) -> list[str]:
    """Forget while the disk is followed; say what a power loss took that had been promised."""
    rng = random.Random(7)  # noqa: S311
    recorder = Recorder(folder, honest=honest)
    with recorder.following():
        for changes in (0, 1, 1, 1, 2):  # attempts that are killed early
            recorder.fail_after(changes)
            with suppress(LedgerError):
                append_tombstones(folder / "root", "a", [stone("never")])
        recorder.fail_after(-1)
        for number in range(6):
            append_tombstones(folder / "root", "a", [stone(f"x{number}")])
            recorder.promise()
    lost: list[str] = []
    for _ in range(states):
        point = rng.choice(recorder.points)
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        state_at(point, rng).write_to(scratch)
        append_tombstones(scratch / "root", "a", [stone("after")])
        there = ids(scratch / "root")
        lost += [f"x{n}" for n in range(point.promised) if f"x{n}" not in there]
        lost += [] if "after" in there else ["after"]
    return lost


def test_no_power_loss_takes_what_was_promised(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    assert lost_in(tmp_path / "disk", tmp_path / "left", honest=True, states=400) == []


def test_a_disk_that_lies_would_be_noticed(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    assert lost_in(tmp_path / "disk", tmp_path / "left", honest=False, states=100) != []
