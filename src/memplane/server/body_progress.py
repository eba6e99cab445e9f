"""How far a request's body has come (pure; the time is an argument)."""

from __future__ import annotations

from typing import Final

MIN_BYTES_PER_S: Final = 1024


class BodyProgress:
    """A body that is on its way, and since when its client has owed the next bytes of it.

    A client owes bytes from the last ones that it sent, and also when it is slower than 1 KiB a
    second on the whole: a byte now and then is no progress.
    """

    __slots__ = ("_began", "_bytes", "_last", "is_complete")

    def __init__(self, now: float) -> None:
        self._began = self._last = now
        self._bytes = 0
        self.is_complete = False

    def add(self, size: int, now: float) -> None:
        """Note bytes that came."""
        self._bytes += size
        self._last = now

    def restart(self, now: float) -> None:
        """Count from now on: until now it was not the client that was waited for."""
        self._began = self._last = now
        self._bytes = 0

    def owed_since(self) -> float | None:
        """Return since when the client has owed the next bytes; None when all are there."""
        if self.is_complete:
            return None
        return min(self._last, self._began + self._bytes / MIN_BYTES_PER_S)
