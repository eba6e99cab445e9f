"""What a proxy's log tells, and the tool calls of a ledger: events in one form (pure)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NoReturn, TypeAlias, cast

import msgspec

from memplane.ledger.entry_head import parse_rfc3339

Scalar: TypeAlias = str | int | float | bool

MEMORY_OP: Final = "memory_op"
TOOL_CALL: Final = "tool_call"
MIN_ERROR_STATUS: Final = 400
"""The first status code that tells of a failure."""

_MAX_TEXT_CHARS: Final = 1000
_NUMBER_LIMIT: Final = 1 << 62
_ENVELOPE_MEMBERS: Final = frozenset({"timestamp", "ts", "claw_id", "type", "intervention"})
_INTEGER_MEMBERS: Final = frozenset(
    {"latency_ms", "status_code", "tokens_in", "tokens_out", "tools_count", "final_status_code"}
)


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One event: when, whose, what, and all else that its line told in one value."""

    at: datetime
    claw: str
    type: str
    members: Mapping[str, Scalar]

    def body(self) -> dict[str, Scalar]:
        """Return the event as it is shown to machines."""
        agent_member = {"claw_id": self.claw} if self.claw else {}
        return {
            "timestamp": format_event_time(self.at),
            **agent_member,
            "type": self.type,
            **self.members,
        }

    def text(self, name: str) -> str:
        """Return a member that is text; empty when it is not there."""
        value = self.members.get(name)
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> int | None:
        """Return a member that is a number, without its fraction."""
        value = self.members.get(name)
        return int(value) if isinstance(value, int | float) else None


def format_event_time(at: datetime) -> str:
    """Write a moment in RFC 3339, with a fraction only where it has one."""
    return at.isoformat().replace("+00:00", "Z")


def read_event(line: bytes) -> AuditEvent | None:
    """Read a line of a log; None when it is no event."""
    raw = _object(line)
    if raw is None:
        return None
    at = _time(raw)
    kind = _text(raw.get("type"))
    if at is None or not kind:
        return None
    members = _scalars({_text(name): raw[name] for name in raw if name not in _ENVELOPE_MEMBERS})
    reason = _text(raw.get("intervention"))
    if reason:
        members.setdefault("intervention_reason", reason)
    return AuditEvent(at, _text(raw.get("claw_id")), kind, members)


def read_tool_calls(identifier: str, line: bytes) -> list[AuditEvent] | None:
    """Read the tool calls that an entry of a ledger traces; None when it is no entry."""
    if b'"tool_trace"' not in line:
        return []
    raw = _object(line)
    at = _time(raw) if raw is not None else None
    if raw is None or at is None:
        return None
    result_members: dict[str, object] = {
        "model": _text(raw.get("effective_model")) or _text(raw.get("requested_model")),
        "source_service": "session-history",
        "session_entry_id": identifier,
        "final_status": raw.get("status"),
        "final_status_code": raw.get("status_code"),
        "total_rounds": _as_object(raw.get("usage")).get("total_rounds"),
    }
    return [
        AuditEvent(at, _text(raw.get("claw_id")), TOOL_CALL, members)
        for traced in _as_objects(raw.get("tool_trace"))
        for call in _as_objects(traced.get("tool_calls"))
        if (
            members := _scalars(
                {**result_members, **_call(call), "tool_round": traced.get("round")}
            )
        )
        and "tool_name" in members
    ]


def _call(call: Mapping[str, Any]) -> dict[str, object]:
    failed = (
        call.get("status") == "error"
        or (_read_integer(call.get("status_code")) or 0) >= MIN_ERROR_STATUS
    )
    return {
        "latency_ms": call.get("latency_ms"),
        "status_code": call.get("status_code"),
        "error": _error_in(call.get("result"), failed=failed),
        "tool_name": call.get("name"),
        "tool_service": call.get("service"),
        "tool_status": call.get("status"),
        "tool_duplicate": call.get("duplicate") or None,
        "tool_duplicate_of_round": call.get("duplicate_of_round"),
        "tool_duplicate_count": call.get("duplicate_count"),
    }


def _error_in(result: object, *, failed: bool) -> str:
    """Find the words for what went wrong; a message alone says so only of a failed call."""
    tree = _as_object(result)
    error = tree.get("error")
    message = _text(error) or _text(_as_object(error).get("message"))
    return message or (_text(tree.get("message")) if failed else "")


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        body: object = msgspec.json.decode(line)
    except (ValueError, RecursionError):
        try:  # half a surrogate pair, or bytes that are not UTF-8
            body = json.loads(line.decode("utf-8", "replace"), parse_constant=_refuse)
        except (ValueError, RecursionError):
            return None
    return cast("dict[str, Any]", body) if isinstance(body, dict) else None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _time(raw: Mapping[str, Any]) -> datetime | None:
    return parse_rfc3339(_text(raw.get("timestamp")) or _text(raw.get("ts")))


def _as_object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _as_objects(value: object) -> list[Mapping[str, Any]]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [_as_object(item) for item in items]


def _scalars(members: Mapping[str, object]) -> dict[str, Scalar]:
    """Keep what is one value."""
    return {
        name: value for name, raw in members.items() if (value := _scalar(name, raw)) is not None
    }


def _scalar(name: str, value: object) -> Scalar | None:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value) or None
    if isinstance(value, int | float) and math.isfinite(value) and abs(value) < _NUMBER_LIMIT:
        return int(value) if name in _INTEGER_MEMBERS or name.startswith("memory_") else value
    return None


def _text(value: object) -> str:
    """Return text, trimmed, not too long, and such that it can be encoded."""
    if not isinstance(value, str):
        return ""
    return value.strip()[:_MAX_TEXT_CHARS].encode("utf-8", "replace").decode()


def _read_integer(raw: object) -> int | None:
    value = _scalar("status_code", raw)
    return int(value) if isinstance(value, int | float) else None


class EventFilter(msgspec.Struct, frozen=True):
    """Which events are looked at; what is empty does not choose."""

    since: datetime | None = None
    claw: str = ""
    type: str = ""

    def includes(self, event: AuditEvent) -> bool:
        """Say whether the event is one of them."""
        return (
            (not self.claw or event.claw == self.claw)
            and (not self.type or event.type == self.type)
            and (self.since is None or event.at >= self.since)
        )
