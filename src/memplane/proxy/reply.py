"""A reply put together beside its way to the client, for the record (pure).

Bytes are only collected while they come, and read once at the end: what a reply was cannot depend
then on how it was cut, and a stream costs next to nothing while it runs, neither time nor memory.
Of a stream only events are read that can tell an end, an error or what was used.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import msgspec

from memplane.errors import InvalidRequest
from memplane.ledger.canonical import compacted
from memplane.ledger.entry import JsonReply, Reply, StreamReply, Usage
from memplane.proxy.dialects.contract import Dialect
from memplane.proxy.encodings import undone
from memplane.proxy.json_values import decoded_or_none, members
from memplane.proxy.sse import BYTE_ORDER_MARK, Event, Events

MOST_KEPT: Final = 64 * 1024 * 1024

_PIECES: Final = 24
_SMALL: Final = 16 << 10
_QUICKLY: Final = 1

_TELLING: Final = (b"_tokens", b"error")
"""What an event has in it that can tell what was used, or an error."""
_BLANK_LINE: Final = b"\n\n"
_ERROR: Final = "error"
_UNSAID: Final = "the stream has an error event"
_TOO_LONG: Final = "too long to record"
_UNENDED: Final = "the stream ended without its last event"
_UNREADABLE: Final = "the encoded reply was cut"
_EMPTY: Final = "the reply is empty"
_NOT_JSON: Final = "the reply is not JSON"
_PROMPT: Final = ("prompt_tokens", "input_tokens")
_COMPLETION: Final = ("completion_tokens", "output_tokens")
_DETAILS: Final = ("prompt_tokens_details", "input_tokens_details")
_MOST_COUNTED: Final = 2**53
_NOTHING: Final = Usage()


class Kind(StrEnum):
    """How a reply ended."""

    WHOLE = "whole"
    FAILED = "failed"
    """It came whole, and it says that something went wrong."""
    CUT = "cut"
    """Something is missing, or it cannot be read; there is nothing to record."""


class Cached(msgspec.Struct, frozen=True):
    """Tokens of a prompt that cost something else, because a provider's cache has to do with them.

    Args:
        within: Found in the cache, and counted into the prompt.
        beside: Found in the cache, and counted beside the prompt.
        kept: Put into the cache, and counted beside the prompt.
    """

    within: int = 0
    beside: int = 0
    kept: int = 0


_UNCACHED: Final = Cached()


@dataclass(frozen=True, slots=True)
class Ended:
    """A reply that has ended.

    Args:
        kind: How it ended.
        reply: Its bytes, without an encoding; empty when they could not be kept.
        usage: What the provider counted, and the cost that it reported.
        why: What went wrong, partly in the provider's words; empty for a whole one.
        cached: What the provider's cache had to do with it.
    """

    kind: Kind
    reply: Reply
    usage: Usage = _NOTHING
    why: str = ""
    cached: Cached = _UNCACHED


class Assembling:
    """A reply that is still coming.

    Args:
        dialect: What it is written in.
        stream: It comes as events.
        encoding: Its Content-Encoding; empty for none.
    """

    __slots__ = ("_chunks", "_dialect", "_encoding", "_length", "_packed", "_stream")

    def __init__(self, dialect: Dialect, *, stream: bool, encoding: str = "") -> None:
        self._dialect = dialect
        self._stream = stream
        self._encoding = encoding
        self._chunks: list[bytes] = []
        self._packed: list[tuple[bool, bytes]] = []
        """What came before, and whether each part of it is pressed."""
        self._length = 0

    @property
    def length(self) -> int:
        """How many bytes came."""
        return self._length

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self._length += len(chunk)
        if self._length > MOST_KEPT:
            self._chunks, self._packed = [], []  # nobody needs the part that was kept
            return
        self._chunks.append(chunk)
        if len(self._chunks) == _PIECES and self._stream and not self._encoding:
            self._pack()

    def _pack(self) -> None:
        """Press small pieces together: events are much alike, and a thousand streams may run."""
        loose = b"".join(self._chunks)
        pressed = zlib.compress(loose, _QUICKLY) if len(loose) <= _SMALL else b""
        self._packed.append((bool(pressed), pressed or loose))
        self._chunks = []

    def ended(self) -> Ended:
        """Read the reply; that takes some milliseconds for a megabyte, so do it off the way."""
        if self._length > MOST_KEPT:
            return self._unkept(_TOO_LONG)
        try:
            body = undone(self._whole(), self._encoding, most=MOST_KEPT)
        except InvalidRequest as error:
            return self._unkept(str(error))
        if self._length and not body:
            return self._unkept(_UNREADABLE)
        if not body.strip():
            return Ended(Kind.FAILED, self._reply(b""), why=_EMPTY)
        return (
            _streamed(self._dialect, body) if self._stream else _in_one_piece(self._dialect, body)
        )

    def _whole(self) -> bytes:
        parts = [zlib.decompress(part) if pressed else part for pressed, part in self._packed]
        return b"".join((*parts, *self._chunks))

    def _unkept(self, why: str) -> Ended:
        return Ended(Kind.CUT, self._reply(b""), why=why)

    def _reply(self, body: bytes) -> Reply:
        return StreamReply(body) if self._stream else JsonReply(body)


def _in_one_piece(dialect: Dialect, body: bytes) -> Ended:
    try:
        compacted(body)  # as the ledger will, which takes nothing else
    except ValueError:
        return Ended(Kind.CUT, JsonReply(b""), why=_NOT_JSON)
    document = decoded_or_none(body)
    failure = dialect.failure_in(document)
    kind = Kind.FAILED if failure else Kind.WHOLE
    usage, cached = _most_used(_NOTHING, document), _most_cached(_UNCACHED, document)
    return Ended(kind, JsonReply(body), usage, failure, cached)


def _streamed(dialect: Dialect, body: bytes) -> Ended:
    usage, cached = _NOTHING, _UNCACHED
    failure = ""
    is_whole = False
    for event in _telling(body, (*_TELLING, *map(str.encode, dialect.last))):
        document = decoded_or_none(event.data)
        usage, cached = _most_used(usage, document), _most_cached(cached, document)
        failure = failure or dialect.failure_in(document)
        if event.name == _ERROR:
            failure = failure or _UNSAID
        is_whole = is_whole or dialect.ended_by(event)
    if failure:
        return Ended(Kind.FAILED, StreamReply(body), usage, failure, cached)
    if is_whole:
        return Ended(Kind.WHOLE, StreamReply(body), usage, cached=cached)
    return Ended(Kind.CUT, StreamReply(body), usage, _UNENDED, cached)


def _telling(body: bytes, marks: Iterable[bytes]) -> list[Event]:
    """Return the events that have one of the marks in them, in their order."""
    body = body.removeprefix(BYTE_ORDER_MARK)
    if b"\r" in body:  # or every event would be read, as none seems to end
        body = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    spans = sorted({span for mark in marks for span in _around(mark, body)})
    # An empty line comes first: what looks like a byte order mark further on is none.
    text = b"\n" + b"".join(body[start:end] for start, end in spans)
    events = Events()
    return events.feed(text) + events.end()


def _around(mark: bytes, body: bytes) -> Iterator[tuple[int, int]]:
    """Yield where events are that contain a mark, each with the empty line after it."""
    position = body.find(mark)
    while position >= 0:
        before = body.rfind(_BLANK_LINE, 0, position)
        after = body.find(_BLANK_LINE, position)
        end = len(body) if after < 0 else after + len(_BLANK_LINE)
        yield (0 if before < 0 else before + len(_BLANK_LINE), end)
        position = body.find(mark, end)


def _most_used(usage: Usage, document: object) -> Usage:
    """Return the largest counts: some providers count up, and some repeat an early count."""
    for counted in _counted(document):
        usage = Usage(
            max(usage.prompt_tokens, *(_count(counted.get(name)) for name in _PROMPT)),
            max(usage.completion_tokens, *(_count(counted.get(name)) for name in _COMPLETION)),
            _larger(usage.reported_cost_usd, counted.get("cost")),
        )
    return usage


def _most_cached(cached: Cached, document: object) -> Cached:
    for counted in _counted(document):
        details = (members(counted.get(name)) for name in _DETAILS)
        cached = Cached(
            max(cached.within, *(_count(one.get("cached_tokens")) for one in details)),
            max(cached.beside, _count(counted.get("cache_read_input_tokens"))),
            max(cached.kept, _count(counted.get("cache_creation_input_tokens"))),
        )
    return cached


def _counted(document: object) -> Iterator[Mapping[str, object]]:
    """Yield what a document says was used, wherever it says so."""
    of = members(document)
    for holder in (of, members(of.get("message")), members(of.get("response"))):
        counted = members(holder.get("usage"))
        if counted:
            yield counted


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 <= value <= _MOST_COUNTED else 0


def _larger(known: float | None, value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return known
    if not 0 <= value <= _MOST_COUNTED or not math.isfinite(value):
        return known
    return float(value) if known is None else max(known, float(value))
