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

    def kept(found: RedactionResult[T]) -> T:
        counts.update(found.counts)
        return found.value

    def reply_of(reply: Reply) -> Reply:
        match reply:
            case JsonReply(body):
                return JsonReply(kept(redactor.json(body)))
            case StreamReply(body):
                return StreamReply(kept(redactor.stream(body)))

    return replace(
        turn,
        path=kept(text(turn.path)),
        requested_model=kept(text(turn.requested_model)),
        effective_provider=kept(text(turn.effective_provider)),
        effective_model=kept(text(turn.effective_model)),
        status=kept(text(turn.status)),
        request_original=kept(redactor.json(turn.request_original)),
        request_effective=kept(redactor.json(turn.request_effective)),
        tool_trace=kept(redactor.json(turn.tool_trace)),
        reply=reply_of(turn.reply),
    )


def redact_entry_line(redactor: Redactor, line: bytes) -> RedactionResult[bytes]:
    """Take the secrets out of a recorded entry; its id stays, as that of what was recorded."""
    if _SSE_FORMAT_VALUE not in line:
        whole = redactor.json(line)
        if not whole.counts:
            return whole  # most entries have none, and one look at all of it is the quickest
    counts: Counter[str] = Counter()

    def kept(found: RedactionResult[bytes]) -> bytes:
        counts.update(found.counts)
        return found.value

    try:
        members = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return redactor.json(line)  # another shape, but secrets come out of it all the same
    for name in members.keys() - _UNREDACTED_MEMBERS:
        body = bytes(members[name])
        found = _redacted_response(redactor, body) if name == "response" else redactor.json(body)
        members[name] = msgspec.Raw(kept(found))
    return RedactionResult(escape_characters(msgspec.json.encode(members)), counts)


def _redacted_response(redactor: Redactor, body: bytes) -> RedactionResult[bytes]:
    counts: Counter[str] = Counter()
    try:
        reply = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        for name, part in reply.items():
            found = _redacted_reply(redactor, name, bytes(part))
            counts.update(found.counts)
            reply[name] = msgspec.Raw(found.value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return redactor.json(body)
    return RedactionResult(msgspec.json.encode(reply), counts)


def _redacted_reply(redactor: Redactor, name: str, body: bytes) -> RedactionResult[bytes]:
    if name != "text" or not body.startswith(b'"'):
        return redactor.json(body)
    text = msgspec.json.decode(body, type=str).encode("utf-8", "surrogatepass")
    found = redactor.stream(text)
    return RedactionResult(quote_text(found.value) if found.counts else body, found.counts)


def make_turn_redactor(
    redactor: Callable[[], Redactor], counts: Counter[str]
) -> Callable[[Turn], Turn]:
    """Make the function that a ledger scrubs its turns with.

    Each kind found is counted, and a turn's note says how many there were.
    """

    @lru_cache(1024)
    def cached(words: str, _known: object) -> RedactionResult[str]:
        return redactor().text(words)

    def text(words: str) -> RedactionResult[str]:
        return cached(words, redactor().secrets_version())

    def scrub(turn: Turn) -> Turn:
        found: Counter[str] = Counter()
        scrubbed = redact_turn(redactor(), turn, found, text)
        if not found:
            return scrubbed
        counts.update(found)
        return replace(scrubbed, note=add_removed_count(turn.note, found.total()))

    return scrub
