"""The files of a ledger as they were at one moment, each opened only while it is read."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from io import BufferedReader
from typing import Final

import msgspec

from memplane.errors import LedgerError
from memplane.ledger.folder import SEGMENTS_FOLDER_NAME, AgentFolder, Segment, open_regular_file
from memplane.ledger.line_reader import LedgerLine, read_lines

_MAX_SNAPSHOT_ATTEMPTS: Final = 100


class SegmentFile(msgspec.Struct, frozen=True):
    """One file of a ledger. One that may be renamed is held open; sealed ones keep their names."""

    segment: Segment
    pinned: BufferedReader | None = None

    @contextmanager
    def open_file(self) -> Generator[BufferedReader]:
        """Open the file, at its beginning."""
        if self.pinned is not None:
            self.pinned.seek(0)
            yield self.pinned
            return
        with open_regular_file(self.segment.path) as file:
            yield file

    def lines(self, start: int = 0) -> Iterator[LedgerLine]:
        """Read the lines from a byte on that have an end and are not doubtful."""
        with self.open_file() as file:
            file.seek(start)
            for line in read_lines(file):
                if not line.ended or (
                    self.segment.end is not None and line.offset >= self.segment.end
                ):
                    return
                yield line


@contextmanager
def open_segment_files(folder: AgentFolder) -> Generator[list[SegmentFile]]:
    """Find every file of a ledger, oldest first: none twice, none left out.

    Raises:
        LedgerError: They change faster than they can be listed.
    """
    for _ in range(_MAX_SNAPSHOT_ATTEMPTS):
        with ExitStack() as stack:
            sources = _pin_files(folder, stack)
            if sources is not None:
                yield sources
                return
    raise LedgerError(f"the files of {folder.agent} change faster than they can be listed")


def _pin_files(folder: AgentFolder, stack: ExitStack) -> list[SegmentFile] | None:
    """Pin the files that may be renamed; None when one was meanwhile."""
    segments = folder.segments()
    try:
        sources = [_source(item, stack) for item in segments]
        pinned = [(item.segment.path.lstat(), item.pinned) for item in sources if item.pinned]
    except FileNotFoundError:
        return None
    unchanged = folder.segments() == segments and all(
        os.path.samestat(path_status, os.fstat(file.fileno())) for path_status, file in pinned
    )
    return sources if unchanged else None


def _source(segment: Segment, stack: ExitStack) -> SegmentFile:
    if segment.path.parent.name == SEGMENTS_FOLDER_NAME:
        return SegmentFile(segment)
    return SegmentFile(segment, stack.enter_context(open_regular_file(segment.path)))
