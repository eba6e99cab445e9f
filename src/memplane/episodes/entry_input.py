"""Entries as a caller of retain gives them: the words of a note, or a line of JSON (pure)."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from memplane.errors import InvalidRequest
from memplane.ledger.canonical_json import compact_json
from memplane.ledger.entry import JsonReply, Turn, make_entry

NOTE_PATH: Final = "/memplane/note"


def build_note_entry(agent: str, text: str, now: datetime) -> bytes:
    """Write a note as an entry.

    Raises:
        InvalidRequest: It says nothing.
    """
    if not text.strip():
        raise InvalidRequest("there is nothing to remember: the text is empty")
    request = {"messages": [{"role": "user", "content": text}]}
    turn = Turn(
        ts=now,
        agent=agent,
        path=NOTE_PATH,
        requested_model="",
        effective_provider="",
        effective_model="",
        status_code=200,
        stream=False,
        request_original=msgspec.json.encode(request),
        request_effective=b"",
        reply=JsonReply(b""),
    )
    return make_entry(turn).line


def check_json(raw: bytes) -> bytes:
    """Return an entry in one line, when it is JSON.

    Raises:
        InvalidRequest: It is not.
    """
    try:
        return compact_json(raw)
    except ValueError as error:
        raise InvalidRequest(f"the entry is not JSON: {error}") from error
