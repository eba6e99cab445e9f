"""A cursor: where a reader is, as text that it may keep for good (pure).

It names the last entry that was read by its segment, its first byte and its id, so that it can
be checked and found again, also after the segment was sealed under another name. It also keeps
the moment that its reader began with.
"""

from __future__ import annotations

import base64
import binascii
import json
from datetime import datetime
from typing import Any, Final, cast

import msgspec

from memplane.errors import InvalidCursor
from memplane.kit.clock import format_timestamp, parse_timestamp

_MAX_CURSOR_CHARS: Final = 16_384
_NUMBER_LIMIT: Final = 1 << 62


class Cursor(msgspec.Struct, frozen=True):
    """The last entry that was read; an empty id is the beginning of the ledger."""

    segment: int
    offset: int
    id: str
    after: datetime | None = None


BEGINNING: Final = Cursor(0, 0, "")


def encode_cursor(cursor: Cursor) -> str:
    """Write a cursor as opaque text."""
    body: list[object] = [cursor.segment, cursor.offset, cursor.id]
    if cursor.after is not None:
        body.append(format_timestamp(cursor.after))
    text = json.dumps(body, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(text: str) -> Cursor:
    """Read a cursor.

    Raises:
        InvalidCursor: The text was not made by `encode_cursor`.
    """
    try:
        padded = text[:_MAX_CURSOR_CHARS] + "=" * (-len(text) % 4)
        body = cast("list[Any]", json.loads(base64.b64decode(padded, b"-_", validate=True)))
        segment, offset, identifier, *extra = body
        after = parse_timestamp(extra[0]) if extra else None
        if _is_number(segment) and _is_number(offset) and type(identifier) is str:
            return Cursor(segment, offset, identifier, after)
    except (ValueError, TypeError, binascii.Error, RecursionError):
        pass
    raise InvalidCursor("cursor is invalid")


def _is_number(value: object) -> bool:
    return type(value) is int and 0 <= value < _NUMBER_LIMIT
