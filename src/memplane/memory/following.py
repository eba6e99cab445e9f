"""Taking in what ledgers have and the database does not, each from where it was read to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from memplane.errors import InvalidCursor
from memplane.ledger.cursor import BEGINNING, Cursor, decode_cursor, encode_cursor
from memplane.ledger.folder import AgentFolder, agents_in
from memplane.ledger.notes import Notes
from memplane.ledger.reader import LARGEST_PAGE, open_page
from memplane.ledger.tombstones import (
    Tombstone,
    agents_with_tombstones,
    append_tombstones,
    read_tombstones,
    tombstones_since,
)
from memplane.memory import injections
from memplane.memory import rows as table
from memplane.memory.retaining import Scrub, decoded, stored_of
from memplane.memory.rows import Outcome, State, Stored
from memplane.records.store import Connection, Records

_log = logging.getLogger(__name__)

OURSELVES: Final = "memplane"
OWN: Final = "ledger"
RECEIVED: Final = "received"


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """Where memory's sources lie: our own ledger, what others recorded, and tombstones.

    Our own ledger may hold secrets; `scrub` takes them out then. Tombstones are written to
    `tombstones`; those that a pod's operator wrote `beside` the ledgers hold as well.
    """

    ledger: Path
    received: Path
    tombstones: Path
    beside: Path | None = None
    scrub: Scrub | None = None
    notes: dict[str, Notes] = msgspec.field(default_factory=dict[str, Notes])
    """What the recorder says about each agent's turns, as far as it was read."""

    @property
    def told_in(self) -> tuple[Path, ...]:
        """Each root that may say what was forgotten."""
        roots = (self.tombstones, self.beside or self.tombstones)
        return tuple(dict.fromkeys(roots))

    def leaves_out(self, folder: AgentFolder, entry_id: str) -> bool:
        """Say whether the recorder wants nothing to be remembered of a turn."""
        if folder.root != self.ledger:
            return False
        return self.notes.setdefault(folder.agent, Notes(folder)).leaves_out(entry_id)

    def folder(self, ledger: str, agent: str) -> AgentFolder:
        """Return where an agent's part of one of the two ledgers lies."""
        return AgentFolder(self.ledger if ledger == OWN else self.received, agent)


class Followed(msgspec.Struct, frozen=True):
    """How many entries were taken in, and how many lines could not be read.

    The `remembered` ones say something; the others are turns that failed, or without any words.
    """

    entries: int
    unreadable: int
    remembered: int
    has_more: bool


async def ledgers_in(places: Places) -> list[tuple[str, str]]:
    """Name each ledger and agent that has one."""
    own = await asyncio.to_thread(agents_in, places.ledger)
    received = await asyncio.to_thread(agents_in, places.received)
    return [*((OWN, agent) for agent in own), *((RECEIVED, agent) for agent in received)]


def bury(rows: Connection, agent: str, ids: Collection[str]) -> None:
    """Take entries out of everything that was made of them, for good."""
    table.bury(rows, agent, ids)
    injections.drop_citing(rows, agent, ids)


async def bury_all(records: Records, places: Places) -> None:
    """Bury what tombstones say and the database does not know yet."""
    for root in places.told_in:
        for agent in await asyncio.to_thread(agents_with_tombstones, root):
            await bury_told(records, places, agent)


async def bury_told(records: Records, places: Places, agent: str) -> list[str]:
    """Bury what an agent's tombstones say and the database does not know; returns that.

    Raises:
        LedgerError: The tombstones cannot be read.
    """
    ids: dict[str, None] = {}
    for root in places.told_in:
        told = await asyncio.to_thread(tombstones_since, root, agent)
        if told.malformed:
            _log.warning("%d tombstones of %s cannot be read", told.malformed, agent)
        ids.update((one.entry_id, None) for one in told.tombstones)
    new = await records.read(partial(not_buried, agent=agent, ids=list(ids)))
    if new:
        await records.write(partial(bury, agent=agent, ids=new))
    return new


async def keep_tombstones(records: Records, places: Places, now: str) -> None:
    """Write the tombstones that the database knows and the files do not: they only ever grow."""
    known = await records.read(table.buried, patient=True)
    for agent, ids in known.items():
        told = await asyncio.to_thread(read_tombstones, places.tombstones, agent)
        missing = [Tombstone(now, agent, OURSELVES, one) for one in ids if one not in told]
        if missing:
            _log.warning("%d tombstones of %s were missing and are written", len(missing), agent)
            await asyncio.to_thread(append_tombstones, places.tombstones, agent, missing)


def not_buried(rows: Connection, agent: str, ids: list[str]) -> list[str]:
    """Return those entries that are not forgotten yet."""
    number = table.numbers_of(rows, [agent]).get(agent)
    outcomes = table.outcomes_of(rows, number, ids)
    return [one for one in ids if outcomes.get(one) is not Outcome.FORGOTTEN]


async def follow_some(
    records: Records, places: Places, ledger: str, agent: str, *, limit: int = LARGEST_PAGE
) -> Followed:
    """Take in the next entries that an agent's ledger has behind the place it was read to."""
    page = await records.read(
        lambda rows: _read_page(rows, places.folder(ledger, agent), places, ledger, limit=limit),
        patient=True,
    )
    taken = await records.write(partial(_take_in, ledger=ledger, agent=agent, page=page))
    return Followed(
        entries=len(taken),
        unreadable=page.unreadable,
        remembered=taken.count(State.SEARCHABLE),
        has_more=page.has_more and page.end != page.begin,
    )


class _Page(msgspec.Struct):
    new: list[Stored] = msgspec.field(default_factory=list[Stored])
    begin: str = ""
    end: str = ""
    has_more: bool = False
    unreadable: int = 0


def _read_page(
    rows: Connection, folder: AgentFolder, places: Places, ledger: str, *, limit: int
) -> _Page:
    cursor = table.cursor_of(rows, ledger, folder.agent)
    read_from = partial(_read_from, rows, places, folder, limit=limit)
    try:
        return read_from(decode_cursor(cursor) if cursor else BEGINNING)
    except InvalidCursor:
        # The ledger is another one, restored or moved here: what is known is passed over.
        _log.warning("the %s of %s is read from its beginning again", ledger, folder.agent)
        return read_from(BEGINNING)


def _read_from(
    rows: Connection, places: Places, folder: AgentFolder, cursor: Cursor, *, limit: int
) -> _Page:
    scrub = places.scrub if folder.root == places.ledger else None
    read = _Page(begin=encode_cursor(cursor) if cursor.id else "")
    known = table.about(rows, folder.agent)
    number = known.number if known else None
    with open_page(folder, cursor=cursor, limit=limit) as page:
        for identifier, line in page.identified():
            known_before = table.outcome_of(rows, number, identifier) is not Outcome.RETAINED
            if known_before or places.leaves_out(folder, identifier):
                continue
            members = decoded(scrub(line).value if scrub else line)
            if members is not None:
                read.new.append(stored_of({**members, "id": identifier}))
    read.end = encode_cursor(page.next) if page.next.id else ""
    read.has_more, read.unreadable = page.has_more, page.skipped
    return read


def _take_in(rows: Connection, ledger: str, agent: str, page: _Page) -> list[State]:
    """Take a page in; returns the state of each entry that is new."""
    if page.end and page.end != table.cursor_of(rows, ledger, agent):
        outcomes = table.take_in(rows, [(agent, one) for one in page.new])
        table.keep_cursor(rows, ledger, agent, page.end)
        taken = zip(page.new, outcomes, strict=True)
        return [one.state for one, outcome in taken if outcome is Outcome.RETAINED]
    return []
