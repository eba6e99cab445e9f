"""One agent's ledger, as the writer thread holds it: open files, the chain, recent ids."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from memplane.kit.clock import Clock
from memplane.kit.durable_files import sync_data, sync_folder, write_all
from memplane.kit.private_files import make_private_folder
from memplane.ledger.chain import ChainEnd, Erasure, LedgerPosition, RecordKind
from memplane.ledger.chain_file import ChainFile
from memplane.ledger.entry_head import read_entry_head
from memplane.ledger.folder import (
    CHAIN_FILE_NAME,
    NOTES_FILE_NAME,
    OPEN_SEGMENT_NAME,
    SEGMENTS_FOLDER_NAME,
    AgentFolder,
)
from memplane.ledger.reader import read_lines_later_than, read_lines_since
from memplane.ledger.recent_ids import MAX_ID_AGE, RecentIds
from memplane.ledger.recovery import RecoveryReport, recover
from memplane.ledger.segments import FileModes, seal_open_segment

_log = logging.getLogger(__name__)
_MAX_LOCK_ATTEMPTS: Final = 2500
_LOCK_RETRY_DELAY_S: Final = 0.002


class AgentWriter:
    """Writes lines to an agent's ledger. Nothing is written unless `open_locked`."""

    def __init__(self, folder: AgentFolder, *, modes: FileModes, max_bytes: int) -> None:
        self.folder = folder
        self.recent = RecentIds()
        self._modes = modes
        self._max_bytes = max_bytes
        self._lock = -1
        self._lock_status: os.stat_result | None = None
        self._file = -1
        self._file_status: os.stat_result | None = None
        self._chain: ChainFile | None = None
        self._unsynced_chain = False
        self._unsynced_lines = False

    @contextmanager
    def open_locked(
        self, anchor: Callable[[], ChainEnd | None], clock: Clock
    ) -> Generator[RecoveryReport | None]:
        """Hold the agent's lock, and look at the end of its files again.

        Yields what was found when they were opened; None when nothing changed since.
        """
        self._take_lock()
        try:
            yield None if self._is_current() else self._open(anchor(), clock)
        finally:
            if self._lock >= 0:
                fcntl.flock(self._lock, fcntl.LOCK_UN)

    def _take_lock(self) -> None:
        """Wait for whoever writes, but not for ever: other agents' turns wait behind this."""
        for _ in range(_MAX_LOCK_ATTEMPTS):
            if self._lock < 0:
                self._open_lock()
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_LOCK_RETRY_DELAY_S)
                continue
            if self._is_the_lock():
                return
            os.close(self._lock)
            self._lock = -1
        raise TimeoutError(errno.ETIMEDOUT, "another process holds the agent's lock")

    def _is_the_lock(self) -> bool:
        """Say whether others would wait for this file; somebody may have put another there."""
        return _is_at(self.folder.path / "lock", self._lock_status) is not None

    def _open_lock(self) -> None:
        path = self.folder.path
        make_private_folder(path.parent)
        if path.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        if not path.exists():
            path.mkdir(self._modes.folder, exist_ok=True)
            path.chmod(self._modes.folder)
        # Whoever made these may have died before their names were durable.
        sync_folder(path.parent)
        with suppress(PermissionError):  # a folder that may only be passed through is not ours
            sync_folder(path.parent.parent)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        self._lock = self._open_file(path / "lock", flags)
        self._lock_status = os.fstat(self._lock)

    def _is_current(self) -> bool:
        if self._chain is None:
            return False
        file_status = _is_at(self.folder.path / OPEN_SEGMENT_NAME, self._file_status)
        return (
            file_status is not None
            and file_status.st_size == self.end.place.offset
            and self._chain.unchanged
        )

    @property
    def end(self) -> ChainEnd:
        """The end of the chain, and with it of the open segment."""
        assert self._chain is not None  # noqa: S101 - only asked while held
        return self._chain.end

    def _open(self, anchor: ChainEnd | None, clock: Clock) -> RecoveryReport:
        before = self.end.place if self._chain is not None else None
        self._close_files()
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        chain = ChainFile(self._open_file(self.folder.path / CHAIN_FILE_NAME, flags))
        try:
            recovered = recover(self.folder, chain, anchor, self._modes)
            chain.sync()
            self._sync_folders()
            self._open_segment()
        except BaseException:
            chain.close()
            raise
        self._chain = chain
        self._learn(clock, before)
        return recovered

    def _open_file(self, path: Path, flags: int) -> int:
        """Open a file of ours, and give a new one its permissions whatever the umask is."""
        new = not path.exists()
        descriptor = os.open(path, flags, self._modes.file)
        if new:
            os.fchmod(descriptor, self._modes.file)
        return descriptor

    def _sync_folders(self) -> None:
        for folder in (self.folder.path, self.folder.path / SEGMENTS_FOLDER_NAME):
            if folder.exists():
                sync_folder(folder)

    def _open_segment(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.open(self.folder.path / OPEN_SEGMENT_NAME, flags)
        self._file_status = os.fstat(self._file)

    def _learn(self, clock: Clock, before: LedgerPosition | None) -> None:
        """Take in the ids of the last hour, or what others recorded since."""
        known = read_lines_later_than(self.folder, clock() - MAX_ID_AGE)
        for line in read_lines_since(self.folder, before) if before else known:
            head = read_entry_head(line)
            if head is not None:
                self.recent.learn(line, head)

    def count_fitting(self, lines: Sequence[bytes]) -> int:
        """Say how many of the lines go into the open segment; none when it must be sealed."""
        size = self.end.place.offset
        for count, line in enumerate(lines):
            if size > 0 and size + len(line) + 1 > self._max_bytes:
                return count
            size += len(line) + 1
        return len(lines)

    def write_notes(self, lines: Sequence[bytes], *, durably: bool) -> None:
        """Append what is said about turns that are about to be written.

        Raises:
            OSError: It may not all be there.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = self._open_file(self.folder.path / NOTES_FILE_NAME, flags)
        try:
            size = os.fstat(descriptor).st_size
            # A line that was cut off by a crash must not swallow the next one.
            torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            write_all(descriptor, b"\n".join((*((b"",) if torn else ()), *lines, b"")))
            if durably:
                sync_data(descriptor)
            if not size:
                sync_folder(self.folder.path)
        finally:
            os.close(descriptor)

    def write(self, lines: Sequence[bytes]) -> None:
        """Append lines, which are not durable yet; on failure none of them stays.

        Raises:
            OSError: They could not be written.
        """
        self._unsynced_lines = True
        try:
            write_all(self._file, b"\n".join((*lines, b"")))
        except OSError:
            self._undo_write()
            raise

    def _undo_write(self) -> None:
        try:
            os.ftruncate(self._file, self.end.place.offset)
            sync_data(self._file)
        except OSError as error:
            _log.warning(
                "%s could not be cut back: %s", self.folder.path / OPEN_SEGMENT_NAME, error
            )
            self.replace_segment()

    def sync(self) -> None:
        """Make what was written durable.

        Raises:
            OSError: It may or may not be. This file must not be synced again.
        """
        sync_data(self._file)
        self._unsynced_lines = False

    def replace_segment(self) -> None:
        """Give up the open file after a failed sync: what is certain in it is sealed.

        A second sync of the same file would succeed without having written anything.
        """
        assert self._chain is not None  # noqa: S101 - only asked while held
        with suppress(OSError):
            os.ftruncate(self._file, self.end.place.offset)
        os.close(self._file)
        self._file = -1
        try:
            seal_open_segment(self.folder, self._chain, self._modes, doubtful=True)
            self._open_segment()
        except OSError:
            self._close_files()
            raise

    def chain(self, lines: Sequence[bytes]) -> None:
        """Add lines that are durable to the chain."""
        assert self._chain is not None  # noqa: S101 - only asked while held
        self._chain.add_lines(RecordKind.ENTRY, lines)
        self._unsynced_chain = True

    def note_gap(self, count: int) -> None:
        """Note in the chain that turns could not be kept."""
        assert self._chain is not None  # noqa: S101 - only asked while held
        self._chain.add_note(RecordKind.GAP, {"count": count})
        self._unsynced_chain = True

    def note_erased(self, erasures: Iterable[Erasure]) -> None:
        """Note in the chain, durably, which lines are about to be erased."""
        assert self._chain is not None  # noqa: S101 - only asked while held
        if self._unsynced_lines:
            self.sync()
        self._chain.add_notes(RecordKind.ERASED, (erasure.to_note() for erasure in erasures))
        self._unsynced_chain = True
        self._chain.sync()

    def seal(self) -> None:
        """End the open segment and begin the next."""
        assert self._chain is not None  # noqa: S101 - only asked while held
        if self._unsynced_lines:
            self.sync()
        os.close(self._file)
        self._file = -1
        try:
            seal_open_segment(self.folder, self._chain, self._modes)
            self._open_segment()
        except OSError:
            self._close_files()
            raise

    def sync_chain(self) -> ChainEnd | None:
        """Make the chain durable; returns its end when that is news.

        Whoever went on with the chain meanwhile tells its end.
        """
        if self._chain is None or not self._unsynced_chain:
            return None
        self._chain.sync()
        self._unsynced_chain = False
        return self._chain.end if self._chain.unchanged else None

    def close(self) -> None:
        """Let go of every file."""
        self._close_files()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _close_files(self) -> None:
        if self._chain is not None:
            self._chain.close()
            self._chain = None
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _is_at(path: Path, opened: os.stat_result | None) -> os.stat_result | None:
    """Return the status of what is at a path, when that is the file that was opened."""
    try:
        path_status = path.lstat()
    except FileNotFoundError:
        return None
    return path_status if opened is not None and os.path.samestat(path_status, opened) else None
