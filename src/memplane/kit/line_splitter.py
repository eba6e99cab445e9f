"""Lines out of bytes that come in pieces, however they are cut (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""Longer lines are passed over, and said to be."""


class LineSplitter:
    """Puts pieces together until a newline ends a line. It never holds more than one line."""

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_line_bytes = max_line_bytes
        self._pending: list[bytes] = []
        self._size = 0

    def lines(self, chunk: bytes) -> Iterator[bytes | None]:
        """Take a piece and yield the lines that end in it; None is one that is too long."""
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            self._keep(chunk[start:end])
            yield self._take_line()
            start = end + 1
        self._keep(chunk[start:])

    def take_rest(self) -> bytes | None:
        """Return what no newline ended; None when that is too long."""
        return self._take_line()

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._max_line_bytes:
            self._pending.clear()
        elif part:
            self._pending.append(part)

    def _take_line(self) -> bytes | None:
        too_long = self._size > self._max_line_bytes
        line = b"".join(self._pending)
        self._pending.clear()
        self._size = 0
        return None if too_long else line
