"""How much of a text gets a vector (pure)."""

from __future__ import annotations

from typing import Final

_MAX_TEXT_CHARS: Final = 8_192


def truncate_for_embedding(text: str) -> str:
    """Return the first 8,192 characters of a text, without what UTF-8 cannot say."""
    return text[:_MAX_TEXT_CHARS].encode("utf-8", "replace").decode("utf-8")
