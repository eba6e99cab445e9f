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

from memplane.clock import Clock, stamp
from memplane.embedding.contract import Embedder
from memplane.errors import IndexUnusable, InvalidRequest, NotRecorded
from memplane.ledger.folder import AgentFolder
from memplane.ledger.sealing import Modes
from memplane.ledger.tombstones import Tombstone, append_tombstones, read_tombstones
from memplane.ledger.writer import Ledger
from memplane.memory import injections, purging, verifying
from memplane.memory import rows as table
from memplane.memory.applying import Applying
from memplane.memory.blocks import Shares
from memplane.memory.burying import Burying, Told
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
from memplane.memory.episode import microseconds
from memplane.memory.following import (
    OURSELVES,
    Places,
    bury,
    bury_all,
    keep_tombstones,
    not_buried,
)
from memplane.memory.indexing import Indexing
from memplane.memory.injections import Injection, Said
from memplane.memory.meaning import Meaning, MeantQuestion
from memplane.memory.naming import entries_meant
from memplane.memory.question import Question
from memplane.memory.readers import Readers
from memplane.memory.rebuilding import compared, contents, derive_all
from memplane.memory.recalling import Now, asked_in, recalled
from memplane.memory.retaining import Given, Scrub, given_of
from memplane.memory.tails import Tails
from memplane.memory.upkeep import Upkeep
from memplane.memory.verifying import Before
from memplane.records.store import Database

