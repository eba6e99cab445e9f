"""Asking a stream for its usage, and taking the chunk that tells it out again (pure).

Clients that did not ask for it have been seen to fail at a chunk without choices.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from memplane.errors import InvalidRequest
from memplane.proxy.body import Body
from memplane.proxy.dialects.contract import Dialect
from memplane.proxy.json_values import decoded_or_none, members

_OPTIONS: Final = "stream_options"
_INCLUDE: Final = "include_usage"
_END: Final = re.compile(rb"\n\r?\n|\r\r")
_LONGEST_END: Final = 3
_DATA: Final = b"data:"


def with_usage_asked(dialect: Dialect, body: Body) -> bytes | None:
    """Return the body with the wish to be told the usage; None when it is not for us to add."""
    if not dialect.counts_on_request or not body.stream:
        return None
    try:
        options = members(body.value(_OPTIONS))
    except InvalidRequest:
        return None
    if options.get(_INCLUDE) is not None:
        return None
    return body.with_members({_OPTIONS: msgspec.json.encode({**options, _INCLUDE: True})})


class WithoutUsage:
    """Passes a stream on, event by event, without the chunk that only tells the usage."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> bytes:
        """Return what may be passed on now."""
        # What was held has no end in it; one may have begun there.
        unread = max(0, len(self._held) - _LONGEST_END + 1)
        self._held += data
        passed: list[bytes] = []
        start = 0
        for end in _END.finditer(self._held, unread):
            event = bytes(self._held[start : end.end()])
            start = end.end()
            if not _only_tells_usage(event):
                passed.append(event)
        self._held = self._held[start:] if start else self._held
        return b"".join(passed)

    def end(self) -> bytes:
        """Return what is left."""
        return bytes(self._held)


def _only_tells_usage(event: bytes) -> bool:
    if b"usage" not in event:
        return False
    lines = (line for line in event.splitlines() if line.startswith(_DATA))
    chunk = members(decoded_or_none(b"\n".join(line[len(_DATA) :].strip() for line in lines)))
    return chunk.get("choices") == [] and chunk.get("usage") is not None
