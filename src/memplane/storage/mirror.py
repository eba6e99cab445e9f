"""Copies of what was read from a container, and its last complete listing. Disposable."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import msgspec

from memplane.kit.clock import format_timestamp, parse_timestamp
from memplane.kit.durable_files import open_folder, replace_file, translate_os_errors
from memplane.storage.store import ObjectInfo, StoredObject, Version


class MirroredListing(msgspec.Struct, frozen=True):
    """The last complete listing, and when it was taken."""

    taken_at: datetime
    entries: tuple[ObjectInfo, ...]


class ObjectMirror(msgspec.Struct, frozen=True):
    """One file per object, named by the key's hash so that any key fits. Blocking."""

    root: Path

    def load(self, key: str) -> StoredObject | None:
        """Return the copy, or None when there is none or it is damaged."""
        try:
            head, _, data = self._path(key).read_bytes().partition(b"\n")
            header = json.loads(head)
            if header["key"] != key or header["sha256"] != hashlib.sha256(data).hexdigest():
                return None
            return StoredObject(
                data,
                Version(header["version"]),
                parse_timestamp(header["modified"]),
                header["metadata"],
            )
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def save(self, key: str, stored: StoredObject) -> None:
        """Keep a copy."""
        header = {
            "key": key,
            "version": stored.version,
            "modified": format_timestamp(stored.modified),
            "metadata": dict(stored.metadata),
            "sha256": hashlib.sha256(stored.data).hexdigest(),
        }
        self._put(self._path(key), json.dumps(header).encode() + b"\n" + stored.data)

    def drop(self, key: str) -> None:
        """Let go of the copy."""
        self._path(key).unlink(missing_ok=True)

    def load_listing(self) -> MirroredListing | None:
        """Return the last complete listing, or None when there is none or it is damaged."""
        try:
            body = json.loads((self.root / "listing.json").read_bytes())
            return MirroredListing(
                parse_timestamp(body["taken"]), tuple(map(_info, body["entries"]))
            )
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def save_listing(self, taken_at: datetime, entries: Iterable[ObjectInfo]) -> None:
        """Keep a complete listing."""
        body = {
            "taken": format_timestamp(taken_at),
            "entries": [
                [
                    info.key,
                    info.version,
                    info.size,
                    format_timestamp(info.modified),
                    dict(info.metadata),
                ]
                for info in entries
            ],
        }
        self._put(self.root / "listing.json", json.dumps(body).encode())

    def _path(self, key: str) -> Path:
        return self.root / "objects" / hashlib.sha256(key.encode()).hexdigest()

    def _put(self, path: Path, data: bytes) -> None:
        with translate_os_errors(str(path)):
            folder = self._open(path.parent)
            try:
                # Not durable on purpose: the checksum finds a torn copy, and it is read again.
                replace_file(folder, path.name, data, durable=False)
            finally:
                os.close(folder)

    def _open(self, folder: Path) -> int:
        try:
            return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return open_folder(self.root, folder.relative_to(self.root).parts, create=True)


def _info(row: tuple[str, str, int, str, dict[str, str]]) -> ObjectInfo:
    key, version, size, modified, metadata = row
    return ObjectInfo(key, Version(version), size, parse_timestamp(modified), metadata)
