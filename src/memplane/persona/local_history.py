"""What is kept of documents that were replaced, deleted, or could not be merged.

It lies in a private folder of ours, never beside the documents: there an agent would take an old
text for a memory. A document's key is a safe path, and is the path here as well.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from memplane.kit.durable_files import (
    FileWork,
    read_file,
    replace_file,
    replace_file_work,
    run_file_work,
    sync_file,
    translate_os_errors,
)
from memplane.kit.ids import new_id
from memplane.persona.document_names import explain_invalid_name
from memplane.persona.safe_open import make_folder_at, open_folder_at, stat_entry

MAX_SNAPSHOTS: Final = 10
"""How many earlier texts are kept of each document."""

_SNAPSHOT: Final = re.compile(r"[0-9]{8}-[0-9A-Za-z]+\.md")
_COPY: Final = re.compile(
    r"(?P<key>.+\.md)\.(?P<at>[0-9]{8}T[0-9]{9}Z)\.(?P<label>[a-z0-9-]+)\.[0-9a-f]{8}\.md"
)
_NOT_IN_LABEL: Final = re.compile(r"[^a-z0-9]+")
_MAX_LABEL_CHARS: Final = 16
"""The longest name of a document, with all that is added to it, must remain a file's name."""


class DocumentSnapshot(msgspec.Struct, frozen=True):
    """An earlier text of a document, and when it was replaced."""

    name: str
    at: datetime
    size: int


class ConflictCopy(msgspec.Struct, frozen=True):
    """A text that is in no document: whose it was, when it was kept, and the reason in a word."""

    path: Path
    key: str
    at: datetime
    label: str


class LocalHistory:
    """The private folder. Files are for this user alone, and durable once a call returns."""

    def __init__(self, state: Path, *, new_id: Callable[[], str] = new_id) -> None:
        self._state = state
        self._new_id = new_id

    def keep_snapshot(self, key: str, data: bytes) -> None:
        """Keep a text that is about to be replaced: the newest ten, and none twice in a row."""
        run_file_work(self.keep_snapshot_work(key, data))

    def keep_snapshot_work(self, key: str, data: bytes) -> FileWork[None]:
        """Keep a text, as `keep_snapshot` does."""
        with self._make_folder("snapshots", key) as folder:
            names = _snapshots_in(folder)
            if names and read_file(folder, names[-1])[0] == data:
                return
            yield from replace_file_work(folder, self._next_name(names), data)
            _drop_oldest(folder, names)

    def move_snapshot_work(self, key: str, *, folder: int, leaf: str) -> FileWork[None]:
        """Make a file that was replaced a snapshot: it is moved here from where it lies."""
        with self._make_folder("snapshots", key) as folder_fd:
            names = _snapshots_in(folder_fd)
            name = self._next_name(names)
            try:
                os.rename(leaf, name, src_dir_fd=folder, dst_dir_fd=folder_fd)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                yield from replace_file_work(folder_fd, name, read_file(folder, leaf)[0])
                os.unlink(leaf, dir_fd=folder)
            else:
                os.chmod(name, 0o600, dir_fd=folder_fd)
                os.utime(name, dir_fd=folder_fd)  # of now: that is when it was replaced
                yield folder_fd
            _drop_oldest(folder_fd, names)

    def _next_name(self, names: Sequence[str]) -> str:
        number = int(names[-1].partition("-")[0]) + 1 if names else 1
        return f"{number:08d}-{self._new_id()}.md"

    def snapshots(self, key: str) -> tuple[DocumentSnapshot, ...]:
        """List a document's earlier texts, the newest first."""
        with self._open_folder("snapshots", key) as folder:
            if folder is None:
                return ()
            return tuple(_snapshot(folder, name) for name in reversed(_snapshots_in(folder)))

    def read_snapshot(self, key: str, name: str) -> bytes | None:
        """Return an earlier text, to be copied back; None when it is not kept, or no longer."""
        with self._open_folder("snapshots", key) as folder:
            if folder is None or name not in _snapshots_in(folder):
                return None
            return read_file(folder, name)[0]

    def keep_copy(self, key: str, data: bytes, *, label: str, now: datetime) -> Path:
        """Keep a text that goes nowhere else, for a person to look at.

        Once: a merge or an import that is tried again leaves out the same text again.
        """
        parent, slash, leaf = key.rpartition("/")
        suffix = f".{_slug(label)}.{hashlib.sha256(data).hexdigest()[:8]}.md"
        with self._make_folder("conflicts", parent) as folder:
            name = (
                _find_same_copy(folder, leaf, suffix, data)
                or f"{leaf}.{_format_stamp(now)}{suffix}"
            )
            replace_file(folder, name, data)
        return self._state / "conflicts" / f"{parent}{slash}{name}"

    def conflicts(self) -> tuple[ConflictCopy, ...]:
        """List the texts that wait for a person, the oldest first."""
        top = self._state / "conflicts"
        with self._open_folder("conflicts", "") as folder:
            if folder is None:
                return ()
            files = [
                top / subfolder / name
                for subfolder, _, names, _ in os.fwalk(dir_fd=folder, onerror=_raise_unless_absent)
                for name in names
            ]
        copies = filter(None, (_copy_at(top, path) for path in files))
        return tuple(sorted(copies, key=lambda copy: (copy.at, copy.path)))

    def drop_copy(self, path: Path) -> bool:
        """Let go of a text that a person has dealt with; False when it is not kept here."""
        copy = _copy_at(self._state / "conflicts", path)
        if copy is None:
            return False
        with self._open_folder("conflicts", copy.key.rpartition("/")[0]) as folder:
            if folder is None or stat_entry(folder, path.name) is None:
                return False
            os.unlink(path.name, dir_fd=folder)
            sync_file(folder)
            return True

    def move_to_purged(self, key: str, name: str, *, folder: int, leaf: str) -> None:
        """Move a discarded file here, from the folder it lies in; the second time does nothing."""
        with self._make_folder("trash", key) as trash:
            if stat_entry(folder, leaf) is None:
                return
            try:
                os.rename(leaf, f"{name}.md", src_dir_fd=folder, dst_dir_fd=trash)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                replace_file(trash, f"{name}.md", read_file(folder, leaf)[0])
                os.unlink(leaf, dir_fd=folder)
            # The new name first: after a power loss there may be two, and never none.
            sync_file(trash)
            sync_file(folder)

    def is_purged(self, key: str, name: str) -> bool:
        """Say whether a file was moved here under that name."""
        with self._open_folder("trash", key) as trash:
            return trash is not None and stat_entry(trash, f"{name}.md") is not None

    @contextmanager
    def _make_folder(self, kind: str, key: str) -> Generator[int]:
        with translate_os_errors(key), make_folder_at(self._state, _parts(kind, key)) as folder:
            yield folder

    @contextmanager
    def _open_folder(self, kind: str, key: str) -> Generator[int | None]:
        with translate_os_errors(key), open_folder_at(self._state, _parts(kind, key)) as folder:
            yield folder


def _parts(kind: str, key: str) -> tuple[str, ...]:
    return (kind, *key.split("/")) if key else (kind,)


def _snapshots_in(folder: int) -> list[str]:
    return sorted(filter(_SNAPSHOT.fullmatch, os.listdir(folder)))


def _drop_oldest(folder: int, names: Sequence[str]) -> None:
    """Make room for the one that came after these."""
    for old in names[: max(0, len(names) + 1 - MAX_SNAPSHOTS)]:
        os.unlink(old, dir_fd=folder)


def _snapshot(folder: int, name: str) -> DocumentSnapshot:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    return DocumentSnapshot(name, datetime.fromtimestamp(status.st_mtime, UTC), status.st_size)


def _find_same_copy(folder: int, leaf: str, suffix: str, data: bytes) -> str | None:
    """Find a copy of that document with the same bytes and the same reason."""
    alike = (name for name in sorted(os.listdir(folder)) if name.endswith(suffix))
    matches = (match for match in map(_COPY.fullmatch, alike) if match and match["key"] == leaf)
    return next(
        (match.string for match in matches if read_file(folder, match.string)[0] == data), None
    )


def _copy_at(top: Path, path: Path) -> ConflictCopy | None:
    """Read a copy's name; None for a file that is none, or lies elsewhere."""
    if not path.is_relative_to(top):
        return None
    match = _COPY.fullmatch(path.relative_to(top).as_posix())
    if match is None or explain_invalid_name(match["key"]):
        return None
    try:
        return ConflictCopy(path, match["key"], _read_time(match["at"]), match["label"])
    except ValueError:
        return None


def _format_stamp(at: datetime) -> str:
    """Write a moment as file names have it, to the millisecond: no system minds its characters."""
    return at.astimezone(UTC).strftime("%Y%m%dT%H%M%S%f")[:-3] + "Z"


def _read_time(text: str) -> datetime:
    return datetime.strptime(text, "%Y%m%dT%H%M%S%fZ").replace(tzinfo=UTC)


def _slug(label: str) -> str:
    return _NOT_IN_LABEL.sub("-", label.lower())[:_MAX_LABEL_CHARS].strip("-") or "copy"


def _raise_unless_absent(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
