"""The file work of many documents: each as if it were alone, and the disk asked far less often."""

from __future__ import annotations

import asyncio
import errno
import os
from collections import Counter
from pathlib import Path

import pytest

from memplane.errors import BackendUnavailable
from memplane.kit.durable_files import FileWork
from memplane.persona.folder import DocumentFolder, SwapResult
from memplane.persona.group_commit import GroupCommit, run_group

KEYS = [f"sub/{number}.md" for number in range(5)]


@pytest.fixture
def folder(tmp_path: Path) -> DocumentFolder:
    (tmp_path / "memory" / "sub").mkdir(parents=True)
    for key in KEYS:
        (tmp_path / "memory" / key).write_bytes(b"old " + key.encode())
    return DocumentFolder(tmp_path / "memory", tmp_path / "state")


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """Count how often each file and folder is synced."""
    counted: Counter[int] = Counter()
    sync = os.fsync

    def counting(descriptor: int) -> None:
        counted[os.fstat(descriptor).st_ino] += 1
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", counting)
    return counted


def replaced(folder: DocumentFolder, keys: list[str]) -> list[SwapResult | BaseException | None]:
    names = run_group([folder.staging(key, b"new", over=b"old " + key.encode()) for key in keys])
    assert all(isinstance(name, str) for name in names), names
    return run_group(
        [
            folder.swapping(key, str(name), b"old " + key.encode())
            for key, name in zip(keys, names, strict=True)
        ]
    )


def test_a_folder_that_all_share_is_synced_once_for_all(
    folder: DocumentFolder, tmp_path: Path, synced: Counter[int]
) -> None:
    shared = (tmp_path / "memory" / "sub").stat().st_ino
    assert replaced(folder, KEYS[:1]) == [SwapResult()]
    alone = synced[shared]
    synced.clear()
    assert replaced(folder, KEYS[1:]) == [SwapResult()] * 4
    assert synced[shared] == alone
    assert {folder.read(key) for key in KEYS} == {b"new"}
    assert [len(folder.snapshots(key)) for key in KEYS] == [1] * 5


def test_a_document_that_is_not_as_expected_leaves_the_others_to_be_replaced(
    folder: DocumentFolder, tmp_path: Path
) -> None:
    (tmp_path / "memory" / KEYS[2]).write_bytes(b"typed")
    (tmp_path / "memory" / KEYS[3]).unlink()
    (tmp_path / "memory" / KEYS[3]).mkdir()
    outcomes = replaced(folder, KEYS)
    assert outcomes[:3] == [SwapResult(), SwapResult(), None]
    assert "cannot be a file" in str(outcomes[3])
    assert outcomes[4] == SwapResult()
    assert folder.read(KEYS[2]) == b"typed"


def test_a_sync_that_fails_is_told_to_those_who_wait_for_it(
    folder: DocumentFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = "other.md"
    shared, sync = (tmp_path / "memory" / "sub").stat().st_ino, os.fsync

    def failing(descriptor: int) -> None:
        if os.fstat(descriptor).st_ino == shared:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", failing)
    *failed, good = run_group([folder.staging(key, b"new") for key in (*KEYS, other)])
    assert [type(one) for one in failed] == [BackendUnavailable] * 5
    assert all(key in str(one) for key, one in zip(KEYS, failed, strict=True))
    assert isinstance(good, str)
    assert folder.is_staged(other, good)
    # What could not be made durable leaves no trace.
    assert sorted(path.name for path in (tmp_path / "memory" / "sub").iterdir()) == [
        Path(key).name for key in KEYS
    ]


async def test_what_is_asked_for_meanwhile_is_done_as_one(
    folder: DocumentFolder, tmp_path: Path, synced: Counter[int]
) -> None:
    together = GroupCommit()
    shared = (tmp_path / "memory" / "sub").stat().st_ino
    names = await asyncio.gather(
        *(together.do(folder.staging(key, key.encode())) for key in KEYS * 20)
    )
    assert len(set(names)) == 100
    assert synced[shared] < 10
    assert all(folder.is_staged(key, name) for key, name in zip(KEYS * 20, names, strict=True))


async def test_each_is_told_its_own_failure(folder: DocumentFolder) -> None:
    together = GroupCommit()
    wrong, right = await asyncio.gather(
        together.do(folder.staging("../a.md", b"x")),
        together.do(folder.staging("a.md", b"x")),
        return_exceptions=True,
    )
    assert "../a.md" in str(wrong)
    assert isinstance(right, str)
    # It works on afterwards.
    assert await together.do(folder.swapping("a.md", right, None)) == SwapResult()


async def test_what_nobody_waits_for_any_more_is_not_begun(folder: DocumentFolder) -> None:
    begun: list[str] = []

    def work(name: str) -> FileWork[str]:
        begun.append(name)
        yield from ()
        return name

    together = GroupCommit()
    first = asyncio.create_task(together.do(work("first")))
    second = asyncio.create_task(together.do(work("second")))
    await asyncio.sleep(0)
    second.cancel()
    assert await first == "first"
    assert await together.do(work("third")) == "third"
    assert begun == ["first", "third"]


def test_what_is_ended_in_the_middle_clears_up_at_once(
    folder: DocumentFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ended(BaseException):
        pass

    def ending(_descriptor: int) -> None:
        raise Ended

    monkeypatch.setattr(os, "fsync", ending)
    for stage in (
        lambda: folder.stage("a.md", b"new"),
        lambda: run_group([folder.staging(key, b"new") for key in ("a.md", "b.md")]),
    ):
        with pytest.raises(Ended):
            stage()
        assert [path.name for path in (tmp_path / "memory").iterdir()] == ["sub"]
