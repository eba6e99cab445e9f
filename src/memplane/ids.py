"""New names for things; the one place that makes them up."""

from __future__ import annotations

import secrets


def new_writer_id() -> str:
    """Name a process that writes, so that its own writes can be recognised later."""
    return secrets.token_hex(6)
