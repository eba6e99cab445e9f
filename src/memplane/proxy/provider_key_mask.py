"""A provider's key, should its answer show it, is made unreadable in it (pure).

As many bytes stay as there were, so that the length that an answer was announced with holds.
"""

from __future__ import annotations

from typing import Final

from memplane.secret import Secret

_MIN_KEY_BYTES: Final = 16
"""A key that is shorter may be a word that a model says; it is hidden in errors only."""
_REPLACEMENT: Final = b"[redacted]"


class ProviderKeyMask:
    """Hides a key in bytes that come piece by piece, wherever they are cut.

    Args:
        key: What nobody may see; without one all passes as it is.
        in_error: Whether the bytes say what went wrong.
    """

    __slots__ = ("_held", "_key", "_mask")

    def __init__(self, key: Secret | None, *, in_error: bool) -> None:
        shown = key.reveal().encode() if key is not None else b""
        self._key = shown if in_error or len(shown) >= _MIN_KEY_BYTES else b""
        self._mask = _REPLACEMENT[: len(shown)].ljust(len(shown), b"*")
        self._held = b""

    def whole(self, data: bytes) -> bytes:
        """Return bytes that nothing is missing of."""
        return data.replace(self._key, self._mask) if self._key else data

    def feed(self, piece: bytes) -> bytes:
        """Return what can be shown so far; what may be the beginning of a key is held back."""
        if not self._key:
            return piece
        found = self.whole(self._held + piece)
        ready = len(found) - self._begun(found)
        self._held = found[ready:]
        return found[:ready]

    def end(self) -> bytes:
        """Return what was held back, now that no more comes."""
        held, self._held = self._held, b""
        return held

    def _begun(self, data: bytes) -> int:
        """Count the bytes at the end that a key may begin with."""
        first = self._key[:1]
        at = data.find(first, max(0, len(data) - len(self._key) + 1))
        while at >= 0 and not self._key.startswith(data[at:]):
            at = data.find(first, at + 1)
        return len(data) - at if at >= 0 else 0
