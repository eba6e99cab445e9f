"""The folder of documents on this machine: read, replaced and deleted without losing a word.

Others write here at the same time: an agent, an editor, a person. So a document is replaced only
while it is what we last saw, and what was typed in the very moment is kept. A crash leaves either
the old text or the new one, and evidence of which: the name of the staged file.

Every call opens what it needs one component at a time and follows no link. The calls block.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from memplane.errors import InvalidKey, StorageError, TooLarge
from memplane.kit.durable_files import (
    FileWork,
    read_file,
    run_file_work,
    sync_file,
    translate_os_errors,
    write_all,
)
from memplane.kit.ids import RESERVED_PREFIX, new_id
from memplane.kit.private_files import make_private_folder
from memplane.persona.atomic_rename import exchange_files, rename_no_replace
from memplane.persona.document_names import explain_invalid_name
from memplane.persona.folder_scan import FolderScan, scan_folder
from memplane.persona.local_history import ConflictCopy, DocumentSnapshot, LocalHistory
from memplane.persona.project_marker import ProjectMarker, read_marker, write_marker
from memplane.persona.safe_open import (
    MAX_DOCUMENT_BYTES,
    acquire_shared_lock,
    make_folder_at,
    open_document,
    open_folder_at,
    open_root,
    read_document,
    read_optional_file,
    stat_entry,
    try_exclusive_lock,
)

_STAGED_PREFIX: Final = f"{RESERVED_PREFIX}-new-"
_DISCARDED_PREFIX: Final = f"{RESERVED_PREFIX}-gone-"
_HASH_DIGITS: Final = 16
_STAGED_NAME: Final = re.compile(
    rf"{re.escape(_STAGED_PREFIX)}[0-9A-Za-z]+"
    rf"-(?P<text>[0-9a-f]{{{_HASH_DIGITS}}})(?:-(?P<over>[0-9a-f]{{{_HASH_DIGITS}}}))?"
    rf"(?:-for-(?P<leaf>[0-9a-f]{{{_HASH_DIGITS}}}))?"
)
_DISCARDED_NAME: Final = re.compile(r"[0-9A-Za-z_-]{1,64}")
_MAX_EPOCH_S: Final = 253_402_300_799
"""The end of the year 9999: a file may claim to be of later, a date cannot be."""


class SwapResult(msgspec.Struct, frozen=True):
    """The staged text is in place. `typed` is where the text lies that it overtook, if any."""

    typed: Path | None = None


class DocumentFolder:
    """One folder of documents, and the private folder where what it loses is kept.

    The folder itself is made by `create` alone. Without it every call but `scan` and `identity`
    fails, because it may be on a disk that is not mounted, and then nothing is known of it.

    Every call raises a StorageError when the file system fails, and `InvalidKey` for a key that
    cannot be a document, or for a file that is a link or anything else that is not followed.
    """

    def __init__(self, root: Path, state: Path, *, new_id: Callable[[], str] = new_id) -> None:
        self._root = root
        self._history = LocalHistory(state, new_id=new_id)
        self._new_id = new_id
        self._is_swept = False

    def create(self) -> None:
        """Make the folder if it is missing, for this user alone."""
        with translate_os_errors(""):
            make_private_folder(self._root)

    def identity(self) -> tuple[int, int] | None:
        """Return what tells this folder from one put in its place; None when it is missing."""
        with translate_os_errors(""):
            try:
                status = self._root.stat()
            except FileNotFoundError:
                return None
            return status.st_dev, status.st_ino

    def scan(self) -> FolderScan:
        """Look at what lies in the folder."""
        return scan_folder(self._root)

    def read(self, key: str) -> bytes | None:
        """Return a document's bytes; None only when it is known that there is none."""
        with self._open_parent(key) as (folder, leaf):
            return None if folder is None else read_document(folder, leaf, key)

    def reading(self, key: str) -> FileWork[bytes | None]:
        """Return a document's bytes, as `read` does."""
        yield from ()
        return self.read(key)

    # Replacing: stage, note it somewhere durable, swap.

    def stage(
        self, key: str, data: bytes, *, over: bytes | None = None, noted: bool = True
    ) -> str:
        """Put a new text beside its document, durably; return its name.

        It gets the mode of the file it is to replace, or is for this user alone. `over` is that
        file's text: after a crash it is told by it from one that was typed. What is not `noted`
        anywhere is staged while `writing`, and cleared by the next who writes after a crash.
        """
        return run_file_work(self.staging(key, data, over=over, noted=noted))

    def staging(
        self, key: str, data: bytes, *, over: bytes | None = None, noted: bool = True
    ) -> FileWork[str]:
        """Put a new text beside its document, as `stage` does."""
        if len(data) > MAX_DOCUMENT_BYTES:
            raise TooLarge(f"{len(data)} bytes are more than {MAX_DOCUMENT_BYTES}", key=key)
        # Its name says what it holds. After the swap, it holds something else or is gone.
        name = f"{_STAGED_PREFIX}{self._new_id()}-{_sum_of(data)}"
        if over is not None:
            name = f"{name}-{_sum_of(over)}"
        with self._make_parent(key) as (folder, leaf):
            if not noted:
                name = f"{name}-for-{_sum_of(os.fsencode(leaf))}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(name, flags, 0o600, dir_fd=folder)
            try:
                try:
                    os.fchmod(descriptor, _mode_of(folder, leaf))
                    write_all(descriptor, data)
                    yield descriptor
                finally:
                    os.close(descriptor)
                yield folder
            except BaseException:
                os.unlink(name, dir_fd=folder)
                raise
        return name

    def is_staged(self, key: str, name: str) -> bool:
        """Say whether a staged text still waits. If not, it is in place: call `unstage` anyway."""
        staged, _ = _sums_in(name, key)
        with self._open_parent(key) as (folder, leaf):
            if folder is None:
                return False
            staged_data = read_optional_file(folder, name)
            if staged_data is None or _sum_of(staged_data) != staged:
                return False
            # A rename in two steps that was cut short leaves it under both names.
            return not _are_one_file(folder, name, leaf)

    def unstage(self, key: str, name: str) -> None:
        """Clear the name of a staged text, whether it still waits or not.

        After a swap that was cut short the text is there that it overtook. It becomes a snapshot
        when it is the one that was to be replaced; one that was typed is kept as a conflict copy.
        """
        staged, over = _sums_in(name, key)
        with self._open_parent(key) as (folder, _):
            data = None if folder is None else read_optional_file(folder, name)
            if folder is None or data is None:
                return
            sha = _sum_of(data)
            if sha == over != staged:
                run_file_work(self._history.move_snapshot_work(key, folder=folder, leaf=name))
            else:
                if sha != staged:
                    self._keep_overtaken(key, *read_file(folder, name))
                os.unlink(name, dir_fd=folder)
            sync_file(folder)

    def swap(self, key: str, name: str, expected: bytes | None) -> SwapResult | None:
        """Put a staged text in place, if the document is still as expected (None: not there).

        Returns None, and has changed nothing, when the document is another, or nothing is staged
        under that name. What it replaces is kept as a snapshot. What is typed after the last look
        is overtaken: it is kept as a conflict copy, and the answer says where.
        """
        return run_file_work(self.swapping(key, name, expected))

    def swapping(self, key: str, name: str, expected: bytes | None) -> FileWork[SwapResult | None]:
        """Put a staged text in place, as `swap` does."""
        _sums_in(name, key)
        with self._open_parent(key) as (folder, leaf):
            if folder is None:
                return None
            if expected is not None:
                return (yield from self._replacing(folder, key, name, expected=expected))
            try:
                placed = read_document(folder, leaf, key) is None and rename_no_replace(
                    folder, name, leaf
                )
            except FileNotFoundError:
                return None
            yield folder
            return SwapResult() if placed else None

    def _replacing(
        self, folder: int, key: str, name: str, *, expected: bytes
    ) -> FileWork[SwapResult | None]:
        leaf = key.rpartition("/")[2]
        with open_document(folder, leaf, key) as old:
            if old is None or old.read() != expected:
                return None
            try:
                if not exchange_files(folder, name, leaf):
                    work = self._overwriting(folder, key, name, old=old, expected=expected)
                    return (yield from work)
            except FileNotFoundError:
                return None
        # Durable first: `is_staged` goes by what lies under the name, which is cleared next.
        yield folder
        overtaken, status = read_file(folder, name)
        if overtaken == expected:
            yield from self._history.move_snapshot_work(key, folder=folder, leaf=name)
            return SwapResult()
        yield from self._history.keep_snapshot_work(key, expected)
        typed = self._keep_overtaken(key, overtaken, status)
        os.unlink(name, dir_fd=folder)
        return SwapResult(typed)

    def _overwriting(
        self, folder: int, key: str, name: str, *, old: BinaryIO, expected: bytes
    ) -> FileWork[SwapResult | None]:
        """Replace a document where two names cannot be traded: its text is copied before."""
        leaf = key.rpartition("/")[2]
        yield from self._history.keep_snapshot_work(key, expected)
        if read_document(folder, leaf, key) != expected:
            return None
        os.rename(name, leaf, src_dir_fd=folder, dst_dir_fd=folder)
        yield folder
        overtaken, status = _read_again(old)
        typed = self._keep_overtaken(key, overtaken, status) if overtaken != expected else None
        return SwapResult(typed)

    # Replacing at once, without a note.

    @contextmanager
    def writing(self) -> Generator[None]:
        """Keep others from clearing what is staged here; first clear what a crash has left."""
        with translate_os_errors(""), open_root(self._root) as root:
            if not self._is_swept and try_exclusive_lock(root):
                self._sweep(root)
            self._is_swept = True
            acquire_shared_lock(root)
            yield

    def _sweep(self, root: int) -> None:
        for path, folders, names, folder in os.fwalk(dir_fd=root):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for staged in filter(None, map(_STAGED_NAME.fullmatch, names)):
                if staged["leaf"] is not None:
                    with suppress(OSError, StorageError):  # the next one clears it
                        self._clear(folder, path, names, staged)

    def _clear(self, folder: int, path: str, names: Sequence[str], staged: re.Match[str]) -> None:
        """Clear a staged text of nobody's; one that it overtook is kept, as `unstage` does."""
        name = staged[0]
        data = read_file(folder, name)[0]
        if staged["over"] is None or not data or _sum_of(data) == staged["text"]:
            os.unlink(name, dir_fd=folder)
            return
        for leaf in names:
            if _sum_of(os.fsencode(leaf)) == staged["leaf"]:
                self.unstage(os.path.normpath(f"{path}/{leaf}"), name)

    # Deleting: note a name somewhere durable, discard, bury.

    def discard(self, key: str, name: str, expected: bytes) -> bool:
        """Take a document away, if it is still as expected: rename it, beside where it was.

        Returns False, and has changed nothing, when it is another.
        """
        file_name = _discarded_name(name, key)
        with self._open_parent(key) as (folder, leaf):
            if folder is None or read_document(folder, leaf, key) != expected:
                return False
            try:
                os.rename(leaf, file_name, src_dir_fd=folder, dst_dir_fd=folder)
            except FileNotFoundError:
                return False
            sync_file(folder)
            overtaken, status = read_file(folder, file_name)
            if overtaken == expected:
                return True
            # Somebody typed after the last look: that text goes back.
            if not rename_no_replace(folder, file_name, leaf):
                self._keep_overtaken(key, overtaken, status)
                os.unlink(file_name, dir_fd=folder)
            sync_file(folder)
            return False

    def is_discarded(self, key: str, name: str) -> bool:
        """Say whether a document was taken away under that name, buried or not."""
        file_name = _discarded_name(name, key)
        with self._open_parent(key) as (folder, _):
            if folder is not None and read_optional_file(folder, file_name) is not None:
                return True
        return self._history.is_purged(key, name)

    def purge_discarded(self, key: str, name: str) -> None:
        """Move a discarded document out of the folder; the second time there is nothing to do."""
        file_name = _discarded_name(name, key)
        with self._open_parent(key) as (folder, _):
            if folder is not None:
                self._history.move_to_purged(key, name, folder=folder, leaf=file_name)

    # Whose folder it is.

    def marker(self) -> ProjectMarker | None:
        """Return the folder's marker; None when it has none. A damaged one is an error."""
        return read_marker(self._root)

    def mark(self, marker: ProjectMarker) -> None:
        """Write the folder's marker, all of it or nothing."""
        write_marker(self._root, marker)

    # What is kept elsewhere.

    def snapshots(self, key: str) -> tuple[DocumentSnapshot, ...]:
        """List the texts that `swap` replaced, the newest first."""
        _check(key)
        return self._history.snapshots(key)

    def read_snapshot(self, key: str, name: str) -> bytes | None:
        """Return one of them, to be copied back; None when it is no longer kept."""
        _check(key)
        return self._history.read_snapshot(key, name)

    def keep_copy(self, key: str, data: bytes, *, label: str, now: datetime) -> Path:
        """Keep a text that goes nowhere else, for a person to look at; the label says why."""
        _check(key)
        return self._history.keep_copy(key, data, label=label, now=now)

    def conflicts(self) -> tuple[ConflictCopy, ...]:
        """List the texts that wait for a person, the oldest first."""
        return self._history.conflicts()

    def drop_copy(self, path: Path) -> bool:
        """Let go of a text that a person has dealt with; False when there is no such copy."""
        return self._history.drop_copy(path)

    def _keep_overtaken(self, key: str, data: bytes, status: os.stat_result) -> Path:
        modified_at = datetime.fromtimestamp(min(max(status.st_mtime, 0), _MAX_EPOCH_S), UTC)
        return self._history.keep_copy(key, data, label="typed", now=modified_at)

    @contextmanager
    def _open_parent(self, key: str) -> Generator[tuple[int | None, str]]:
        """Hold the folder of a document open; None when there is no such folder."""
        parents, leaf = _parts(key)
        with (
            translate_os_errors(key),
            open_root(self._root) as root,
            open_folder_at(root, parents) as folder,
        ):
            yield folder, leaf

    @contextmanager
    def _make_parent(self, key: str) -> Generator[tuple[int, str]]:
        """Hold the folder of a document open; it is made when it is not there."""
        parents, leaf = _parts(key)
        with (
            translate_os_errors(key),
            open_root(self._root) as root,
            make_folder_at(root, parents) as folder,
        ):
            yield folder, leaf


