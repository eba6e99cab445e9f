"""The verbs on live memory: retain, recall, forget; and the work behind them.

An entry is durable in a ledger before its episode is in the database, and it is in the database
before it is acknowledged. What a crash leaves between the two is taken in at the next start: the
ledgers are followed, each from where it was read to.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from memplane.clock import Clock, stamp
from memplane.embedding.contract import Embedder
from memplane.errors import IndexUnusable, InvalidRequest, MemplaneError, NotRecorded
from memplane.ids import new_id
from memplane.ledger.entry import Entry, Received
from memplane.ledger.folder import AgentFolder
from memplane.ledger.sealing import Modes
from memplane.ledger.tombstones import Tombstone, append_tombstones, read_tombstones
from memplane.ledger.writer import Ledger
from memplane.memory import purging, verifying
from memplane.memory import rows as table
from memplane.memory.blocks import Shares
from memplane.memory.contract import (
    MOST_ASKED,
    Ask,
    Checked,
    ForgetAsked,
    ForgetReceipt,
    Forgotten,
    MemoryStatus,
    Rebuilt,
    Recalled,
    RetainReceipt,
)
from memplane.memory.deriving import derive_some
from memplane.memory.episode import Episode, microseconds
from memplane.memory.following import (
    OURSELVES,
    OWN,
    RECEIVED,
    Places,
    bury_all,
    follow,
    keep_tombstones,
    ledgers_in,
    not_buried,
)
from memplane.memory.meaning import Meaning
from memplane.memory.rebuilding import compared, contents, derive_all
from memplane.memory.recalling import Now, asked_in, recalled
from memplane.memory.retaining import Given, Scrub, given_of
from memplane.memory.rows import Outcome, State
from memplane.records.store import Connection, Database, Records
from memplane.retrieval.index import Change, TextIndex, erase, open_index

_log = logging.getLogger(__name__)

_LONGEST_REASON: Final = 1000
_COMPARED: Final = 5
_BATCH: Final = 64
_BATCH_BYTES: Final = 16 << 20
_LONG: Final = 64 << 10
_INDEXED_AT_ONCE: Final = 1000
_FOLLOWED_AFTER: Final = 5000
_INDEXED_AFTER: Final = 4000
_QUIET: Final = 0.2
_QUIET_ROUNDS: Final = 3
_LONGEST_DELAY: Final = 30.0
_RETRY_SECONDS: Final = 5.0
_GENERATION: Final = "generation of the text index"


@dataclass(slots=True)
class MemoryFigures:
    """What memory has done since it was opened; `degraded` is what an operator should know."""

    retained: int = 0
    known: int = 0
    forgotten: int = 0
    followed: int = 0
    unreadable: int = 0
    degraded: str = ""


@dataclass(slots=True)
class _Waiting:
    agent: str
    given: Given
    future: asyncio.Future[RetainReceipt]


@dataclass(frozen=True, slots=True)
class _Prepared:
    """An entry that waits, what is kept of it, and what will become of it."""

    waiting: _Waiting
    outcome: Outcome

    @property
    def given(self) -> Given:
        return self.waiting.given


class Memory:
    """What agents remember. One process has it open; `open_memory` opens and closes it."""

    def __init__(
        self,
        records: Database,
        indexes: Path,
        received: Ledger,
        places: Places,
        *,
        scrub: Scrub,
        clock: Clock,
        shares: Shares | None = None,
        modes: Modes | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        self.figures = MemoryFigures()
        self.places = places
        self._records = records
        self._indexes = indexes
        self._index: TextIndex | None = None
        self._received = received
        self._scrub = scrub
        self._clock = clock
        self._shares = shares or Shares()
        self._modes = modes or Modes()
        self._meaning = Meaning(records, embedder) if embedder is not None else None
        self._waiting: asyncio.Queue[_Waiting | None] = asyncio.Queue()
        self._to_follow: dict[tuple[str, str], None] = {}
        self._received_by: dict[str, None] = {}
        self._since_followed = 0
        self._closing = False
        self._since_indexed = 0
        self._index_is_broken = False
        self._unembedded = ""
        self._is_warm = False
        self._retained_at = 0.0
        self._woken = asyncio.Event()
        self._to_embed = asyncio.Event()
        self._indexing = asyncio.Lock()
        self._working = asyncio.Lock()
        self._applying = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Begin; what other processes or a crash left is taken in meanwhile, see `follow`."""
        self._index = await open_text_index(self._records, self._indexes)
        await bury_all(self._records, self.places)
        await keep_tombstones(self._records, self.places, stamp(self._clock()))
        self._to_follow.update(dict.fromkeys(await ledgers_in(self.places)))
        self._woken.set()
        self._tasks = [
            asyncio.create_task(self._apply_for_ever(), name="memory-apply"),
            asyncio.create_task(self._work_for_ever(), name="memory-work"),
        ]
        if self._meaning is not None:
            embedding = self._embed_for_ever(self._meaning)
            self._tasks.append(asyncio.create_task(embedding, name="memory-embed"))

    async def close(self) -> None:
        """Finish what was asked; work that is left is done after the next start."""
        self._closing = True
        await self._waiting.put(None)
        self._woken.set()
        self._to_embed.set()
        await asyncio.gather(*self._tasks)
        if self._meaning is not None:
            await self._meaning.close()
        self._to_follow.clear()
        self._follow_received()
        await self._follow_all()
        if self._index is not None:
            await asyncio.to_thread(self._index.close)

    async def retain(self, agent: str, raw: bytes) -> RetainReceipt:
        """Keep an entry that somebody recorded; it is durable and searchable when this returns.

        Raises:
            InvalidRequest: It is no entry, or has no id.
            NotRecorded: It could not be written.
            RecordsError: It could not be made searchable; it will be, once the database works.
        """
        folder = AgentFolder(self.places.received, agent)
        # Made here and not by the one who applies: it goes on while a batch before is synced.
        if len(raw) > _LONG:
            given = await asyncio.to_thread(given_of, raw, self._scrub)
        else:
            given = given_of(raw, self._scrub)
        if self._closing:
            raise NotRecorded(f"an entry of {agent} came after memory was closed")
        waiting = _Waiting(folder.agent, given, asyncio.get_running_loop().create_future())
        self._waiting.put_nowait(waiting)
        return await waiting.future

    async def recall(self, ask: Ask) -> Recalled:
        """Answer a question with what the agent remembers.

        Raises:
            UnknownAgent: That is no agent's name.
            RecordsError: The database cannot be read.
        """
        AgentFolder(self.places.ledger, ask.agent)
        index, now = self._opened_index(), await self._now(ask)
        try:
            return await self._records.read(
                lambda rows: recalled(rows, index, ask, shares=self._shares, now=now)
            )
        except IndexUnusable as error:
            self._give_up_index(error)
            return await self._records.read(
                lambda rows: recalled(rows, None, ask, shares=self._shares, now=now)
            )

    async def _now(self, ask: Ask) -> Now:
        at = microseconds(self._clock())
        text = asked_in(ask).text if self._meaning is not None else ""
        if self._meaning is None or not text.strip():
            return Now(at)
        return Now(at, await self._meaning.question(text))

    def _give_up_index(self, error: IndexUnusable) -> None:
        """Let a new index be made; until then everything is scored."""
        _log.warning("the text index is made anew: %s", error)
        self._index_is_broken = True
        self._woken.set()

    def _opened_index(self) -> TextIndex:
        assert self._index is not None  # noqa: S101 - it was opened first
        return self._index

    async def forget(
        self, agent: str, ids: Sequence[str], *, reason: str = "", service: str = ""
    ) -> Forgotten:
        """Forget entries for good, also those that have not come yet.

        When this returns, nothing answers with them, and no replay brings them back.

        Raises:
            InvalidRequest: There is no id among them.
            UnknownAgent: That is no agent's name.
            RecordsError: The tombstones are kept, but rows may be there until the next start.
        """
        folder = AgentFolder(self.places.tombstones, agent)
        wanted = _named(ids)
        if not wanted:
            raise InvalidRequest("say which entries to forget: at least one id")
        async with self._applying:
            new = await self._records.read(lambda rows: not_buried(rows, agent, wanted))
            # The file decides what is written: it may be older than the database.
            told = await asyncio.to_thread(read_tombstones, folder.root, agent)
            now, why = stamp(self._clock()), reason[:_LONGEST_REASON]
            missing = [entry_id for entry_id in wanted if entry_id not in told]
            written = [Tombstone(now, agent, service, entry_id, why) for entry_id in missing]
            await asyncio.to_thread(append_tombstones, folder.root, agent, written)
            await self._records.write(lambda rows: table.bury(rows, agent, wanted))
        await self._index_all()
        self._woken.set()
        return Forgotten(forgotten=len(new), already=len(wanted) - len(new))

    async def forget_as_asked(self, asked: ForgetAsked) -> ForgetReceipt:
        """Forget entries as thoroughly as an operator wants.

        Raises:
            InvalidRequest: There is no id among them.
            UnknownAgent: That is no agent's name.
        """
        ids, agent = _named(asked.ids), asked.agent
        left: list[Episode] = []
        if asked.verify:
            left = await asyncio.to_thread(verifying.recorded, self.places, agent, ids)
        repeated: list[str] = []
        if asked.purge:
            repeated = await asyncio.to_thread(purging.repeats_of, self.places, agent, ids)
        if asked.copies:
            ids, repeated = [*ids, *repeated], []
        outcome = await self.forget(agent, ids, reason=asked.reason, service=OURSELVES)
        purged = await self._purge(agent, ids) if asked.purge else []
        checked: list[Checked] = []
        if asked.verify:
            checked = await self.verify_forgotten(agent, ids, left)
        if asked.verify and asked.purge:
            words = verifying.tellings(left)
            checked.append(
                await asyncio.to_thread(purging.check_ledgers, self.places, agent, words)
            )
        return ForgetReceipt(
            forgotten=outcome.forgotten,
            already=outcome.already,
            purged=tuple(purged),
            repeated=tuple(repeated),
            checked=tuple(checked),
        )

    async def _purge(self, agent: str, ids: Sequence[str]) -> list[str]:
        purge = partial(purging.purge_all, modes=self._modes, clock=self._clock)
        purged = await asyncio.to_thread(purge, self.places, agent, ids)
        await self._wipe()
        return purged

    def recorded(self, agent: str) -> None:
        """Be told that our own ledger has a new turn of an agent."""
        self._to_follow[OWN, agent] = None
        self._woken.set()

    async def verify_forgotten(
        self, agent: str, ids: Sequence[str], left: Sequence[Episode]
    ) -> list[Checked]:
        """Look for forgotten entries, and for what they said, in every place that was derived."""
        await self.settle()
        checked = [
            await asyncio.to_thread(verifying.check_tombstones, self.places, agent, ids),
            *await self._records.read(lambda rows: verifying.check_rows(rows, agent, ids)),
        ]
        tellings = [
            one
            for one in verifying.tellings(left)
            if not await self._records.read(
                partial(verifying.told_elsewhere, agent=agent, telling=one, ids=ids)
            )
        ]
        held = [one for one in tellings if await self._records.holds(one.encode())]
        note = f"{len(held)} of its lines are in the file" if held else ""
        checked.append(Checked(place="database: the file's bytes", clean=not held, note=note))
        answers = [
            await self.recall(Ask(agent=agent, text=one, limit=MOST_ASKED)) for one in tellings
        ]
        found = {one for answer in answers for block in answer.memories for one in block.entry_ids}
        back = found & {*ids}
        note = f"it answers with {', '.join(sorted(back))}" if back else ""
        return [*checked, Checked(place="recall", clean=not back, note=note)]

    async def rebuild(self) -> Rebuilt:
        """Derive everything again from the ledgers; what differs from it is replaced.

        Retaining goes on meanwhile; it waits only while the two are compared.

        Raises:
            RecordsError: A database cannot be used; the live one is as it was.
        """
        async with self._working, self._records.aside() as again:
            await self._work()
            await derive_all(again, self.places)
            async with self._applying:
                outcome = await self._compared(again)
                if not outcome.same:
                    await self._records.replace_by(again, table.TABLES)
                    await self._begin_index_anew()
        return outcome

    async def _compared(self, again: Database) -> Rebuilt:
        """Compare the two, once both have read as far: our own ledger may grow meanwhile."""
        left = _COMPARED
        while True:
            await derive_all(again, self.places)
            self._to_follow.update(dict.fromkeys(await ledgers_in(self.places)))
            await self._work()
            live = await self._records.read(contents, patient=True)
            outcome = compared(live, await again.read(contents))
            read = await self._records.read(table.cursors), await again.read(table.cursors)
            left -= 1
            if read[0] == read[1] or not left:
                return outcome

    async def _wipe(self) -> None:
        """Let no bytes of what was forgotten stay in the database or the text index."""
        async with self._working:
            await self._work()
            await self._records.wipe()
            await self._begin_index_anew()
            await self._index_all()

    async def _begin_index_anew(self) -> None:
        async with self._indexing:
            old, self._index = self._index, await new_text_index(self._records, self._indexes)
            self._index_is_broken = False
            if old is not None:
                await asyncio.to_thread(old.close)
            await asyncio.to_thread(erase_others, self._indexes, self._index.generation)

    async def follow(self) -> None:
        """Take in now what the ledgers have and memory does not."""
        async with self._working:
            await self._follow_all()

    async def status(self) -> MemoryStatus:
        """Say how much is remembered, and how much work is left."""
        totals = await self._records.read(table.totals)
        unembedded = await self._meaning.left() if self._meaning is not None else 0
        return MemoryStatus(
            agents=totals.agents,
            episodes=totals.episodes,
            underived=totals.underived,
            unindexed=totals.unindexed,
            busy=self._working.locked() or bool(self._to_follow) or not self._waiting.empty(),
            unreadable=self.figures.unreadable,
            degraded=self.figures.degraded or self._unembedded,
            unembedded=unembedded,
        )

    async def settle(self) -> None:
        """Do all the work that is left: follow, derive, index."""
        async with self._working:
            await self._work()

    # Retaining: one task takes all that waits, so that one sync serves many.

    async def _apply_for_ever(self) -> None:
        while (one := await self._waiting.get()) is not None:
            await self._let_others_come()
            batch, size = [one], len(one.given.entry.line)
            while not self._waiting.empty() and len(batch) < _BATCH and size < _BATCH_BYTES:
                if (one := self._waiting.get_nowait()) is None:
                    self._waiting.put_nowait(None)
                    break
                batch.append(one)
                size += len(one.given.entry.line)
            try:
                async with self._applying:
                    await self._apply(batch)
            except Exception as error:  # noqa: BLE001 - told to those who wait; others go on
                if not isinstance(error, MemplaneError):
                    _log.exception("entries could not be retained")
                for waiting in batch:
                    _fail(waiting, error)

    async def _let_others_come(self) -> None:
        """Wait as long as more arrive in each round of the loop.

        They would wait for the next batch otherwise, and be read in a contest with the threads
        that write this one, for the interpreter's lock.
        """
        quiet = seen = 0
        while quiet < _QUIET_ROUNDS and self._waiting.qsize() < _BATCH:
            await asyncio.sleep(0)
            quiet = quiet + 1 if self._waiting.qsize() == seen else 0
            seen = self._waiting.qsize()

    async def _apply(self, batch: Sequence[_Waiting]) -> None:
        """Keep what is new in the ledger of received entries, then in the database."""
        prepared = await self._records.read(lambda rows: _prepared(rows, batch), quick=True)
        new = [one for one in prepared if one.outcome is Outcome.RETAINED]
        taken: dict[int, Outcome] = {}
        if new:
            new = await self._keep(new)
            # Whatever becomes of the rows, these are in the ledger and will be followed.
            self._to_follow.update(((RECEIVED, one.waiting.agent), None) for one in new)
            taken = await self._records.write(lambda rows: _take_in(rows, new))
            self._note_received(new)
        for one in prepared:
            if not one.waiting.future.done():
                self._tell(one, taken.get(id(one), one.outcome))

    async def _keep(self, new: Sequence[_Prepared]) -> list[_Prepared]:
        """Keep entries in the ledger; one that cannot be kept fails alone."""
        kept: list[_Prepared] = []
        submitted: list[tuple[_Prepared, asyncio.Future[Entry]]] = []
        for one in new:
            try:
                received = Received(one.waiting.agent, one.given.entry)
                submitted.append((one, self._received.submit(received)))
            except MemplaneError as error:
                _fail(one.waiting, error)
        for one, future in submitted:
            try:
                await future
            except MemplaneError as error:
                _fail(one.waiting, error)
            else:
                kept.append(one)
        return kept

    def _tell(self, one: _Prepared, outcome: Outcome) -> None:
        match outcome:
            case Outcome.RETAINED:
                self.figures.retained += 1
            case Outcome.KNOWN:
                self.figures.known += 1
            case Outcome.FORGOTTEN:
                self.figures.forgotten += 1
        kept = outcome is not Outcome.FORGOTTEN
        receipt = RetainReceipt(
            id=one.given.entry.id,
            status=outcome.name.lower(),
            durable=kept,
            searchable=kept and one.given.stored.state is State.SEARCHABLE,
            redacted=one.given.redacted,
        )
        if not one.waiting.future.done():
            one.waiting.future.set_result(receipt)

    def _note_received(self, new: Sequence[_Prepared]) -> None:
        for one in new:
            self._to_follow.pop((RECEIVED, one.waiting.agent), None)
            self._received_by[one.waiting.agent] = None
        self._since_followed += len(new)
        self._since_indexed += len(new)
        self._retained_at = asyncio.get_running_loop().time()
        if self._since_followed >= _FOLLOWED_AFTER:
            self._follow_received()
        if new:
            self._woken.set()

    def _follow_received(self) -> None:
        """Move on with the cursors of received entries, so that the next start is short."""
        self._to_follow.update(((RECEIVED, agent), None) for agent in self._received_by)
        self._received_by.clear()
        self._since_followed = 0

    # Following: what is in a ledger and not in the database is taken in.

    async def _follow_all(self) -> None:
        while self._to_follow:
            # Taken off first: what is recorded meanwhile puts it there again.
            ledger, agent = one = self._to_follow.popitem()[0]
            try:
                followed = await follow(self._records, self.places, ledger, agent)
            except BaseException:
                self._to_follow[one] = None
                raise
            self.figures.followed += followed.entries
            self.figures.unreadable += followed.unreadable

    # Behind the verbs: following, deriving and indexing, whenever there is something to do.

    async def _work_for_ever(self) -> None:
        while not self._closing:
            await self._woken.wait()
            self._woken.clear()
            try:
                await self._let_retaining_go_first()
                async with self._working:
                    await self._work()
            except Exception as error:  # noqa: BLE001 - the work is kept, and tried again
                self.figures.degraded = f"what was retained is not derived: {error}"
                _log.warning("%s", self.figures.degraded, exc_info=True)
                await asyncio.sleep(_RETRY_SECONDS)
                self._woken.set()
                continue
            self.figures.degraded = ""

    async def _let_retaining_go_first(self) -> None:
        """Wait until nothing is retained, but not for ever; the index does not wait so long."""
        loop = asyncio.get_running_loop()
        latest = loop.time() + _LONGEST_DELAY
        while not self._closing and loop.time() < min(self._retained_at + _QUIET, latest):
            if self._since_indexed >= _INDEXED_AFTER:
                await self._index_all()
            await asyncio.sleep(_QUIET / 4)

    async def _work(self) -> None:
        await self._follow_all()
        await self._index_all()
        while not self._closing and await self._records.write(derive_some):
            pass
        await self._index_all()
        self._to_embed.set()

    async def _embed_for_ever(self, meaning: Meaning) -> None:
        """Give episodes vectors; what cannot be had now is tried again later."""
        while not self._closing:
            await self._to_embed.wait()
            self._to_embed.clear()
            try:
                await self._embed_all(meaning)
                self._unembedded = ""
            except MemplaneError as error:
                self._unembedded = f"episodes wait for their vectors: {error}"
                _log.warning("%s", self._unembedded)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_RETRY_SECONDS):
                        await self._to_embed.wait()
                self._to_embed.set()

    async def _embed_all(self, meaning: Meaning) -> None:
        if not self._is_warm:
            await meaning.warm()
            self._is_warm = True
        while not self._closing and await meaning.embed_some():
            pass

    async def _index_all(self) -> None:
        self._since_indexed = 0
        if self._index_is_broken:
            await self._begin_index_anew()
        try:
            # What comes meanwhile is for the next time, or this would never end.
            until = await self._records.read(table.last_unindexed, quick=True)
            while await self._index_some(until):
                pass
        except IndexUnusable as error:
            self._give_up_index(error)

    async def _index_some(self, until: int) -> bool:
        """Let the text index take in changed episodes; says whether there were any."""
        async with self._indexing:
            changed = await self._records.read(
                lambda rows: table.unindexed(rows, until, _INDEXED_AT_ONCE), patient=True
            )
            if not changed:
                return False
            changes = [Change(one.key, one.agent, one.counts) for one in changed]
            await asyncio.to_thread(self._opened_index().apply, changes)
            await self._records.write(lambda rows: table.mark_indexed(rows, changed))
            return True


