"""How much of a text gets a vector (pure)."""

from __future__ import annotations

from typing import Final

_LONGEST: Final = 8_192


def beginning(text: str) -> str:
    """Return the first 8,192 characters of a text, without what UTF-8 cannot say."""
    return text[:_LONGEST].encode("utf-8", "replace").decode("utf-8")
