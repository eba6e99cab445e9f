"""Operational memory in the process that owns the home: every verb, on live rows.

Each verb that changes something reads what is known, drafts events and has them written. Before
anything is shown or told, what has faded since is noted, so that lists, prompts and histories
agree.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Final, TypeVar

from memplane.database.interface import Connection, Database
from memplane.episodes.api_types import ForgetCheck, RecallRequest, RecallResponse
from memplane.episodes.forget_verification import occurs_elsewhere
from memplane.episodes.ledger_purge import encode_variants
from memplane.episodes.search import question_from_request
from memplane.episodes.store import get_note, set_note
from memplane.errors import UnknownMemory
from memplane.kit.ids import new_id
from memplane.ledger.folder import AgentFolder
from memplane.observations import (
    as_of,
    event_store,
    full_rebuild,
    operator_events,
    purge_verification,
    queries,
    relevance,
    session_store,
    store,
    views,
)
from memplane.observations.api_types import (
    ActionView,
    BulkOutcome,
    BulkResult,
    ChangeEvent,
    ConfidenceHistory,
    ConflictView,
    DayView,
    EventView,
    EvidenceView,
    Facets,
    ImportReceipt,
    IngestReceipt,
    InjectionView,
    MemoryPage,
    MemoryView,
    ObservationRollback,
    PromptView,
    RebuildReceipt,
    RejectView,
    ServiceView,
    SessionView,
    StartedSession,
    Stats,
)
from memplane.observations.commands import OperatorCommands, find_subject
from memplane.observations.confidence_history import build_confidence_history
from memplane.observations.conflicts import Conflict
from memplane.observations.event_writer import EventWriter
from memplane.observations.events import EventKind, ObservationEvent
from memplane.observations.facets import facets
from memplane.observations.ingest import IngestOutcome, IngestPolicy
from memplane.observations.memory_import import MemoryImporter
from memplane.observations.operator_events import SYSTEM_ACTOR_NAME, Operator
from memplane.observations.projection import filter_effective_events
from memplane.observations.requests import (
    LISTED,
    LONGEST_REASON,
    AcceptAsked,
    ActAsked,
    ActQuery,
    BulkRequest,
    Heard,
    ImportAsked,
    MemoryCreate,
    MemoryFilter,
    MemoryPatch,
    MemoryQuery,
    ObservationStatement,
    PromptQuery,
    ResolveAsked,
    SessionEnded,
    SessionWanted,
)
from memplane.observations.rollback import ROLLBACK_BATCH_PREFIX
from memplane.observations.sessions import (
    LedgerTurn,
    PromptPolicy,
    SessionService,
    check_agent,
    require_session,
)
from memplane.observations.validation import field_error

_PROFILE_NOTE: Final = "observations_profile"
_MAX_CHANGES_PER_READ: Final = 500

_T = TypeVar("_T")


class ObservationService:
    """What was learned, and what operators do about it.

    `open_observation_service` opens and closes it.

    Every method with an id raises UnknownMemory where there is none for that agent; an `agent` of
    None reaches all. `by` names the operator.
    """

    def __init__(
        self,
        records: Database,
        writer: EventWriter,
        listening: IngestPolicy,
        telling: PromptPolicy,
    ) -> None:
        self._records = records
        self._writer = writer
        self._listening = listening
        self._sessions = SessionService(writer, listening, telling)
        self._closing = False

    async def open(self) -> None:
        """Take in what ledgers have, and finish what a crash or other settings left."""
        await self._writer.open()
        for agent, memory in await self._records.read(store.list_unfinished_purges):
            await self._writer.erase(agent, memory)
        profile = repr(self._listening.profile)
        known = await self._records.read(partial(get_note, name=_PROFILE_NOTE))
        fold = store.refold_all if known != profile else store.refold_forgotten
        await self._records.write(partial(fold, profile=self._listening.profile))
        await self._records.write(partial(set_note, name=_PROFILE_NOTE, value=profile))

    async def close(self) -> None:
        """Let those who watch go, and note how far the ledgers were read."""
        self._closing = True
        self._writer.wake_watchers()
        await self._writer.follow()

    # What there is.

    async def page(self, agent: str | None, asked: MemoryQuery) -> MemoryPage:
        now = await self._swept()
        look = (
            as_of.list_memories_as_of if asked.as_of or asked.known_at else queries.list_memories
        )
        return await self._records.read(
            lambda on: look(on, agent, asked, now=now, profile=self._listening.profile)
        )

    async def one(self, agent: str | None, memory: int, *, trash: bool = False) -> MemoryView:
        now = await self._swept()
        found = await self._records.read(lambda on: store.get_observation(on, agent, memory))
        is_there = found is not None and not found.unsupported
        if (
            found is None
            or not is_there
            or (found.state in operator_events.REMOVED_STATES and not trash)
        ):
            raise UnknownMemory(f"there is no memory {memory}")
        return views.memory_view(found, now, self._listening.profile)

    async def history(self, agent: str | None, memory: int) -> Sequence[EventView]:
        await self._swept()
        profile = self._listening.profile

        def timeline(on: Connection, number: int) -> list[EventView]:
            events = event_store.list_events(on, number)
            together = event_store.list_batch_memories(on, agent, number)
            return views.event_views(
                events, profile, together, store.find_forgotten_entries(on, events)
            )

        return tuple(await self._of(agent, memory, timeline))

    async def course(self, agent: str | None, memory: int) -> ConfidenceHistory:
        now = await self._swept()
        events = await self._of(agent, memory, event_store.list_events)
        return build_confidence_history(events, self._listening.profile, now)

    async def evidence(self, agent: str | None, memory: int) -> Sequence[EvidenceView]:
        def looked_up(on: Connection, number: int) -> list[EvidenceView]:
            events = filter_effective_events(event_store.list_events(on, number))
            against = {one.other for one in events if one.kind is EventKind.CONTRADICTED}
            found = (store.get_observation(on, agent, one) for one in sorted(against))
            others = {one.id: one.text for one in found if one and not one.unsupported}
            return views.evidence_views(events, store.find_forgotten_entries(on, events), others)

        return tuple(await self._of(agent, memory, looked_up))

    async def injections(self, agent: str | None, memory: int) -> Sequence[InjectionView]:
        return tuple(await self._of(agent, memory, session_store.list_injections))

    async def _of(
        self, agent: str | None, memory: int, look: Callable[[Connection, int], _T]
    ) -> _T:
        """Look something up about a memory that is there, in the trash too."""

        def looked(on: Connection) -> _T:
            found = store.get_observation(on, agent, memory)
            if found is None or found.unsupported:
                raise UnknownMemory(f"there is no memory {memory}")
            return look(on, memory)

        return await self._records.read(looked)

    async def services(self, agent: str | None) -> Sequence[ServiceView]:
        return tuple(await self._records.read(lambda on: queries.list_services(on, agent)))

    async def facets(self, agent: str | None, asked: MemoryFilter) -> Facets:
        now = await self._swept()
        return await self._records.read(lambda on: facets(on, agent, asked, now=now))

    async def stats(self, agent: str | None) -> Stats:
        now = await self._swept()
        return await self._records.read(
            lambda on: queries.count_stats(on, agent, now=now, profile=self._listening.profile)
        )

    async def by_day(self, agent: str | None, days: int) -> Sequence[DayView]:
        now = await self._swept()
        return await self._records.read(lambda on: queries.count_by_day(on, agent, days, now=now))

    async def acts(self, agent: str | None, asked: ActQuery) -> Sequence[ActionView]:
        return await self._records.read(lambda on: queries.list_actions(on, agent, asked))

    async def latest(self) -> int:
        return await self._records.read(queries.get_newest_change)

    async def changes(self, agent: str | None, after: int) -> AsyncIterator[ChangeEvent]:
        woken = self._writer.watch()
        try:
            while not self._closing:
                woken.clear()
                told = await self._records.read(
                    partial(
                        queries.list_changes, agent=agent, after=after, limit=_MAX_CHANGES_PER_READ
                    )
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
        if await self._records.read(lambda on: store.list_due_for_decay(on, now)):
            await self._writer.decide(
                lambda on, at: [
                    e
                    for one in store.list_due_for_decay(on, at)
                    for e in operator_events.draft_decay(one, at)
                ]
            )
        return now

    # What operators do.

    async def add(self, agent: str, wanted: MemoryCreate, *, by: str, key: str = "") -> MemoryView:
        check_agent(agent)
        desk = self._desk(agent, by)

        def decide(on: Connection, now: datetime) -> list[ObservationEvent]:
            if key and event_store.find_event_by_key(on, agent, key) is not None:
                return []
            return desk(on, now).added(agent, wanted, key)

        events = await self._writer.decide(decide)
        if events:
            return await self.one(agent, find_subject(events), trash=True)
        made = await self._records.read(lambda on: event_store.find_event_by_key(on, agent, key))
        return await self.one(agent, made.memory if made else 0, trash=True)

    async def change(
        self,
        agent: str | None,
        memory: int,
        change: MemoryPatch,
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
        await self._act(self._desk(agent, by, asked.reason), memory, asked)
        return await self.one(agent, memory, trash=True)

    async def _act(
        self,
        desk: Callable[[Connection, datetime], OperatorCommands],
        memory: int,
        asked: ActAsked,
    ) -> None:
        events = await self._writer.decide(lambda on, now: desk(on, now).acted(memory, asked))
        if asked.act == "purge":
            await self._writer.erase(events[0].agent, memory)
            await self._records.wipe()

    async def bulk(self, agent: str | None, asked: BulkRequest, *, by: str) -> BulkOutcome:
        await self._swept()
        results: list[BulkResult] = []
        batch, desk = f"b{new_id()}", self._desk(agent, by, asked.reason)

        def decide(on: Connection, now: datetime) -> list[ObservationEvent]:
            drafts, told = desk(on, now).draft_bulk(asked)
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
            await self._records.read(partial(store.get_observation, agent=agent, memory=n))
            for n in numbers
        ]
        profile = self._listening.profile
        there = (one for one in found if one is not None and not one.unsupported)
        return tuple(views.memory_view(one, now, profile) for one in there)

    def _desk(
        self, agent: str | None, by: str, reason: str = "", *, sees_forgotten: bool = False
    ) -> Callable[[Connection, datetime], OperatorCommands]:
        """Return where an operator sits down, given rows and a moment."""

        def desk(on: Connection, now: datetime) -> OperatorCommands:
            operator = Operator(name=by, at=now, reason=reason[:LONGEST_REASON])
            return OperatorCommands(
                on, agent, operator, self._listening, sees_forgotten=sees_forgotten
            )

        return desk

    # Conflicts and rejects.

    async def conflicts(
        self, agent: str | None, *, resolved: bool = False
    ) -> Sequence[ConflictView]:
        now = await self._swept()

        def listed(on: Connection) -> list[ConflictView]:
            found = store.list_conflicts(on, agent, is_open=None if resolved else True)
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
        a = store.get_observation(on, found.agent, found.a)
        b = store.get_observation(on, found.agent, found.b) if found.b else None
        if a is None or (found.b and b is None):
            return None
        if a.unsupported or (b is not None and b.unsupported):
            return None
        return views.conflict_view(found, (a, b), now, self._listening.profile)

    async def rejects(self, agent: str | None, *, limit: int = LISTED) -> Sequence[RejectView]:
        return tuple(
            await self._records.read(lambda on: session_store.list_rejects(on, agent, limit))
        )

    async def accept(
        self, agent: str | None, reject: str, asked: AcceptAsked, *, by: str
    ) -> MemoryView:
        desk = self._desk(agent, by)
        events = await self._writer.decide(lambda on, now: desk(on, now).accepted(reject, asked))
        taken = next(one for one in events if one.kind is EventKind.TAKEN_UP)
        return await self.one(agent, taken.memory, trash=True)

    # Sessions.

    async def preview(self, agent: str, asked: PromptQuery) -> PromptView:
        await self._swept()
        return await self._sessions.preview(agent, asked)

    async def begin(self, wanted: SessionWanted) -> StartedSession:
        await self._swept()
        return await self._sessions.begin(wanted)

    async def hear(self, agent: str, session: int, heard: Heard) -> IngestReceipt:
        await self._swept()
        return await self._sessions.hear(agent, session, heard)

    async def observe(self, agent: str, statement: ObservationStatement) -> IngestReceipt:
        await self._swept()
        return await self._sessions.observe(agent, statement)

    async def ingest_turn(self, turn: LedgerTurn) -> IngestReceipt:
        """Learn from a turn of a ledger, once."""
        await self._swept()
        return await self._sessions.ingest_turn(turn)

    async def attest_session(self, agent: str, cli_session: str) -> int:
        """Note that a client's session is real, as its hook says; its turns have a vote then.

        It belongs before the session's first turn. Returns the session's number.

        Raises:
            InvalidRequest: That is no agent's name, or the session has none.
        """
        check_agent(agent)
        if not cli_session:
            raise field_error("cli_session", "a session without a name cannot be attested")
        return await self._sessions.attest(agent, cli_session)

    async def end(self, agent: str, session: int, ended: SessionEnded) -> SessionView:
        return await self._sessions.end(agent, session, ended)

    async def session(self, agent: str | None, session: int) -> SessionView:
        return await self._records.read(lambda on: require_session(on, agent, session))

    async def sessions(self, agent: str | None, *, limit: int = 50) -> Sequence[SessionView]:
        return tuple(
            await self._records.read(lambda on: session_store.list_sessions(on, agent, limit))
        )

    # From elsewhere, and again.

    async def take_in(self, agent: str, asked: ImportAsked, *, by: str) -> ImportReceipt:
        check_agent(agent)
        outcome, known = IngestOutcome(), 0
        importing = MemoryImporter(agent, by, asked.source, self._listening)
        for line in asked.memories:
            events = await self._writer.decide(partial(importing.drafts, line=line))
            known += all(
                one.kind in {EventKind.REINFORCED, EventKind.CONFIDENCE_SET} for one in events
            )
            outcome.events += events
        receipt = outcome.receipt()
        return ImportReceipt(
            added=len(receipt.asserted),
            known=known,
            quarantined=len(receipt.quarantined),
            rejects=receipt.rejects,
        )

    async def recalled(self, ask: RecallRequest, answer: RecallResponse) -> RecallResponse:
        """Put what was learned about a question beside what was said about it."""
        now, profile = self._writer.now(), self._listening.profile
        text = question_from_request(ask).text
        found = await self._records.read(
            lambda on: relevance.find_relevant(on, ask.scope, text, now=now, profile=profile),
            quick=True,
        )
        return relevance.add_observations(answer, found, ask)

    async def forgotten(
        self, agent: str, entries: Sequence[str], *, purge: bool = False
    ) -> list[ForgetCheck]:
        """Be told that entries of a ledger were forgotten: they are evidence no more.

        What nothing else speaks for is told to nobody from now on; with `purge` all that these
        entries said goes, also what was rejected, held back or disputed. Returns whether it is so.
        """
        profile, left = self._listening.profile, list[int]()

        def folded(on: Connection) -> list[int]:
            found = [
                store.refold_observation(on, one, profile)
                for one in store.find_observations_of_entries(on, agent, entries)
            ]
            return [one.id for one in found if one is not None and one.unsupported]

        async def fold() -> None:
            left.extend(await self._records.write(folded))

        # Whoever learns from one of these turns just now has written it down before, or will see
        # that it was forgotten.
        await self._writer.alone(fold)
        checked = [] if not purge else await self._purge_entries(agent, entries, left)
        return [await self._check_untold(agent, left), *checked]

    async def roll_back(
        self,
        agent: str,
        entries: Sequence[str],
        session: str = "",
        *,
        by: str,
        reason: str,
        dry_run: bool = False,
    ) -> ObservationRollback:
        """Take back what turns, and a session by its name, did to observations.

        The batch that is returned can be undone; with `dry_run` nothing happens.
        """
        desk, batch = self._desk(agent, by, reason), f"{ROLLBACK_BATCH_PREFIX}{new_id()}"

        def decide(on: Connection, now: datetime) -> list[ObservationEvent]:
            sessions = session_store.find_named_sessions(on, agent, session) if session else []
            return desk(on, now).rolled_back(agent, entries, sessions)

        if dry_run:
            now = self._writer.now()
            events = await self._records.read(lambda on: decide(on, now))
        else:
            events = await self._writer.decide(decide, batch=batch)
        memories = tuple(sorted({one.memory for one in events if one.memory}))
        done = bool(events) and not dry_run
        return ObservationRollback(memories=memories, batch=batch if done else "")

    async def list_of_user(
        self, agent: str, user: str
    ) -> tuple[list[MemoryView], list[ObservationEvent]]:
        """Return what was learned from a user's turns, and every event of it."""
        now = await self._swept()
        profile = self._listening.profile

        def listed(on: Connection) -> tuple[list[MemoryView], list[ObservationEvent]]:
            events = event_store.list_user_events(on, agent, user)
            numbers = sorted({one.memory for one in events if one.memory})
            found = (store.get_observation(on, agent, number) for number in numbers)
            there = [one for one in found if one is not None and not one.unsupported]
            return [views.memory_view(one, now, profile) for one in there], events

        return await self._records.read(listed)

    async def forget_user(
        self, agent: str, user: str, entries: Sequence[str]
    ) -> list[ForgetCheck]:
        """Delete all that was learned from a user's turns, and the user's sessions."""
        checked = await self.forgotten(agent, entries, purge=True) if entries else []

        async def erase() -> None:
            events = await self._records.read(
                lambda on: event_store.list_user_events(on, agent, user)
            )
            await self._writer.erase_events(agent, events)
            await self._records.write(
                partial(session_store.delete_user_sessions, agent=agent, user=user)
            )

        await self._writer.alone(erase)
        left = await self._records.read(lambda on: event_store.list_user_events(on, agent, user))
        note = f"{len(left)} events are left" if left else ""
        return [*checked, ForgetCheck(place="event ledgers: the user", clean=not left, note=note)]

    async def _purge_entries(
        self, agent: str, entries: Sequence[str], unsupported: Sequence[int]
    ) -> list[ForgetCheck]:
        """Erase all that entries said, and look for it afterwards."""
        said = await self._records.read(
            partial(event_store.list_entry_events, agent=agent, entries=entries)
        )
        await self._swept()
        desk = self._desk(agent, SYSTEM_ACTOR_NAME, "forgotten", sees_forgotten=True)
        for memory in unsupported:
            await self._act(desk, memory, ActAsked(act="purge", confirm=f"purge {memory}"))

        async def erase() -> None:
            left = await self._records.read(
                partial(event_store.list_entry_events, agent=agent, entries=entries)
            )
            # An observation that others stand behind, too, keeps the words that it began with.
            gone = [one for one in left if one.kind is not EventKind.ASSERTED]
            await self._writer.erase_events(agent, gone)

        await self._writer.alone(erase)
        await self._records.wipe()
        return await self._check_words(agent, entries, purge_verification.extract_quotes(said))

    async def _check_words(
        self, agent: str, entries: Sequence[str], words: Sequence[str]
    ) -> list[ForgetCheck]:
        """Check that neither the database nor the event ledgers have words of purged entries."""
        looked_for = [
            one
            for one in words
            if not await self._records.read(
                partial(occurs_elsewhere, agent=agent, telling=one, ids=entries)
            )
        ]
        spelled = [form for one in looked_for for form in encode_variants(one)]
        in_rows = [form for form in spelled if await self._records.holds(form)]
        kept = await self._records.read(
            lambda on: event_store.list_entry_events(on, agent, entries)
        )
        memories = sorted({one.memory for one in kept})
        note = "its words are in the file" if in_rows else ""
        if in_rows and memories:
            named = ", ".join(map(str, memories))
            note = f"memory {named} keeps its words, because others stand behind it, too"
        look = partial(
            purge_verification.find_files_containing,
            AgentFolder(self._writer.root, agent),
            spelled,
        )
        files = await asyncio.to_thread(look)
        in_files = f"{', '.join(files)} still has its words" if files else ""
        return [
            ForgetCheck(place="database: what was learned from it", clean=not in_rows, note=note),
            ForgetCheck(place="event ledgers: the files' bytes", clean=not files, note=in_files),
        ]

    async def _check_untold(self, agent: str, left: Sequence[int]) -> ForgetCheck:
        """Check that nobody is told what rests on forgotten entries alone."""
        still = await self._records.read(lambda on: store.list_unsupported_injectable(on, agent))
        note = f"told no more: memory {', '.join(map(str, left))}" if left else ""
        if still:
            note = f"still told: memory {', '.join(map(str, still))}"
        return ForgetCheck(place="observations", clean=not still, note=note)

    async def rebuild(self) -> RebuildReceipt:
        receipt: list[RebuildReceipt] = []

        async def work() -> None:
            again = partial(full_rebuild.rebuild_observations, root=self._writer.root)
            profile = self._listening.profile
            receipt.append(await self._records.write(partial(again, profile=profile)))

        await self._writer.alone(work)
        return receipt[0]


@asynccontextmanager
async def open_observation_service(
    curator: ObservationService,
) -> AsyncGenerator[ObservationService]:
    """Open operational memory, and close it again."""
    await curator.open()
    try:
        yield curator
    finally:
        await curator.close()