_LONGEST_REASON: Final = 1000
_COMPARED: Final = 5
_LONG: Final = 64 << 10


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
        readers: Readers | None = None,
    ) -> None:
        self.places = places
        self._records = records
        self._scrub = scrub
        self._clock = clock
        self._shares = shares or Shares()
        self._modes = modes or Modes()
        self._meaning = Meaning(records, embedder) if embedder is not None else None
        self._readers = readers
        self._tails = Tails()
        self._indexing = Indexing(records, indexes)
        self._upkeep = Upkeep(records, places, self._indexing)
        self._burying = Burying(records, places)
        self._burying.told.append(self._buried)
        self._applying = Applying(records, received, self._upkeep, self._burying, scrub=scrub)
        self._closing = False
        self._tasks: list[asyncio.Task[None]] = []
        self._embedding: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Begin; what other processes or a crash left is taken in meanwhile, see `follow`."""
        await self._indexing.open()
        await bury_all(self._records, self.places)
        await keep_tombstones(self._records, self.places, stamp(self._clock()))
        oldest = microseconds(self._clock()) - injections.KEPT_FOR
        await self._records.write(partial(injections.drop_older, at=oldest))
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

    async def retain(self, agent: str, raw: bytes) -> RetainReceipt:
        """Keep an entry that somebody recorded; it is durable and searchable when this returns.

        Raises:
            InvalidRequest: It is no entry, or has no id.
            NotRecorded: It could not be written.
            RecordsError: It could not be made searchable; it will be, once the database works.
        """
        folder = AgentFolder(self.places.received, agent)
        entry: bytes | Given = raw
        if len(raw) > _LONG:
            entry = await asyncio.to_thread(given_of, raw, self._scrub)
        if self._closing:
            raise NotRecorded(f"an entry of {agent} came after memory was closed")
        return await self._applying.give(folder.agent, entry)

    async def recall(self, ask: Ask) -> Recalled:
        """Answer a question with what the agent remembers.

        Raises:
            UnknownAgent: That is no agent's name.
            RecordsError: The database cannot be read.
        """
        AgentFolder(self.places.ledger, ask.agent)
        await self._burying.look(ask.agent)
        question, at = asked_in(ask), microseconds(self._clock())
        meant = await self._meant(question.text)
        recall = partial(
            recalled,
            ask=ask,
            question=question,
            shares=self._shares,
            now=Now(at, meant),
            tails=self._tails,
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
        self, ask: Ask, question: Question, at: int, meant: MeantQuestion | None
    ) -> Recalled | None:
        """Let another process answer, where there is one that can."""
        if self._readers is None or self._indexing.is_broken:
            return None
        model, vector = (meant.model, meant.vector) if meant is not None else ("", b"")
        found = await self._readers.recall(ask, question, at, model=model, vector=vector)
        self._upkeep.unanswered = self._readers.complaint
        return found

    async def _meant(self, text: str) -> MeantQuestion | None:
        if self._meaning is None or not text.strip():
            return None
        return await self._meaning.question(text)

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
        async with self._burying.pausing:
            new = await self._records.read(lambda rows: not_buried(rows, agent, wanted))
            # The file decides what is written: it may be older than the database.
            told = await asyncio.to_thread(read_tombstones, folder.root, agent)
            now, why = stamp(self._clock()), reason[:_LONGEST_REASON]
            missing = [entry_id for entry_id in wanted if entry_id not in told]
            written = [Tombstone(now, agent, service, entry_id, why) for entry_id in missing]
            await asyncio.to_thread(append_tombstones, folder.root, agent, written)
            await self._records.write(partial(bury, agent=agent, ids=wanted))
        await self._buried(agent, wanted)
        return Forgotten(forgotten=len(new), already=len(wanted) - len(new))

    async def _buried(self, _agent: str, _ids: Sequence[str]) -> None:
        """Let the index and the work behind follow what was buried."""
        await self._indexing.catch_up()
        self._look_at_meaning_again()
        self._upkeep.wake()

    async def forget_as_asked(self, asked: ForgetAsked) -> ForgetReceipt:
        """Forget entries as thoroughly as an operator wants.

        Raises:
            InvalidRequest: There is no id among them, or one that had to be known is not.
            UnknownAgent: That is no agent's name.
        """
        ids, agent = _named(asked.ids), asked.agent
        if asked.known_only:
            ids = await asyncio.to_thread(entries_meant, self.places, agent, ids)
        before = Before()
        if asked.verify or asked.purge:
            before = await asyncio.to_thread(verifying.looked_at, self.places, agent, ids)
        repeated: list[str] = []
        if asked.purge:
            repeated = await asyncio.to_thread(purging.repeats_of, self.places, agent, ids)
        if asked.copies:
            ids, repeated = [*ids, *repeated], []
        outcome = await self.forget(agent, ids, reason=asked.reason, service=OURSELVES)
        purged = await self._purge(agent, ids) if asked.purge else []
        checked: list[Checked] = []
        if asked.verify:
            checked = await self.verify_forgotten(agent, ids, before)
        if asked.verify and asked.purge:
            checked.append(
                await asyncio.to_thread(purging.check_ledgers, self.places, agent, before)
            )
        return ForgetReceipt(
            forgotten=outcome.forgotten,
            already=outcome.already,
            ids=tuple(ids),
            purged=tuple(purged),
            repeated=tuple(repeated),
            erased_before=before.erased,
            checked=tuple(checked),
        )

    async def _purge(self, agent: str, ids: Sequence[str]) -> list[str]:
        purge = partial(purging.purge_all, modes=self._modes, clock=self._clock)
        purged = await asyncio.to_thread(purge, self.places, agent, ids)
        await self._wipe()
        return purged

    async def injected(self, agent: str, places: Sequence[str]) -> list[Injection]:
        """Return what stands at places of an agent's conversations, the newest first."""
        await self._burying.look(agent)
        return await self._records.read(
            partial(injections.found, agent=agent, places=places), quick=True
        )

    async def any_forgotten(self, agent: str, entries: Collection[str]) -> bool:
        """Say whether any of an agent's entries was forgotten."""
        look = partial(injections.any_forgotten, agent=agent, entries=entries)
        return await self._records.read(look, quick=True)

    async def keep_injected(self, texts: Sequence[Injection]) -> None:
        """Keep what was put into conversations; forgetting what it cites takes it away again."""
        for agent in {one.agent for one in texts}:
            await self._burying.look(agent)
        await self._records.write(partial(injections.keep, injections=texts))

    async def keep_said(self, turns: Sequence[Said]) -> None:
        """Keep at which places of conversations turns were said."""
        await self._records.write(partial(injections.keep_said, turns=turns))

    def tell(self, told: Callable[[], None]) -> None:
        """Call back whenever entries were taken in."""
        self._upkeep.told = told

    def tell_remembered(self, told: Callable[[str, int], None]) -> None:
        """Call back, in a thread, with an agent and how many turns of our ledger it remembers."""
        self._upkeep.remembered = told
        self._upkeep.wake()

    def tell_buried(self, told: Told) -> None:
        """Call back with an agent and entries of it that somebody else forgot, as soon as seen."""
        self._burying.told.append(told)

    async def bury_all(self) -> None:
        """Take in now what others wrote tombstones for, of every agent."""
        await self._burying.look_everywhere()

    def recorded(self, agent: str) -> None:
        """Be told that our own ledger has a new turn of an agent."""
        self._upkeep.recorded(agent)

    async def verify_forgotten(
        self, agent: str, ids: Sequence[str], before: Before
    ) -> list[Checked]:
        """Look for forgotten entries, and for what they said, in every place that was derived."""
        await self.settle()
        checked = [
            await asyncio.to_thread(verifying.check_tombstones, self.places, agent, ids),
            *await self._records.read(lambda rows: verifying.check_rows(rows, agent, ids)),
        ]
        tellings = [
            one
            for one in before.tellings
            if not await self._records.read(
                partial(verifying.told_elsewhere, agent=agent, telling=one, ids=ids)
            )
        ]
        held = [one for one in tellings if await self._records.holds(one.encode())]
        note = f"{len(held)} of its lines are in the file" if held else ""
        bytes_held = Checked(place="database: the file's bytes", clean=not held, note=note)
        checked.append(before.judged(bytes_held))
        answers = [
            await self.recall(Ask(agent=agent, text=one, limit=MOST_ASKED)) for one in tellings
        ]
        found = {one for answer in answers for block in answer.memories for one in block.entry_ids}
        back = found & {*ids}
        note = f"it answers with {', '.join(sorted(back))}" if back else ""
        return [*checked, before.judged(Checked(place="recall", clean=not back, note=note))]

    async def rebuild(self) -> Rebuilt:
        """Derive everything again from the ledgers; what differs from it is replaced.

        Retaining goes on meanwhile; it waits only while the two are compared.

        Raises:
            RecordsError: A database cannot be used; the live one is as it was.
        """
        async with self._upkeep.working, self._records.aside() as again:
            await self._upkeep.work()
            await derive_all(again, self.places)
            async with self._burying.pausing:
                outcome = await self._compared(again)
                if not outcome.same:
                    await self._records.replace_by(again, table.TABLES)
                    await self._indexing.begin_anew()
                    self._look_at_meaning_again()
        self._upkeep.wake()
        return outcome

    def _look_at_meaning_again(self) -> None:
        if self._meaning is not None:
            self._meaning.look_again()

    async def _compared(self, again: Database) -> Rebuilt:
        """Compare the two, once both have read as far: our own ledger may grow meanwhile."""
        left = _COMPARED
        while True:
            await derive_all(again, self.places)
            await self._upkeep.look_again()
            await self._upkeep.work()
            live = await self._records.read(contents, patient=True)
            outcome = compared(live, await again.read(contents))
            read = await self._records.read(table.cursors), await again.read(table.cursors)
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
        totals = await self._records.read(table.totals)
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


def _named(ids: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(one for one in ids if one.strip()))


@asynccontextmanager
async def open_memory(memory: Memory) -> AsyncGenerator[Memory]:
    """Open memory, and close it again."""
    try:
        await memory.open()
        yield memory
    finally:
        await memory.close()
