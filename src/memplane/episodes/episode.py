"""The searchable form of a turn, out of an entry of any recorder (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from memplane.episodes.echo_filter import extract_injected_memory, strip_echoes
from memplane.episodes.provenance import (
    OWN_WORDS,
    Origin,
    Provenance,
    find_repeated_spans,
    name_source,
)
from memplane.exchange.conversation_parser import (
    extract_tool_names,
    find_messages,
    iterate_user_texts_backwards,
    parse_reply,
)
from memplane.exchange.marker_parser import MemoryMarker, parse_markers
from memplane.exchange.prompt_cleanup import strip_injected_memory
from memplane.exchange.tool_results import extract_tool_results
from memplane.ledger.entry_head import parse_rfc3339

_MAX_TEXT_BYTES: Final = 65_536
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
        provenance: Where its words come from, as far as they are not the user's or the agent's.
    """

    id: str
    at: int
    question: str
    answer: str
    calls: tuple[str, ...] = ()
    markers: tuple[MemoryMarker, ...] = ()
    provenance: Provenance = OWN_WORDS


def is_error(entry: Mapping[str, Any]) -> bool:
    """Tell whether a turn failed."""
    return entry.get("status") == "error"


def build_episode(entry: Mapping[str, Any]) -> Episode:
    """Return the episode of an entry; what the entry does not tell is empty.

    In an agent's tool loop the user may have spoken many messages ago; that is still the question.
    """
    reply = parse_reply(entry.get("response"))
    injected = extract_injected_memory(entry.get("request_effective"))
    answer = cap_text(strip_echoes(strip_injected_memory(reply.text), injected))
    identifier = entry.get("id")
    question = cap_text(next(iterate_user_texts_backwards(find_messages(_request(entry))), ""))
    return Episode(
        id=identifier if isinstance(identifier, str) else "",
        at=_at(entry.get("ts")),
        question=question,
        answer=answer,
        calls=extract_tool_names(reply, entry.get("tool_trace")),
        markers=parse_markers(answer),
        provenance=_derive_provenance(entry, question, answer, injected),
    )


def _derive_provenance(
    entry: Mapping[str, Any], question: str, answer: str, injected: str
) -> Provenance:
    """Compare a reply with the results in its request; what declares its source is imported."""
    declared = entry.get("source")
    imported = isinstance(declared, str) and bool(declared.strip())
    request = _request(entry)
    results = extract_tool_results(request, entry.get("response"), entry.get("tool_trace"))
    if not (imported or results or injected):
        return OWN_WORDS
    return Provenance(
        find_repeated_spans(answer, question, results, injected),
        name_source(Origin.IMPORT, str(declared)) if imported else "",
    )


def _request(entry: Mapping[str, Any]) -> object:
    # The effective request has the recalled memory in it, so it only serves without the other.
    request = entry.get("request_original")
    return entry.get("request_effective") if request is None else request


def cap_text(text: str) -> str:
    """Return as much of a text as fits in 64 KiB of UTF-8, in whole characters."""
    if len(text) * 4 <= _MAX_TEXT_BYTES:
        return text
    return text.encode("utf-8", "surrogatepass")[:_MAX_TEXT_BYTES].decode("utf-8", "ignore")


def _at(ts: object) -> int:
    moment = parse_rfc3339(ts) if isinstance(ts, str) else None
    return 0 if moment is None else epoch_us(moment)


def epoch_us(moment: datetime) -> int:
    """Write a moment as episodes do: microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND
