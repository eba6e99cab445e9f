"""New names for things; the one place that makes them up."""

from __future__ import annotations

import secrets
from typing import Final

RESERVED_PREFIX: Final = ".memplane"
"""File names that begin so are memplane's own: lock files and files not yet renamed."""


def new_id() -> str:
    """Make up a name that nobody else has: of a writer, a write, a file not yet renamed."""
    return secrets.token_hex(6)
