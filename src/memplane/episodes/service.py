"""The verbs on live memory: retain, recall, forget; and the work behind them.

An entry is durable in a ledger before its episode is in the database, and it is in the database
before it is acknowledged. What a crash leaves between the two is taken in at the next start: the
ledgers are followed, each from where it was read to.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from memplane.auth.memory_scope import SHARED, MemoryScope, make_scope
from memplane.database.interface import Connection, Database
from memplane.episodes import (
    forget_verification,
    injection_store,
    ledger_purge,
    provenance_store,
)
from memplane.episodes import store as table
from memplane.episodes.api_types import (
    MAX_RECALL_LIMIT,
    ForgetCheck,
    ForgetCounts,
    ForgetReceipt,
    ForgetRequest,
    MemoryBlock,
    MemoryStatus,
    OriginTurn,
    RebuildResult,
    RecallBlocks,
    RecallRequest,
    RecallResponse,
    RetainReceipt,
    SourceList,
    SourceSummary,
)
from memplane.episodes.background_indexer import BackgroundIndexer
from memplane.episodes.entry_parser import ParsedEntry, ScrubLine, parse_entry
from memplane.episodes.episode import epoch_us
from memplane.episodes.episode_embeddings import EmbeddedQuery, EpisodeEmbeddings
from memplane.episodes.episode_index import EpisodeIndex
from memplane.episodes.forget_verification import ForgottenTexts
from memplane.episodes.full_rebuild import compare_digests, digest_tables, rebuild_database
from memplane.episodes.id_resolver import resolve_entry_ids
from memplane.episodes.injection_store import Injection, TurnPlace
from memplane.episodes.ledger_follower import (
    TOMBSTONE_SERVICE,
    MemorySources,
    apply_all_tombstones,
    filter_unforgotten,
    forget_entries,
    restore_tombstones,
)
from memplane.episodes.origin_turns import find_session_entries, list_origin_turns
from memplane.episodes.pending_turns import PendingTurns
from memplane.episodes.provenance import EVERYTHING_UNTRUSTED, TrustPolicy
from memplane.episodes.question import Question
from memplane.episodes.recall_worker_pool import RecallWorkerPool
from memplane.episodes.response_builder import ResponseBudget
from memplane.episodes.retain_queue import EntryOrigin, RetainQueue
from memplane.episodes.scope_store import (
    get_entry_scopes,
)
from memplane.episodes.search import QueryContext, question_from_request, recall_episodes
from memplane.episodes.tombstone_watcher import TombstoneCallback, TombstoneWatcher
from memplane.episodes.user_memory import UserMemory
from memplane.errors import IndexUnusable, InvalidRequest, NotRecorded
from memplane.exchange.end_user import UserPolicy
from memplane.kit.clock import Clock, format_timestamp
from memplane.ledger.folder import AgentFolder
from memplane.ledger.segments import FileModes
from memplane.ledger.tombstones import Tombstone, append_tombstones, read_tombstones
from memplane.ledger.writer import Ledger
from memplane.search.embeddings.embedder import Embedder

_MAX_REASON_CHARS: Final = 1000
_MAX_COMPARE_ROUNDS: Final = 5
_THREAD_PARSE_BYTES: Final = 64 << 10


class EpisodeService:
    """What agents remember, open in one process. `open_episode_service` opens and closes it."""

    def __init__(
        self,
        records: Database,
        indexes: Path,
        received: Ledger,
        places: MemorySources,
        *,
        scrub: ScrubLine,
        clock: Clock,
        shares: ResponseBudget | None = None,
        trust: TrustPolicy = EVERYTHING_UNTRUSTED,
        blocks: RecallBlocks = RecallBlocks.ALL,
        modes: FileModes | None = None,
        users: UserPolicy | None = None,
        embedder: Embedder | None = None,
        is_patient: bool = False,
        readers: RecallWorkerPool | None = None,
    ) -> None:
        self.places = places
        self._records = records
        self._scrub = scrub
        self._users = users or UserPolicy()
        self._clock = clock
        self._shares = shares or ResponseBudget()
        self._trust = trust
        self._blocks = blocks
        self._modes = modes or FileModes()
        self._meaning = (
            EpisodeEmbeddings(records, embedder, is_patient=is_patient)
            if embedder is not None
            else None
        )
        self._readers = readers
        self._tails = PendingTurns()
        self._indexing = EpisodeIndex(records, indexes)
        self._upkeep = BackgroundIndexer(records, places, self._indexing)
        self._burying = TombstoneWatcher(records, places)
        self._burying.told.append(self._buried)
        self._applying = RetainQueue(
            records, received, self._upkeep, self._burying, scrub=scrub, users=self._users
        )
        self.users = UserMemory(
            self,
            records,
            places,
            intake_lock=self._burying.intake_lock,
            modes=self._modes,
            clock=clock,
        )
        self._closing = False
        self._tasks: list[asyncio.Task[None]] = []
        self._embedding: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Begin; what other processes or a crash left is taken in meanwhile, see `follow`."""
        await self._indexing.open()
        await apply_all_tombstones(self._records, self.places)
        await restore_tombstones(self._records, self.places, format_timestamp(self._clock()))
        oldest = epoch_us(self._clock()) - injection_store.MAX_INJECTION_AGE_US
        await self._records.write(partial(injection_store.delete_older, at=oldest))
        await self._upkeep.look_again()
        self._upkeep.wake()
        self._tasks = [
            asyncio.create_task(self._applying.run(), name="memory-apply"),
            asyncio.create_task(self._upkeep.run(), name="memory-work"),
        ]
        if self._meaning is not None:
            embedding = self._upkeep.run_embedding(self._meaning)
            self._embedding = asyncio.create_task(embedding, name="memory-embed")

    async def close(self) -> None:
        """Finish what was asked; work that is left is done after the next start."""
        self._closing = True
        if self._readers is not None:
            await self._readers.close()
        self._applying.end()
        self._upkeep.end()
        await asyncio.gather(*self._tasks)
        if self._meaning is not None and self._embedding is not None:
            # Nobody waits for a model that takes its time.
            self._embedding.cancel()
            with suppress(asyncio.CancelledError):
                await self._embedding
            await self._meaning.close()
        await self._upkeep.follow_received()
        await self._indexing.close()

    async def retain(self, origin: EntryOrigin, raw: bytes) -> RetainReceipt:
        """Keep an entry that somebody recorded; it is durable and searchable when this returns.

        Raises:
            InvalidRequest: It is no entry, or has no id.
            NotRecorded: It could not be written.
            RecordsError: It could not be made searchable; it will be, once the database works.
        """
        agent = AgentFolder(self.places.received, origin.agent).agent
        if self._users.ignores(agent):
            account = origin.user or ""
            note = replace(origin.note, account=account)
            origin = replace(origin, user=SHARED, view=SHARED, note=note)
        entry: bytes | ParsedEntry = raw
        if len(raw) > _THREAD_PARSE_BYTES:
            entry = await asyncio.to_thread(parse_entry, raw, self._scrub)
        if self._closing:
            raise NotRecorded(f"an entry of {agent} came after memory was closed")
        return await self._applying.give(origin, entry)

    async def recall(self, ask: RecallRequest) -> RecallResponse:
        """Answer a question with what the agent remembers.

        Raises:
            UnknownAgent: That is no agent's name.
            RecordsError: The database cannot be read.
        """
        AgentFolder(self.places.ledger, ask.agent)
        ask = self.resolve_users(ask)
        ask = replace(ask, blocks=ask.blocks or self._blocks)
        scope = ask.scope  # refused before anything is looked up
        await self._burying.look(scope.agent)
        response = await self._recall(ask)
        if not (ask.all_users or ask.explain):
            return response
        return await self._records.read(partial(name_owners, agent=ask.agent, response=response))

    def resolve_users(self, ask: RecallRequest) -> RecallRequest:
        """Return a question without its user where the users of its agent are ignored."""
        if self._users.ignores(ask.agent) and not ask.all_users:
            return replace(ask, user=None, view=None)
        return ask

    async def _recall(self, ask: RecallRequest) -> RecallResponse:
        question, at = question_from_request(ask), epoch_us(self._clock())
        meant = await self._meant(question.text)
        recall = partial(
            recall_episodes,
            ask=ask,
            question=question,
            shares=self._shares,
            now=QueryContext(at, meant),
            tails=self._tails,
            trust=self._trust,
        )
        try:
            found = await self._recalled_beside(ask, question, at, meant)
            if found is not None:
                return found
            return await self._records.read(partial(recall, index=self._indexing.current))
        except IndexUnusable as error:
            self._indexing.give_up(error)
            self._upkeep.wake()
            return await self._records.read(partial(recall, index=None))

    async def _recalled_beside(
        self, ask: RecallRequest, question: Question, at: int, meant: EmbeddedQuery | None
    ) -> RecallResponse | None:
        """Let another process answer, where there is one that can."""
        if self._readers is None or self._indexing.is_broken:
            return None
        model, vector = (meant.model, meant.vector) if meant is not None else ("", b"")
        found = await self._readers.recall(ask, question, at, model=model, vector=vector)
        self._upkeep.unanswered = self._readers.complaint
        return found

    async def _meant(self, text: str) -> EmbeddedQuery | None:
        if self._meaning is None or not text.strip():
            return None
        return await self._meaning.question(text)

    async def forget(
        self, agent: str, ids: Sequence[str], *, reason: str = "", service: str = ""
    ) -> ForgetCounts:
        """Forget entries for good, also those that have not come yet.

        When this returns, nothing answers with them, and no replay brings them back.

        Raises:
            InvalidRequest: There is no id among them.
            UnknownAgent: That is no agent's name.
            RecordsError: The tombstones are kept, but rows may be there until the next start.
        """
        folder = AgentFolder(self.places.tombstones, agent)
        wanted = _validate_ids(ids)
        if not wanted:
            raise InvalidRequest("say which entries to forget: at least one id")
        async with self._burying.intake_lock:
            new = await self._records.read(lambda rows: filter_unforgotten(rows, agent, wanted))
            # The file decides what is written: it may be older than the database.
            told = await asyncio.to_thread(read_tombstones, folder.root, agent)
            now, why = format_timestamp(self._clock()), reason[:_MAX_REASON_CHARS]
            missing = [entry_id for entry_id in wanted if entry_id not in told]
            written = [Tombstone(now, agent, service, entry_id, why) for entry_id in missing]
            await asyncio.to_thread(append_tombstones, folder.root, agent, written)
            await self._records.write(partial(forget_entries, agent=agent, ids=wanted))
        await self._buried(agent, wanted)
        return ForgetCounts(forgotten=len(new), already=len(wanted) - len(new))

    async def _buried(self, _agent: str, _ids: Sequence[str]) -> None:
        """Let the index and the work behind follow what was buried."""
        await self.refresh()

    async def refresh(self) -> None:
        """Let the index and the work behind follow rows that changed."""
        await self._indexing.catch_up()
        self._look_at_meaning_again()
        self._upkeep.wake()

    async def run_forget(
        self, asked: ForgetRequest, *, others_may_repeat: bool = False
    ) -> ForgetReceipt:
        """Forget entries as thoroughly as an operator wants.

        Where `others_may_repeat` what was said, files are searched for what nobody else said.

        Raises:
            InvalidRequest: There is no id among them, or one that had to be known is not.
            UnknownAgent: That is no agent's name.
        """
        ids, agent = _validate_ids(asked.ids), asked.agent
        if asked.known_only:
            ids = await asyncio.to_thread(resolve_entry_ids, self.places, agent, ids)
        await self._require_owner(asked, ids)
        before = ForgottenTexts()
        if asked.verify or asked.purge:
            before = await asyncio.to_thread(
                forget_verification.collect_forgotten_texts, self.places, agent, ids
            )
        repeated: list[str] = []
        if asked.purge:
            repeated = await asyncio.to_thread(
                ledger_purge.find_repeated_turns, self.places, agent, ids
            )
        if asked.copies:
            ids, repeated = [*ids, *repeated], []
        scopes = await self._records.read(lambda rows: get_entry_scopes(rows, agent, ids))
        outcome = await self.forget(agent, ids, reason=asked.reason, service=TOMBSTONE_SERVICE)
        purged = await self._purge(agent, ids) if asked.purge else []
        checked: list[ForgetCheck] = []
        if asked.verify:
            whose = {MemoryScope(agent), *scopes.values()}
            checked = await self.verify_forgotten(agent, ids, before, whose)
        if asked.verify and asked.purge:
            own = await self._own_words(agent, ids, before) if others_may_repeat else None
            sought = before if own is None else replace(before, tellings=tuple(own))
            check = partial(ledger_purge.check_files, self.places, agent, sought)
            checked += await asyncio.to_thread(check)
        return ForgetReceipt(
            forgotten=outcome.forgotten,
            already=outcome.already,
            ids=tuple(ids),
            purged=tuple(purged),
            repeated=tuple(repeated),
            erased_before=before.erased,
            checked=tuple(checked),
        )

    async def list_sources(self, agent: str) -> SourceList:
        """Return the sources that an agent's turns repeat, those of the most turns first.

        Raises:
            UnknownAgent: That is no agent's name.
        """
        AgentFolder(self.places.ledger, agent)
        counts = await self._records.read(partial(provenance_store.count_sources, agent=agent))
        ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
        return SourceList(
            sources=tuple(
                SourceSummary(source=name, turns=turns, trust=self._trust.judge((name,)))
                for name, turns in ordered
            )
        )

    async def find_turns_of(
        self, agent: str, *, source: str = "", session: str = ""
    ) -> list[OriginTurn]:
        """Return the turns that repeat a source, or that a client said in a session.

        Raises:
            UnknownAgent: That is no agent's name.
        """
        AgentFolder(self.places.ledger, agent)
        await self._burying.look(agent)
        await self.settle()
        ids = await asyncio.to_thread(find_session_entries, self.places, agent, session)
        return await self._records.read(
            partial(list_origin_turns, agent=agent, source=source, entries=ids)
        )

    async def _require_owner(self, asked: ForgetRequest, ids: Sequence[str]) -> None:
        """Refuse to forget for a user what is known to be somebody else's.

        Raises:
            InvalidRequest: It is.
        """
        if asked.user is None:
            return
        user = make_scope(asked.agent, asked.user).user
        scopes = await self._records.read(lambda rows: get_entry_scopes(rows, asked.agent, ids))
        others = [one for one, scope in scopes.items() if scope.user != user]
        if others:
            raise InvalidRequest(f"{len(others)} of the entries are not those of that user")

    async def _purge(self, agent: str, ids: Sequence[str]) -> list[str]:
        purge = partial(ledger_purge.purge_entries, modes=self._modes, clock=self._clock)
        purged = await asyncio.to_thread(purge, self.places, agent, ids)
        await self._wipe()
        return purged

    async def injected(self, scope: MemoryScope, places: Sequence[str]) -> list[Injection]:
        """Return what stands at places of the conversations of a scope, the newest first."""
        await self._burying.look(scope.agent)
        return await self._records.read(
            partial(injection_store.find_injections, scope=scope, places=places), quick=True
        )

    async def any_forgotten(self, agent: str, entries: Collection[str]) -> bool:
        """Say whether any of an agent's entries was forgotten."""
        look = partial(injection_store.any_forgotten, agent=agent, entries=entries)
        return await self._records.read(look, quick=True)

    async def save_injections(self, texts: Sequence[Injection]) -> None:
        """Keep what was put into conversations; forgetting what it cites takes it away again."""
        for agent in {one.scope.agent for one in texts}:
            await self._burying.look(agent)
        await self._records.write(partial(injection_store.insert_injections, injections=texts))

    async def save_turn_places(self, turns: Sequence[TurnPlace]) -> None:
        """Keep at which places of conversations turns were said."""
        await self._records.write(partial(injection_store.save_turn_places, turns=turns))

    def tell(self, told: Callable[[], None]) -> None:
        """Call back whenever entries were taken in."""
        self._upkeep.told = told

    def on_remembered(self, told: Callable[[str, int], None]) -> None:
        """Call back, in a thread, with an agent and how many turns of our ledger it remembers."""
        self._upkeep.remembered = told
        self._upkeep.wake()

    def on_forgotten(self, told: TombstoneCallback) -> None:
        """Call back with an agent and entries of it that somebody else forgot, as soon as seen."""
        self._burying.told.append(told)

    async def apply_all_tombstones(self) -> None:
        """Take in now what others wrote tombstones for, of every agent."""
        await self._burying.check_all_agents()

    def recorded(self, agent: str) -> None:
        """Be told that our own ledger has a new turn of an agent."""
        self._upkeep.recorded(agent)

    async def verify_forgotten(
        self,
        agent: str,
        ids: Sequence[str],
        before: ForgottenTexts,
        whose: Collection[MemoryScope] = (),
    ) -> list[ForgetCheck]:
        """Look for forgotten entries, and for what they said, in every place that was derived."""
        await self.settle()
        checked = [
            await asyncio.to_thread(forget_verification.check_tombstones, self.places, agent, ids),
            *await self._records.read(
                lambda rows: forget_verification.check_rows(rows, agent, ids)
            ),
        ]
        tellings = await self._own_words(agent, ids, before)
        held = [one for one in tellings if await self._records.holds(one.encode())]
        note = f"{len(held)} of its lines are in the file" if held else ""
        bytes_held = ForgetCheck(place="database: the file's bytes", clean=not held, note=note)
        checked.append(before.judged(bytes_held))
        answers = [
            await self.recall(
                RecallRequest(
                    agent=agent,
                    user=scope.user or None,
                    view=scope.view or None,
                    text=one,
                    limit=MAX_RECALL_LIMIT,
                )
            )
            for one in tellings
            for scope in whose or (MemoryScope(agent),)
        ]
        found = {one for answer in answers for block in answer.memories for one in block.entry_ids}
        back = found & {*ids}
        note = f"it answers with {', '.join(sorted(back))}" if back else ""
        return [*checked, before.judged(ForgetCheck(place="recall", clean=not back, note=note))]

    async def _own_words(
        self, agent: str, ids: Collection[str], before: ForgottenTexts
    ) -> list[str]:
        """Return what entries said and no turn that is left does."""
        look = partial(forget_verification.occurs_elsewhere, agent=agent, ids=ids)
        return [
            one
            for one in before.tellings
            if not await self._records.read(partial(look, telling=one))
        ]

    async def rebuild(self) -> RebuildResult:
        """Derive everything again from the ledgers; what differs from it is replaced.

        Retaining goes on meanwhile; it waits only while the two are compared.

        Raises:
            RecordsError: A database cannot be used; the live one is as it was.
        """
        async with self._upkeep.working, self._records.aside() as again:
            await self._upkeep.work()
            await rebuild_database(again, self.places)
            async with self._burying.intake_lock:
                outcome = await self._compared(again)
                if not outcome.same:
                    await self._records.replace_tables_from(again, table.MEMORY_TABLES)
                    await self._indexing.begin_anew()
                    self._look_at_meaning_again()
        self._upkeep.wake()
        return outcome

    def _look_at_meaning_again(self) -> None:
        if self._meaning is not None:
            self._meaning.look_again()

    async def _compared(self, again: Database) -> RebuildResult:
        """Compare the two, once both have read as far: our own ledger may grow meanwhile."""
        left = _MAX_COMPARE_ROUNDS
        while True:
            await rebuild_database(again, self.places)
            await self._upkeep.look_again()
            await self._upkeep.work()
            live = await self._records.read(digest_tables, patient=True)
            outcome = compare_digests(live, await again.read(digest_tables))
            read = (
                await self._records.read(table.list_cursors),
                await again.read(table.list_cursors),
            )
            left -= 1
            if read[0] == read[1] or not left:
                return outcome

    async def _wipe(self) -> None:
        """Let no bytes of what was forgotten stay in the database or the text index."""
        async with self._upkeep.working:
            await self._upkeep.work()
            await self._records.wipe()
            await self._indexing.begin_anew()
            await self._indexing.catch_up()

    async def follow(self) -> None:
        """Take in now what the ledgers have and memory does not."""
        async with self._upkeep.working:
            await self._upkeep.follow_all()

    async def status(self) -> MemoryStatus:
        """Say how much is remembered, and how much work is left."""
        totals = await self._records.read(table.count_totals)
        unembedded = await self._meaning.left() if self._meaning is not None else 0
        return MemoryStatus(
            agents=totals.agents,
            episodes=totals.episodes,
            underived=totals.underived,
            unindexed=totals.unindexed,
            busy=self._upkeep.is_busy or not self._applying.is_idle,
            unreadable=self._upkeep.unreadable,
            degraded=self._upkeep.degraded,
            unembedded=unembedded,
        )

    async def settle(self) -> None:
        """Do all the work that is left: follow, derive, index."""
        async with self._upkeep.working:
            await self._upkeep.work()


def name_owners(rows: Connection, agent: str, response: RecallResponse) -> RecallResponse:
    """Say of each block whose it is."""
    ids = [entry_id for block in response.memories for entry_id in block.entry_ids[:1]]
    scopes = get_entry_scopes(rows, agent, ids)

    def name_owner(block: MemoryBlock) -> MemoryBlock:
        scope = next((scopes[one] for one in block.entry_ids[:1] if one in scopes), None)
        return block if scope is None else replace(block, user=scope.user, view=scope.view)

    return RecallResponse(memories=tuple(map(name_owner, response.memories)))


def _validate_ids(ids: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(one for one in ids if one.strip()))


@asynccontextmanager
async def open_episode_service(memory: EpisodeService) -> AsyncGenerator[EpisodeService]:
    """Open memory, and close it again."""
    try:
        await memory.open()
        yield memory
    finally:
        await memory.close()
