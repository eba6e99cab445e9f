"""What the worker replies to the start of a session (pure)."""

from __future__ import annotations

import msgspec


class SessionReply(msgspec.Struct, frozen=True):
    """What changed by the sync, what was learned, and why there may be less than there should be.

    `changed` holds the keys of documents, each with what became of it.
    """

    changed: tuple[tuple[str, str], ...] = ()
    operational: str = ""
    problem: str = ""
