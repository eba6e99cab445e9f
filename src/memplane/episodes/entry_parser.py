"""From an entry that was given to what is kept of it (pure)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import msgspec

from memplane.episodes.entry_input import check_json
from memplane.episodes.episode import Episode, build_episode, is_error
from memplane.episodes.store import EpisodeState, StoredEpisode
from memplane.errors import InvalidRequest
from memplane.exchange.end_user import NO_USER, EndUser, find_entry_user
from memplane.ledger.entry import Entry
from memplane.ledger.entry_head import is_erased_line, read_entry_head
from memplane.redaction.redactor import RedactionResult
from memplane.search.turn_terms import TurnTerms, extract_turn_terms

_MAX_ID_CHARS: Final = 512

ScrubLine = Callable[[bytes], RedactionResult[bytes]]
"""Takes secrets out of an entry's line."""


class ParsedEntry(msgspec.Struct, frozen=True):
    """An entry as it will be kept, and how many secrets were taken out of it.

    `named` is the user that its own request names.
    """

    entry: Entry
    stored: StoredEpisode
    redacted: int
    named: EndUser = NO_USER


def parse_entry(raw: bytes, scrub: ScrubLine) -> ParsedEntry:
    """Make what is kept of an entry that somebody sent.

    Raises:
        InvalidRequest: It is no entry.
    """
    scrubbed = scrub(check_json(raw))
    members = decode_entry(scrubbed.value)
    if members is None:
        raise InvalidRequest(_explain_rejection(scrubbed.value))
    identifier = members.get("id")
    if not isinstance(identifier, str) or not identifier.strip():
        raise InvalidRequest("the entry has no id")
    if len(identifier) > _MAX_ID_CHARS or not identifier.isprintable():
        raise InvalidRequest(
            f"an entry's id has at most {_MAX_ID_CHARS} characters, all of them printable"
        )
    line = scrubbed.value
    if (head := read_entry_head(line)) is None:
        line = msgspec.json.encode(_drop_mistyped_members(members))
        head = read_entry_head(line)
    if head is None or head.id != identifier or is_erased_line(line, head):
        # What no reader would read again must not be acknowledged.
        raise InvalidRequest("the entry could not be read again; send it as the format says")
    entry = Entry(identifier, line)
    redacted = sum(scrubbed.counts.values())
    return ParsedEntry(entry, build_stored_episode(members), redacted, find_entry_user(members))


def _drop_mistyped_members(members: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what readers look at and is of another type, such as a time that is a number."""
    kinds = {"ts": str, "status": str, "occurrence": int}
    return {
        name: value
        for name, value in members.items()
        if name not in kinds or type(value) is kinds[name]
    }


def decode_entry(line: bytes) -> Mapping[str, Any] | None:
    """Read a line as an entry's members; None when it is no entry."""
    try:
        members = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        members = _decode_leniently(line)
    return cast("dict[str, Any]", members) if isinstance(members, dict) else None


def _decode_leniently(line: bytes) -> object:
    """Read what the strict decoder refuses: half a surrogate pair, bytes that are not UTF-8."""
    import json  # noqa: PLC0415 - hardly ever needed

    try:
        body = json.dumps(json.loads(line.decode("utf-8", "replace")))
        return json.loads(body.encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def _explain_rejection(line: bytes) -> str:
    """Say why what is JSON is no entry."""
    import json  # noqa: PLC0415 - hardly ever needed
    import sys  # noqa: PLC0415

    try:
        json.loads(line.decode("utf-8", "replace"))
    except RecursionError:
        return "the entry is nested too deeply"
    except ValueError:
        most = sys.get_int_max_str_digits()
        return f"the entry has a number of more than {most} digits, which cannot be read"
    return "the entry is not a JSON object"


def build_stored_episode(members: Mapping[str, Any]) -> StoredEpisode:
    """Make the episode of an entry, and what search needs of it."""
    episode = build_episode(members)
    if is_error(members) or not _says_anything(episode):
        return StoredEpisode(episode, EpisodeState.SILENT, TurnTerms())
    # What nobody answered, such as a note, was told and not asked.
    asked, told = episode.question, episode.answer
    if not told.strip():
        asked, told = "", episode.question
    spoken = extract_turn_terms(asked, told, "\n".join(episode.calls))
    return StoredEpisode(episode, EpisodeState.SEARCHABLE, spoken)


def _says_anything(episode: Episode) -> bool:
    return bool(episode.question.strip() or episode.answer.strip())
