"""Asking a stream for its usage, and taking the chunk that tells it out again (pure).

Clients that did not ask for it have been seen to fail at a chunk without choices.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from memplane.errors import InvalidRequest
from memplane.exchange.dialect import Dialect
from memplane.exchange.request_body import RequestBody
from memplane.kit.json_values import as_object, decode_json_or_none

_OPTIONS_MEMBER: Final = "stream_options"
_USAGE_OPTION: Final = "include_usage"
_EVENT_END: Final = re.compile(rb"\n\r?\n|\r\r")
_MAX_EVENT_END_BYTES: Final = 3
_DATA: Final = b"data:"


def add_usage_option(dialect: Dialect, body: RequestBody) -> bytes | None:
    """Return the body with the wish to be told the usage; None when it is not for us to add."""
    if not dialect.needs_usage_option or not body.stream:
        return None
    try:
        options = as_object(body.value(_OPTIONS_MEMBER))
    except InvalidRequest:
        return None
    if options.get(_USAGE_OPTION) is not None:
        return None
    return body.with_members(
        {_OPTIONS_MEMBER: msgspec.json.encode({**options, _USAGE_OPTION: True})}
    )


class UsageChunkFilter:
    """Passes a stream on, event by event, without the chunk that only tells the usage."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> bytes:
        """Return what may be passed on now."""
        # What was held has no end in it; one may have begun there.
        unread = max(0, len(self._buffer) - _MAX_EVENT_END_BYTES + 1)
        self._buffer += data
        output: list[bytes] = []
        start = 0
        for end in _EVENT_END.finditer(self._buffer, unread):
            event = bytes(self._buffer[start : end.end()])
            start = end.end()
            if not _has_only_usage(event):
                output.append(event)
        self._buffer = self._buffer[start:] if start else self._buffer
        return b"".join(output)

    def end(self) -> bytes:
        """Return what is left."""
        return bytes(self._buffer)


def _has_only_usage(event: bytes) -> bool:
    if b"usage" not in event:
        return False
    lines = (line for line in event.splitlines() if line.startswith(_DATA))
    chunk = as_object(
        decode_json_or_none(b"\n".join(line[len(_DATA) :].strip() for line in lines))
    )
    return chunk.get("choices") == [] and chunk.get("usage") is not None
