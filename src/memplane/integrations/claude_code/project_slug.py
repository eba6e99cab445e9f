"""How Claude Code names a project's folder (pure)."""

from __future__ import annotations

from typing import Final

_MAX_SLUG_CHARS: Final = 200


def make_slug(root: str) -> str:
    """Turn a project's path into Claude Code's name for it.

    Everything but ASCII letters and digits becomes `-`, runs are kept, case is kept. A character
    outside the basic plane counts as two, as it does in JavaScript.
    """
    units = (
        character if character.isascii() and character.isalnum() else "-" * _utf16_units(character)
        for character in root
    )
    return "".join(units)


def make_folder_pattern(root: str) -> str:
    """Return a glob for the project's folder: the slug itself, or its beginning when too long.

    Over 200 characters Claude Code keeps the first 200 and adds a short hash of its own making.
    """
    slug = make_slug(root)
    return slug if len(slug) <= _MAX_SLUG_CHARS else f"{slug[:_MAX_SLUG_CHARS]}-*"


def _utf16_units(character: str) -> int:
    return len(character.encode("utf-16-le", "surrogatepass")) // 2
