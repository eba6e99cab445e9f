"""Errors inside replies that claim to be none (pure)."""

from __future__ import annotations

from typing import Final

from memplane.proxy.json_values import decoded_or_none, members, string
from memplane.proxy.sse import Event

_UNSAID: Final = "the provider sent an error"
_LONGEST: Final = 200


def error_in(document: object) -> str:
    """Describe the `error` of an object; empty when it has none."""
    error = members(document).get("error")
    return described(error) if error else ""


def described(error: object) -> str:
    """Say in one line what an error is: its type or code, and its message."""
    if isinstance(error, str):
        said = error
    else:
        of = members(error)
        kind = string(of.get("type")) or string(of.get("code"))
        said = ": ".join(filter(None, (kind, string(of.get("message")))))
    return " ".join(said.split())[:_LONGEST] or _UNSAID


def is_named(event: Event, names: tuple[str, ...]) -> bool:
    """Tell whether an event says that it is one of these, in its data or else by its name.

    One whose data was cut is none.
    """
    if event.name not in names and not any(name in event.data for name in names):
        return False
    data = members(decoded_or_none(event.data))
    return bool(data) and (string(data.get("type")) or event.name) in names
