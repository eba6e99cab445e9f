"""Disks that fail, and power that goes: the old text or the new one, and it is known which."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from memplane.errors import BackendUnavailable, PermissionDenied, StorageError
from memplane.persona import atomic_rename
from memplane.persona.folder import DocumentFolder
from memplane.persona.project_marker import ProjectMarker


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "memory"
    made.mkdir()
    (made / "a.md").write_bytes(b"old")
    return made


@pytest.fixture
def folder(root: Path, tmp_path: Path) -> DocumentFolder:
    return DocumentFolder(root, tmp_path / "state")


def raising(fault: int) -> object:
    def failing(*_: object, **__: object) -> int:
        raise OSError(fault, os.strerror(fault))

    return failing


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (errno.ENOSPC, BackendUnavailable),
        (errno.EDQUOT, BackendUnavailable),
        (errno.EIO, BackendUnavailable),
        (errno.EROFS, PermissionDenied),
        (errno.EACCES, PermissionDenied),
    ],
)
@pytest.mark.parametrize("call", ["write", "fsync", "open", "mkdir"])
def test_a_text_that_cannot_be_staged_leaves_no_trace(
    folder: DocumentFolder,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    fault: int,
    error: type[StorageError],
) -> None:
    monkeypatch.setattr(os, call, raising(fault))
    with pytest.raises(error, match=r"sub/a\.md"):
        folder.stage("sub/a.md", b"new")
    monkeypatch.undo()
    assert [path for path in root.rglob("*") if path.is_file()] == [root / "a.md"]
    assert folder.read("a.md") == b"old"


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_where_a_snapshot_is_a_copy_nothing_is_replaced_without_room_for_it(
    folder: DocumentFolder, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    name = folder.stage("a.md", b"new", over=b"old")
    with monkeypatch.context() as patch:
        patch.setattr(atomic_rename, "_system_rename", lambda: None)
        patch.setattr(os, call, raising(errno.ENOSPC))
        with pytest.raises(BackendUnavailable):
            folder.swap("a.md", name, b"old")
    assert folder.read("a.md") == b"old"
    assert folder.is_staged("a.md", name)
    assert folder.swap("a.md", name, b"old")


@pytest.mark.parametrize("call", ["fsync", "rename", "mkdir"])
def test_a_replaced_text_that_cannot_be_moved_becomes_a_snapshot_later(
    folder: DocumentFolder, root: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    name = folder.stage("a.md", b"new", over=b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, call, raising(errno.ENOSPC))
        with pytest.raises(BackendUnavailable):
            folder.swap("a.md", name, b"old")
    assert not folder.is_staged("a.md", name)
    assert folder.read("a.md") == b"new"
    folder.unstage("a.md", name)
    kept = folder.snapshots("a.md")
    assert [folder.read_snapshot("a.md", one.name) for one in kept] == [b"old"]
    assert folder.conflicts() == ()
    assert [path.name for path in root.iterdir()] == ["a.md"]


def test_a_marker_that_cannot_be_written_stays_as_it_was(
    folder: DocumentFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mark(ProjectMarker("p", "d"))
    monkeypatch.setattr(os, "write", raising(errno.ENOSPC))
    with pytest.raises(BackendUnavailable, match="full"):
        folder.mark(ProjectMarker("q", "e"))
    monkeypatch.undo()
    assert folder.marker() == ProjectMarker("p", "d")


def test_a_file_that_cannot_be_read_is_not_absent(
    folder: DocumentFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def failing(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "a.md":
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        return opened(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", failing)
    with pytest.raises(PermissionDenied):
        folder.read("a.md")


_ATTEMPTS = """
import resource, signal, sys
from pathlib import Path
from memplane.errors import StorageError
from memplane.persona.folder import DocumentFolder
from memplane.persona.project_marker import ProjectMarker

root = Path(sys.argv[1])
folder = DocumentFolder(root, Path(sys.argv[2]))
if sys.argv[3:]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
before = sorted(path.name for path in root.iterdir())
for attempt in (
    lambda: folder.stage("a.md", b"x" * 200_000),
    lambda: folder.stage("b.md", b"x" * 200_000),
):
    try:
        attempt()
    except StorageError as error:
        print(error)
    else:
        sys.exit("it was acknowledged")
