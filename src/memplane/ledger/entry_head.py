"""What a reader needs of a line without decoding all of it (pure)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cache
from typing import Final

import msgspec

from memplane.ledger.entry import recompute_entry_id

_RFC3339_PATTERN: Final = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII
)
_ERASED_STATUS: Final = "erased"
_VERSION_MEMBER_PATTERN: Final = re.compile(rb'\{\s*("version"\s*:\s*\d+\s*,)?')


class EntryHead(msgspec.Struct, frozen=True):
    """The members of an entry that readers look at; a legacy line has no id."""

    id: str = ""
    ts: str = ""
    status: str = ""
    occurrence: int = 1


def read_entry_head(line: bytes) -> EntryHead | None:
    """Read the head of a line; None when the line is not an entry at all."""
    try:
        return _decoder().decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _read_malformed_head(line)


@cache
def _decoder() -> msgspec.json.Decoder[EntryHead]:
    return msgspec.json.Decoder(EntryHead)


def _read_malformed_head(line: bytes) -> EntryHead | None:
    """Read what the strict decoder refuses: half a surrogate pair, bytes that are not UTF-8."""
    import json  # noqa: PLC0415 - hardly ever needed

    try:
        body: object = json.loads(line.decode("utf-8", "replace"))
        return msgspec.convert(body, EntryHead)
    except (ValueError, RecursionError, msgspec.ValidationError):
        return None


class _ErasedLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The only members that an erased line may have."""

    version: int = 1
    id: str = ""
    status: str = ""
    ts: str = ""
    claw_id: str = ""


def make_erased_line(agent: str, identifier: str, ts: str, size: int) -> bytes:
    """Write what is left of an erased line, at its length: as much as there is room for.

    It is an entry that says nothing but whose, when and which, and blanks; or only blanks.
    """
    fixed_members = {"version": 1, "id": identifier, "status": _ERASED_STATUS}
    for members in (
        fixed_members | {"ts": ts, "claw_id": agent},
        fixed_members,
        {"status": _ERASED_STATUS},
    ):
        line = msgspec.json.encode({name: value for name, value in members.items() if value})
        if len(line) <= size:
            return line.ljust(size)
    return b" " * size


def is_erased_line(line: bytes, head: EntryHead | None) -> bool:
    """Say whether a line is what is left of an erased one; one that says more is an entry."""
    if head is None or head.status != _ERASED_STATUS:
        return False
    try:
        msgspec.json.decode(line, type=_ErasedLine)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def add_missing_id(line: bytes, head: EntryHead) -> tuple[str, bytes]:
    """Return the id and the line with it; a legacy line gets the id that its bytes have."""
    if head.id:
        return head.id, line
    bare = line.strip()
    identifier = recompute_entry_id(bare)
    match = _VERSION_MEMBER_PATTERN.match(bare)
    at = match.end() if match else 1
    comma = b"" if bare[at:].lstrip().startswith(b"}") else b","
    return identifier, b'%s"id":"%s"%s%s' % (bare[:at], identifier.encode(), comma, bare[at:])


def parse_rfc3339(text: str) -> datetime | None:
    """Read an RFC 3339 time, with or without a fraction or an offset; None when it is none."""
    match = _RFC3339_PATTERN.fullmatch(text)
    if match is None:
        return None
    try:
        zone = "+00:00" if match[3] == "Z" else match[3]
        return datetime.fromisoformat(match[1] + (match[2] or "")[:7] + zone).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
