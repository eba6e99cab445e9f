"""Keeping what is retained: one task takes all that waits, so that one sync serves many."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Final, Protocol, TypeAlias

import msgspec

from memplane.errors import MemplaneError
from memplane.ledger.entry import Entry, Received
from memplane.ledger.writer import Ledger
from memplane.memory import rows as table
from memplane.memory.burying import Burying
from memplane.memory.contract import RetainReceipt
from memplane.memory.retaining import Given, Scrub, given_of
from memplane.memory.rows import Outcome, State
from memplane.records.store import Connection, Records

_log = logging.getLogger(__name__)

_BATCH: Final = 64
_BATCH_BYTES: Final = 16 << 20
_READ_BYTES: Final = 16 << 10
_QUIET_ROUNDS: Final = 3


class Watching(Protocol):
    """Is told how far entries of agents have come."""

    def only_in_ledger(self, agents: Iterable[str]) -> None:
        """Entries are durable in the ledger, and the database may not have them."""
        ...

    def in_database(self, agents: Sequence[str]) -> None:
        """As many entries are in the database now, in the agents' order."""
        ...


class _Sent(msgspec.Struct, frozen=True):
    """An entry as it came, or as it was read already."""

    agent: str
    entry: bytes | Given
    future: asyncio.Future[RetainReceipt]

    @property
    def size(self) -> int:
        entry = self.entry
        return len(entry) if isinstance(entry, bytes) else len(entry.entry.line)


class _Waiting(msgspec.Struct, frozen=True):
    """An entry that was read."""

    agent: str
    given: Given
    future: asyncio.Future[RetainReceipt]


class _Prepared(msgspec.Struct, frozen=True):
    """An entry that waits, and what will become of it; `repeats` came before it in its batch."""

    waiting: _Waiting
    outcome: Outcome
    repeats: _Waiting | None = None

    @property
    def given(self) -> Given:
        return self.waiting.given


_Failures: TypeAlias = dict[int, MemplaneError]
"""Why entries were not kept, by who waits for them."""


class Applying:
    """Takes entries into the ledger of what was received, and then into the database.

    First it lets be buried what was forgotten beside us: a batch needs one look for each agent.
    Nothing is taken in while `pausing` is held.
    """

    def __init__(
        self,
        records: Records,
        received: Ledger,
        watching: Watching,
        burying: Burying,
        *,
        scrub: Scrub,
    ) -> None:
        self._records = records
        self._received = received
        self._watching = watching
        self._burying = burying
        self._scrub = scrub
        self._waiting: asyncio.Queue[_Sent | None] = asyncio.Queue()

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits for the next batch."""
        return self._waiting.empty()

    def give(self, agent: str, entry: bytes | Given) -> asyncio.Future[RetainReceipt]:
        """Let an entry be taken in; the future is its receipt.

        It is read with others of its batch, one right after the other, which takes less time than
        between the steps of their requests.
        """
        sent = _Sent(agent, entry, asyncio.get_running_loop().create_future())
        self._waiting.put_nowait(sent)
        return sent.future

    def end(self) -> None:
        """Let `run` return when it has taken in what waits."""
        self._waiting.put_nowait(None)

    async def run(self) -> None:
        """Take in what is given until the end."""
        while (one := await self._waiting.get()) is not None:
            await self._let_others_come()
            batch = await self._read(self._batch_of(one))
            try:
                if batch := await self._unburied(batch):
                    async with self._burying.pausing:
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

    def _batch_of(self, one: _Sent) -> list[_Sent]:
        batch, size = [one], one.size
        while not self._waiting.empty() and len(batch) < _BATCH and size < _BATCH_BYTES:
            following = self._waiting.get_nowait()
            if following is None:
                self._waiting.put_nowait(None)
                break
            batch.append(following)
            size += following.size
        return batch

    async def _read(self, batch: Iterable[_Sent]) -> list[_Waiting]:
        """Return the entries that are some; the others are told what is wrong with them.

        Now and then everybody else goes on: streams must not wait for a long batch.
        """
        read: list[_Waiting] = []
        size = 0
        for one in batch:
            if (size := size + one.size) > _READ_BYTES:
                size = one.size
                await asyncio.sleep(0)
            try:
                entry = one.entry
                given = given_of(entry, self._scrub) if isinstance(entry, bytes) else entry
                read.append(_Waiting(one.agent, given, one.future))
            except Exception as error:  # noqa: BLE001 - told to the one who waits; others go on
                _fail(one, error)
        return read

    async def _unburied(self, batch: Sequence[_Waiting]) -> list[_Waiting]:
        """Return those whose agents' tombstones could be looked at; the others are told why."""
        failed: dict[str, MemplaneError] = {}
        for agent in dict.fromkeys(one.agent for one in batch):
            try:
                await self._burying.look(agent)
            except MemplaneError as error:
                failed[agent] = error
        for one in batch:
            if one.agent in failed:
                _fail(one, failed[one.agent])
        return [one for one in batch if one.agent not in failed]

    async def _apply(self, batch: Sequence[_Waiting]) -> None:
        """Keep what is new in the ledger of received entries, then in the database."""
        prepared = await self._records.read(lambda rows: _prepared(rows, batch), quick=True)
        new = [one for one in prepared if one.outcome is Outcome.RETAINED]
        taken: dict[int, Outcome] = {}
        if new:
            new, failed = await self._keep(new)
            _tell_failed(prepared, failed)
            agents = [one.waiting.agent for one in new]
            try:
                taken = await self._records.write(lambda rows: _take_in(rows, new))
            except BaseException:
                self._watching.only_in_ledger(agents)
                raise
            self._watching.in_database(agents)
        for one in prepared:
            if not one.waiting.future.done():
                _tell(one, taken.get(id(one.waiting), one.outcome))

    async def _keep(self, new: Sequence[_Prepared]) -> tuple[list[_Prepared], _Failures]:
        """Keep entries in the ledger; says which are kept, and why others are not."""
        kept: list[_Prepared] = []
        failed: _Failures = {}
        submitted: list[tuple[_Prepared, asyncio.Future[Entry]]] = []
        for one in new:
            try:
                received = Received(one.waiting.agent, one.given.entry)
                submitted.append((one, self._received.submit(received)))
            except MemplaneError as error:
                failed[id(one.waiting)] = error
        for one, future in submitted:
            try:
                await future
            except MemplaneError as error:
                failed[id(one.waiting)] = error
            else:
                kept.append(one)
        return kept, failed