assert folder.read("a.md") == b"old"
assert sorted(path.name for path in root.iterdir()) == before
"""


def attempted(root: Path, script: str, *words: str) -> str:
    """Run the attempts as another process, in a mount namespace of its own."""
    ran = subprocess.run(
        [
            *("unshare", "--map-root-user", "--mount", "sh", "-c"),
            f'{script} && exec "$0" "$@"',
            *(sys.executable, "-c", _ATTEMPTS, str(root), str(root.parent / "state"), *words),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_a_full_disk_fails_that_document_and_leaves_the_old_bytes(root: Path) -> None:
    script = f"mount -t tmpfs -o size=64k none {root} && printf old > {root}/a.md"
    assert attempted(root, script).count("disk or quota is full") == 2


def test_a_limit_on_files_is_told_like_a_full_disk(root: Path) -> None:
    assert attempted(root, "true", "limited").count("disk or quota is full") == 2


def test_a_read_only_disk_is_told(root: Path) -> None:
    script = f"mount --bind {root} {root} && mount -o remount,bind,ro {root}"
    assert attempted(root, script).count("Read-only file system") == 2


_CRASHES = """
import os, sys, shutil
from pathlib import Path
from memplane.persona import atomic_rename
from memplane.persona.folder import DocumentFolder

top, way, case = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
if way == "small steps":
    atomic_rename._system_rename = lambda: None
CALLS = (
    *("open", "close", "write", "fsync", "mkdir", "rename", "link", "unlink", "chmod", "utime"),
)


def dying_at(number):
    "End the process before the call of that number, as a loss of power would."
    left = [number]
    def before(call):
        def counted(*words, **named):
            left[0] -= 1
            if left[0] < 0:
                os._exit(9)
            return call(*words, **named)
        return counted
    for name in CALLS:
        setattr(os, name, before(getattr(os, name)))
    atomic_rename._rename = before(atomic_rename._rename)


def checked(folder, name):
    "Whatever happened, the evidence is right, nothing is lost, and it can be cleared up."
    if case == "discard":
        text, gone = folder.read("a.md"), folder.is_discarded("a.md", "id")
        assert text == (None if gone else b"old"), (text, gone)
        for _ in range(2):
            folder.purge_discarded("a.md", "id")
            assert folder.is_discarded("a.md", "id") == gone
        if gone:
            assert (top / "state" / "trash" / "a.md" / "id.md").read_bytes() == b"old"
    else:
        old = None if case == "new" else b"old"
        waits = folder.is_staged("a.md", name)
        if waits:
            assert folder.read("a.md") == old
        folder.unstage("a.md", name)
        assert not folder.is_staged("a.md", name)
        assert folder.read("a.md") == (old if waits else b"new")
        if not waits and old:
            kept = {folder.read_snapshot("a.md", one.name) for one in folder.snapshots("a.md")}
            assert kept == {b"old"}, kept
        assert folder.conflicts() == ()
    assert [path for path in (top / "memory").rglob(".*")] == []
    assert not folder.scan().refused


for number in range(1000):
    shutil.rmtree(top, ignore_errors=True)
    (top / "memory").mkdir(parents=True)
    folder = DocumentFolder(top / "memory", top / "state")
    if case != "new":
        (top / "memory" / "a.md").write_bytes(b"old")
    over = None if case == "new" else b"old"
    name = folder.stage("a.md", b"new", over=over) if case != "discard" else ""
    child = os.fork()
    if child == 0:
        dying_at(number)
        if case == "discard":
            folder.discard("a.md", "id", b"old")
            folder.purge_discarded("a.md", "id")
        else:
            folder.swap("a.md", name, over)
        os._exit(0)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    checked(folder, name)
    if ended == 0:
        print(number)
        break
"""


@pytest.mark.parametrize("case", ["new", "old", "discard"])
@pytest.mark.parametrize("way", ["one step", "small steps"])
def test_a_crash_at_any_call_leaves_one_text_and_true_evidence(
    tmp_path: Path, way: str, case: str
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _CRASHES, str(tmp_path / "crash"), way, case],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 5
