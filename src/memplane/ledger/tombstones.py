"""Tombstones: which entries were forgotten, for good, one line each in files beside the ledgers.

<root>/<agent>/tombstones.jsonl   the lines, also those that claw wrote
<root>/<agent>/torn-…             ends of lines that were cut off, as they were found

A tombstone for an agent's entry holds for every service, whichever it was written for. Claw
refuses a file with a line that it cannot read, so what is broken at the end is moved away before
anything is added.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import stat
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import Final

import msgspec

from memplane.auth.agent_id import is_agent_id
from memplane.errors import LedgerError
from memplane.kit.durable_files import open_folder, replace_file, sync_file, sync_folder, write_all
from memplane.kit.ids import new_id
from memplane.ledger.folder import STATE_FOLDER_NAME, make_invalid_agent, open_regular_file
from memplane.ledger.line_reader import LedgerLine, read_lines

TOMBSTONES_FILE_NAME: Final = "tombstones.jsonl"
_FORMAT_VERSION: Final = 1
_MAX_LINE_BYTES: Final = 1 << 20

_log = logging.getLogger(__name__)


class Tombstone(msgspec.Struct, frozen=True):
    """An entry that was forgotten; `ts` is RFC 3339, and the service is who was told first."""

    ts: str
    agent_id: str
    memory_service: str
    entry_id: str
    reason: str = ""


class TombstoneBatch(msgspec.Struct, frozen=True):
    """Tombstones behind an offset, the offset to go on from, and how many lines were no use."""

    tombstones: tuple[Tombstone, ...]
    offset: int
    malformed: int = 0


class _TombstoneLine(msgspec.Struct):
    entry_id: str
    ts: str = ""
    agent_id: str = ""
    memory_service: str = ""
    reason: str = ""


def get_mirror_root(ledgers: Path) -> Path:
    """Return where tombstones are kept once more, for who sees nothing but the ledgers."""
    return ledgers / STATE_FOLDER_NAME / "tombstones"


def list_agents_with_tombstones(root: Path) -> list[str]:
    """Name the agents for which something was forgotten, sorted."""
    if not root.is_dir():
        return []
    return sorted(
        folder.name
        for folder in root.iterdir()
        if is_agent_id(folder.name) and (folder / TOMBSTONES_FILE_NAME).is_file()
    )


def read_tombstones(root: Path, agent: str) -> dict[str, Tombstone]:
    """Read an agent's tombstones, by the id of the entry; the first of each counts.

    Raises:
        UnknownAgent: That is no agent's name.
        LedgerError: The file is there and cannot be read.
    """
    batch = read_tombstones_since(root, agent)
    if batch.malformed:
        _log.warning("%d tombstones of %s cannot be read", batch.malformed, agent)
    by_id: dict[str, Tombstone] = {}
    for tombstone in batch.tombstones:
        by_id.setdefault(tombstone.entry_id, tombstone)
    return by_id


def read_tombstones_since(root: Path, agent: str, offset: int = 0) -> TombstoneBatch:
    """Read what was added behind an offset that an earlier call returned.

    A file that was put in the place of the earlier one is read from its beginning. A whole last
    line counts although its newline is missing; it is read again the next time.

    Raises:
        UnknownAgent: That is no agent's name.
        LedgerError: The file is there and cannot be read.
    """
    path = _path(root, agent)
    try:
        if path.parent.is_symlink():
            raise LedgerError(f"{path.parent} is a link; tombstones are not looked for behind it")
        with open_regular_file(path) as file:
            file.seek(_start(file, offset))
            return _read(file, agent)
    except FileNotFoundError:
        return TombstoneBatch((), 0)
    except OSError as error:
        raise LedgerError(f"the tombstones in {path} cannot be read: {error.strerror}") from error


def append_tombstones(root: Path, agent: str, tombstones: Iterable[Tombstone]) -> None:
    """Add tombstones; these and all that were there before are durable when this returns.

    Raises:
        UnknownAgent: That is no agent's name.
        LedgerError: They were not added, or may not have been.
    """
    path = _path(root, agent)
    data = b"".join(map(_line, tombstones))
    try:
        folder = open_folder(root, (agent,), create=True)
        try:
            with _open_locked(folder, path) as descriptor:
                _mend(folder, descriptor)
                _add(descriptor, data)
            sync_file(folder)
        finally:
            os.close(folder)
        # Whoever made these may have died before their names were durable.
        sync_folder(root)
        with suppress(PermissionError):
            sync_folder(root.parent)
    except OSError as error:
        raise LedgerError(f"tombstones were not written to {path}: {error.strerror}") from error


def replicate_tombstones(roots: Sequence[Path], agent: str) -> None:
    """Give each of several roots the tombstones that the others have.

    Raises:
        UnknownAgent: That is no agent's name.
        LedgerError: A file cannot be read or written.
    """
    known_by_root = [
        dict.fromkeys(read_tombstones_since(root, agent).tombstones) for root in roots
    ]
    for root, present in zip(roots, known_by_root, strict=True):
        missing = dict.fromkeys(
            tombstone for other in known_by_root for tombstone in other if tombstone not in present
        )
        if missing:
            append_tombstones(root, agent, missing)


class ForgottenIds:
    """The ids that were forgotten for one agent, in any of several roots.

    `refresh` reads only what was added since, so it may be called before every entry.
    """

    def __init__(self, roots: Iterable[Path], agent: str) -> None:
        self.malformed = 0
        self._agent = agent
        self._offsets = dict.fromkeys(roots, 0)
        self._file_positions: dict[Path, tuple[int, int, int]] = {}
        self._ids: set[str] = set()

    def __contains__(self, entry_id: object) -> bool:
        return entry_id in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was forgotten, as far as was read."""
        return not self._ids

    def has_prefix(self, start_of_id: str) -> bool:
        """Say whether an entry whose id begins so was forgotten, as far as was read."""
        return any(entry_id.startswith(start_of_id) for entry_id in self._ids)

    def refresh(self) -> None:
        """Take in what was added meanwhile; what was forgotten once stays forgotten.

        Raises:
            UnknownAgent: That is no agent's name.
            LedgerError: A file is there and cannot be read.
        """
        for root, offset in self._offsets.items():
            identity = _read_file_identity(_path(root, self._agent))
            if identity is not None and self._file_positions.get(root) == identity:
                continue
            batch = read_tombstones_since(root, self._agent, offset)
            self._ids.update(tombstone.entry_id for tombstone in batch.tombstones)
            self._offsets[root] = batch.offset
            self.malformed += batch.malformed
            if identity is not None:
                self._file_positions[root] = identity


