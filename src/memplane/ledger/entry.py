"""The turn entry: its members, its line in the ledger, and its id (pure)."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, TypeAlias

from memplane.ledger.canonical import compacted, quoted, reencoded

_VERSION: Final = 1
_ID: Final = "hist1_"
_ID_MEMBER: Final = re.compile(rb'\{"version":\d+,("id":"hist1_[0-9a-f]{64}",)')


@dataclass(frozen=True, slots=True)
class JsonReply:
    """A reply in one piece; empty when the provider sent no body."""

    body: bytes


@dataclass(frozen=True, slots=True)
class StreamReply:
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


@dataclass(frozen=True, slots=True)
class Entry:
    """A turn with its id and its line, without the newline."""

    id: str
    line: bytes


def entry_of(turn: Turn) -> Entry:
    """Write a turn as it stands in the ledger.

    Raises:
        ValueError: A body that must be JSON is not.
    """
    hashed = _members(turn)
    identifier = id_of(hashed)
    version = b'{"version":%d,' % _VERSION
    line = b'%s"id":"%s",%s' % (version, identifier.encode(), hashed[len(version) :])
    return Entry(identifier, line)


def again(turn: Turn, occurrence: int) -> Turn:
    """Tell a turn apart from equal ones in the same second; the first occurrence is 1."""
    return replace(turn, occurrence=occurrence)


def id_of(hashed: bytes) -> str:
    """Return the id of an entry's bytes without their id."""
    return _ID + hashlib.sha256(hashed).hexdigest()


def recomputed_id(line: bytes) -> str:
    """Return the id that a recorded line should have; a legacy line without one hashes whole."""
    return id_of(without_id(line.strip()))


def without_id(line: bytes) -> bytes:
    """Return a line's bytes without their id member, which stands second when there is one."""
    found = _ID_MEMBER.match(line)
    return line if found is None else line[: found.start(1)] + line[found.end(1) :]


def _members(turn: Turn) -> bytes:
    members = [
        (b"version", b"%d" % _VERSION),
        (b"status", _text(turn.status) if turn.status else b""),
        (b"ts", _text(turn.ts.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))),
        (b"claw_id", _text(turn.agent)),
        (b"path", _text(turn.path)),
        (b"requested_model", _text(turn.requested_model)),
        (b"effective_provider", _text(turn.effective_provider)),
        (b"effective_model", _text(turn.effective_model)),
        (b"status_code", b"%d" % turn.status_code),
        (b"stream", b"true" if turn.stream else b"false"),
        (b"request_original", compacted(turn.request_original) if turn.request_original else b""),
        (
            b"request_effective",
            reencoded(turn.request_effective) if turn.request_effective else b"",
        ),
        (b"response", _reply(turn.reply)),
        (b"usage", _usage(turn.usage)),
        (b"tool_trace", turn.tool_trace),
        (b"occurrence", b"%d" % turn.occurrence if turn.occurrence > 1 else b""),
    ]
    return _object(members)


def _reply(reply: Reply) -> bytes:
    match reply:
        case JsonReply(body):
            return _object([(b"format", b'"json"'), (b"json", body and compacted(body))])
        case StreamReply(body):
            return _object([(b"format", b'"sse"'), (b"text", body and quoted(body))])


def _usage(usage: Usage) -> bytes:
    cost = usage.reported_cost_usd
    return _object(
        [
            (b"prompt_tokens", _unless_zero(usage.prompt_tokens)),
            (b"completion_tokens", _unless_zero(usage.completion_tokens)),
            (b"reported_cost_usd", b"" if cost is None else reencoded(repr(cost).encode())),
            (b"total_rounds", _unless_zero(usage.total_rounds)),
        ]
    )


def _unless_zero(number: int) -> bytes:
    return b"%d" % number if number else b""


def _text(text: str) -> bytes:
    return quoted(text.encode("utf-8", "surrogatepass"))


def _object(members: list[tuple[bytes, bytes]]) -> bytes:
    return b"{" + b",".join(b'"%s":%s' % one for one in members if one[1]) + b"}"
