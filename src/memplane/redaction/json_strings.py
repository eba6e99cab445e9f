"""The strings of a JSON text and where they stand, without building the values (pure).

It walks over the text instead of into it, so that no nesting is too deep, and it takes texts that
are cut off or broken as far as they go.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

import msgspec

from memplane.redaction.text_span import TextSpan, decode_json_string

_STRUCTURE: Final = b"{}[],:"
_NON_STRUCTURE: Final = bytes(set(range(256)) - set(_STRUCTURE))
_BACKSLASH, _COLON, _COMMA, _BRACE, _BRACKET = b"\\:,{["
LANE_MEMBERS: Final = frozenset(
    (b"index", b"output_index", b"content_index", b"summary_index", b"item_id", b"type")
)
"""The members that tell one stream of text from another."""
_MAX_LANE_VALUE_BYTES: Final = 512


class JsonFrame(msgspec.Struct):
    """An object or a list that is open.

    Args:
        parent: What it stands in.
        key: Its name or its position there.
        is_object: Whether it is an object.
        name: The name of the value that is being read; those of a list share the list's.
        awaits_name: In an object, whether the next string is a name.
        position: In a list, how many values came before.
        marks: The members that tell one stream of text from another.
    """

    parent: JsonFrame | None
    key: bytes | int
    is_object: bool
    name: bytes = b""
    awaits_name: bool = False
    position: int = 0
    marks: dict[bytes, bytes] | None = None

    def key_or_index(self) -> bytes | int:
        """Return the name or the position of the value that is being read."""
        return self.name if self.is_object else self.position


class JsonString(msgspec.Struct, frozen=True):
    """A string of a JSON text; a name has no `name` of its own."""

    span: TextSpan
    frame: JsonFrame
    key: bytes | int
    name: bytes


def scan_json_strings(raw: bytes, start: int = 0, end: int = sys.maxsize) -> Iterator[JsonString]:
    """Yield the strings of a JSON text, names and values, in their order.

    The text may be a part of the bytes; places are counted from their beginning.
    """
    frame = JsonFrame(None, 0, is_object=False)
    last = min(end, len(raw))
    position = start
    while (quote := raw.find(b'"', position, last)) >= 0:
        frame = _advance(frame, raw[position:quote])
        end = _end_of_string(raw, quote + 1, last)
        span = decode_json_string(raw, quote + 1, end)
        if frame.is_object and frame.awaits_name:
            frame.name = span.text
            frame.awaits_name = False
            if span.text in LANE_MEMBERS:
                frame.marks = {**(frame.marks or {}), span.text: _mark(raw, end + 1)}
            yield JsonString(span, frame, b"", b"")
        else:
            yield JsonString(span, frame, frame.key_or_index(), frame.name)
        position = end + 1


def _advance(frame: JsonFrame, gap: bytes) -> JsonFrame:
    for character in gap.translate(None, _NON_STRUCTURE):
        if character == _COLON:
            frame.awaits_name = False
        elif character == _COMMA:
            frame.awaits_name = frame.is_object
            frame.position += 1
        elif character == _BRACE:
            frame = JsonFrame(frame, frame.key_or_index(), is_object=True, awaits_name=True)
        elif character == _BRACKET:
            frame = JsonFrame(frame, frame.key_or_index(), is_object=False, name=frame.name)
        else:
            frame = frame.parent or frame
    return frame


def _end_of_string(raw: bytes, start: int, last: int) -> int:
    end = raw.find(b'"', start, last)
    while end > start and raw[end - 1] == _BACKSLASH:
        run = end - 1
        while run > start and raw[run - 1] == _BACKSLASH:
            run -= 1
        if (end - run) % 2 == 0:
            break
        end = raw.find(b'"', end + 1, last)
    return last if end < 0 else end


def _mark(raw: bytes, after: int) -> bytes:
    """Return how the value of a mark is written."""
    value = raw[after : after + _MAX_LANE_VALUE_BYTES].partition(b":")[2].lstrip()
    end_positions = [at for at in map(value.find, (b",", b"}", b"]")) if at >= 0]
    return value[: min(end_positions, default=len(value))].rstrip()