def _named(ids: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(one for one in ids if one.strip()))


def _prepared(rows: Connection, batch: Sequence[_Waiting]) -> list[_Prepared]:
    """Decide what becomes of each entry."""
    ids: dict[str, list[str]] = {}
    for waiting in batch:
        ids.setdefault(waiting.agent, []).append(waiting.given.entry.id)
    numbers = table.numbers_of(rows, ids)
    outcomes = {
        agent: table.outcomes_of(rows, numbers.get(agent), ours) for agent, ours in ids.items()
    }
    prepared: list[_Prepared] = []
    for waiting in batch:
        ours, entry_id = outcomes[waiting.agent], waiting.given.entry.id
        prepared.append(_Prepared(waiting, ours.get(entry_id, Outcome.RETAINED)))
        ours.setdefault(entry_id, Outcome.KNOWN)
    return prepared


def _take_in(rows: Connection, new: Sequence[_Prepared]) -> dict[int, Outcome]:
    """Take in what is new; says what became of each."""
    given = [(one.waiting.agent, one.given.stored) for one in new]
    return dict(zip(map(id, new), table.take_in(rows, given), strict=True))


def _fail(waiting: _Waiting, error: Exception) -> None:
    if not waiting.future.done():
        waiting.future.set_exception(error)


@asynccontextmanager
async def open_memory(memory: Memory) -> AsyncGenerator[Memory]:
    """Open memory, and close it again."""
    try:
        await memory.open()
        yield memory
    finally:
        await memory.close()


async def open_text_index(records: Records, indexes: Path) -> TextIndex:
    """Open the text index that belongs to a database; when there is none it is made anew."""
    wanted = await records.read(lambda rows: table.note(rows, _GENERATION))
    index = await asyncio.to_thread(open_index, indexes / wanted) if wanted else None
    if index is None or index.generation != wanted:
        index = await new_text_index(records, indexes)
    await asyncio.to_thread(erase_others, indexes, index.generation)
    return index


async def new_text_index(records: Records, indexes: Path) -> TextIndex:
    """Make a text index that has to take in everything."""
    generation = new_id()

    def begin_anew(rows: Connection) -> None:
        table.everything_to_index(rows)
        table.keep_note(rows, _GENERATION, generation)

    index = await asyncio.to_thread(TextIndex.create, indexes / generation, generation)
    await records.write(begin_anew)
    return index


def erase_others(indexes: Path, generation: str) -> None:
    """Erase the indexes that belong to no database any more."""
    for folder in indexes.iterdir():
        if folder.name != generation:
            erase(folder)
