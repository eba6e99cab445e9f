"""A turn in a few words, for people who look through a ledger (pure)."""

from __future__ import annotations

import msgspec

from memplane.ledger.canonical_json import reencode_json


class _ReportedUsage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class EntrySummary(msgspec.Struct):
    """What a line of the ledger tells at a glance."""

    id: str = ""
    ts: str = ""
    status: str = ""
    claw_id: str = ""
    path: str = ""
    requested_model: str = ""
    effective_provider: str = ""
    effective_model: str = ""
    usage: _ReportedUsage = msgspec.field(default_factory=_ReportedUsage)
    request_original: msgspec.Raw = msgspec.Raw(b"null")
    request_effective: msgspec.Raw = msgspec.Raw(b"null")


def summarise_entry(line: bytes) -> EntrySummary:
    """Summarise a line; what it does not tell is empty."""
    for attempt in (bytes, reencode_json):
        try:
            return msgspec.json.decode(attempt(line), type=EntrySummary)
        except (msgspec.DecodeError, ValueError, RecursionError):
            continue  # half a surrogate pair, say; written anew it can be read
    return EntrySummary()
