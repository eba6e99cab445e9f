"""Lines out of bytes that come in pieces, however they are cut (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""Longer lines are passed over, and said to be."""


class LineSplitter:
    """Puts pieces together until a newline ends a line. It never holds more than one line."""

    def __init__(self, longest: int = MAX_LINE_BYTES) -> None:
        self._longest = longest
        self._waiting: list[bytes] = []
        self._size = 0

    def lines(self, piece: bytes) -> Iterator[bytes | None]:
        """Take a piece and yield the lines that end in it; None is one that is too long."""
        start = 0
        while (end := piece.find(b"\n", start)) >= 0:
            self._keep(piece[start:end])
            yield self._whole()
            start = end + 1
        self._keep(piece[start:])

    def rest(self) -> bytes | None:
        """Return what no newline ended; None when that is too long."""
        return self._whole()

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._longest:
            self._waiting.clear()
        elif part:
            self._waiting.append(part)

    def _whole(self) -> bytes | None:
        too_long = self._size > self._longest
        line = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        return None if too_long else line
