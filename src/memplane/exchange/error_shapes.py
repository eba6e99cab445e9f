"""Errors inside replies that claim to be none (pure)."""

from __future__ import annotations

from typing import Final

from memplane.exchange.sse import SseEvent
from memplane.kit.json_values import as_object, as_string, decode_json_or_none

_UNNAMED_ERROR: Final = "the provider sent an error"
_MAX_ERROR_CHARS: Final = 200


def find_error(document: object) -> str:
    """Describe the `error` of an object; empty when it has none."""
    error = as_object(document).get("error")
    return describe_error(error) if error else ""


def describe_error(error: object) -> str:
    """Say in one line what an error is: its type or code, and its message."""
    if isinstance(error, str):
        message = error
    else:
        of = as_object(error)
        kind = as_string(of.get("type")) or as_string(of.get("code"))
        message = ": ".join(filter(None, (kind, as_string(of.get("message")))))
    return " ".join(message.split())[:_MAX_ERROR_CHARS] or _UNNAMED_ERROR


def is_event_named(event: SseEvent, names: tuple[str, ...]) -> bool:
    """Tell whether an event says that it is one of these, in its data or else by its name.

    One whose data was cut is none.
    """
    if event.name not in names and not any(name in event.data for name in names):
        return False
    data = as_object(decode_json_or_none(event.data))
    return bool(data) and (as_string(data.get("type")) or event.name) in names
