"""Taking in what ledgers have and the database does not, each from where it was read to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from memplane.auth.memory_scope import MemoryScope
from memplane.database.interface import Connection, RecordStore
from memplane.episodes import injection_store, provenance_store
from memplane.episodes import store as table
from memplane.episodes.entry_parser import ScrubLine, build_stored_episode, decode_entry
from memplane.episodes.provenance import Provenance
from memplane.episodes.scope_store import get_agent_number
from memplane.episodes.store import EpisodeState, RetainOutcome, StoredEpisode
from memplane.errors import InvalidCursor
from memplane.ledger.cursor import BEGINNING, Cursor, decode_cursor, encode_cursor
from memplane.ledger.folder import AgentFolder, list_ledger_agents
from memplane.ledger.note_reader import NoteReader
from memplane.ledger.reader import MAX_PAGE_ENTRIES, open_page
from memplane.ledger.tombstones import (
    Tombstone,
    append_tombstones,
    list_agents_with_tombstones,
    read_tombstones,
    read_tombstones_since,
)

_log = logging.getLogger(__name__)

TOMBSTONE_SERVICE: Final = "memplane"
OWN_LEDGER: Final = "ledger"
RECEIVED_LEDGER: Final = "received"


class MemorySources(msgspec.Struct, frozen=True, kw_only=True):
    """Where memory's sources lie: our own ledger, what others recorded, and tombstones.

    Our own ledger may hold secrets; `scrub` takes them out then. Tombstones are written to
    `tombstones`; those that a pod's operator wrote `beside` the ledgers hold as well. All other
    files below `home` are looked through after a purge, but for those in `apart`, which are
    looked through in a way of their own.
    """

    ledger: Path
    received: Path
    tombstones: Path
    beside: Path | None = None
    scrub: ScrubLine | None = None
    home: Path | None = None
    apart: tuple[Path, ...] = ()
    notes: dict[str, NoteReader] = msgspec.field(default_factory=dict[str, NoteReader])
    """What the recorder says about each agent's turns, as far as it was read."""
    received_notes: dict[str, NoteReader] = msgspec.field(default_factory=dict[str, NoteReader])
    """What is said about each agent's received entries, as far as it was read."""

    @property
    def tombstone_roots(self) -> tuple[Path, ...]:
        """Each root that may say what was forgotten."""
        roots = (self.tombstones, self.beside or self.tombstones)
        return tuple(dict.fromkeys(roots))

    def leaves_out(self, folder: AgentFolder, entry_id: str) -> bool:
        """Say whether the recorder wants nothing to be remembered of a turn."""
        if folder.root != self.ledger:
            return False
        return self.notes.setdefault(folder.agent, NoteReader(folder)).omits_response(entry_id)

    def scope_of(self, folder: AgentFolder, entry_id: str) -> MemoryScope:
        """Say whose memory a turn of one of the two ledgers is."""
        if folder.root == self.ledger:
            return self.notes.setdefault(folder.agent, NoteReader(folder)).scope_of(entry_id)
        notes = self.received_notes.setdefault(folder.agent, NoteReader(folder))
        return notes.scope_of(entry_id)

    def folder(self, ledger: str, agent: str) -> AgentFolder:
        """Return where an agent's part of one of the two ledgers lies."""
        return AgentFolder(self.ledger if ledger == OWN_LEDGER else self.received, agent)


class FollowResult(msgspec.Struct, frozen=True):
    """How many entries were taken in, and how many lines could not be read.

    The `remembered` ones say something; the others are turns that failed, or without any words.
    """

    entries: int
    unreadable: int
    remembered: int
    has_more: bool


async def list_ledgers(places: MemorySources) -> list[tuple[str, str]]:
    """Name each ledger and agent that has one."""
    own = await asyncio.to_thread(list_ledger_agents, places.ledger)
    received = await asyncio.to_thread(list_ledger_agents, places.received)
    return [
        *((OWN_LEDGER, agent) for agent in own),
        *((RECEIVED_LEDGER, agent) for agent in received),
    ]


def forget_entries(rows: Connection, agent: str, ids: Collection[str]) -> None:
    """Take entries out of everything that was made of them, for good."""
    table.delete_entries(rows, agent, ids)
    injection_store.delete_citing(rows, agent, ids)


async def apply_all_tombstones(records: RecordStore, places: MemorySources) -> None:
    """Bury what tombstones say and the database does not know yet."""
    for root in places.tombstone_roots:
        for agent in await asyncio.to_thread(list_agents_with_tombstones, root):
            await apply_tombstones(records, places, agent)


async def apply_tombstones(records: RecordStore, places: MemorySources, agent: str) -> list[str]:
    """Bury what an agent's tombstones say and the database does not know; returns that.

    Raises:
        LedgerError: The tombstones cannot be read.
    """
    ids: dict[str, None] = {}
    for root in places.tombstone_roots:
        told = await asyncio.to_thread(read_tombstones_since, root, agent)
        if told.malformed:
            _log.warning("%d tombstones of %s cannot be read", told.malformed, agent)
        ids.update((one.entry_id, None) for one in told.tombstones)
    new = await records.read(partial(filter_unforgotten, agent=agent, ids=list(ids)))
    if new:
        await records.write(partial(forget_entries, agent=agent, ids=new))
    return new


