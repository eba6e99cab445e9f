"""Opening an agent's ledger: what is in its files, and is that what the chain says?

Whatever is found is kept. A last line that was cut off is moved into quarantine. Whole lines
that the chain does not know yet are added to it. Lines that cannot be read stay where they are
and are copied. What the chain knows and the files have lost is noted in the chain for good, and
writing goes on in a new segment.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from io import BufferedRandom, BufferedReader
from pathlib import Path
from typing import Final

import msgspec

from memplane.kit.durable_files import sync_data, sync_file, sync_folder
from memplane.ledger.chain import ChainEnd, RecordKind
from memplane.ledger.chain_file import ChainFile
from memplane.ledger.entry_head import read_entry_head
from memplane.ledger.folder import (
    OPEN_SEGMENT_NAME,
    ROTATED_SEGMENT_NAME,
    SEGMENTS_FOLDER_NAME,
    AgentFolder,
    Segment,
    open_regular_file,
)
from memplane.ledger.line_reader import LedgerLine, read_lines
from memplane.ledger.segments import (
    FileModes,
    create_file,
    move_to_segments,
    quarantine_bytes,
    record_seal,
    seal_open_segment,
)

_log = logging.getLogger(__name__)
_BATCH_LINES: Final = 512
_CHUNK_BYTES: Final = 1 << 20


class RecoveryReport(msgspec.Struct):
    """What opening found; all zero for a ledger that was closed in order."""

    found: int = 0
    torn: int = 0
    damaged: int = 0
    broken: int = 0


def recover(
    folder: AgentFolder, chain: ChainFile, anchor: ChainEnd | None, modes: FileModes
) -> RecoveryReport:
    """Bring the chain up to date with the files; afterwards its end is the open file's end.

    The caller holds the agent's lock.
    """
    result = RecoveryReport()
    _sync_names(folder)
    _mend_chain(folder, chain, result)
    _compare_with_anchor(folder, chain, anchor, result)
    adopt_rotated(folder, modes)
    for segment in folder.list_sealed():
        _drop_doubtful_end(folder, segment, result)
        if segment.number >= chain.end.place.segment:
            if segment.number > chain.end.place.segment:
                _skip_to(chain, segment.number, result)
            _catch_up(folder, chain, segment.path, result)
            record_seal(folder, chain, segment.number)
    _open_end(folder, chain, modes, result)
    return result


def _sync_names(folder: AgentFolder) -> None:
    """Make the names of the files durable: whoever made them may have died before they were."""
    for path in (folder.path, folder.path / SEGMENTS_FOLDER_NAME):
        if path.is_dir():
            sync_folder(path)


def _mend_chain(folder: AgentFolder, chain: ChainFile, result: RecoveryReport) -> None:
    """Find the chain's end; what is torn behind it is cut off once it is in quarantine."""
    torn = chain.load()
    if torn:
        quarantine_bytes(folder, torn, "chain")
        chain.cut()
        result.torn += 1


def _compare_with_anchor(
    folder: AgentFolder, chain: ChainFile, anchor: ChainEnd | None, result: RecoveryReport
) -> None:
    if anchor is None:
        return
    record = chain.find(anchor.seq)
    if record is None or record.hash != anchor.hash:
        problem = "is missing" if record is None else "is another one"
        _note_broken(chain, result, f"record {anchor.seq} of {folder.chain.name} {problem}")


def _skip_to(chain: ChainFile, number: int, result: RecoveryReport) -> None:
    if chain.end.place.offset:
        _note_broken(chain, result, f"segment {chain.end.place.segment} is missing")
    chain.skip_to(number)


def _note_broken(chain: ChainFile, result: RecoveryReport, reason: str) -> None:
    result.broken += 1
    _log.warning("the ledger has lost something that was recorded: %s", reason)
    chain.add_note(RecordKind.BROKEN, {"why": reason})


def adopt_rotated(folder: AgentFolder, modes: FileModes) -> None:
    """Make another recorder's rotated file the next sealed segment."""
    rotated_path = folder.path / ROTATED_SEGMENT_NAME
    if not rotated_path.is_file() or rotated_path.is_symlink():
        return
    sealed_segments = folder.list_sealed()
    move_to_segments(
        folder, rotated_path, sealed_segments[-1].number + 1 if sealed_segments else 1, modes
    )


def _drop_doubtful_end(folder: AgentFolder, segment: Segment, result: RecoveryReport) -> None:
    """Cut off what a failed sync left at the end of a segment; it was written again elsewhere."""
    if segment.end is None or segment.path.stat().st_size <= segment.end:
        return
    result.torn += 1
    with open_writable(segment.path) as file:
        file.seek(segment.end)
        quarantine_bytes(folder, file.read(), "doubtful")
        try:
            file.truncate(segment.end)
            sync_file(file.fileno())
        except OSError as error:
            # Readers stop there all the same.
            _log.warning("%s could not be cut at %d: %s", segment.path, segment.end, error)


def _open_end(
    folder: AgentFolder, chain: ChainFile, modes: FileModes, result: RecoveryReport
) -> None:
    """Make the open segment end where the chain does; one that has lost its end is sealed."""
    path, position = folder.path / OPEN_SEGMENT_NAME, chain.end.place
    create_file(path, modes)
    # Left by whoever meant to seal this segment after a failed sync, and did not get to it.
    folder.end_path(position.segment).unlink(missing_ok=True)
    if not _reaches(path, position.offset):
        size = path.stat().st_size
        _note_broken(chain, result, f"segment {position.segment} ends otherwise, at byte {size}")
        _give_newline(path)
        if not _reaches(path, position.offset):
            seal_open_segment(folder, chain, modes)
    _catch_up(folder, chain, path, result)


def _reaches(path: Path, offset: int) -> bool:
    """Say whether a file is that long, with the end of a line there."""
    if offset == 0:
        return True
    with open_regular_file(path) as file:
        file.seek(offset - 1)
        return file.read(1) == b"\n"


def _give_newline(path: Path) -> None:
    """End a last line that is whole but for its newline."""
    with open_regular_file(path) as file:
        last = deque(read_lines(file), maxlen=1)
    if last and not last[0].ended and last[0].data is not None and read_entry_head(last[0].data):
        with open_writable(path) as file:
            file.seek(0, os.SEEK_END)
            file.write(b"\n")
            file.flush()
            sync_file(file.fileno())


def _catch_up(folder: AgentFolder, chain: ChainFile, path: Path, result: RecoveryReport) -> None:
    """Chain the lines of a file that the chain does not know yet; mend its last line."""
    complete_lines: list[bytes] = []
    with open_regular_file(path) as file:
        file.seek(chain.end.place.offset)
        for line in read_lines(file):
            if not line.ended:
                result.torn += 1
                complete_lines += _mend_last_line(folder, path, line)
                break  # the newline that was just added is not another line
            if line.data is not None and (read_entry_head(line.data) or not line.data.strip()):
                complete_lines.append(line.data)
            else:
                _flush(chain, complete_lines, file, result)
                _note_damaged(folder, chain, path, line)
                result.damaged += 1
            if len(complete_lines) >= _BATCH_LINES:
                _flush(chain, complete_lines, file, result)
        _flush(chain, complete_lines, file, result)


def _flush(
    chain: ChainFile, complete_lines: list[bytes], file: BufferedReader, result: RecoveryReport
) -> None:
    if complete_lines:
        # Whoever wrote them may have died before they were durable, and a record says they are.
        sync_data(file.fileno())
        chain.add_lines(RecordKind.FOUND, complete_lines)
        result.found += len(complete_lines)
        complete_lines.clear()


def _mend_last_line(folder: AgentFolder, path: Path, line: LedgerLine) -> list[bytes]:
    """Give a whole last line its newline and return it; one that was cut off is moved away."""
    complete_lines = (
        [line.data] if line.data is not None and read_entry_head(line.data) is not None else []
    )
    with open_writable(path) as file:
        if complete_lines:
            file.seek(line.offset + line.size)
            file.write(b"\n")
        else:
            file.seek(line.offset)
            quarantine_bytes(folder, file.read(), "torn")
            file.truncate(line.offset)
        file.flush()
        sync_file(file.fileno())
    return complete_lines


@contextmanager
def open_writable(path: Path) -> Generator[BufferedRandom]:
    """Open a file for mending, also a sealed one, and never through a link."""
    with open_regular_file(path) as before:
        mode = os.fstat(before.fileno()).st_mode & 0o777
        os.fchmod(before.fileno(), mode | 0o200)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "r+b") as file:
                yield file
        finally:
            os.fchmod(before.fileno(), mode)


def _note_damaged(folder: AgentFolder, chain: ChainFile, path: Path, line: LedgerLine) -> None:
    _log.warning("%s has a line at byte %d that cannot be read", path, line.offset)
    if line.data is None:
        reason = "longer than any reader takes"
    else:
        quarantine_bytes(folder, line.data, "damaged")
        reason = "not an entry"
    chain.add_note(
        RecordKind.DAMAGED, {"why": reason, "sha256": _sha256(path, line)}, size=line.size
    )


def _sha256(path: Path, line: LedgerLine) -> str:
    digest, remaining = hashlib.sha256(), line.size
    with open_regular_file(path) as file:
        file.seek(line.offset)
        while remaining and (chunk := file.read(min(remaining, _CHUNK_BYTES))):
            digest.update(chunk)
            remaining -= len(chunk)
    return digest.hexdigest()
