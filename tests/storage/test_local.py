"""The local folder: links, modes, names it cannot hold, and disks that fail."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from memplane.errors import BackendUnavailable, InvalidKey, PermissionDenied
from memplane.storage.lineage import Stamp
from memplane.storage.local import LocalStore
from memplane.storage.store import Absent, Anything, Matches
from memplane.testing.object_conformance import list_keys, read_content

STAMP = Stamp("w", 1)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def store(root: Path) -> LocalStore:
    return LocalStore(root)


async def test_files_and_folders_are_private(store: LocalStore, root: Path) -> None:
    before = os.umask(0)
    try:
        await store.write("a/b.md", b"x", expect=Absent())
        await store.append("a/log.txt", b"x", stamp=STAMP)
    finally:
        os.umask(before)
    for path in (root, *root.rglob("*")):
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


async def test_a_linked_folder_is_never_entered(
    store: LocalStore, root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("secret")
    root.mkdir()
    (root / "notes").symlink_to(outside)
    for attempt in (
        lambda: store.read("notes/secret.md"),
        lambda: store.write("notes/secret.md", b"x", expect=Anything()),
        lambda: store.write("notes/new.md", b"x", expect=Absent()),
        lambda: store.append("notes/secret.md", b"x", stamp=STAMP),
        lambda: store.delete("notes/secret.md", expect=Anything()),
    ):
        with pytest.raises(InvalidKey, match="notes/"):
            await attempt()
    assert (await store.listing()).entries == ()
    assert [path.name for path in outside.iterdir()] == ["secret.md"]
    assert (outside / "secret.md").read_text() == "secret"


async def test_a_linked_file_is_neither_read_nor_replaced(
    store: LocalStore, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret.md").write_text("secret")
    root.mkdir()
    (root / "a.md").symlink_to(tmp_path / "secret.md")
    for attempt in (
        lambda: store.read("a.md"),
        lambda: store.write("a.md", b"x", expect=Anything()),
        lambda: store.append("a.md", b"x", stamp=STAMP),
        lambda: store.delete("a.md", expect=Anything()),
    ):
        with pytest.raises(InvalidKey, match=r"a\.md"):
            await attempt()
    assert (root / "a.md").is_symlink()
    assert (tmp_path / "secret.md").read_text() == "secret"
    assert (await store.listing()).refused == ("a.md",)


async def test_a_pipe_does_not_hang_a_reader(store: LocalStore, root: Path) -> None:
    root.mkdir()
    os.mkfifo(root / "pipe")
    with pytest.raises(InvalidKey):
        await store.read("pipe")
    assert (await store.listing()).refused == ("pipe",)


async def test_a_key_below_a_key_is_refused(store: LocalStore) -> None:
    await store.write("a", b"x", expect=Absent())
    with pytest.raises(InvalidKey, match="'a/b'"):
        await store.write("a/b", b"x", expect=Absent())
    assert await store.read("a/b") is None
    await store.write("d/e", b"x", expect=Absent())
    with pytest.raises(InvalidKey, match="'d'"):
        await store.write("d", b"x", expect=Absent())


async def test_a_segment_too_long_for_the_file_system_is_refused(store: LocalStore) -> None:
    with pytest.raises(InvalidKey, match="too long"):
        await store.write("x" * 300, b"x", expect=Absent())


async def test_names_that_cannot_be_keys_are_reported(store: LocalStore, root: Path) -> None:
    root.mkdir()
    (root / "good.md").write_text("x")
    (root / "trailing. ").write_text("x")
    (root / "back\\slash").write_text("x")
    Path(os.fsdecode(os.fsencode(root) + b"/not-utf8-\xff")).write_text("x")
    listing = await store.listing()
    assert [one.key for one in listing.entries] == ["good.md"]
    assert len(listing.refused) == 3


async def test_what_others_put_there_is_an_object(store: LocalStore, root: Path) -> None:
    root.mkdir()
    (root / "a.md").write_text("by hand")
    found = await store.read("a.md")
    assert found is not None
    await store.write("a.md", b"by us", expect=Matches(found.version))
    assert (root / "a.md").read_text() == "by us"


async def test_temporary_and_lock_files_are_not_listed(store: LocalStore, root: Path) -> None:
    await store.write("a/b.md", b"x", expect=Absent())
    (root / "a" / ".memplane-new-left-over").write_text("half")
    assert await list_keys(store) == ["a/b.md"]


async def test_a_write_that_fails_half_way_leaves_the_old_bytes(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.write("a.md", b"old", expect=Absent())
    written = os.write
    for fault, error in ((errno.ENOSPC, BackendUnavailable), (errno.EROFS, PermissionDenied)):

        def failing(descriptor: int, data: bytes, fault: int = fault) -> int:
            if len(data) > 4:
                return written(descriptor, data[:4])
            raise OSError(fault, os.strerror(fault))

        monkeypatch.setattr(os, "write", failing)
        with pytest.raises(error, match=r"a\.md"):
            await store.write("a.md", b"new and longer", expect=Anything())
        with pytest.raises(error, match=r"a\.md"):
            await store.append("a.md", b"more and longer", stamp=STAMP)
        monkeypatch.undo()
        assert await read_content(store, "a.md") == b"old"
    assert sorted(path.name for path in root.iterdir()) == [".memplane-locks", "a.md"]


async def test_a_failed_sync_is_not_an_acknowledgement(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.write("a.md", b"old", expect=Absent())

    def failing(_descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(BackendUnavailable):
        await store.write("a.md", b"new", expect=Anything())
    with pytest.raises(BackendUnavailable):
        await store.append("a.md", b"more", stamp=STAMP)
    monkeypatch.undo()
    assert await read_content(store, "a.md") == b"old"


def test_a_full_disk_fails_that_write_and_leaves_the_old_bytes(tmp_path: Path) -> None:
    """A real one: a file system of 64 KB in a mount namespace of its own."""
    program = """
import asyncio, sys
from pathlib import Path
from memplane.errors import BackendUnavailable
from memplane.storage.lineage import Stamp
from memplane.storage.local import LocalStore
from memplane.storage.store import Absent, Anything

async def main():
    store = LocalStore(Path(sys.argv[1]))
    await store.write("a.md", b"old", expect=Absent())
    await store.append("log.txt", b"first\\n", stamp=Stamp("w", 1))
    for attempt in (
        lambda: store.write("a.md", b"x" * 200_000, expect=Anything()),
        lambda: store.append("log.txt", b"x" * 200_000, stamp=Stamp("w", 2)),
    ):
        try:
            await attempt()
        except BackendUnavailable as error:
            print(error)
        else:
            sys.exit("a write to a full disk was acknowledged")
    assert (await store.read("a.md")).data == b"old"
    assert (await store.read("log.txt")).data == b"first\\n"
    await store.write("b.md", b"fits", expect=Absent())

asyncio.run(main())
"""
    small = tmp_path / "small"
    small.mkdir()
    script = f'mount -t tmpfs -o size=64k none {small} && exec "$0" -c "$1" {small}/data'
    ran = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", script, sys.executable, program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("disk or quota is full") == 2


def test_a_read_only_disk_fails_the_write(tmp_path: Path) -> None:
    program = """
import asyncio, sys
from pathlib import Path
from memplane.errors import PermissionDenied
from memplane.storage.local import LocalStore
from memplane.storage.store import Anything

async def main():
    store = LocalStore(Path(sys.argv[1]))
    try:
        await store.write("a.md", b"new", expect=Anything())
    except PermissionDenied as error:
        print(error)
    assert (await store.read("a.md")).data == b"old"

asyncio.run(main())
"""
    data = tmp_path / "disk" / "data"
    data.mkdir(parents=True)
    (data / "a.md").write_bytes(b"old")
    disk = tmp_path / "disk"
    script = (
        f"mount --bind {disk} {disk} && mount -o remount,bind,ro {disk} && "
        f'exec "$0" -c "$1" {data}'
    )
    ran = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", script, sys.executable, program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "refused (Read-only file system)" in ran.stdout


def test_a_kill_at_any_moment_leaves_whole_objects(tmp_path: Path) -> None:
    """Writers are killed again and again; each object is one version or the other, never a mix."""
    program = """
import asyncio, sys
from pathlib import Path
from memplane.storage.local import LocalStore
from memplane.storage.store import Anything

async def main():
    store = LocalStore(Path(sys.argv[1]))
    for number in range(10**6):
        await store.write("a.md", bytes([65 + number % 26]) * 50_000, expect=Anything())
        print(number, flush=True)

asyncio.run(main())
"""
    for round_number in range(10):
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "data")], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        for _ in range(1 + 3 * round_number):
            process.stdout.readline()
        process.kill()
        process.wait()
        process.stdout.close()
        data = (tmp_path / "data" / "a.md").read_bytes()
        assert len(data) == 50_000
        assert len(set(data)) == 1


async def test_a_rival_is_found_through_folders_that_differ_by_case(
    store: LocalStore, root: Path
) -> None:
    (root / "Notes").mkdir(parents=True)
    (root / "notes").mkdir()
    (root / "Notes" / "a.md").write_text("theirs")
    with pytest.raises(InvalidKey, match="only by case"):
        await store.write("notes/a.md", b"x", expect=Absent())
    await store.write("notes/b.md", b"x", expect=Absent())


async def test_folders_made_on_the_way_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        await LocalStore(tmp_path / "a" / "b" / "data").write("c.md", b"x", expect=Absent())
    finally:
        os.umask(before)
    for folder in (tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "data"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


async def test_a_deleted_object_leaves_room_for_one_of_its_folders_name(
    store: LocalStore,
) -> None:
    await store.write("a/b/c", b"x", expect=Absent())
    await store.delete("a/b/c", expect=Anything())
    await store.write("a", b"now an object", expect=Absent())
    assert await read_content(store, "a") == b"now an object"
