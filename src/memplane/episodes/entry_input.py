"""Entries as a caller of retain gives them: the words of a note, or a line of JSON (pure)."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from memplane.errors import InvalidRequest
from memplane.kit.json_values import encode_json_string
from memplane.ledger.canonical_json import compact_json
from memplane.ledger.entry import JsonReply, Turn, make_entry

NOTE_PATH: Final = "/memplane/note"


def build_note_entry(agent: str, text: str, now: datetime, *, is_by_agent: bool = False) -> bytes:
    """Write a note as an entry: the words of a user, or of the agent itself.

    Raises:
        InvalidRequest: It says nothing.
    """
    if not text.strip():
        raise InvalidRequest("there is nothing to remember: the text is empty")
    message = {"role": "assistant" if is_by_agent else "user", "content": text}
    request = {"messages": [] if is_by_agent else [message]}
    reply = msgspec.json.encode({"choices": [{"message": message}]}) if is_by_agent else b""
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
        reply=JsonReply(reply),
    )
    return make_entry(turn).line


def declare_source(entry: bytes, source: str) -> bytes:
    """Return an entry that says where it was imported from; without a source it stays as it is.

    What is no object stays as it is as well: whoever retains it says what is wrong.
    """
    line = entry.strip()
    if not source or not (line.startswith(b"{") and line.endswith(b"}")):
        return entry
    comma = b"," if line[1:-1].strip() else b""
    return b'%s%s"source":%s}' % (line[:-1], comma, encode_json_string(source))


def check_json(raw: bytes) -> bytes:
    """Return an entry in one line, when it is JSON.

    Raises:
        InvalidRequest: It is not.
    """
    try:
        return compact_json(raw)
    except ValueError as error:
        raise InvalidRequest(f"the entry is not JSON: {error}") from error
