"""Writes that have not reached the container yet, durable on this machine and in order.

`outbox/<writer>/` belongs to one process, which holds its `lock`. Each file in it is one thing to
send: `<seq>.append` or `<seq>.write`. `<seq>.open` is a batch that still grows; it gets its final
name before it is sent, so its stamp (writer, seq) always stands for the same bytes. What a dead
process left behind is sent by the next one, under the stamps it already has.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import struct
import threading
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from memplane.clock import Clock
from memplane.objects.files import append_to_file, open_folder, replace_file, translated
from memplane.objects.lineage import Stamp
from memplane.objects.store import Version

_FRAME: Final = struct.Struct(">II")


@dataclass(frozen=True, slots=True)
class Parcel:
    """One thing to send: an append, or a whole write with the version its writer had seen."""

    key: str
    data: bytes
    stamp: Stamp
    appends: bool
    seen: Version | None
    path: Path


@dataclass(slots=True)
class _Batch:
    name: str
    size: int = 0


class Outbox:
    """The parcels of this process, and of dead ones it took over. Blocking: call it in threads."""

    def __init__(self, root: Path, writer: str, *, clock: Clock) -> None:
        self._root = root
        self._writer = writer
        self._clock = clock
        self._seq = 0
        self._growing: dict[str, _Batch] = {}
        self._keys: dict[Path, str] = {}
        self._locks: dict[Path, int] = {}
        self._turn = threading.Lock()

    def holds(self, key: str) -> bool:
        """Say whether something for the key waits. Does not block."""
        return key in self._keys.values()

    def keys(self) -> set[str]:
        """Name the keys that something waits for. Does not block."""
        return set(self._keys.copy().values())

    def append(self, key: str, data: bytes) -> int:
        """Add to the key's growing batch, durably; return how large the batch is now."""
        with self._turn, translated(key), self._own_folder() as folder:
            batch = self._growing.get(key)
            if batch is None:
                batch = _Batch(f"{self._next():020d}.open")
                header = json.dumps({"key": key}).encode()
                replace_file(folder, batch.name, _framed(header))
                self._growing[key] = batch
            append_to_file(folder, batch.name, _framed(data))
            batch.size += len(data)
            self._keys[self._root / self._writer / batch.name] = key
            return batch.size

    def replace(self, key: str, data: bytes, seen: Version | None) -> None:
        """Put a whole write in line, durably; earlier parcels for the key are then pointless."""
        with self._turn, translated(key), self._own_folder() as folder:
            before = self._load_all(key)
            first_seen = next((one.seen for one in before if not one.appends), seen)
            header = json.dumps({"key": key, "seen": first_seen}).encode()
            name = f"{self._next():020d}.write"
            replace_file(folder, name, _framed(header) + _framed(data))
            self._keys[self._root / self._writer / name] = key
            self._growing.pop(key, None)
            for parcel in before:
                self._let_go(parcel.path)

    def seal(self) -> list[Parcel]:
        """End the growing batches and return everything there is to send, in order."""
        with self._turn, translated(""):
            for key, batch in self._growing.items():
                path = self._root / self._writer / batch.name
                path.rename(path.with_suffix(".append"))
                del self._keys[path]
                self._keys[path.with_suffix(".append")] = key
            self._growing.clear()
            return self._load_all()

    def parcels(self, key: str) -> list[Parcel]:
        """Return what waits for the key, growing batches included, oldest first."""
        with self._turn:
            return self._load_all(key)

    def sent(self, parcel: Parcel) -> None:
        """Let go of a parcel that has arrived."""
        with self._turn:
            self._let_go(parcel.path)

    def reject(self, parcel: Parcel) -> Path:
        """Put aside a parcel that the container will never take; return where it lies now."""
        with self._turn, translated(parcel.key):
            aside = self._root.parent / "rejected"
            aside.mkdir(mode=0o700, parents=True, exist_ok=True)
            moved = aside / f"{parcel.stamp.writer}-{parcel.path.name}"
            parcel.path.rename(moved)
            self._keys.pop(parcel.path, None)
            return moved

    def take_over(self) -> None:
        """Take the parcels of processes that are gone."""
        with self._turn, translated(""):
            for folder in sorted(self._root.glob("[!.]*/")):
                if folder not in self._locks and (lock := _lock(folder)) is not None:
                    self._locks[folder] = lock
                    for path in folder.glob("*.open"):
                        path.rename(path.with_suffix(".append"))
                    for path in folder.glob("*.*"):
                        if (parcel := _load(path)) is not None:
                            self._keys[path] = parcel.key

    def close(self) -> None:
        """Let go of the locks; folders with nothing in them go away."""
        with self._turn:
            for folder, lock in self._locks.items():
                if not any(map(_load, folder.glob("*.*"))):
                    shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)
            self._locks.clear()
            self._growing.clear()
            self._keys.clear()

    def _load_all(self, key: str | None = None) -> list[Parcel]:
        # By number alone: what an earlier process left goes before what was written since.
        held = (path for path, its in self._keys.items() if key in {None, its})
        paths = sorted(held, key=lambda path: path.stem)
        return [parcel for parcel in map(_load, paths) if parcel is not None]

    def _let_go(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._keys.pop(path, None)

    def _next(self) -> int:
        """Return a number that grows, also from one process to the next."""
        self._seq = max(self._seq + 1, int(self._clock().timestamp() * 1_000_000))
        return self._seq

    @contextmanager
    def _own_folder(self) -> Generator[int]:
        folder = self._root / self._writer
        if folder not in self._locks:
            self._locks[folder] = _new_locked_folder(folder)
        descriptor = open_folder(self._root, (self._writer,), create=False)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def all_parcels(folder: Path) -> list[Parcel]:
    """Return the parcels of every process below a folder, for people to look at."""
    return [parcel for path in sorted(folder.rglob("*.*")) if (parcel := _load(path)) is not None]


def count_waiting(root: Path) -> int:
    """Count the parcels of every process."""
    return len(all_parcels(root))


def _new_locked_folder(folder: Path) -> int:
    """Make a folder that is locked before anybody can see it, and could take it over."""
    hidden = folder.with_name(f".{folder.name}")
    os.close(open_folder(folder.parent, (hidden.name,), create=True))
    lock = _lock(hidden)
    if lock is None:
        raise OSError(errno.EEXIST, "another process has an outbox of this name")
    hidden.rename(folder)
    return lock


def _lock(folder: Path) -> int | None:
    """Take the folder's lock; None when its process lives, or when the folder just went away."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        lock = os.open(folder / "lock", flags, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_ino == (folder / "lock").stat().st_ino:
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(lock)
    return None


def _framed(record: bytes) -> bytes:
    return _FRAME.pack(len(record), zlib.crc32(record)) + record


def _records(raw: bytes) -> Iterator[bytes]:
    """Yield the whole records; a torn one at the end was never acknowledged."""
    at = 0
    while at + _FRAME.size <= len(raw):
        size, checksum = _FRAME.unpack_from(raw, at)
        record = raw[at + _FRAME.size : at + _FRAME.size + size]
        if len(record) < size or zlib.crc32(record) != checksum:
            return
        yield record
        at += _FRAME.size + size


def _load(path: Path) -> Parcel | None:
    if path.suffix not in {".open", ".append", ".write"}:
        return None
    try:
        records = list(_records(path.read_bytes()))
    except FileNotFoundError:
        return None
    if len(records) < 2:  # noqa: PLR2004 - a header, and something to send
        return None
    header = json.loads(records[0])
    return Parcel(
        key=header["key"],
        data=b"".join(records[1:]),
        stamp=Stamp(path.parent.name, int(path.stem.rpartition("-")[2])),
        appends=path.suffix != ".write",
        seen=header.get("seen"),
        path=path,
    )
