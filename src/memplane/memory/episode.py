"""The searchable form of a turn, out of an entry of any recorder (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from memplane.ledger.heads import instant
from memplane.memory.conversation import called_in, messages_of, reply_of, said_backwards
from memplane.memory.echoes import injected_into, without_echoes
from memplane.memory.injected import without_injected
from memplane.memory.markers import Marker, markers_of

_LONGEST: Final = 65_536
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Episode:
    """The searchable form of a turn.

    Args:
        id: The entry's id; it tells nothing.
        at: When it happened, in microseconds since 1970; 0 when the entry says no time.
        question: What the user said last, without what programs put there.
        answer: What the model answered.
        calls: The names of the tools that it called, each once.
        markers: What it marked to be remembered.
    """

    id: str
    at: int
    question: str
    answer: str
    calls: tuple[str, ...] = ()
    markers: tuple[Marker, ...] = ()


def is_error(entry: Mapping[str, Any]) -> bool:
    """Tell whether a turn failed."""
    return entry.get("status") == "error"


def episode_of(entry: Mapping[str, Any]) -> Episode:
    """Return the episode of an entry; what the entry does not tell is empty.

    In an agent's tool loop the user may have spoken many messages ago; that is still the question.
    """
    # The effective request has the recalled memory in it, so it only serves without the other.
    request = entry.get("request_original")
    if request is None:
        request = entry.get("request_effective")
    reply = reply_of(entry.get("response"))
    injected = injected_into(entry.get("request_effective"))
    answer = capped(without_echoes(without_injected(reply.text), injected))
    identifier = entry.get("id")
    return Episode(
        id=identifier if isinstance(identifier, str) else "",
        at=_at(entry.get("ts")),
        question=capped(next(said_backwards(messages_of(request)), "")),
        answer=answer,
        calls=called_in(reply, entry.get("tool_trace")),
        markers=markers_of(answer),
    )


def capped(text: str) -> str:
    """Return as much of a text as fits in 64 KiB of UTF-8, in whole characters."""
    if len(text) * 4 <= _LONGEST:
        return text
    return text.encode("utf-8", "surrogatepass")[:_LONGEST].decode("utf-8", "ignore")


def _at(ts: object) -> int:
    moment = instant(ts) if isinstance(ts, str) else None
    return 0 if moment is None else microseconds(moment)


def microseconds(moment: datetime) -> int:
    """Write a moment as episodes do: microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND
