"""The lines of a ledger file, whole or not, without reading the file into memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Final

import msgspec

MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""Longer lines are passed over, and said to be."""

_CHUNK_BYTES: Final = 1 << 20


class LedgerLine(msgspec.Struct, frozen=True):
    """One line: where it begins, how long it is with its newline, and its bytes without it.

    `ended` is False for a last line without a newline. `data` is None for a line that is too long.
    """

    number: int
    offset: int
    size: int
    data: bytes | None
    ended: bool = True


def read_lines(file: IO[bytes], *, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[LedgerLine]:
    """Yield the lines of a file opened for reading bytes; only a newline ends a line."""
    number = 0
    next_offset = file.tell()
    while data := file.readline(max_line_bytes + 1):
        number += 1
        offset, next_offset = next_offset, next_offset + len(data)
        if data.endswith(b"\n"):
            yield LedgerLine(number, offset, len(data), data[:-1])
        elif len(data) <= max_line_bytes:
            yield LedgerLine(number, offset, len(data), data, ended=False)
        else:
            has_newline = _skip_to_newline(file)
            next_offset = file.tell()
            yield LedgerLine(number, offset, next_offset - offset, None, has_newline)


def _skip_to_newline(file: IO[bytes]) -> bool:
    while chunk := file.readline(_CHUNK_BYTES):
        if chunk.endswith(b"\n"):
            return True
    return False
