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
    entry = _members(_parsed(line))
    last = list(_drop_short_texts(_read_last_user_texts(entry)))
    said = list(
        dict.fromkeys(
            (
                *_drop_short_texts(_read_user_texts(entry)),
                *_drop_short_texts(_read_reply_texts(entry)),
                *last,
            )
        )
    )
    if not said:
        return
    own = _without_earlier(folder, said, after)
    for identifier, later in read_entries(folder, cursor=after):
        texts = list(_strings(_parsed(later)))
        if any(_is_quoted_in(one, texts) for one in own) or (
            last and not own and all(_is_quoted_in(one, texts) for one in last)
        ):
            yield identifier


def _without_earlier(folder: AgentFolder, said: list[str], turn: Cursor) -> list[str]:
    """Leave out what stood in a turn before this one."""
    own = said
    for earlier in _before(folder, turn):
        texts = list(_strings(_parsed(earlier)))
        own = [one for one in own if not _is_quoted_in(one, texts)]
        if not own:
            break
    return own


def _before(folder: AgentFolder, turn: Cursor) -> Iterator[bytes]:
    """Read the entries that lie before a turn, which may have been erased itself."""
    end, cursor, more = (turn.segment, turn.offset), BEGINNING, True
    while more:
        with open_page(folder, cursor=cursor, limit=MAX_PAGE_ENTRIES) as page:
            before = [one for one in page.entries if (one.segment, one.offset) < end]
            yield from EntryPage(before).lines()
        cursor, more = page.next, page.has_more and len(before) == len(page.entries)


def _is_quoted_in(text: str, texts: Iterable[str]) -> bool:
    return any(text in one for one in texts)


def _drop_short_texts(texts: Iterable[str]) -> Iterator[str]:
    return (one for one in texts if len(one.encode("utf-8", "replace")) >= _MIN_TEXT_BYTES)


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
            said = _members(entry.get(request)).get(conversation)
            if isinstance(said, str):
                yield said
            for one in _items(said):
                if _members(one).get("role") == "user":
                    yield _members(one).get("content")


def _read_reply_texts(entry: dict[str, Any]) -> Iterator[str]:
    """Yield the texts of a reply; of a stream, what its pieces add up to."""
    response = _members(entry.get("response"))
    yield from _named(response.get("json"), _TEXT_MEMBERS)
    streamed = response.get("text")
    if isinstance(streamed, str):
        yield "".join(_pieces(streamed))


def _pieces(stream: str) -> Iterator[str]:
    """Yield the pieces of text that a stream brought; events that repeat the whole are left."""
    for line in stream.splitlines():
        event = _members(_parsed(line.removeprefix("data:").encode("utf-8", "replace")))
        kind = str(event.get("type", ""))
        if not kind or kind.endswith("delta"):
            yield from _named(event, _STREAM_TEXT_MEMBERS)


def _named(value: object, names: frozenset[str]) -> Iterator[str]:
    """Yield the strings that stand under one of the names, at any depth."""
    left = [value]
    while left:
        one = left.pop()
        for name, member in _members(one).items():
            if isinstance(member, str) and name in names:
                yield member
        left += reversed((*_members(one).values(), *_items(one)))


def _strings(value: object) -> Iterator[str]:
    """Yield every string in a value."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            yield one
        left += reversed((*_members(one).values(), *_items(one)))


def _parsed(line: bytes) -> object:
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