def _parts(key: str) -> tuple[tuple[str, ...], str]:
    _check(key)
    *parents, leaf = key.split("/")
    return tuple(parents), leaf


def _check(key: str) -> None:
    if reason := explain_invalid_name(key):
        raise InvalidKey(reason, key=key or "(empty)")


def _sums_in(name: str, key: str) -> tuple[str, str | None]:
    """Return what a staged text's name says that it holds, and that it is to replace."""
    match = _STAGED_NAME.fullmatch(name)
    if match is None:
        raise InvalidKey(f"{name!r} is not the name of a staged text", key=key)
    return match["text"], match["over"]


def _discarded_name(name: str, key: str) -> str:
    if not _DISCARDED_NAME.fullmatch(name):
        raise InvalidKey(f"{name!r} cannot be the name of a discarded document", key=key)
    return f"{_DISCARDED_PREFIX}{name}"


def _sum_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_HASH_DIGITS]


def _mode_of(folder: int, leaf: str) -> int:
    status = stat_entry(folder, leaf)
    return stat.S_IMODE(status.st_mode) & 0o777 if status else 0o600


def _read_again(document: BinaryIO) -> tuple[bytes, os.stat_result]:
    document.seek(0)
    return document.read(), os.fstat(document.fileno())


def _are_one_file(folder: int, name: str, other_name: str) -> bool:
    first, second = stat_entry(folder, name), stat_entry(folder, other_name)
    return first is not None and second is not None and os.path.samestat(first, second)
