"""Objects as files below one folder; the version is the hash of the content."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from memplane.kit.durable_files import (
    append_to_file,
    hold_lock,
    open_folder,
    read_file,
    replace_file,
    sync_file,
    translate_os_errors,
)
from memplane.kit.ids import RESERVED_PREFIX
from memplane.storage.keys import check_key, fold_key, is_valid, refuse_collision
from memplane.storage.lineage import Stamp
from memplane.storage.store import (
    NO_METADATA,
    Anything,
    Expect,
    Matches,
    ObjectInfo,
    ObjectListing,
    StoredObject,
    Version,
    check_expectation,
    describe_object,
)

_LOCKS_FOLDER: Final = f"{RESERVED_PREFIX}-locks"


class LocalStore:
    """Keeps the ObjectStore contract in a folder shared by processes of one machine.

    Metadata is not kept: nothing on one machine needs it.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    async def read(self, key: str) -> StoredObject | None:
        check_key(key)
        return await asyncio.to_thread(self._read, key)

    async def stat(self, key: str) -> ObjectInfo | None:
        stored = await self.read(key)
        return describe_object(key, stored) if stored else None

    async def write(
        self, key: str, data: bytes, *, expect: Expect, metadata: Mapping[str, str] = NO_METADATA
    ) -> Version:
        del metadata
        check_key(key)
        return await asyncio.to_thread(self._write, key, data, expect)

    async def append(self, key: str, data: bytes, *, stamp: Stamp) -> None:
        del stamp
        check_key(key)
        await asyncio.to_thread(self._append, key, data)

    async def delete(self, key: str, *, expect: Matches | Anything) -> bool:
        check_key(key)
        return await asyncio.to_thread(self._delete, key, expect)

    async def listing(self, prefix: str = "") -> ObjectListing:
        return await asyncio.to_thread(self._listing, prefix)

    def _read(self, key: str) -> StoredObject | None:
        *folders, name = key.split("/")
        with translate_os_errors(key):
            try:
                folder = open_folder(self._root, tuple(folders), create=False)
            except (FileNotFoundError, NotADirectoryError):
                return None
            try:
                return _object_at(folder, name)
            finally:
                os.close(folder)

    def _write(self, key: str, data: bytes, expect: Expect) -> Version:
        with self._lock_for_write(key) as (folder, name):
            stored = _object_at(folder, name)
            check_expectation(expect, stored.version if stored else None, key=key)
            _remove_empty_folder(folder, name)
            replace_file(folder, name, data)
        return _version_of(data)

    def _append(self, key: str, data: bytes) -> None:
        with self._lock_for_write(key) as (folder, name):
            append_to_file(folder, name, data)

    def _delete(self, key: str, expect: Matches | Anything) -> bool:
        if self._read(key) is None:
            return False
        with self._lock_for_write(key) as (folder, name):
            stored = _object_at(folder, name)
            if stored is None:
                return False
            check_expectation(expect, stored.version, key=key)
            os.unlink(name, dir_fd=folder)
            sync_file(folder)
        return True

    @contextmanager
    def _lock_for_write(self, key: str) -> Generator[tuple[int, str]]:
        """Hold the key's lock and its folder open; a rival that differs by case is refused."""
        *folders, name = key.split("/")
        with translate_os_errors(key), self._lock_of(key):
            refuse_collision(key, self._rival_of(key))
            folder = open_folder(self._root, tuple(folders), create=True)
            try:
                yield folder, name
            finally:
                os.close(folder)

    @contextmanager
    def _lock_of(self, key: str) -> Generator[None]:
        # 256 locks serve all keys: by folded key, so that rivals exclude each other.
        locks = open_folder(self._root, (_LOCKS_FOLDER,), create=True)
        try:
            with hold_lock(locks, hashlib.sha256(fold_key(key).encode()).hexdigest()[:2]):
                yield
        finally:
            os.close(locks)

    def _rival_of(self, key: str) -> str | None:
        """Return the existing spelling of the key, if it is another one."""
        candidates = [("", self._root)]
        for part in key.split("/"):
            candidates = [
                (f"{existing}/{name}" if existing else name, folder / name)
                for existing, folder in candidates
                for name in _names_in(folder)
                if fold_key(name) == fold_key(part)
            ]
        return next((existing for existing, _ in candidates if existing != key), None)

    def _listing(self, prefix: str) -> ObjectListing:
        entries: list[ObjectInfo] = []
        refused: list[str] = []
        with translate_os_errors(""):
            for key, folder, name in self._files(prefix):
                if not is_valid(key) or not _can_be_an_object(folder, name):
                    refused.append(key)
                elif stored := _object_at(folder, name):
                    entries.append(describe_object(key, stored))
        return ObjectListing(
            tuple(sorted(entries, key=lambda info: info.key)), tuple(sorted(refused))
        )

    def _files(self, prefix: str) -> Iterator[tuple[str, int, str]]:
        if not self._root.is_dir():
            return
        for top, folders, names, descriptor in os.fwalk(self._root, onerror=_reraise):
            relative = Path(top).relative_to(self._root).as_posix()
            path_prefix = "" if relative == "." else f"{relative}/"
            folders[:] = [
                name
                for name in folders
                if not name.startswith(RESERVED_PREFIX) and _may_hold(path_prefix + name, prefix)
            ]
            for name in names:
                if (path_prefix + name).startswith(prefix) and not name.startswith(
                    RESERVED_PREFIX
                ):
                    yield path_prefix + name, descriptor, name


def _remove_empty_folder(folder: int, name: str) -> None:
    """Remove what deleted objects left at the name of a new one: folders with nothing in them."""
    if not stat.S_ISDIR(_mode_of(folder, name)):
        return
    for _, _, names, inner in os.fwalk(name, topdown=False, dir_fd=folder):
        if names:
            return
        for child in os.listdir(inner):
            os.rmdir(child, dir_fd=inner)
    os.rmdir(name, dir_fd=folder)


def _mode_of(folder: int, name: str) -> int:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return 0


def _can_be_an_object(folder: int, name: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return True  # it went away since it was listed, which is no offence


def _may_hold(folder: str, prefix: str) -> bool:
    return f"{folder}/".startswith(prefix) or prefix.startswith(f"{folder}/")


def _reraise(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _names_in(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _object_at(folder: int, name: str) -> StoredObject | None:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            return None
        data, status = read_file(folder, name)
    except FileNotFoundError:
        return None
    modified = datetime.fromtimestamp(status.st_mtime, UTC)
    return StoredObject(data, _version_of(data), modified)


def _version_of(data: bytes) -> Version:
    return Version(hashlib.sha256(data).hexdigest())
