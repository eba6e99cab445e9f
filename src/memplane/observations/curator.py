"""Operational memory in the process that owns the home: every verb, on live rows.

Each verb that changes something reads what is known, drafts events and has them written. Before
anything is shown or told, what has faded since is noted, so that lists, prompts and histories
agree.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Final, TypeVar

from memplane.errors import UnknownMemory
from memplane.ids import new_id
from memplane.memory.contract import Ask, Checked, Recalled
from memplane.memory.recalling import asked_in
from memplane.memory.rows import keep_note, note
from memplane.observations import (
    curating,
    event_rows,
    listing,
    looking_back,
    rebuilding,
    recalling,
    rows,
    session_rows,
    views,
)
from memplane.observations.conflicts import Conflict
from memplane.observations.contract import (
    LISTED,
    LONGEST_REASON,
    AcceptAsked,
    ActAsked,
    ActsAsked,
    ActView,
    BulkAsked,
    BulkOutcome,
    BulkResult,
    ChangeTold,
    ConflictView,
    Course,
    DayView,
    EventView,
    EvidenceView,
    Facets,
    Heard,
    HeardReceipt,
    ImportAsked,
    ImportReceipt,
    InjectionView,
    ListAsked,
    MemoryChange,
    MemoryPage,
    MemoryView,
    MemoryWanted,
    PromptAsked,
    PromptView,
    RebuildReceipt,
    RejectView,
    ResolveAsked,
    ServiceView,
    SessionBegun,
    SessionEnded,
    SessionView,
    SessionWanted,
    Stats,
)
from memplane.observations.course import course_of
from memplane.observations.curating import OURSELVES, Operator
from memplane.observations.desk import Desk, subject_of
from memplane.observations.events import Event, Kind
from memplane.observations.facets import facets
from memplane.observations.folding import counted
from memplane.observations.importing import Importing
from memplane.observations.learning import Listening, Outcome
from memplane.observations.sessions import Sessions, Telling, Turn, check_agent, existing
from memplane.observations.writing import Writer
from memplane.records.store import Connection, Database

_PROFILE: Final = "observations_profile"
_TOLD_AT_ONCE: Final = 500

_T = TypeVar("_T")


class Curator:
    """Keeps the OperationalMemory contract. `open_curator` opens and closes it."""

    def __init__(
        self, records: Database, writer: Writer, listening: Listening, telling: Telling
    ) -> None:
        self._records = records
        self._writer = writer
        self._listening = listening
        self._sessions = Sessions(writer, listening, telling)
        self._closing = False

    async def open(self) -> None:
        """Take in what ledgers have, and finish what a crash or other settings left."""
        await self._writer.open()
        for agent, memory in await self._records.read(rows.half_purged):
            await self._writer.erase(agent, memory)
        profile = repr(self._listening.profile)
        known = await self._records.read(partial(note, name=_PROFILE))
        fold = rows.fold_all if known != profile else rows.fold_forgotten
        await self._records.write(partial(fold, profile=self._listening.profile))
        await self._records.write(partial(keep_note, name=_PROFILE, value=profile))

    async def close(self) -> None:
        """Let those who watch go, and note how far the ledgers were read."""
        self._closing = True
        self._writer.wake_watchers()
        await self._writer.follow()

    # What there is.

    async def page(self, agent: str | None, asked: ListAsked) -> MemoryPage:
        now = await self._swept()
        look = looking_back.page if asked.as_of or asked.known_at else listing.page
        return await self._records.read(
            lambda on: look(on, agent, asked, now=now, profile=self._listening.profile)
        )

    async def one(self, agent: str | None, memory: int, *, trash: bool = False) -> MemoryView:
        now = await self._swept()
        found = await self._records.read(lambda on: rows.one(on, agent, memory))
        if found is None or (found.state in curating.GONE and not trash):
            raise UnknownMemory(f"there is no memory {memory}")
        return views.memory_view(found, now, self._listening.profile)

    async def history(self, agent: str | None, memory: int) -> Sequence[EventView]:
        await self._swept()
        events = await self._of(agent, memory, event_rows.events_of)
        together = await self._records.read(lambda on: event_rows.done_together(on, agent, memory))
        return tuple(views.timeline(events, self._listening.profile, together))

    async def course(self, agent: str | None, memory: int) -> Course:
        now = await self._swept()
        events = await self._of(agent, memory, event_rows.events_of)
        return course_of(events, self._listening.profile, now)

    async def evidence(self, agent: str | None, memory: int) -> Sequence[EvidenceView]:
        def looked_up(on: Connection, number: int) -> list[EvidenceView]:
            events = counted(event_rows.events_of(on, number))
            against = {one.other for one in events if one.kind is Kind.CONTRADICTED}
            found = (rows.one(on, agent, one) for one in sorted(against))
            others = {one.id: one.text for one in found if one is not None}
            return views.evidence_views(events, rows.forgotten_entries(on, events), others)

        return tuple(await self._of(agent, memory, looked_up))

    async def injections(self, agent: str | None, memory: int) -> Sequence[InjectionView]:
        return tuple(await self._of(agent, memory, session_rows.injections))

    async def _of(
        self, agent: str | None, memory: int, look: Callable[[Connection, int], _T]
    ) -> _T:
        """Look something up about a memory that is there, in the trash too."""

        def looked(on: Connection) -> _T:
            if rows.one(on, agent, memory) is None:
                raise UnknownMemory(f"there is no memory {memory}")
            return look(on, memory)

        return await self._records.read(looked)

    async def services(self, agent: str | None) -> Sequence[ServiceView]:
        return tuple(await self._records.read(lambda on: listing.services(on, agent)))

    async def facets(self, agent: str | None, asked: ListAsked) -> Facets:
        now = await self._swept()
        return await self._records.read(lambda on: facets(on, agent, asked, now=now))

    async def stats(self, agent: str | None) -> Stats:
        now = await self._swept()
        return await self._records.read(
            lambda on: listing.stats(on, agent, now=now, profile=self._listening.profile)
        )

    async def by_day(self, agent: str | None, days: int) -> Sequence[DayView]:
        now = await self._swept()
        return await self._records.read(lambda on: listing.by_day(on, agent, days, now=now))

    async def acts(self, agent: str | None, asked: ActsAsked) -> Sequence[ActView]:
        return await self._records.read(lambda on: listing.acts(on, agent, asked))

    async def latest(self) -> int:
        return await self._records.read(listing.newest_change)

    async def changes(self, agent: str | None, after: int) -> AsyncIterator[ChangeTold]:
        woken = self._writer.watch()
        try:
            while not self._closing:
                woken.clear()
                told = await self._records.read(
                    partial(listing.changes, agent=agent, after=after, limit=_TOLD_AT_ONCE)
                )
                for one in told:
                    after = one.seq
                    yield one
                if not told:
                    await woken.wait()
        finally:
            self._writer.unwatch(woken)

    async def _swept(self) -> datetime:
        """Note what has faded or expired, once; returns the moment that this was looked at."""
        now = self._writer.now()
        if await self._records.read(lambda on: rows.fading(on, now)):
            await self._writer.decide(
                lambda on, at: [e for one in rows.fading(on, at) for e in curating.faded(one, at)]
            )
        return now

    # What operators do.

    async def add(self, agent: str, wanted: MemoryWanted, *, by: str, key: str = "") -> MemoryView:
        check_agent(agent)
        desk = self._desk(agent, by)

        def decide(on: Connection, now: datetime) -> list[Event]:
            if key and event_rows.event_with_key(on, agent, key) is not None:
                return []
            return desk(on, now).added(agent, wanted, key)

        events = await self._writer.decide(decide)
        if events:
            return await self.one(agent, subject_of(events), trash=True)
        made = await self._records.read(lambda on: event_rows.event_with_key(on, agent, key))
        return await self.one(agent, made.memory if made else 0, trash=True)

    async def change(
        self,
        agent: str | None,
        memory: int,
        change: MemoryChange,
        *,
        by: str,
        version: int | None = None,
    ) -> MemoryView:
        await self._swept()
        desk = self._desk(agent, by)
        await self._writer.decide(lambda on, now: desk(on, now).changed(memory, change, version))
        return await self.one(agent, memory, trash=True)

    async def act(self, agent: str | None, memory: int, asked: ActAsked, *, by: str) -> MemoryView:
        await self._swept()
        desk = self._desk(agent, by, asked.reason)
        events = await self._writer.decide(lambda on, now: desk(on, now).acted(memory, asked))
        if asked.act == "purge":
            await self._writer.erase(events[0].agent, memory)
            await self._records.wipe()
        return await self.one(agent, memory, trash=True)

    async def bulk(self, agent: str | None, asked: BulkAsked, *, by: str) -> BulkOutcome:
        await self._swept()
        results: list[BulkResult] = []
        batch, desk = f"b{new_id()}", self._desk(agent, by, asked.reason)

        def decide(on: Connection, now: datetime) -> list[Event]:
            drafts, told = desk(on, now).bulked(asked)
            results.extend(told)
            is_possible = all(one.ok for one in told) and not asked.dry_run
            return drafts if is_possible else []

        await self._writer.decide(decide, batch=batch)
        done = all(one.ok for one in results) and not asked.dry_run
        return BulkOutcome(results=tuple(results), batch=batch if done else "", done=done)

    async def undo(self, agent: str | None, batch: str, *, by: str) -> Sequence[MemoryView]:
        desk = self._desk(agent, by)
        events = await self._writer.decide(lambda on, now: desk(on, now).undone(batch))
        now = self._writer.now()
        numbers = sorted({one.memory for one in events if one.memory})
        found = [
            await self._records.read(partial(rows.one, agent=agent, memory=n)) for n in numbers
        ]
        profile = self._listening.profile
        return tuple(views.memory_view(one, now, profile) for one in found if one is not None)

    def _desk(
        self, agent: str | None, by: str, reason: str = ""
    ) -> Callable[[Connection, datetime], Desk]:
        """Return where an operator sits down, given rows and a moment."""

        def desk(on: Connection, now: datetime) -> Desk:
            operator = Operator(name=by, at=now, reason=reason[:LONGEST_REASON])
            return Desk(on, agent, operator, self._listening)

        return desk

    # Conflicts and rejects.

    async def conflicts(
        self, agent: str | None, *, resolved: bool = False
    ) -> Sequence[ConflictView]:
        now = await self._swept()

        def listed(on: Connection) -> list[ConflictView]:
            found = rows.conflicts(on, agent, is_open=None if resolved else True)
            shown = (self._conflict_view(on, one, now) for one in found)
            return [one for one in shown if one is not None]

        return tuple(await self._records.read(listed))

    async def resolve(
        self, agent: str | None, conflict: str, asked: ResolveAsked, *, by: str
    ) -> ConflictView:
        desk = self._desk(agent, by, asked.reason)
        await self._writer.decide(lambda on, now: desk(on, now).resolved(conflict, asked))
        now = self._writer.now()

        def shown(on: Connection) -> ConflictView | None:
            return self._conflict_view(on, desk(on, now).conflict(conflict), now)

        found = await self._records.read(shown)
        if found is None:
            raise UnknownMemory(f"there is no conflict {conflict}")
        return found

    def _conflict_view(
        self, on: Connection, found: Conflict, now: datetime
    ) -> ConflictView | None:
        a = rows.one(on, found.agent, found.a)
        b = rows.one(on, found.agent, found.b) if found.b else None
        if a is None or (found.b and b is None):
            return None
        return views.conflict_view(found, (a, b), now, self._listening.profile)

    async def rejects(self, agent: str | None, *, limit: int = LISTED) -> Sequence[RejectView]:
        return tuple(await self._records.read(lambda on: session_rows.rejects(on, agent, limit)))

    async def accept(
        self, agent: str | None, reject: str, asked: AcceptAsked, *, by: str
    ) -> MemoryView:
        desk = self._desk(agent, by)
        events = await self._writer.decide(lambda on, now: desk(on, now).accepted(reject, asked))
        taken = next(one for one in events if one.kind is Kind.TAKEN_UP)
        return await self.one(agent, taken.memory, trash=True)

    # Sessions.

    async def preview(self, asked: PromptAsked) -> PromptView:
        await self._swept()
        return await self._sessions.preview(asked)

    async def begin(self, wanted: SessionWanted) -> SessionBegun:
        await self._swept()
        return await self._sessions.begin(wanted)

    async def hear(self, agent: str, session: int, heard: Heard) -> HeardReceipt:
        await self._swept()
        return await self._sessions.hear(agent, session, heard)

    async def hear_turn(self, turn: Turn) -> HeardReceipt:
        """Learn from a turn of a ledger, once."""
        await self._swept()
        return await self._sessions.hear_turn(turn)

    async def end(self, agent: str, session: int, ended: SessionEnded) -> SessionView:
        return await self._sessions.end(agent, session, ended)

    async def session(self, agent: str | None, session: int) -> SessionView:
        return await self._records.read(lambda on: existing(on, agent, session))

    async def sessions(self, agent: str | None, *, limit: int = 50) -> Sequence[SessionView]:
        return tuple(await self._records.read(lambda on: session_rows.sessions(on, agent, limit)))

    # From elsewhere, and again.

    async def take_in(self, agent: str, asked: ImportAsked, *, by: str) -> ImportReceipt:
        check_agent(agent)
        outcome, known = Outcome(), 0
        importing = Importing(agent, by, asked.source, self._listening)
        for line in asked.memories:
            events = await self._writer.decide(partial(importing.drafts, line=line))
            known += not events
            outcome.events += events
        receipt = outcome.receipt()
        return ImportReceipt(
            added=len(receipt.asserted),
            known=known,
            quarantined=len(receipt.quarantined),
            rejects=receipt.rejects,
        )

    async def recalled(self, ask: Ask, answer: Recalled) -> Recalled:
        """Put what was learned about a question beside what was said about it."""
        now, profile = self._writer.now(), self._listening.profile
        text = asked_in(ask).text
        found = await self._records.read(
            lambda on: recalling.looked_up(on, ask.agent, text, now=now, profile=profile),
            quick=True,
        )
        return recalling.beside(answer, found, ask)

    async def forgotten(
        self, agent: str, entries: Sequence[str], *, purge: bool = False
    ) -> Checked:
        """Be told that entries of a ledger were forgotten: they are evidence no more.

        What nothing else speaks for is told to nobody from now on; with `purge` its words go,
        too. Returns whether it is so.
        """
        profile = self._listening.profile

        def folded(on: Connection) -> list[int]:
            found = [rows.fold(on, one, profile) for one in rows.resting_on(on, agent, entries)]
            return [one.id for one in found if one is not None and one.unsupported]

        left = await self._records.write(folded)
        for memory in left if purge else ():
            asked = ActAsked(act="purge", confirm=f"purge {memory}", reason="forgotten")
            await self.act(agent, memory, asked, by=OURSELVES)
        still = await self._records.read(lambda on: rows.told_of_forgotten(on, agent))
        note = f"told no more: memory {', '.join(map(str, left))}" if left else ""
        if still:
            note = f"still told: memory {', '.join(map(str, still))}"
        return Checked(place="observations", clean=not still, note=note)

    async def rebuild(self) -> RebuildReceipt:
        receipt: list[RebuildReceipt] = []

        async def work() -> None:
            again = partial(rebuilding.rebuilt, root=self._writer.root)
            profile = self._listening.profile
            receipt.append(await self._records.write(partial(again, profile=profile)))

        await self._writer.alone(work)
        return receipt[0]


@asynccontextmanager
async def open_curator(curator: Curator) -> AsyncGenerator[Curator]:
    """Open operational memory, and close it again."""
    await curator.open()
    try:
        yield curator
    finally:
        await curator.close()
