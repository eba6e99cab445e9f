"""The file that holds an agent's chain. Only the end of it is ever read here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from memplane.kit.durable_files import sync_data, write_all
from memplane.ledger.chain import (
    GENESIS,
    SALT_BYTES,
    ChainEnd,
    ChainRecord,
    LedgerPosition,
    RecordKind,
    chain_lines,
    decode_record,
    encode_record,
    find_chain_end,
    make_note_record,
)

_CHUNK_BYTES: Final = 1 << 20
_MAX_RECORD_BYTES: Final = 4096


class ChainFile:
    """Appends to a chain and knows its end. The caller holds the agent's lock."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._size = 0
        self.end: ChainEnd = GENESIS

    def load(self) -> bytes:
        """Find the end again; returns the bytes after the last whole record."""
        size = os.fstat(self._descriptor).st_size
        window = _MAX_RECORD_BYTES
        while True:
            start = max(0, size - window)
            tail = os.pread(self._descriptor, size - start, start)
            chain_end = find_chain_end(tail)
            if chain_end is not None or start == 0:
                break
            window *= 16
        self.end, extra = chain_end or (GENESIS, len(tail))
        self._size = size - extra
        return tail[len(tail) - extra :]

    def cut(self) -> None:
        """Cut off what is behind the last whole record."""
        os.ftruncate(self._descriptor, self._size)

    @property
    def unchanged(self) -> bool:
        """Say whether nobody else has written since."""
        return os.fstat(self._descriptor).st_size == self._size

    def add_lines(self, kind: RecordKind, lines: Sequence[bytes]) -> None:
        """Chain lines of the ledger, given without their newlines."""
        data, end = chain_lines(self.end, kind, lines, os.urandom(SALT_BYTES * len(lines)))
        self._append(data, end)

    def add_note(self, kind: RecordKind, members: Mapping[str, object], *, size: int = 0) -> None:
        """Chain something that is not a line."""
        record = make_note_record(self.end, kind, members, size=size)
        self._append(encode_record(record), record.link)

    def add_notes(self, kind: RecordKind, notes: Iterable[Mapping[str, object]]) -> None:
        """Chain things that are not lines, all of them or none."""
        output, end = list[bytes](), self.end
        for members in notes:
            record = make_note_record(end, kind, members)
            output.append(encode_record(record))
            end = record.link
        self._append(b"".join(output), end)

    def skip_to(self, segment: int) -> None:
        """Go on with a later segment."""
        self.end = replace(self.end, place=LedgerPosition(segment, 0))

    def _append(self, data: bytes, end: ChainEnd) -> None:
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

    def find_last(self, kind: RecordKind) -> ChainRecord | None:
        """Return the last record of a kind."""
        return self._find_back(b'{"kind":"%s",' % kind.encode())

    def find(self, seq: int) -> ChainRecord | None:
        """Return the record with a sequence number."""
        return self._find_back(b'","seq":%d,' % seq)

    def _find_back(self, mark: bytes) -> ChainRecord | None:
        """Find the last record whose line has the mark; pieces overlap by the longest record."""
        end = self._size
        while end > 0:
            start = max(0, end - _CHUNK_BYTES)
            chunk = os.pread(
                self._descriptor, min(self._size, end + _MAX_RECORD_BYTES) - start, start
            )
            at = chunk.rfind(mark)
            while at >= 0:
                line_start = chunk.rfind(b"\n", 0, at) + 1
                record = decode_record(chunk[line_start : chunk.find(b"\n", at)])
                if record is not None:
                    return record
                at = chunk.rfind(mark, 0, at)
            end = start
        return None
