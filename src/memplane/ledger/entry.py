"""The turn entry: its members, its line in the ledger, and its id (pure)."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from memplane.ledger.canonical_json import (
    compact_json,
    escape_characters,
    quote_text,
    reencode_json,
)

_FORMAT_VERSION: Final = 1
_ID_PREFIX: Final = "hist1_"
_REQUIRED_MEMBERS_FORMAT: Final = (
    b',"ts":"%sZ","claw_id":%s,"path":%s,"requested_model":%s,"effective_provider":%s,'
    b'"effective_model":%s,"status_code":%d,"stream":%s'
)
_EMPTY_JSON_REPLY: Final = b'{"format":"json"}'
_EMPTY_STREAM_REPLY: Final = b'{"format":"sse"}'
_ID_MEMBER_PATTERN: Final = re.compile(rb'\{"version":\d+,("id":"hist1_[0-9a-f]{64}",)')


class JsonReply(msgspec.Struct, frozen=True):
    """A reply in one piece; empty when the provider sent no body."""

    body: bytes


class StreamReply(msgspec.Struct, frozen=True):
    """A reply as a stream of events, with the bytes as they came."""

    body: bytes


Reply: TypeAlias = JsonReply | StreamReply


@dataclass(frozen=True, slots=True)
class Usage:
    """What a turn used, as the provider counted; None is not said."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    reported_cost_usd: float | None = None
    total_rounds: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """One request and its reply, as they will be recorded."""

    ts: datetime
    agent: str
    path: str
    requested_model: str
    effective_provider: str
    effective_model: str
    status_code: int
    stream: bool
    request_original: bytes
    request_effective: bytes
    reply: Reply
    usage: Usage = Usage()
    status: str = ""
    tool_trace: bytes = b""
    occurrence: int = 1
    note: bytes = b""
    """What is said about it beside the ledger; see `memplane.ledger.turn_note`."""


class Entry(msgspec.Struct, frozen=True):
    """A turn with its id and its line, without the newline."""

    id: str
    line: bytes


class ReceivedEntry(msgspec.Struct, frozen=True):
    """An entry that another recorder made: its id is opaque, and its line is kept as it is."""

    agent: str
    entry: Entry
    note: bytes = b""
    """What is said about it beside the ledger; see `memplane.ledger.turn_note`."""


def make_entry(turn: Turn) -> Entry:
    """Write a turn as it stands in the ledger.

    Raises:
        ValueError: A body that must be JSON is not.
    """
    hashed_members = _members(turn)
    identifier = compute_entry_id(hashed_members)
    version = b'{"version":%d,' % _FORMAT_VERSION
    line = b"".join(
        (version, b'"id":"', identifier.encode(), b'",', hashed_members[len(version) :])
    )
    return Entry(identifier, line)


def with_occurrence(turn: Turn, occurrence: int) -> Turn:
    """Tell a turn apart from equal ones in the same second; the first occurrence is 1."""
    return replace(turn, occurrence=occurrence)


def compute_entry_id(hashed_members: bytes) -> str:
    """Return the id of an entry's bytes without their id."""
    return _ID_PREFIX + hashlib.sha256(hashed_members).hexdigest()


def recompute_entry_id(line: bytes) -> str:
    """Return the id that a recorded line should have; a legacy line without one hashes whole."""
    return compute_entry_id(strip_entry_id(line.strip()))


def strip_entry_id(line: bytes) -> bytes:
    """Return a line's bytes without their id member, which stands second when there is one."""
    match = _ID_MEMBER_PATTERN.match(line)
    return line if match is None else line[: match.start(1)] + line[match.end(1) :]


def _members(turn: Turn) -> bytes:
    """Write the members in the format's order; those that are empty are left out."""
    parts = [b'{"version":%d' % _FORMAT_VERSION]
    if turn.status:
        parts.append(b',"status":%s' % _text(turn.status))
    parts.append(
        _REQUIRED_MEMBERS_FORMAT
        % (
            turn.ts.astimezone(UTC).isoformat()[:19].encode(),
            _text(turn.agent),
            _text(turn.path),
            _text(turn.requested_model),
            _text(turn.effective_provider),
            _text(turn.effective_model),
            turn.status_code,
            b"true" if turn.stream else b"false",
        )
    )
    if turn.request_original:
        parts += b',"request_original":', compact_json(turn.request_original)
    if turn.request_effective:
        parts += b',"request_effective":', reencode_json(turn.request_effective)
    parts += b',"response":', _reply(turn.reply), b',"usage":', _usage(turn.usage)
    if turn.tool_trace:
        parts += b',"tool_trace":', compact_json(turn.tool_trace)
    if turn.occurrence > 1:
        parts.append(b',"occurrence":%d' % turn.occurrence)
    parts.append(b"}")
    return escape_characters(b"".join(parts))


def _reply(reply: Reply) -> bytes:
    match reply:
        case JsonReply(body):
            return (
                b'{"format":"json","json":%s}' % compact_json(body) if body else _EMPTY_JSON_REPLY
            )
        case StreamReply(body):
            return (
                b'{"format":"sse","text":%s}' % quote_text(body) if body else _EMPTY_STREAM_REPLY
            )


@lru_cache(1024)
def _usage(usage: Usage) -> bytes:
    cost = usage.reported_cost_usd
    members = (
        b'"prompt_tokens":%d' % usage.prompt_tokens if usage.prompt_tokens else b"",
        b'"completion_tokens":%d' % usage.completion_tokens if usage.completion_tokens else b"",
        b"" if cost is None else b'"reported_cost_usd":%s' % reencode_json(repr(cost).encode()),
        b'"total_rounds":%d' % usage.total_rounds if usage.total_rounds else b"",
    )
    return b"{%s}" % b",".join(filter(None, members))


@lru_cache(1024)
def _text(text: str) -> bytes:
    try:
        return msgspec.json.encode(text)
    except UnicodeEncodeError:
        return quote_text(text.encode("utf-8", "surrogatepass"))
