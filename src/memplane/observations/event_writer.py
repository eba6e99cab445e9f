"""Writing events down: first into their ledger, durably, then into the rows that they make.

What a crash leaves between the two is taken in at the next start, from where each ledger was read
to. One writer decides and writes at a time, so that each decision sees all that came before it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import msgspec

from memplane.database.interface import Connection, RecordStore
from memplane.episodes.store import get_cursor, set_cursor
from memplane.errors import InvalidCursor, LedgerError
from memplane.kit.clock import Clock, format_milli_timestamp
from memplane.kit.ids import new_id
from memplane.ledger.cursor import BEGINNING, decode_cursor, encode_cursor
from memplane.ledger.entry import Entry, ReceivedEntry
from memplane.ledger.folder import AgentFolder, list_ledger_agents
from memplane.ledger.purge import purge_ledger
from memplane.ledger.reader import MAX_PAGE_ENTRIES, open_page
from memplane.ledger.segments import FileModes
from memplane.ledger.writer import Ledger
from memplane.observations import event_store, store
from memplane.observations.assertion_rules import NEW_OBSERVATION, build_conflict_key
from memplane.observations.confidence import Profile
from memplane.observations.events import EventKind, ObservationEvent, decode_event, encode_event

_log = logging.getLogger(__name__)

DraftEvents = Callable[[Connection, datetime], list[ObservationEvent]]
"""Drafts events out of what is known at a moment."""


class EventWriter(msgspec.Struct):
    """Writes events of every agent; `open` first."""

    records: RecordStore
    ledger: Ledger
    root: Path
    profile: Profile
    clock: Clock
    modes: FileModes
    _deciding: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    _last: datetime | None = None
    _count: int = 0
    _memories: int = 0
    _sessions: int = 0
    _watching: set[asyncio.Event] = msgspec.field(default_factory=set[asyncio.Event])

    async def open(self) -> None:
        """Take in what the ledgers have and the rows do not."""
        await self.follow()
        self._memories = await self.records.read(store.max_memory_id)
        self._sessions = await self.records.read(store.max_session_id)

    async def follow(self) -> None:
        """Read each ledger from where it was read to."""
        for agent in await asyncio.to_thread(list_ledger_agents, self.root):
            more = True
            while more:
                reading = partial(_read_page, root=self.root, agent=agent)
                page = await self.records.read(reading, patient=True)
                await self.records.write(partial(_apply_page, page=page, profile=self.profile))
                more = page.has_more

    def now(self) -> datetime:
        """Tell the time in whole milliseconds; it never goes back while this is open."""
        now = self.clock()
        now -= timedelta(microseconds=now.microsecond % 1000)
        if self._last is not None and now < self._last:
            now = self._last
        self._last = now
        return now

    async def decide(self, decide: DraftEvents, *, batch: str = "") -> list[ObservationEvent]:
        """Decide on what is known, and write down what comes of it, all or nothing.

        Raises:
            NotRecorded: It could not be written, and nothing was done.
            RecordsError: It is written, and will be done once the database works.
        """
        async with self._deciding:
            now = self.now()
            drafts = await self.records.read(lambda on: decide(on, now))
            return await self._write(drafts, now, batch)

    async def alone(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do something while nobody decides anything."""
        async with self._deciding:
            await work()

    def new_session(self) -> int:
        """Return the number of a new session."""
        self._sessions += 1
        return self._sessions

    async def _write(
        self, drafts: Sequence[ObservationEvent], now: datetime, batch: str
    ) -> list[ObservationEvent]:
        if not drafts:
            return []
        events = self._numbered(drafts, now, batch or f"b{new_id()}")
        recorded = [
            self.ledger.submit(ReceivedEntry(one.agent, Entry(one.id, encode_event(one))))
            for one in events
        ]
        for future in recorded:
            await future
        await self.records.write(partial(store.apply_events, events=events, profile=self.profile))
        for watcher in self._watching:
            watcher.set()
        return events

    def _numbered(
        self, drafts: Sequence[ObservationEvent], now: datetime, batch: str
    ) -> list[ObservationEvent]:
        """Give events their ids, and what is new in them a number."""
        if any(NEW_OBSERVATION in {one.memory, one.other} for one in drafts):
            self._memories += 1
        number, at = self._memories, format_milli_timestamp(now)

        def numbered(one: ObservationEvent) -> ObservationEvent:
            memory = number if one.memory == NEW_OBSERVATION else one.memory
            other = number if one.other == NEW_OBSERVATION else one.other
            target = one.target
            if one.kind is EventKind.CONTESTED and not target:
                target = build_conflict_key(memory, other)
            return msgspec.structs.replace(
                one,
                id=self._new_id(now),
                memory=memory,
                other=other,
                target=target,
                batch=batch,
                recorded=at if one.ts != at else "",
            )

        return [numbered(one) for one in drafts]

    def _new_id(self, now: datetime) -> str:
        """Make an id that is greater than all before it, so that events keep their order."""
        self._count += 1
        return f"{store.epoch_ms(now):012x}{self._count:06x}{new_id()[:4]}"

    async def erase(self, agent: str, memory: int) -> None:
        """Leave nothing of the words of an observation that was purged, here or in its ledger.

        Raises:
            LedgerError: It failed, and some may be left. The same again goes on.
        """
        events = await self.records.read(
            partial(event_store.list_events_with_words, memory=memory)
        )
        await self.erase_events(agent, events)

    async def erase_events(self, agent: str, events: Sequence[ObservationEvent]) -> None:
        """Erase events of an agent from their ledger and from the rows.

        Raises:
            LedgerError: It failed, and some may be left. The same again goes on.
        """
        if not events:
            return
        # The lines go first: while rows are left, the next start knows that this is not over.
        await self._erase_lines(agent, [one.id for one in events])
        forget = partial(store.erase_words, events=events, profile=self.profile)
        await self.records.write(forget)

    async def _erase_lines(self, agent: str, ids: Sequence[str]) -> None:
        folder = AgentFolder(self.root, agent)
        erase = partial(purge_ledger, folder, ids, modes=self.modes, clock=self.clock)
        try:
            await asyncio.to_thread(erase)
        except OSError as error:
            raise LedgerError(
                f"events of {agent} were not all erased from {folder.path}: {error.strerror}. "
                "The same again goes on where this ended"
            ) from error

    # Those who watch.

    def watch(self) -> asyncio.Event:
        """Return an event that is set whenever something was written; `unwatch` it."""
        event = asyncio.Event()
        self._watching.add(event)
        return event

    def unwatch(self, event: asyncio.Event) -> None:
        """Watch no longer."""
        self._watching.discard(event)

    def wake_watchers(self) -> None:
        """Let those who watch look up, for example because this ends."""
        for watcher in self._watching:
            watcher.set()


