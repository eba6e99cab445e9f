"""What `claude -p --output-format stream-json` prints, from bytes that were cut anywhere (pure).

Nothing here raises, whatever the bytes are. A line may have any length. The array that
`--output-format json --verbose` prints is read too: all of its events stand in one line.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

import msgspec

from memplane.kit.json_values import as_list, as_object, as_string, decode_json
from memplane.observations.model import SourceClass

_Event: TypeAlias = Mapping[str, object]

_MAX_INTEGER: Final = 1 << 63
_IGNORED_EVENTS: Final = frozenset(
    {
        "rate_limit_event",
        "stream_event",  # parts of what an `assistant` event says in whole
        "system/api_retry",
        "system/hook_response",
        "system/hook_started",
        "system/memory_recall",
        "system/notification",
        "system/status",
        "system/task_notification",
        "system/task_progress",
        "system/task_started",
        "system/task_updated",
        "system/thinking_tokens",
        "tool_progress",
    }
)


class EventPosition(msgspec.Struct, frozen=True):
    """Where an event stands: the number of its line from 1, and of the line's first byte from 0.

    The digest is over the line's bytes up to its newline.
    """

    line: int
    offset: int
    sha256: str


class StreamStart(msgspec.Struct, frozen=True, kw_only=True):
    """A session began, or a turn of it did; the newest one holds."""

    at: EventPosition
    session_id: str
    model: str
    cwd: str
    version: str
    permission_mode: str
    memory_folder: str
    tools: tuple[str, ...]
    mcp_servers: tuple[str, ...]
    skills: tuple[str, ...]
    plugins: tuple[str, ...]


class ModelText(msgspec.Struct, frozen=True, kw_only=True):
    """What a model said; one that was aborted may end in the middle of a line."""

    at: EventPosition
    text: str
    message_id: str
    uuid: str
    origin: SourceClass
    aborted: bool


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool gave: evidence for what a model said, and never its words."""

    at: EventPosition
    text: str
    tool_use_id: str
    uuid: str
    origin: SourceClass
    is_error: bool


class Retraction(msgspec.Struct, frozen=True, kw_only=True):
    """The events with these uuids no longer count, nor does anything that came of them."""

    at: EventPosition
    uuids: tuple[str, ...]


class Compaction(msgspec.Struct, frozen=True, kw_only=True):
    """The conversation was replaced by a summary of itself; a number not told is None."""

    at: EventPosition
    trigger: str
    tokens_before: int | None
    tokens_after: int | None


class SessionResult(msgspec.Struct, frozen=True, kw_only=True):
    """How it went; a figure not told is None.

    `is_error` says whether it failed: the subtype may be `success` all the same. `result` was
    said before, as text.
    """

    at: EventPosition
    session_id: str
    subtype: str
    is_error: bool
    result: str
    structured_output: object
    cost_usd: float | None
    turns: int | None
    duration_ms: int | None
    denied: int
    terminal_reason: str
    api_error_status: int | None


StreamEvent: TypeAlias = (
    StreamStart | ModelText | ToolResult | Retraction | Compaction | SessionResult
)


class StreamJsonReader:
    """Puts events together from the pieces of a stream, and tells what happened.

    `lines` counts all lines so far, `not_json` those that are no JSON, and `unknown` the events
    of a kind that is not known.
    """

    __slots__ = ("_offset", "_unfinished", "lines", "not_json", "unknown")

    def __init__(self) -> None:
        self._unfinished: list[bytes] = []  # joined once its line has ended, so time stays linear
        self._offset = 0
        self.lines = 0
        self.not_json = 0
        self.unknown = 0

    def feed(self, data: bytes) -> list[StreamEvent]:
        """Take the next bytes and return what the lines say that they complete."""
        *lines, rest = data.split(b"\n")
        happenings: list[StreamEvent] = []
        for line in lines:
            happenings += self._read(b"".join((*self._unfinished, line)))
            self._unfinished.clear()
        if rest:
            self._unfinished.append(rest)
        return happenings

    def end(self) -> list[StreamEvent]:
        """Return what the last line says, which had no newline."""
        line = b"".join(self._unfinished)
        self._unfinished.clear()
        return list(self._read(line)) if line else []

    def _read(self, line: bytes) -> Iterator[StreamEvent]:
        self.lines += 1
        offset = self._offset
        self._offset += len(line) + 1
        if not line.strip():
            return
        try:
            value = decode_json(line)
        except ValueError:
            self.not_json += 1
            return
        at = EventPosition(self.lines, offset, hashlib.sha256(line).hexdigest())
        listed = as_list(value)
        for event in listed if listed is value else [value]:
            yield from self._told(as_object(event), at)

    def _told(self, event: _Event, at: EventPosition) -> Iterator[StreamEvent]:
        kind = as_string(event.get("type"))
        if kind == "system":
            kind = f"system/{as_string(event.get('subtype'))}"
        read = _EVENT_READERS.get(kind)
        if read is not None:
            yield from read(event, at)
        elif kind not in _IGNORED_EVENTS:
            self.unknown += 1


def _started(event: _Event, at: EventPosition) -> Iterator[StreamEvent]:
    yield StreamStart(
        at=at,
        session_id=_text(event.get("session_id")),
        model=_text(event.get("model")),
        cwd=_text(event.get("cwd")),
        version=_text(event.get("claude_code_version")),
        permission_mode=_text(event.get("permissionMode")),
        memory_folder=_text(as_object(event.get("memory_paths")).get("auto")),
        tools=_names(event.get("tools")),
        mcp_servers=_names(event.get("mcp_servers")),
        skills=_names(event.get("skills")),
        plugins=_names(event.get("plugins")),
    )


def _said(event: _Event, at: EventPosition) -> Iterator[StreamEvent]:
    yield from _retracted(event, at)
    if event.get("error"):
        return
    message = as_object(event.get("message"))
    for block in map(as_object, as_list(message.get("content"))):
        if block.get("type") == "text":
            yield ModelText(
                at=at,
                text=_text(block.get("text")),
                message_id=_text(message.get("id")),
                uuid=_text(event.get("uuid")),
                origin=_origin(event),
                aborted=bool(event.get("aborted")),
            )


def _results(event: _Event, at: EventPosition) -> Iterator[StreamEvent]:
    if event.get("isReplay"):
        return  # It was sent to the program again; nothing new was seen.
    message = as_object(event.get("message"))
    for block in map(as_object, as_list(message.get("content"))):
        if block.get("type") == "tool_result":
            yield ToolResult(
                at=at,
                text=_result_text(block.get("content")),
                tool_use_id=_text(block.get("tool_use_id")),
                uuid=_text(event.get("uuid")),
                origin=_origin(event),
                is_error=bool(block.get("is_error")),
            )


def _retracted(event: _Event, at: EventPosition) -> Iterator[StreamEvent]:
    """Read what an event replaces, or says was replaced; never itself."""
    named = as_list(event.get("supersedes")) + as_list(event.get("retracted_message_uuids"))
    uuids = tuple(uuid for one in named if (uuid := _text(one)) not in {"", event.get("uuid")})
    if uuids:
        yield Retraction(at=at, uuids=uuids)


def _compacted(event: _Event, at: EventPosition) -> Iterator[StreamEvent]:
    figures = as_object(event.get("compact_metadata"))
    yield Compaction(
        at=at,
        trigger=_text(figures.get("trigger")),
        tokens_before=_whole(figures.get("pre_tokens")),
        tokens_after=_whole(figures.get("post_tokens")),
    )


def _ended(event: _Event, at: EventPosition) -> Iterator[StreamEvent]:
    subtype = _text(event.get("subtype"))
    failed = event.get("is_error")
    yield SessionResult(
        at=at,
        session_id=_text(event.get("session_id")),
        subtype=subtype,
        is_error=failed if isinstance(failed, bool) else subtype != "success",
        result=_text(event.get("result")),
        structured_output=_writable(event.get("structured_output")),
        cost_usd=_number(event.get("total_cost_usd")),
        turns=_whole(event.get("num_turns")),
        duration_ms=_whole(event.get("duration_ms")),
        denied=len(as_list(event.get("permission_denials"))),
        terminal_reason=_text(event.get("terminal_reason")),
        api_error_status=_whole(event.get("api_error_status")),
    )


_EVENT_READERS: Final[Mapping[str, Callable[[_Event, EventPosition], Iterator[StreamEvent]]]] = {
    "assistant": _said,
    "result": _ended,
    "system/compact_boundary": _compacted,
    "system/init": _started,
    "system/model_refusal_fallback": _retracted,
    "user": _results,
}


def _origin(event: _Event) -> SourceClass:
    return SourceClass.SUBAGENT if event.get("parent_tool_use_id") else SourceClass.AGENT


def _result_text(content: object) -> str:
    """Return the texts of a result, which is one or has several among images and the like."""
    parts = (_text(as_object(part).get("text")) for part in as_list(content))
    return _text(content) or "\n".join(filter(None, parts))


def _names(value: object) -> tuple[str, ...]:
    """Return the names in a list of names, or of things that have one."""
    named = (_text(one) or _text(as_object(one).get("name")) for one in as_list(value))
    return tuple(filter(None, named))


def _text(value: object) -> str:
    """Return a string that can be written; half a surrogate pair becomes U+FFFD."""
    text = as_string(value)
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _writable(value: object) -> object:
    """Return a value all of whose strings can be written."""
    if named := as_object(value):
        return {_text(name): _writable(one) for name, one in named.items()}
    if listed := as_list(value):
        return [_writable(one) for one in listed]
    return _text(value) if isinstance(value, str) else value


def _whole(value: object) -> int | None:
    """Return a whole number, unless it is too large for any database."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if abs(value) < _MAX_INTEGER else None


def _number(value: object) -> float | None:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return _whole(value)
