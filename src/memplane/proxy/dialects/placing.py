"""Texts put into a body's conversation; all of its other bytes stay (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from memplane.proxy.body import Body
from memplane.proxy.json_values import encoded
from memplane.proxy.splicing import Edit, Span, appended

BETWEEN: Final = "\n\n"
"""What stands between a user's words and a block where both are one string."""

Ending: TypeAlias = Callable[[Body, Span, str], list[Edit]]
"""How a text is put at the end of a message's content."""


def with_blocks_in(body: Body, listed: str, blocks: Mapping[int, str], ending: Ending) -> bytes:
    """Put texts at the end of messages; those without content are left alone."""
    return body.edited(
        edit
        for content, text in _contents(body, listed, blocks)
        for edit in ending(body, content, text)
    )


def text_part(kind: str, text: str) -> bytes:
    """Write a part of a message that is a text."""
    return b'{"type":"%s","text":%s}' % (kind.encode(), encoded(text))


def at_end_of_parts(body: Body, content: Span, part: bytes) -> list[Edit]:
    """Put a part after all others."""
    return [appended(body.readable, content, part)]


def at_end_of_string(content: Span, text: str) -> list[Edit]:
    """Let a text follow on a string's own, which stays as it is written."""
    at = content.end - 1
    return [Edit(at, at, encoded(BETWEEN + text)[1:-1])]


def is_string(body: Body, span: Span) -> bool:
    """Tell whether the value that stands there is a string."""
    return body.readable[span.start : span.start + 1] == b'"'


def is_list(body: Body, span: Span | None) -> bool:
    """Tell whether the value that stands there is a list."""
    return span is not None and body.readable[span.start : span.start + 1] == b"["


def _contents(body: Body, listed: str, blocks: Mapping[int, str]) -> Iterator[tuple[Span, str]]:
    span = body.span(listed)
    wanted = {index: text for index, text in blocks.items() if text}
    if span is None or not wanted:
        return
    items = body.items(span)
    for index, text in wanted.items():
        if 0 <= index < len(items):
            content = body.member(items[index], "content")
            if content is not None:
                yield content, text
