"""A request's body: read as far as is needed, and written again with all other bytes (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec

from memplane.errors import InvalidRequest
from memplane.kit.json_edits import (
    JsonEdit,
    JsonSpan,
    apply_edits,
    find_item_spans,
    find_member_spans,
)
from memplane.kit.json_values import decode_json, encode_json_string

MAX_BODY_BYTES: Final = 64 << 20
"""The bytes of a body that is read; what is only passed on may be longer."""
LONG_BODY_BYTES: Final = 256 << 10
"""Bytes that take so long to read that it is done in a thread."""

_INVALID_JSON: Final = "invalid JSON body"
_DUPLICATE_KEY: Final = "invalid JSON body: a key is there twice"
_TRUE: Final = b"true"
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_REPLACED: Final = rb"\ufffd"

_T = TypeVar("_T")


class Message(msgspec.Struct, frozen=True, gc=False):
    """A message of a conversation, or an item of its input, as far as it is read at first."""

    role: str = ""
    type: str = ""
    content: msgspec.Raw = msgspec.Raw(b"")


@dataclass(frozen=True, slots=True)
class RequestBody:
    """A JSON object as its client wrote it.

    Args:
        raw: The bytes as they came.
        members: The values of its members, not decoded.
        model: The model asked for, trimmed; empty when none is named.
        stream: The client wants events.
        readable: The same bytes, with U+FFFD where half a surrogate pair was; equally long.
    """

    raw: bytes
    members: Mapping[str, msgspec.Raw]
    model: str
    stream: bool
    readable: bytes = field(repr=False, compare=False)
    _spans: Mapping[str, JsonSpan] = field(repr=False, compare=False)
    _read: dict[str, object] = field(default_factory=dict[str, object], repr=False, compare=False)
    _listed: dict[str, tuple[Message, ...]] = field(
        default_factory=dict[str, tuple[Message, ...]], repr=False, compare=False
    )

    @property
    def is_long(self) -> bool:
        """Whether it takes a while to do something with it."""
        return len(self.raw) > LONG_BODY_BYTES

    def value(self, name: str) -> object:
        """Decode a member, once; None when it is not there.

        Raises:
            InvalidRequest: It holds what cannot be read, such as a number of thousands of digits.
        """
        if name not in self._read:
            raw = self.members.get(name)
            try:
                self._read[name] = None if raw is None else decode_json(bytes(raw))
            except ValueError as error:
                raise InvalidRequest(_INVALID_JSON) from error
        return self._read[name]

    def messages(self, name: str) -> tuple[Message, ...]:
        """Read the messages that a member lists, once; none when it is no list."""
        if name not in self._listed:
            raw = self.members.get(name)
            self._listed[name] = () if raw is None else tuple(_messages(bytes(raw)))
        return self._listed[name]

    def span(self, name: str) -> JsonSpan | None:
        """Return where a member's value stands."""
        return self._spans.get(name)

    def items(self, list_span: JsonSpan) -> list[JsonSpan]:
        """Return where the items of the list that stands there do; none when it is no list."""
        values = _decode_or_none(self._text_at(list_span), _LIST)
        return [] if values is None else find_item_spans(self.readable, list_span.start, values)

    def member(self, object_span: JsonSpan, name: str) -> JsonSpan | None:
        """Return where a member of the object that stands there has its value.

        None when it is no object, has no such member, or has one name twice.
        """
        values = _decode_or_none(self._text_at(object_span), _OBJECT)
        try:
            return find_member_spans(self.readable, object_span.start, values or {}).get(name)
        except ValueError:
            return None

    def with_members(self, values: Mapping[str, bytes]) -> bytes:
        """Return the body with other values for members; those it does not have come last."""
        edits: list[JsonEdit] = []
        added: list[bytes] = []
        for name, value in values.items():
            span = self._spans.get(name)
            if span is None:
                added.append(encode_json_string(name) + b":" + value)
            else:
                edits.append(JsonEdit(span.start, span.end, value))
        if added:
            at = self.raw.rindex(b"}")
            separator = b"," if self.members else b""
            edits.append(JsonEdit(at, at, separator + b",".join(added)))
        return self.with_edits(edits)

    def with_edits(self, edits: Iterable[JsonEdit]) -> bytes:
        """Return the body with edits made; the very same bytes when there are none."""
        edit_list = list(edits)
        return apply_edits(self.raw, edit_list) if edit_list else self.raw

    def _text_at(self, span: JsonSpan) -> bytes:
        return self.readable[span.start : span.end]


def parse_body(raw: bytes) -> RequestBody:
    """Read a request's body.

    Raises:
        InvalidRequest: It is no JSON object, or a key of it is there twice, so that we and a
            provider could differ about the model.
    """
    readable = raw
    try:
        if not raw.isascii():
            raw.decode("utf-8")
        try:
            members = _OBJECT.decode(raw)
        except msgspec.DecodeError:
            readable = _replace_half_pairs(raw)
            members = _OBJECT.decode(readable)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(_INVALID_JSON) from error
    try:
        spans = find_member_spans(readable, 0, members)
    except ValueError as error:
        raise InvalidRequest(_DUPLICATE_KEY) from error
    model = _decode_or_none(bytes(members.get("model", b"")), _STRING)
    stream = bytes(members.get("stream", b"")) == _TRUE
    return RequestBody(raw, members, (model or "").strip(), stream, readable, spans)


def _messages(raw: bytes) -> Sequence[Message]:
    decoded = _decode_or_none(raw, _MESSAGES)
    if decoded is not None:
        return decoded
    items = _decode_or_none(raw, _LIST) or []
    return [_message(bytes(item)) for item in items]


def _message(raw: bytes) -> Message:
    """Read a message of an unusual shape; what is of another type is as if it were not there."""
    members = _decode_or_none(raw, _OBJECT) or {}
    role, kind = (
        _decode_or_none(bytes(members.get(name, b"")), _STRING) for name in ("role", "type")
    )
    return Message(role or "", kind or "", members.get("content", msgspec.Raw(b"")))


def _decode_or_none(raw: bytes, decoder: msgspec.json.Decoder[_T]) -> _T | None:
    """Decode a value; None when it is of another type."""
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def _replace_half_pairs(raw: bytes) -> bytes:
    """Write U+FFFD for halves of surrogate pairs, which some clients cut and most readers take."""
    if _SURROGATE.search(raw) is None:
        return raw
    return _ESCAPE.sub(lambda match: _REPLACED if match[1] else match[0], raw)


_STRING: Final = msgspec.json.Decoder(str)
_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_MESSAGES: Final = msgspec.json.Decoder(list[Message])