class EventPage(msgspec.Struct):
    """Some events of a ledger, and how far it was read with them."""

    agent: str
    events: list[ObservationEvent] = msgspec.field(default_factory=list[ObservationEvent])
    end: str = ""
    has_more: bool = False


def _read_page(on: Connection, root: Path, agent: str) -> EventPage:
    cursor = get_cursor(on, store.EVENT_LEDGER, agent)
    try:
        return read_event_page(root, agent, cursor)
    except InvalidCursor:
        _log.warning("the events of %s are read from their beginning again", agent)
        return read_event_page(root, agent, "")


def read_event_page(root: Path, agent: str, cursor: str) -> EventPage:
    """Read a page of an agent's events behind a place.

    Raises:
        InvalidCursor: The ledger is another one by now.
    """
    read = EventPage(agent)
    at = decode_cursor(cursor) if cursor else BEGINNING
    with open_page(AgentFolder(root, agent), cursor=at, limit=MAX_PAGE_ENTRIES) as page:
        for _, line in page.with_ids():
            event = decode_event(line)
            if event is not None and event.agent == agent:
                read.events.append(event)
    read.end = encode_cursor(page.next) if page.next.id else cursor
    read.has_more = page.has_more and read.end != cursor
    return read


def _apply_page(on: Connection, page: EventPage, profile: Profile) -> None:
    store.apply_events(on, page.events, profile)
    if page.end:
        set_cursor(on, store.EVENT_LEDGER, page.agent, page.end)


def iterate_events(root: Path) -> Iterable[ObservationEvent]:
    """Yield every event of every ledger, each ledger in its order."""
    for agent in list_ledger_agents(root):
        page = read_event_page(root, agent, "")
        yield from page.events
        while page.has_more:
            page = read_event_page(root, agent, page.end)
            yield from page.events
