"""The file that holds an agent's chain. Only the end of it is ever read here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from memplane.ledger.chain import (
    GENESIS,
    SALT_BYTES,
    Kind,
    Link,
    Place,
    Record,
    chained_lines,
    decode,
    encode,
    last_link,
    note_record,
)
from memplane.objects.files import sync_data, write_all

_PIECE: Final = 1 << 20
_LONGEST_RECORD: Final = 4096


class ChainFile:
    """Appends to a chain and knows its end. The caller holds the agent's lock."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._size = 0
        self.end: Link = GENESIS

    def load(self) -> bytes:
        """Find the end again; returns the bytes after the last whole record."""
        size = os.fstat(self._descriptor).st_size
        window = _LONGEST_RECORD
        while True:
            start = max(0, size - window)
            tail = os.pread(self._descriptor, size - start, start)
            found = last_link(tail)
            if found is not None or start == 0:
                break
            window *= 16
        self.end, extra = found or (GENESIS, len(tail))
        self._size = size - extra
        return tail[len(tail) - extra :]

    def cut(self) -> None:
        """Cut off what is behind the last whole record."""
        os.ftruncate(self._descriptor, self._size)

    @property
    def unchanged(self) -> bool:
        """Say whether nobody else has written since."""
        return os.fstat(self._descriptor).st_size == self._size

    def add_lines(self, kind: Kind, lines: Sequence[bytes]) -> None:
        """Chain lines of the ledger, given without their newlines."""
        data, end = chained_lines(self.end, kind, lines, os.urandom(SALT_BYTES * len(lines)))
        self._append(data, end)

    def add_note(self, kind: Kind, more: Mapping[str, object], *, size: int = 0) -> None:
        """Chain something that is not a line."""
        record = note_record(self.end, kind, more, size=size)
        self._append(encode(record), record.link)

    def add_notes(self, kind: Kind, notes: Iterable[Mapping[str, object]]) -> None:
        """Chain things that are not lines, all of them or none."""
        written, end = list[bytes](), self.end
        for more in notes:
            record = note_record(end, kind, more)
            written.append(encode(record))
            end = record.link
        self._append(b"".join(written), end)

    def skip_to(self, segment: int) -> None:
        """Go on with a later segment."""
        self.end = replace(self.end, place=Place(segment, 0))

    def _append(self, data: bytes, end: Link) -> None:
        try:
            write_all(self._descriptor, data)
        except OSError:
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(data)
        self.end = end

    def sync(self) -> None:
        """Make what was added durable."""
        sync_data(self._descriptor)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)

    def find_last(self, kind: Kind) -> Record | None:
        """Return the last record of a kind."""
        return self._find_back(b'{"kind":"%s",' % kind.encode())

    def find(self, seq: int) -> Record | None:
        """Return the record with a sequence number."""
        return self._find_back(b'","seq":%d,' % seq)

    def _find_back(self, mark: bytes) -> Record | None:
        """Find the last record whose line has the mark; pieces overlap by the longest record."""
        end = self._size
        while end > 0:
            start = max(0, end - _PIECE)
            piece = os.pread(
                self._descriptor, min(self._size, end + _LONGEST_RECORD) - start, start
            )
            at = piece.rfind(mark)
            while at >= 0:
                begin = piece.rfind(b"\n", 0, at) + 1
                record = decode(piece[begin : piece.find(b"\n", at)])
                if record is not None:
                    return record
                at = piece.rfind(mark, 0, at)
            end = start
        return None
