"""The turns of one origin: a source that they repeat, or the session that they were said in."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from memplane.database.interface import Connection
from memplane.episodes import provenance_store
from memplane.episodes.api_types import OriginTurn
from memplane.episodes.ledger_follower import OWN_LEDGER, RECEIVED_LEDGER, MemorySources
from memplane.episodes.response_builder import format_time, truncate_text
from memplane.episodes.scope_store import get_agent_number
from memplane.ledger.note_reader import NoteReader

_MAX_QUESTION_BYTES: Final = 120


def find_session_entries(places: MemorySources, agent: str, session: str) -> list[str]:
    """Return the entries that were recorded in a session, as the notes beside them say."""
    if not session:
        return []
    ledgers = (places.folder(ledger, agent) for ledger in (OWN_LEDGER, RECEIVED_LEDGER))
    notes = (note for folder in ledgers for note in NoteReader(folder).new_lines())
    return list(dict.fromkeys(note.id for note in notes if note.session == session and note.id))


def list_origin_turns(
    rows: Connection, agent: str, *, source: str, entries: Collection[str]
) -> list[OriginTurn]:
    """Return the turns that repeat a source, and those of some entries, without forgotten ones."""
    number = get_agent_number(rows, agent)
    if number is None:
        return []
    ids = list(entries)
    if source:
        ids += provenance_store.find_entries_of_source(rows, number, (source,))
    found: list[OriginTurn] = []
    for entry_id in dict.fromkeys(ids):
        episode = provenance_store.get_episode(rows, number, entry_id)
        if episode is not None:
            asked = " ".join((episode.question or episode.answer).split())
            found.append(
                OriginTurn(
                    id=entry_id,
                    ts=format_time(episode.at),
                    question=truncate_text(asked, _MAX_QUESTION_BYTES),
                    sources=episode.provenance.sources,
                )
            )
    return found
