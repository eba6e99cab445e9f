"""How far a backfill came, so that the next one goes on there.

<state>/backfill/<agent>-<hash>.jsonl   which backfill this is, then what came of it, line by line
<state>/backfill/<agent>-<hash>.lock    held while it runs

Each acknowledged entry is one line, which outlives the process at once and a power loss a little
later; what is lost then is sent once more, under the same id.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from memplane.errors import InvalidCursor, LedgerError
from memplane.kit.clock import format_timestamp
from memplane.kit.durable_files import open_folder, replace_file, sync_data, write_all
from memplane.ledger.cursor import BEGINNING, Cursor, decode_cursor, encode_cursor
from memplane.ledger.folder import open_regular_file

_CHECKPOINT_FOLDER_NAME: Final = "backfill"
_FORMAT_VERSION: Final = 1
_COMPACT_AT_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class BackfillJob:
    """Which backfill this is. Another service, agent or filter is another one."""

    service: str
    agent: str
    after: datetime | None = None
    limit: int = 0
    include_errors: bool = False

    @property
    def name(self) -> str:
        """The name of its files."""
        return f"{self.agent}-{hashlib.sha256(self.header).hexdigest()[:16]}"

    @property
    def header(self) -> bytes:
        """Its description, the first line of its file."""
        return _encode(
            version=_FORMAT_VERSION,
            service=self.service,
            agent=self.agent,
            after=format_timestamp(self.after) if self.after else None,
            limit=self.limit,
            include_errors=self.include_errors,
        )


@dataclass(frozen=True, slots=True)
class RefusedEntry:
    """An entry that the service refused for good: what lies before it, and the status."""

    before: Cursor
    status: int


@dataclass(slots=True)
class BackfillProgress:
    """How far a backfill came. `taken` are the entries that were chosen, refused ones too."""

    cursor: Cursor = BEGINNING
    taken: int = 0
    refused: dict[str, RefusedEntry] = field(default_factory=dict[str, RefusedEntry])


class _CheckpointLine(msgspec.Struct):
    cursor: str
    taken: int = 0
    refused: str = ""
    status: int = 0
    settled: str = ""


def read_progress(state: Path, job: BackfillJob) -> BackfillProgress:
    """Read how far a backfill came; one that never ran is at the beginning.

    Raises:
        LedgerError: The file is there and cannot be read.
    """
    path = state / _CHECKPOINT_FOLDER_NAME / f"{job.name}.jsonl"
    try:
        with open_regular_file(path) as file:
            header, *lines = file.read().split(b"\n")
    except FileNotFoundError:
        return BackfillProgress()
    except OSError as error:
        raise LedgerError(f"{path} cannot be read: {error.strerror}") from error
    progress = BackfillProgress()
    if header == job.header:
        # Behind a line that a power loss damaged nothing is believed.
        with suppress(ValueError, RecursionError, InvalidCursor):
            for line in lines:
                _apply_line(progress, line)
    return progress


def _apply_line(progress: BackfillProgress, line: bytes) -> None:
    record = msgspec.convert(json.loads(line), _CheckpointLine)
    cursor = decode_cursor(record.cursor)
    if record.settled:
        progress.refused.pop(record.settled, None)
    elif record.refused:
        progress.refused[record.refused] = RefusedEntry(cursor, record.status)
    else:
        progress.cursor, progress.taken = cursor, record.taken


class Checkpoint:
    """Writes down how far a backfill came. The caller holds the lock.

    Raises LedgerError from every method that cannot write.
    """

    def __init__(self, folder: int, job: BackfillJob, progress: BackfillProgress) -> None:
        self.progress = progress
        self._folder = folder
        self._job = job
        self._file = -1
        self._size = 0
        self._write_anew()

    def advance(self, cursor: Cursor, *, taken: int) -> None:
        """Note that everything up to an entry is dealt with."""
        self.progress.cursor, self.progress.taken = cursor, taken
        self._add(_encode(cursor=encode_cursor(cursor), taken=taken))

    def refuse(self, entry_id: str, refused: RefusedEntry) -> None:
        """Note that an entry was refused, before going on behind it."""
        self.progress.refused[entry_id] = refused
        self._add(_refused_line(entry_id, refused))

    def settle(self, entry_id: str) -> None:
        """Note that a refused entry was taken after all, or forgotten meanwhile."""
        self.progress.refused.pop(entry_id, None)
        self._add(_encode(cursor=encode_cursor(BEGINNING), settled=entry_id))

    def start_over(self) -> None:
        """Go back to the beginning."""
        self.progress = BackfillProgress()
        self._write_anew()

    def sync(self) -> None:
        """Make what was noted durable."""
        with _translate_errors(self._job):
            sync_data(self._file)

    def close(self) -> None:
        """Let go of the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _add(self, line: bytes) -> None:
        if self._size > _COMPACT_AT_BYTES:
            self._write_anew()
        with _translate_errors(self._job):
            write_all(self._file, line + b"\n")
        self._size += len(line) + 1

    def _write_anew(self) -> None:
        """Put a short file in the place of a long one."""
        progress = self.progress
        lines = [
            self._job.header,
            *(_refused_line(name, entry) for name, entry in progress.refused.items()),
            _encode(cursor=encode_cursor(progress.cursor), taken=progress.taken),
        ]
        name = f"{self._job.name}.jsonl"
        with _translate_errors(self._job):
            replace_file(self._folder, name, b"\n".join((*lines, b"")))
            self.close()
            flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(name, flags, dir_fd=self._folder)
        self._size = 0


@contextmanager
def open_checkpoint(state: Path, job: BackfillJob, *, resume: bool) -> Generator[Checkpoint]:
    """Open the checkpoint of a backfill, and keep others from running it meanwhile.

    Raises:
        LedgerError: It runs already, or its file cannot be used.
    """
    with _translate_errors(job):
        folder = open_folder(state, (_CHECKPOINT_FOLDER_NAME,), create=True)
    try:
        with _hold_lock(folder, job):
            progress = read_progress(state, job) if resume else BackfillProgress()
            checkpoint = Checkpoint(folder, job, progress)
            try:
                yield checkpoint
            finally:
                checkpoint.close()
    finally:
        os.close(folder)


@contextmanager
def _hold_lock(folder: int, job: BackfillJob) -> Generator[None]:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with _translate_errors(job):
        descriptor = os.open(f"{job.name}.lock", flags, 0o600, dir_fd=folder)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LedgerError(f"another backfill to {job.service} runs already") from None
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _translate_errors(job: BackfillJob) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise LedgerError(
            f"how far the backfill of {job.agent} came cannot be kept: {error.strerror}"
        ) from error


def _refused_line(entry_id: str, refused: RefusedEntry) -> bytes:
    return _encode(cursor=encode_cursor(refused.before), refused=entry_id, status=refused.status)


def _encode(**members: object) -> bytes:
    return json.dumps(members, separators=(",", ":")).encode()
