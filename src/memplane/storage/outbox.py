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
import logging
import os
import shutil
import struct
import threading
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from memplane.kit.clock import Clock
from memplane.kit.durable_files import (
    append_to_file,
    open_folder,
    replace_file,
    sync_folder,
    translate_os_errors,
)
from memplane.kit.private_files import make_private_folder
from memplane.storage.lineage import Stamp
from memplane.storage.store import Version

_FRAME: Final = struct.Struct(">II")
_ITEM_SUFFIXES: Final = frozenset({".open", ".append", ".write"})

_log = logging.getLogger(__name__)


class OutboxItem(msgspec.Struct, frozen=True):
    """One thing to send: an append, or a whole write with the version its writer had seen."""

    key: str
    data: bytes
    stamp: Stamp
    appends: bool
    seen: Version | None
    path: Path


class _AppendBatch(msgspec.Struct):
    name: str
    size: int


class Outbox:
    """The parcels of this process, and of dead ones it took over. Blocking: call it in threads."""

    def __init__(self, root: Path, writer: str, *, clock: Clock) -> None:
        self._root = root
        self._own_path = root / writer
        self._clock = clock
        self._seq = 0
        self._append_batches: dict[str, _AppendBatch] = {}
        self._keys: dict[Path, str] = {}
        self._locks: dict[Path, int] = {}
        self._turn = threading.Lock()

    def holds(self, key: str) -> bool:
        """Say whether something for the key waits. Does not block."""
        return key in self._keys.copy().values()

    def waiting_keys(self) -> set[str]:
        """Name the keys that something waits for. Does not block."""
        return set(self._keys.copy().values())

    def append(self, key: str, data: bytes) -> int:
        """Add to the key's growing batch, durably; return how large the batch is now."""
        with self._turn, translate_os_errors(key), self._own_folder() as folder:
            batch = self._append_batches.get(key)
            if batch is None:
                batch = _AppendBatch(f"{self._next():020d}.open", 0)
                header = json.dumps({"key": key}).encode()
                replace_file(folder, batch.name, _frame(header) + _frame(data))
                self._append_batches[key] = batch
                self._keys[self._own_path / batch.name] = key
            else:
                append_to_file(folder, batch.name, _frame(data), create=False)
            batch.size += len(data)
            return batch.size

    def next_stamp(self) -> Stamp:
        """Name a write before it is tried, so that it can be recognised when it has to wait."""
        with self._turn:
            return Stamp(self._own_path.name, self._next())

    def replace(self, key: str, data: bytes, seen: Version | None, stamp: Stamp) -> None:
        """Put a whole write in line, durably; earlier parcels for the key are then pointless."""
        with self._turn, translate_os_errors(key), self._own_folder() as folder:
            # Only those before: what was appended while the write was under way comes after it.
            before = [item for item in self._load_all(key) if item.stamp.seq < stamp.seq]
            first_seen = next((item.seen for item in before if not item.appends), seen)
            header = json.dumps({"key": key, "seen": first_seen}).encode()
            name = f"{stamp.seq:020d}.write"
            replace_file(folder, name, _frame(header) + _frame(data))
            self._keys[self._own_path / name] = key
            for earlier in before:
                self._release(earlier.path)
            batch = self._append_batches.get(key)
            if batch is not None and self._own_path / batch.name not in self._keys:
                del self._append_batches[key]

    def seal(self) -> list[OutboxItem]:
        """End the growing batches and return everything there is to send, in order."""
        with self._turn, translate_os_errors(""):
            for key in list(self._append_batches):
                path = self._own_path / self._append_batches[key].name
                path.rename(path.with_suffix(".append"))
                self._keys[path.with_suffix(".append")] = self._keys.pop(path)
                del self._append_batches[key]
            return self._load_all()

    def items(self, key: str) -> list[OutboxItem]:
        """Return what waits for the key, growing batches included, oldest first."""
        with self._turn, translate_os_errors(key):
            return self._load_all(key)

    def sent(self, item: OutboxItem) -> None:
        """Let go of a parcel that has arrived."""
        with self._turn, translate_os_errors(item.key):
            self._release(item.path)

    def reject(self, item: OutboxItem) -> Path:
        """Put aside a parcel that the container will never take; return where it lies now."""
        with self._turn, translate_os_errors(item.key):
            self._keys.pop(item.path, None)
            return self._put_aside(item.path)

    def take_over(self) -> None:
        """Take the parcels of processes that are gone."""
        with self._turn, translate_os_errors(""):
            for folder in sorted(self._root.glob("[!.]*/")):
                if folder not in self._locks and (lock := _lock(folder)) is not None:
                    self._locks[folder] = lock
                    for path in folder.glob("*.open"):
                        path.rename(path.with_suffix(".append"))
                    for path in sorted(folder.glob("*.*")):
                        if (item := self._load_or_put_aside(path)) is not None:
                            self._keys[path] = item.key

    def close(self) -> None:
        """Let go of the locks; folders with nothing in them go away."""
        with self._turn:
            for folder, lock in self._locks.items():
                if not any(path.parent == folder for path in self._keys):
                    shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)
            self._locks.clear()
            self._append_batches.clear()
            self._keys.clear()

    def _load_all(self, key: str | None = None) -> list[OutboxItem]:
        # By number alone: what an earlier process left goes before what was written since.
        item_paths = (path for path, its in self._keys.items() if key in {None, its})
        paths = sorted(item_paths, key=lambda path: path.stem)
        return [item for item in map(self._load_or_put_aside, paths) if item is not None]

    def _load_or_put_aside(self, path: Path) -> OutboxItem | None:
        try:
            return _load(path)
        except _DamagedItem as error:
            self._keys.pop(path, None)
            _log.error("%s; it is kept in %s", error, self._put_aside(path))
            return None

    def _put_aside(self, path: Path) -> Path:
        aside = self._root.parent / "rejected"
        make_private_folder(aside)
        target = aside / f"{path.parent.name}-{path.name}"
        path.rename(target)
        return target

    def _release(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._keys.pop(path, None)

    def _next(self) -> int:
        """Return a number that grows, also from one process to the next."""
        self._seq = max(self._seq + 1, int(self._clock().timestamp() * 1_000_000))
        return self._seq

    @contextmanager
    def _own_folder(self) -> Generator[int]:
        if self._own_path not in self._locks:
            self._locks[self._own_path] = _new_locked_folder(self._own_path)
        descriptor = open_folder(self._root, (self._own_path.name,), create=False)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def read_all_items(folder: Path) -> list[OutboxItem]:
    """Return the parcels of every process below a folder, for people to look at."""
    items: list[OutboxItem] = []
    for path in _item_files(folder):
        try:
            item = _load(path)
        except _DamagedItem as error:
            _log.warning("%s", error)
        else:
            items += [item] if item is not None else []
    return items


def count_waiting(root: Path) -> int:
    """Count the parcels of every process."""
    return len(_item_files(root))


def _item_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.*") if path.suffix in _ITEM_SUFFIXES)


def _new_locked_folder(folder: Path) -> int:
    """Make a folder that is locked before anybody can see it, and could take it over."""
    hidden = folder.with_name(f".{folder.name}")
    os.close(open_folder(folder.parent, (hidden.name,), create=True))
    lock = _lock(hidden)
    if lock is None:
        raise OSError(errno.EEXIST, "another process has an outbox of this name")
    hidden.rename(folder)
    sync_folder(folder.parent)
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


class _DamagedItem(Exception):
    """A parcel whose bytes are not those that were written."""


def _frame(record: bytes) -> bytes:
    return _FRAME.pack(len(record), zlib.crc32(record)) + record


def _records(path: Path) -> Iterator[bytes]:
    """Yield the records; one that is cut short at the end was never acknowledged."""
    raw = path.read_bytes()
    at = 0
    while at + _FRAME.size <= len(raw):
        size, checksum = _FRAME.unpack_from(raw, at)
        record = raw[at + _FRAME.size : at + _FRAME.size + size]
        if len(record) < size:
            return
        if zlib.crc32(record) != checksum:
            raise _DamagedItem(f"{path} is damaged at byte {at}")
        yield record
        at += _FRAME.size + size


def _load(path: Path) -> OutboxItem | None:
    """Read a parcel; None when it is gone, is none, or nothing in it was acknowledged."""
    if path.suffix not in _ITEM_SUFFIXES:
        return None
    try:
        header, *data = list(_records(path)) or [b""]
    except FileNotFoundError:
        return None
    if not data:
        return None
    try:
        fields = json.loads(header)
        key, seen = str(fields["key"]), fields.get("seen")
        stamp = Stamp(path.parent.name, int(path.stem.rpartition("-")[2]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _DamagedItem(f"{path} is not a parcel") from error
    return OutboxItem(key, b"".join(data), stamp, path.suffix != ".write", seen, path)
