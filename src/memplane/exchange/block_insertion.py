"""Texts put into a body's conversation; all of its other bytes stay (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from memplane.exchange.request_body import RequestBody
from memplane.kit.json_edits import JsonEdit, JsonSpan, append_edit
from memplane.kit.json_values import encode_json_string

BLOCK_SEPARATOR: Final = "\n\n"
"""What stands between a user's words and a block where both are one string."""

TextAppender: TypeAlias = Callable[[RequestBody, JsonSpan, str], list[JsonEdit]]
"""How a text is put at the end of a message's content."""


def insert_blocks(
    body: RequestBody, messages_member: str, blocks: Mapping[int, str], append_text: TextAppender
) -> bytes:
    """Put texts at the end of messages; those without content are left alone."""
    return body.with_edits(
        edit
        for content, text in _find_contents(body, messages_member, blocks)
        for edit in append_text(body, content, text)
    )


def encode_text_part(kind: str, text: str) -> bytes:
    """Write a part of a message that is a text."""
    return b'{"type":"%s","text":%s}' % (kind.encode(), encode_json_string(text))


def append_part(body: RequestBody, content: JsonSpan, part: bytes) -> list[JsonEdit]:
    """Put a part after all others."""
    return [append_edit(body.readable, content, part)]


def append_to_string(content: JsonSpan, text: str) -> list[JsonEdit]:
    """Let a text follow on a string's own, which stays as it is written."""
    at = content.end - 1
    return [JsonEdit(at, at, encode_json_string(BLOCK_SEPARATOR + text)[1:-1])]


def is_string(body: RequestBody, span: JsonSpan) -> bool:
    """Tell whether the value that stands there is a string."""
    return body.readable[span.start : span.start + 1] == b'"'


def is_list(body: RequestBody, span: JsonSpan | None) -> bool:
    """Tell whether the value that stands there is a list."""
    return span is not None and body.readable[span.start : span.start + 1] == b"["


def _find_contents(
    body: RequestBody, messages_member: str, blocks: Mapping[int, str]
) -> Iterator[tuple[JsonSpan, str]]:
    span = body.span(messages_member)
    texts = {index: text for index, text in blocks.items() if text}
    if span is None or not texts:
        return
    items = body.items(span)
    for index, text in texts.items():
        if 0 <= index < len(items):
            content = body.member(items[index], "content")
            if content is not None:
                yield content, text
