"""Which later turns repeat what was said in a turn.

Clients send the whole conversation with each request, so what is erased in one line stands in
the lines that follow it, too. One line at a time is in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final, cast

import msgspec

from memplane.ledger.cursor import BEGINNING, Cursor
from memplane.ledger.folder import AgentFolder
from memplane.ledger.reader import MAX_PAGE_ENTRIES, EntryPage, open_page, read_entries

_MIN_TEXT_BYTES: Final = 24
_REQUEST_MEMBERS: Final = ("request_original", "request_effective")
_CONVERSATION_MEMBERS: Final = ("messages", "input")
_TEXT_MEMBERS: Final = frozenset({"content", "text"})
_STREAM_TEXT_MEMBERS: Final = _TEXT_MEMBERS | {"delta"}


def find_residual_copies(folder: AgentFolder, line: bytes, *, after: Cursor) -> Iterator[str]:
    """Name the later turns that repeat what users said in a turn, or what the model answered.

    `line` is the turn's entry, as it was read before it was erased, and `after` its cursor. Texts
    of less than 24 bytes tell nothing. Neither does one that stood in an earlier turn, such as
    instructions that every request carries, as long as there is another; otherwise all that the
    user said last must be there.

    Raises:
        InvalidCursor: The turn is not there.
    """
    entry = _members(_parse(line))
    last = list(_drop_short_texts(_read_last_user_texts(entry)))
    texts_in_turn = list(
        dict.fromkeys(
            (
                *_drop_short_texts(_read_user_texts(entry)),
                *_drop_short_texts(_read_reply_texts(entry)),
                *last,
            )
        )
    )
    if not texts_in_turn:
        return
    own_texts = _without_earlier(folder, texts_in_turn, after)
    for identifier, later in read_entries(folder, cursor=after):
        texts = list(_strings(_parse(later)))
        if any(_is_quoted_in(text, texts) for text in own_texts) or (
            last and not own_texts and all(_is_quoted_in(text, texts) for text in last)
        ):
            yield identifier


def _without_earlier(folder: AgentFolder, texts_in_turn: list[str], turn: Cursor) -> list[str]:
    """Leave out what stood in a turn before this one."""
    own_texts = texts_in_turn
    for earlier in _before(folder, turn):
        texts = list(_strings(_parse(earlier)))
        own_texts = [text for text in own_texts if not _is_quoted_in(text, texts)]
        if not own_texts:
            break
    return own_texts


def _before(folder: AgentFolder, turn: Cursor) -> Iterator[bytes]:
    """Read the entries that lie before a turn, which may have been erased itself."""
    end, cursor, has_more = (turn.segment, turn.offset), BEGINNING, True
    while has_more:
        with open_page(folder, cursor=cursor, limit=MAX_PAGE_ENTRIES) as page:
            before = [
                location for location in page.entries if (location.segment, location.offset) < end
            ]
            yield from EntryPage(before).lines()
        cursor, has_more = page.next, page.has_more and len(before) == len(page.entries)


def _is_quoted_in(text: str, texts: Iterable[str]) -> bool:
    return any(text in other_text for other_text in texts)


def _drop_short_texts(texts: Iterable[str]) -> Iterator[str]:
    return (text for text in texts if len(text.encode("utf-8", "replace")) >= _MIN_TEXT_BYTES)


def _read_user_texts(entry: dict[str, Any]) -> Iterator[str]:
    """Yield every text that users said, as the agent sent it and as the provider was sent it."""
    for message in _messages(entry):
        yield from _strings(message)


def _read_last_user_texts(entry: dict[str, Any]) -> Iterator[str]:
    *_, last = (None, *_messages({"request_original": entry.get("request_original")}))
    return _strings(last)


def _messages(entry: dict[str, Any]) -> Iterator[object]:
    """Yield the contents of users' messages, in the order they came."""
    for request in _REQUEST_MEMBERS:
        for conversation in _CONVERSATION_MEMBERS:
            messages = _members(entry.get(request)).get(conversation)
            if isinstance(messages, str):
                yield messages
            for message in _items(messages):
                if _members(message).get("role") == "user":
                    yield _members(message).get("content")


def _read_reply_texts(entry: dict[str, Any]) -> Iterator[str]:
    """Yield the texts of a reply; of a stream, what its pieces add up to."""
    response = _members(entry.get("response"))
    yield from _find_members(response.get("json"), _TEXT_MEMBERS)
    streamed = response.get("text")
    if isinstance(streamed, str):
        yield "".join(_read_stream_texts(streamed))


def _read_stream_texts(stream: str) -> Iterator[str]:
    """Yield the pieces of text that a stream brought; events that repeat the whole are left."""
    for line in stream.splitlines():
        event = _members(_parse(line.removeprefix("data:").encode("utf-8", "replace")))
        kind = str(event.get("type", ""))
        if not kind or kind.endswith("delta"):
            yield from _find_members(event, _STREAM_TEXT_MEMBERS)


def _find_members(value: object, names: frozenset[str]) -> Iterator[str]:
    """Yield the strings that stand under one of the names, at any depth."""
    pending = [value]
    while pending:
        item = pending.pop()
        for name, member in _members(item).items():
            if isinstance(member, str) and name in names:
                yield member
        pending += reversed((*_members(item).values(), *_items(item)))


def _strings(value: object) -> Iterator[str]:
    """Yield every string in a value."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            yield item
        pending += reversed((*_members(item).values(), *_items(item)))


def _parse(line: bytes) -> object:
    """Read JSON, also with half a surrogate pair in it; None when it is none."""
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.json.decode(line)
    with suppress(ValueError, RecursionError):
        return cast("object", json.loads(line.decode("utf-8", "replace")))
    return None


def _members(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _items(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []
