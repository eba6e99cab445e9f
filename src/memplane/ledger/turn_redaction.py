"""Secrets out of turns before they are written, and out of entries that others recorded (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Final, TypeAlias, TypeVar

import msgspec

from memplane.ledger.canonical_json import escape_characters, quote_text
from memplane.ledger.entry import JsonReply, Reply, StreamReply, Turn
from memplane.ledger.turn_note import add_removed_count
from memplane.redaction.redactor import RedactionResult, Redactor

T = TypeVar("T")

RedactText: TypeAlias = Callable[[str], RedactionResult[str]]
_SSE_FORMAT_VALUE: Final = b'"sse"'
_UNREDACTED_MEMBERS: Final = frozenset({"version", "id", "ts", "claw_id"})


def redact_turn(
    redactor: Redactor, turn: Turn, counts: Counter[str], text: RedactText | None = None
) -> Turn:
    """Take the secrets out of everything that a turn says; each kind found is counted in `counts`.

    `text` redacts short texts, which are the same in most turns.
    """
    text = text or redactor.text

    def unwrap(result: RedactionResult[T]) -> T:
        counts.update(result.counts)
        return result.value

    def reply_of(reply: Reply) -> Reply:
        match reply:
            case JsonReply(body):
                return JsonReply(unwrap(redactor.json(body)))
            case StreamReply(body):
                return StreamReply(unwrap(redactor.stream(body)))

    return replace(
        turn,
        path=unwrap(text(turn.path)),
        requested_model=unwrap(text(turn.requested_model)),
        effective_provider=unwrap(text(turn.effective_provider)),
        effective_model=unwrap(text(turn.effective_model)),
        status=unwrap(text(turn.status)),
        request_original=unwrap(redactor.json(turn.request_original)),
        request_effective=unwrap(redactor.json(turn.request_effective)),
        tool_trace=unwrap(redactor.json(turn.tool_trace)),
        reply=reply_of(turn.reply),
    )


def redact_entry_line(redactor: Redactor, line: bytes) -> RedactionResult[bytes]:
    """Take the secrets out of a recorded entry; its id stays, as that of what was recorded."""
    if _SSE_FORMAT_VALUE not in line:
        redacted_line = redactor.json(line)
        if not redacted_line.counts:
            return (
                redacted_line  # most entries have none, and one look at all of it is the quickest
            )
    counts: Counter[str] = Counter()

    def unwrap(result: RedactionResult[bytes]) -> bytes:
        counts.update(result.counts)
        return result.value

    try:
        members = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return redactor.json(line)  # another shape, but secrets come out of it all the same
    for name in members.keys() - _UNREDACTED_MEMBERS:
        body = bytes(members[name])
        part_result = (
            _redact_response(redactor, body) if name == "response" else redactor.json(body)
        )
        members[name] = msgspec.Raw(unwrap(part_result))
    return RedactionResult(escape_characters(msgspec.json.encode(members)), counts)


def _redact_response(redactor: Redactor, body: bytes) -> RedactionResult[bytes]:
    counts: Counter[str] = Counter()
    try:
        reply = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        for name, part in reply.items():
            result = _redact_reply(redactor, name, bytes(part))
            counts.update(result.counts)
            reply[name] = msgspec.Raw(result.value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return redactor.json(body)
    return RedactionResult(msgspec.json.encode(reply), counts)


def _redact_reply(redactor: Redactor, name: str, body: bytes) -> RedactionResult[bytes]:
    if name != "text" or not body.startswith(b'"'):
        return redactor.json(body)
    text = msgspec.json.decode(body, type=str).encode("utf-8", "surrogatepass")
    result = redactor.stream(text)
    return RedactionResult(quote_text(result.value) if result.counts else body, result.counts)


def make_turn_redactor(
    redactor: Callable[[], Redactor], counts: Counter[str]
) -> Callable[[Turn], Turn]:
    """Make the function that a ledger scrubs its turns with.

    Each kind found is counted, and a turn's note says how many there were.
    """

    @lru_cache(1024)
    def cached(value: str, _known: object) -> RedactionResult[str]:
        return redactor().text(value)

    def text(value: str) -> RedactionResult[str]:
        return cached(value, redactor().secrets_version())

    def scrub(turn: Turn) -> Turn:
        hit_counts: Counter[str] = Counter()
        redacted = redact_turn(redactor(), turn, hit_counts, text)
        if not hit_counts:
            return redacted
        counts.update(hit_counts)
        return replace(redacted, note=add_removed_count(turn.note, hit_counts.total()))

    return scrub
