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
from memplane.exchange.content_encoding import decode_content
from memplane.exchange.dialect import Dialect
from memplane.exchange.sse import BYTE_ORDER_MARK, SseEvent, SseParser
from memplane.kit.json_values import as_object, decode_json_or_none
from memplane.ledger.canonical_json import compact_json
from memplane.ledger.entry import JsonReply, Reply, StreamReply, Usage

MAX_REPLY_BYTES: Final = 64 * 1024 * 1024

_CHUNKS_PER_PACK: Final = 24
_MAX_COMPRESSED_BYTES: Final = 16 << 10
_ZLIB_LEVEL: Final = 1

_USAGE_MARKS: Final = (b"_tokens", b"error")
"""What an event has in it that can tell what was used, or an error."""
_BLANK_LINE: Final = b"\n\n"
_ERROR_EVENT: Final = "error"
_UNNAMED_ERROR: Final = "the stream has an error event"
_TOO_LONG: Final = "too long to record"
_NO_LAST_EVENT: Final = "the stream ended without its last event"
_CUT_ENCODING: Final = "the encoded reply was cut"
_EMPTY: Final = "the reply is empty"
_NOT_JSON: Final = "the reply is not JSON"
_PROMPT_TOKEN_NAMES: Final = ("prompt_tokens", "input_tokens")
_COMPLETION_TOKEN_NAMES: Final = ("completion_tokens", "output_tokens")
_TOKEN_DETAIL_NAMES: Final = ("prompt_tokens_details", "input_tokens_details")
_MAX_COUNT: Final = 2**53
_TRUNCATION_REASONS: Final = frozenset({_NO_LAST_EVENT, _CUT_ENCODING, _NOT_JSON})
_NO_USAGE: Final = Usage()


class ReplyOutcome(StrEnum):
    """How a reply ended."""

    WHOLE = "whole"
    FAILED = "failed"
    """It came whole, and it says that something went wrong."""
    CUT = "cut"
    """Something is missing, or it cannot be read; there is nothing to record."""


class CachedTokens(msgspec.Struct, frozen=True):
    """Tokens of a prompt that cost something else, because a provider's cache has to do with them.

    Args:
        within: Found in the cache, and counted into the prompt.
        beside: Found in the cache, and counted beside the prompt.
        kept: Put into the cache, and counted beside the prompt.
    """

    within: int = 0
    beside: int = 0
    kept: int = 0


_NO_CACHED_TOKENS: Final = CachedTokens()


@dataclass(frozen=True, slots=True)
class AssembledReply:
    """A reply that has ended.

    Args:
        kind: How it ended.
        reply: Its bytes, without an encoding; empty when they could not be kept.
        usage: What the provider counted, and the cost that it reported.
        problem: What went wrong, partly in the provider's words; empty for a whole one.
        cached: What the provider's cache had to do with it.
    """

    kind: ReplyOutcome
    reply: Reply
    usage: Usage = _NO_USAGE
    problem: str = ""
    cached: CachedTokens = _NO_CACHED_TOKENS

    @property
    def is_truncated(self) -> bool:
        """Whether it is cut because bytes are missing, and not because it cannot be kept."""
        return self.kind is ReplyOutcome.CUT and self.problem in _TRUNCATION_REASONS


class ReplyAssembler:
    """A reply that is still coming.

    Args:
        dialect: What it is written in.
        stream: It comes as events.
        encoding: Its Content-Encoding; empty for none.
    """

    __slots__ = ("_chunks", "_compressed_chunks", "_dialect", "_encoding", "_length", "_stream")

    def __init__(self, dialect: Dialect, *, stream: bool, encoding: str = "") -> None:
        self._dialect = dialect
        self._stream = stream
        self._encoding = encoding
        self._chunks: list[bytes] = []
        self._compressed_chunks: list[tuple[bool, bytes]] = []
        """What came before, and whether each part of it is pressed."""
        self._length = 0

    @property
    def length(self) -> int:
        """How many bytes came."""
        return self._length

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self._length += len(chunk)
        if self._length > MAX_REPLY_BYTES:
            self._chunks, self._compressed_chunks = [], []  # nobody needs the part that was kept
            return
        self._chunks.append(chunk)
        if len(self._chunks) == _CHUNKS_PER_PACK and self._stream and not self._encoding:
            self._pack()

    def _pack(self) -> None:
        """Press small pieces together: events are much alike, and a thousand streams may run."""
        loose = b"".join(self._chunks)
        compressed = (
            zlib.compress(loose, _ZLIB_LEVEL) if len(loose) <= _MAX_COMPRESSED_BYTES else b""
        )
        self._compressed_chunks.append((bool(compressed), compressed or loose))
        self._chunks = []

    def finish(self) -> AssembledReply:
        """Read the reply; that takes some milliseconds for a megabyte, so do it off the way."""
        if self._length > MAX_REPLY_BYTES:
            return self._unread_reply(_TOO_LONG)
        try:
            body = decode_content(self._body(), self._encoding, max_bytes=MAX_REPLY_BYTES)
        except InvalidRequest as error:
            return self._unread_reply(str(error))
        if self._length and not body:
            return self._unread_reply(_CUT_ENCODING)
        if not body.strip():
            return AssembledReply(ReplyOutcome.FAILED, self._reply(b""), problem=_EMPTY)
        return (
            _read_stream_reply(self._dialect, body)
            if self._stream
            else _read_json_reply(self._dialect, body)
        )

    def _body(self) -> bytes:
        parts = [
            zlib.decompress(part) if is_compressed else part
            for is_compressed, part in self._compressed_chunks
        ]
        return b"".join((*parts, *self._chunks))

    def _unread_reply(self, problem: str) -> AssembledReply:
        return AssembledReply(ReplyOutcome.CUT, self._reply(b""), problem=problem)

    def _reply(self, body: bytes) -> Reply:
        return StreamReply(body) if self._stream else JsonReply(body)


def _read_json_reply(dialect: Dialect, body: bytes) -> AssembledReply:
    try:
        compact_json(body)  # as the ledger will, which takes nothing else
    except ValueError:
        return AssembledReply(ReplyOutcome.CUT, JsonReply(b""), problem=_NOT_JSON)
    document = decode_json_or_none(body)
    failure = dialect.failure_in(document)
    kind = ReplyOutcome.FAILED if failure else ReplyOutcome.WHOLE
    usage, cached = (
        _merge_usage(_NO_USAGE, document),
        _merge_cached_tokens(_NO_CACHED_TOKENS, document),
    )
    return AssembledReply(kind, JsonReply(body), usage, failure, cached)


def _read_stream_reply(dialect: Dialect, body: bytes) -> AssembledReply:
    usage, cached = _NO_USAGE, _NO_CACHED_TOKENS
    failure = ""
    is_complete = False
    for event in _find_marked_events(body, (*_USAGE_MARKS, *map(str.encode, dialect.last))):
        document = decode_json_or_none(event.data)
        usage, cached = _merge_usage(usage, document), _merge_cached_tokens(cached, document)
        failure = failure or dialect.failure_in(document)
        if event.name == _ERROR_EVENT:
            failure = failure or _UNNAMED_ERROR
        is_complete = is_complete or dialect.is_end(event)
    if failure:
        return AssembledReply(ReplyOutcome.FAILED, StreamReply(body), usage, failure, cached)
    if is_complete:
        return AssembledReply(ReplyOutcome.WHOLE, StreamReply(body), usage, cached=cached)
    return AssembledReply(ReplyOutcome.CUT, StreamReply(body), usage, _NO_LAST_EVENT, cached)


def _find_marked_events(body: bytes, marks: Iterable[bytes]) -> list[SseEvent]:
    """Return the events that have one of the marks in them, in their order."""
    body = body.removeprefix(BYTE_ORDER_MARK)
    if b"\r" in body:  # or every event would be read, as none seems to end
        body = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    spans = sorted({span for mark in marks for span in _find_event_spans(mark, body)})
    # An empty line comes first: what looks like a byte order mark further on is none.
    text = b"\n" + b"".join(body[start:end] for start, end in spans)
    events = SseParser()
    return events.feed(text) + events.end()


def _find_event_spans(mark: bytes, body: bytes) -> Iterator[tuple[int, int]]:
    """Yield where events are that contain a mark, each with the empty line after it."""
    position = body.find(mark)
    while position >= 0:
        before = body.rfind(_BLANK_LINE, 0, position)
        after = body.find(_BLANK_LINE, position)
        end = len(body) if after < 0 else after + len(_BLANK_LINE)
        yield (0 if before < 0 else before + len(_BLANK_LINE), end)
        position = body.find(mark, end)


def _merge_usage(usage: Usage, document: object) -> Usage:
    """Return the largest counts: some providers count up, and some repeat an early count."""
    for usage_object in _find_usage_objects(document):
        usage = Usage(
            max(
                usage.prompt_tokens,
                *(_parse_count(usage_object.get(name)) for name in _PROMPT_TOKEN_NAMES),
            ),
            max(
                usage.completion_tokens,
                *(_parse_count(usage_object.get(name)) for name in _COMPLETION_TOKEN_NAMES),
            ),
            _merge_cost(usage.reported_cost_usd, usage_object.get("cost")),
        )
    return usage


def _merge_cached_tokens(cached: CachedTokens, document: object) -> CachedTokens:
    for usage_object in _find_usage_objects(document):
        details = (as_object(usage_object.get(name)) for name in _TOKEN_DETAIL_NAMES)
        cached = CachedTokens(
            max(cached.within, *(_parse_count(detail.get("cached_tokens")) for detail in details)),
            max(cached.beside, _parse_count(usage_object.get("cache_read_input_tokens"))),
            max(cached.kept, _parse_count(usage_object.get("cache_creation_input_tokens"))),
        )
    return cached


def _find_usage_objects(document: object) -> Iterator[Mapping[str, object]]:
    """Yield what a document says was used, wherever it says so."""
    of = as_object(document)
    for holder in (of, as_object(of.get("message")), as_object(of.get("response"))):
        usage_object = as_object(holder.get("usage"))
        if usage_object:
            yield usage_object


def _parse_count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 <= value <= _MAX_COUNT else 0


def _merge_cost(known: float | None, value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return known
    if not 0 <= value <= _MAX_COUNT or not math.isfinite(value):
        return known
    return float(value) if known is None else max(known, float(value))