async def restore_tombstones(records: RecordStore, places: MemorySources, now: str) -> None:
    """Write the tombstones that the database knows and the files do not: they only ever grow."""
    known = await records.read(table.list_forgotten, patient=True)
    for agent, ids in known.items():
        told = await asyncio.to_thread(read_tombstones, places.tombstones, agent)
        missing = [Tombstone(now, agent, TOMBSTONE_SERVICE, one) for one in ids if one not in told]
        if missing:
            _log.warning("%d tombstones of %s were missing and are written", len(missing), agent)
            await asyncio.to_thread(append_tombstones, places.tombstones, agent, missing)


def filter_unforgotten(rows: Connection, agent: str, ids: list[str]) -> list[str]:
    """Return those entries that are not forgotten yet."""
    number = get_agent_number(rows, agent)
    outcomes = table.predict_outcomes(rows, number, ids)
    return [one for one in ids if outcomes.get(one) is not RetainOutcome.FORGOTTEN]


async def follow_ledger(
    records: RecordStore,
    places: MemorySources,
    ledger: str,
    agent: str,
    *,
    limit: int = MAX_PAGE_ENTRIES,
) -> FollowResult:
    """Take in the next entries that an agent's ledger has behind the place it was read to."""
    page = await records.read(
        lambda rows: _read_page(rows, places.folder(ledger, agent), places, ledger, limit=limit),
        patient=True,
    )
    taken = await records.write(partial(_insert_page, ledger=ledger, agent=agent, page=page))
    return FollowResult(
        entries=len(taken),
        unreadable=page.unreadable,
        remembered=taken.count(EpisodeState.SEARCHABLE),
        has_more=page.has_more and page.end != page.begin,
    )


class _LedgerPage(msgspec.Struct):
    new: list[tuple[MemoryScope, StoredEpisode]] = msgspec.field(
        default_factory=list[tuple[MemoryScope, StoredEpisode]]
    )
    attributed: list[tuple[str, Provenance]] = msgspec.field(
        default_factory=list[tuple[str, Provenance]]
    )
    begin: str = ""
    end: str = ""
    has_more: bool = False
    unreadable: int = 0


def _read_page(
    rows: Connection, folder: AgentFolder, places: MemorySources, ledger: str, *, limit: int
) -> _LedgerPage:
    cursor = table.get_cursor(rows, ledger, folder.agent)
    read_from = partial(_read_from, rows, places, folder, limit=limit)
    try:
        return read_from(decode_cursor(cursor) if cursor else BEGINNING)
    except InvalidCursor:
        # The ledger is another one, restored or moved here: what is known is passed over.
        _log.warning("the %s of %s is read from its beginning again", ledger, folder.agent)
        return read_from(BEGINNING)


def _read_from(
    rows: Connection, places: MemorySources, folder: AgentFolder, cursor: Cursor, *, limit: int
) -> _LedgerPage:
    scrub = places.scrub if folder.root == places.ledger else None
    read = _LedgerPage(begin=encode_cursor(cursor) if cursor.id else "")
    number = get_agent_number(rows, folder.agent)
    is_behind = provenance_store.has_unattributed(rows, folder.agent)
    with open_page(folder, cursor=cursor, limit=limit) as page:
        for identifier, line in page.with_ids():
            known_before = (
                table.predict_outcome(rows, number, identifier) is not RetainOutcome.RETAINED
            )
            is_due = is_behind and provenance_store.is_unattributed(rows, folder.agent, identifier)
            if (known_before and not is_due) or places.leaves_out(folder, identifier):
                continue
            members = decode_entry(scrub(line).value if scrub else line)
            if members is None:
                continue
            stored = build_stored_episode({**members, "id": identifier})
            if is_due:
                read.attributed.append((identifier, stored.episode.provenance))
            else:
                read.new.append((places.scope_of(folder, identifier), stored))
    read.end = encode_cursor(page.next) if page.next.id else ""
    read.has_more, read.unreadable = page.has_more, page.skipped
    return read


def _insert_page(
    rows: Connection, ledger: str, agent: str, page: _LedgerPage
) -> list[EpisodeState]:
    """Take a page in; returns the state of each entry that is new."""
    if page.end and page.end != table.get_cursor(rows, ledger, agent):
        outcomes = table.insert_episodes(rows, page.new)
        if page.attributed:
            provenance_store.save_provenance(rows, agent, page.attributed)
        table.set_cursor(rows, ledger, agent, page.end)
        taken = zip(page.new, outcomes, strict=True)
        return [one.state for (_, one), outcome in taken if outcome is RetainOutcome.RETAINED]
    return []
