"""Where values stand in JSON bytes, and new ones put in between; all other bytes stay (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

_KEY: Final = re.compile(
    rb'[ \t\r\n,{]*+"[^"\\]*+(?:\\.[^"\\]*+)*+"[ \t\r\n]*+:[ \t\r\n]*+', re.DOTALL
)
_BEFORE_ITEM: Final = re.compile(rb"[ \t\r\n,]*+")
_END: Final = re.compile(rb"[ \t\r\n]*+\}")
_EMPTY: Final = re.compile(rb"\[[ \t\r\n]*+\]")


class JsonSpan(msgspec.Struct, frozen=True):
    """Where a value starts and ends in a document."""

    start: int
    end: int


class JsonEdit(msgspec.Struct, frozen=True):
    """Bytes that take the place of a span, which is empty where they are only put in."""

    start: int
    end: int
    new: bytes


def find_member_spans(
    document: bytes, start: int, members: Mapping[str, msgspec.Raw]
) -> dict[str, JsonSpan]:
    """Find the values of an object that begins at `start`, whose members were read from there.

    Raises:
        ValueError: A key is there twice, so that readers would differ about its value.
    """
    spans: dict[str, JsonSpan] = {}
    position = start
    for name, value in members.items():
        key = _KEY.match(document, position)
        begin = position if key is None else key.end()
        position = begin + len(value)
        if key is None or document[begin:position] != bytes(value):
            raise ValueError("a key is there twice")
        spans[name] = JsonSpan(begin, position)
    if members and _END.match(document, position) is None:
        raise ValueError("a key is there twice")
    return spans


def find_item_spans(document: bytes, start: int, values: Sequence[msgspec.Raw]) -> list[JsonSpan]:
    """Find the items of a list that begins at `start` and was read from there."""
    spans: list[JsonSpan] = []
    position = start + 1
    for value in values:
        before = _BEFORE_ITEM.match(document, position)
        begin = position if before is None else before.end()
        position = begin + len(value)
        spans.append(JsonSpan(begin, position))
    return spans


def apply_edits(document: bytes, edits: Iterable[JsonEdit]) -> bytes:
    """Return the document with its edits made; they may come in any order but not overlap."""
    parts: list[bytes] = []
    position = 0
    for edit in sorted(edits, key=lambda edit_: edit_.start):
        parts += document[position : edit.start], edit.new
        position = edit.end
    parts.append(document[position:])
    return b"".join(parts)


def append_edit(document: bytes, span: JsonSpan, item: bytes) -> JsonEdit:
    """Put an item at the end of the list that stands there."""
    at = span.end - 1
    return JsonEdit(at, at, item if _EMPTY.match(document, span.start) else b"," + item)