def _read_file_identity(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _path(root: Path, agent: str) -> Path:
    if not is_agent_id(agent):
        raise make_invalid_agent(agent)
    return root / agent / TOMBSTONES_FILE_NAME


def _start(file: BufferedReader, offset: int) -> int:
    """Return the offset, or 0 when it is not the end of a line of this file."""
    if not 0 < offset <= os.fstat(file.fileno()).st_size:
        return 0
    file.seek(offset - 1)
    return offset if file.read(1) == b"\n" else 0


def _read(file: BufferedReader, agent: str) -> TombstoneBatch:
    tombstones: list[Tombstone] = []
    offset, malformed = file.tell(), 0
    for line in read_lines(file, max_line_bytes=_MAX_LINE_BYTES):
        tombstone = _tombstone_in(line, agent)
        if tombstone is not None:
            tombstones.append(tombstone)
        if line.ended:
            malformed += tombstone is None and (line.data is None or bool(line.data.strip()))
            offset = line.offset + line.size
    return TombstoneBatch(tuple(tombstones), offset, malformed)


def _tombstone_in(line: LedgerLine, agent: str) -> Tombstone | None:
    """Read a line; it is about the agent whose file it stands in, whatever it says."""
    wire = _decode(line.data or b"")
    if wire is None or not wire.entry_id.strip():
        return None
    return Tombstone(wire.ts, agent, wire.memory_service, wire.entry_id, wire.reason)


def _decode(line: bytes) -> _TombstoneLine | None:
    # The strict decoder refuses half a surrogate pair, and an id may hold one.
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.json.decode(line, type=_TombstoneLine)
    with suppress(ValueError, RecursionError):
        return msgspec.convert(json.loads(line.decode("utf-8", "replace")), _TombstoneLine)
    return None


def _line(tombstone: Tombstone) -> bytes:
    body = {
        "version": _FORMAT_VERSION,
        "ts": tombstone.ts,
        "agent_id": tombstone.agent_id,
        "memory_service": tombstone.memory_service,
        "entry_id": tombstone.entry_id,
    }
    if tombstone.reason:
        body["reason"] = tombstone.reason
    return json.dumps(body, separators=(",", ":")).encode() + b"\n"


@contextmanager
def _open_locked(folder: int, path: Path) -> Generator[int]:
    """Open the file for adding and keep other writers of ours out of it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    while True:
        descriptor = os.open(TOMBSTONES_FILE_NAME, flags, 0o600, dir_fd=folder)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Somebody may have put another file there while we waited.
            if _is_there(path, descriptor):
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _is_there(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _mend(folder: int, descriptor: int) -> None:
    """Give a whole last line its newline, and move one that was cut off away."""
    size = os.fstat(descriptor).st_size
    if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n":
        return
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        last = next(
            line for line in read_lines(file, max_line_bytes=_MAX_LINE_BYTES) if not line.ended
        )
        if _tombstone_in(last, "") is not None:
            write_all(descriptor, b"\n")
            return
        file.seek(last.offset)
        replace_file(folder, f"torn-{new_id()}", file.read())
    os.ftruncate(descriptor, last.offset)


def _add(descriptor: int, data: bytes) -> None:
    before = os.fstat(descriptor).st_size
    try:
        write_all(descriptor, data)
        sync_file(descriptor)
    except OSError:
        # A line that stayed would look durable to the next who reads it, and need not be.
        with suppress(OSError):
            if os.fstat(descriptor).st_size <= before + len(data):
                os.ftruncate(descriptor, before)
        raise