def _prepared(rows: Connection, batch: Sequence[_Waiting]) -> list[_Prepared]:
    """Decide what becomes of each entry."""
    ids: dict[str, list[str]] = {}
    for waiting in batch:
        ids.setdefault(waiting.agent, []).append(waiting.given.entry.id)
    numbers = table.numbers_of(rows, ids)
    known = {
        agent: table.outcomes_of(rows, numbers.get(agent), ours) for agent, ours in ids.items()
    }
    first: dict[tuple[str, str], _Waiting] = {}
    prepared: list[_Prepared] = []
    for waiting in batch:
        entry_id = waiting.given.entry.id
        outcome = known[waiting.agent].get(entry_id, Outcome.RETAINED)
        before = first.setdefault((waiting.agent, entry_id), waiting)
        if outcome is Outcome.RETAINED and before is not waiting:
            prepared.append(_Prepared(waiting, Outcome.KNOWN, repeats=before))
        else:
            prepared.append(_Prepared(waiting, outcome))
    return prepared


def _take_in(rows: Connection, new: Sequence[_Prepared]) -> dict[int, Outcome]:
    """Take in what is new; says what became of each."""
    given = [(one.waiting.agent, one.given.stored) for one in new]
    numbers = (id(one.waiting) for one in new)
    return dict(zip(numbers, table.take_in(rows, given), strict=True))


def _tell_failed(prepared: Sequence[_Prepared], failed: _Failures) -> None:
    """Tell those whose entries were not kept, and those who gave the same entry again.

    The failures say so and not the futures: nobody may wait for the first of them any more.
    """
    for one in prepared:
        error = failed.get(id(one.repeats or one.waiting))
        if error is not None:
            _fail(one.waiting, error)


def _tell(one: _Prepared, outcome: Outcome) -> None:
    """Tell who waits what became of an entry."""
    kept = outcome is not Outcome.FORGOTTEN
    one.waiting.future.set_result(
        RetainReceipt(
            id=one.given.entry.id,
            status=outcome.name.lower(),
            durable=kept,
            searchable=kept and one.given.stored.state is State.SEARCHABLE,
            redacted=one.given.redacted,
        )
    )


def _fail(waiting: _Sent | _Waiting, error: Exception) -> None:
    if not waiting.future.done():
        waiting.future.set_exception(error)
