"""Digests of sessions: from a transcript or from the ledger, into the folder of documents."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from memplane.episodes.entry_parser import decode_entry
from memplane.episodes.episode import build_episode
from memplane.episodes.ledger_view import LedgerView
from memplane.errors import StorageError
from memplane.home import Home
from memplane.integrations.claude_code.session_transcript import TranscriptTurn, read_turns
from memplane.kit.clock import system_clock
from memplane.ledger.cursor import BEGINNING
from memplane.ledger.folder import AgentFolder
from memplane.ledger.note_reader import NoteReader
from memplane.ledger.tombstones import get_mirror_root
from memplane.persona.document_writer import write_document
from memplane.persona.folder import DocumentFolder
from memplane.persona.project_marker import read_marker
from memplane.persona.session_digest import (
    DigestTurn,
    SessionRecord,
    digest_key,
    has_written_block,
    put_block,
    synthesize_block,
)
from memplane.persona.sync_status import UNSYNCED
from memplane.service.composition.persona import synced_place
from memplane.service.composition.redactors import open_redactor
from memplane.settings import Settings

_MAX_WRITE_ATTEMPTS: Final = 3
_MAX_PAGE_ENTRIES: Final = 1000

Scrub = Callable[[str], str]
"""Takes the secrets out of a text."""


def make_scrub(settings: Settings) -> Scrub:
    """Make what takes the secrets out of what becomes a document."""
    redactor = open_redactor(settings)
    return lambda text: redactor.text(text).value


def find_zone(settings: Settings) -> tzinfo:
    """Return the zone that decides what a day is."""
    if settings.timezone:
        return ZoneInfo(settings.timezone)
    return system_clock().astimezone().tzinfo or UTC


def read_transcript(path: Path, scrub: Scrub) -> SessionRecord | None:
    """Read the record of a session; None when there is none, or nothing was asked in it."""
    try:
        with path.open("rb") as lines:
            turns = list(read_turns(lines))
    except OSError:
        return None
    if not turns:
        return None
    return SessionRecord(
        session=path.stem,
        turns=tuple(_make_digest_turn(turn, scrub) for turn in turns),
        ended_at=turns[-1].ended_at,
    )


def _make_digest_turn(turn: TranscriptTurn, scrub: Scrub) -> DigestTurn:
    answer = turn.replies[-1] if turn.replies else ""
    return DigestTurn(turn.asked_at, scrub(turn.prompt), scrub(answer), tuple(turn.files))


def list_transcripts(folder: Path) -> list[Path]:
    """List the transcripts of a project, the oldest first."""
    found = [path for path in folder.glob("*.jsonl") if path.is_file()]
    return sorted(found, key=lambda path: path.stat().st_mtime)


def read_ledger_day(settings: Settings, agent: str, day: date) -> list[SessionRecord]:
    """Read what an agent's ledger has of a day: a record for each of its sessions.

    Turns whose session the recorder did not know are one session, called by the day.
    """
    zone = find_zone(settings)
    begin = datetime.combine(day, time(), zone)
    end = datetime.combine(day + timedelta(days=1), time(), zone)
    turns: dict[str, list[DigestTurn]] = defaultdict(list)
    for session, turn in _read_ledger_turns(settings, agent, begin):
        if turn.at < end:
            turns[session or f"{day}"].append(turn)
    return [SessionRecord(session, tuple(known), known[-1].at) for session, known in turns.items()]


def _read_ledger_turns(
    settings: Settings, agent: str, after: datetime
) -> Iterator[tuple[str, DigestTurn]]:
    folder = AgentFolder(settings.ledger.dir, agent)
    if not folder.path.is_dir():
        return
    sessions = {note.id: note.session for note in NoteReader(folder).new_lines() if note.id}
    tombstones = (Home(settings.home).tombstones, get_mirror_root(folder.root))
    view = LedgerView(folder, tombstones, replay=NoteReader(folder))
    cursor, has_more = BEGINNING, True
    while has_more:
        with view.page(cursor=cursor, after=after, limit=_MAX_PAGE_ENTRIES) as page:
            for entry_id, line in page.with_ids():
                members = decode_entry(line)
                if members is not None and (turn := _read_ledger_turn(members, after)):
                    yield sessions.get(entry_id, ""), turn
            cursor, has_more = page.next, page.has_more


def _read_ledger_turn(members: Mapping[str, Any], after: datetime) -> DigestTurn | None:
    """Return what was asked and answered; None for what nobody asked, or earlier turns."""
    episode = build_episode(members)
    at = datetime.fromtimestamp(episode.at / 1_000_000, UTC)
    if at < after or not episode.question.strip():
        return None
    return DigestTurn(at, episode.question, episode.answer)


async def draft_digest(settings: Settings, folder: Path, record: SessionRecord) -> str:
    """Write a draft of a session's block into the folder of documents.

    Returns the key of the digest; empty when the session wrote its block itself.

    Raises:
        StorageError: The digest cannot be read or written.
    """
    return await asyncio.to_thread(_draft, settings, folder, record)


def _draft(settings: Settings, root: Path, record: SessionRecord) -> str:
    zone = find_zone(settings)
    block = synthesize_block(record)
    key = digest_key(block, zone)
    folder = _open_folder(settings, root)
    folder.create()
    for _ in range(_MAX_WRITE_ATTEMPTS):
        now = folder.read(key)
        if has_written_block(now, record.session):
            return ""
        text = put_block(now, block, zone)
        if text == now or write_document(folder, key, text, expected=now):
            return key
    raise StorageError("is being changed by others: try again", key=key)


def _open_folder(settings: Settings, root: Path) -> DocumentFolder:
    marker = read_marker(root) if root.exists() else None
    place = synced_place(settings, root)
    return DocumentFolder(root, place.memory(marker.project if marker else UNSYNCED))
