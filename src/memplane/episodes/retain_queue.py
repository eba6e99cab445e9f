"""Keeping what is retained: one task takes all that waits, so that one sync serves many."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Final, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from memplane.auth.memory_scope import SHARED, MemoryScope
from memplane.database.interface import Connection, RecordStore
from memplane.episodes import store as table
from memplane.episodes.api_types import RetainReceipt
from memplane.episodes.entry_parser import ParsedEntry, ScrubLine, parse_entry
from memplane.episodes.scope_store import get_agent_numbers
from memplane.episodes.store import EpisodeState, RetainOutcome
from memplane.episodes.tombstone_watcher import TombstoneWatcher
from memplane.errors import MemplaneError
from memplane.exchange.end_user import TurnOwner, UserPolicy
from memplane.ledger.entry import Entry, ReceivedEntry
from memplane.ledger.turn_note import TurnNote, encode_note
from memplane.ledger.writer import Ledger

_log = logging.getLogger(__name__)

_MAX_BATCH_ENTRIES: Final = 64
_MAX_BATCH_BYTES: Final = 16 << 20
_YIELD_AFTER_BYTES: Final = 16 << 10
_IDLE_LOOP_ROUNDS: Final = 3


class RetainListener(Protocol):
    """Is told how far entries of agents have come."""

    def on_ledger_write(self, agents: Iterable[str]) -> None:
        """Entries are durable in the ledger, and the database may not have them."""
        ...

    def on_database_write(self, agents: Sequence[str]) -> None:
        """As many entries are in the database now, in the agents' order."""
        ...


class EntryOrigin(msgspec.Struct, frozen=True):
    """Whose entry it is, as whoever gives it says.

    Without a `user` it is that of the user that the entry's own request names. The `note` is what
    else is to be kept beside it.
    """

    agent: str
    user: str | None = None
    view: str = SHARED
    note: TurnNote = TurnNote()
    holds_token: bool = False


class _SubmittedEntry(msgspec.Struct, frozen=True):
    """An entry as it came, or as it was read already."""

    origin: EntryOrigin
    entry: bytes | ParsedEntry
    future: asyncio.Future[RetainReceipt]

    @property
    def size(self) -> int:
        entry = self.entry
        return len(entry) if isinstance(entry, bytes) else len(entry.entry.line)


class _DecodedEntry(msgspec.Struct, frozen=True):
    """An entry that was read, whose it is, and what is to be noted of it."""

    scope: MemoryScope
    given: ParsedEntry
    future: asyncio.Future[RetainReceipt]
    note: TurnNote

    @property
    def agent(self) -> str:
        return self.scope.agent


class _PreparedEntry(msgspec.Struct, frozen=True):
    """An entry that waits, and what will become of it; `repeats` came before it in its batch."""

    waiting: _DecodedEntry
    outcome: RetainOutcome
    repeats: _DecodedEntry | None = None

    @property
    def given(self) -> ParsedEntry:
        return self.waiting.given


_Failures: TypeAlias = dict[int, MemplaneError]
"""Why entries were not kept, by who waits for them."""


class RetainQueue:
    """Takes entries into the ledger of what was received, and then into the database.

    First it lets be buried what was forgotten beside us: a batch needs one look for each agent.
    Nothing is taken in while `pausing` is held.
    """

    def __init__(
        self,
        records: RecordStore,
        received: Ledger,
        watching: RetainListener,
        burying: TombstoneWatcher,
        *,
        scrub: ScrubLine,
        users: UserPolicy,
    ) -> None:
        self._users = users
        self._records = records
        self._received = received
        self._watching = watching
        self._burying = burying
        self._scrub = scrub
        self._waiting: asyncio.Queue[_SubmittedEntry | None] = asyncio.Queue()

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits for the next batch."""
        return self._waiting.empty()

    def give(
        self, origin: EntryOrigin, entry: bytes | ParsedEntry
    ) -> asyncio.Future[RetainReceipt]:
        """Let an entry be taken in; the future is its receipt.

        It is read with others of its batch, one right after the other, which takes less time than
        between the steps of their requests.
        """
        sent = _SubmittedEntry(origin, entry, asyncio.get_running_loop().create_future())
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
                    async with self._burying.intake_lock:
                        await self._apply(batch)
            except Exception as error:  # noqa: BLE001 - told to those who wait; others go on
                if not isinstance(error, MemplaneError):
                    _log.exception("entries could not be retained")
                for waiting in batch:
                    _reject_entry(waiting, error)

    async def _let_others_come(self) -> None:
        """Wait as long as more arrive in each round of the loop.

        They would wait for the next batch otherwise, and be read in a contest with the threads
        that write this one, for the interpreter's lock.
        """
        quiet = seen = 0
        while quiet < _IDLE_LOOP_ROUNDS and self._waiting.qsize() < _MAX_BATCH_ENTRIES:
            await asyncio.sleep(0)
            quiet = quiet + 1 if self._waiting.qsize() == seen else 0
            seen = self._waiting.qsize()

    def _batch_of(self, one: _SubmittedEntry) -> list[_SubmittedEntry]:
        batch, size = [one], one.size
        while (
            not self._waiting.empty()
            and len(batch) < _MAX_BATCH_ENTRIES
            and size < _MAX_BATCH_BYTES
        ):
            following = self._waiting.get_nowait()
            if following is None:
                self._waiting.put_nowait(None)
                break
            batch.append(following)
            size += following.size
        return batch

    async def _read(self, batch: Iterable[_SubmittedEntry]) -> list[_DecodedEntry]:
        """Return the entries that are some; the others are told what is wrong with them.

        Now and then everybody else goes on: streams must not wait for a long batch.
        """
        read: list[_DecodedEntry] = []
        size = 0
        for one in batch:
            if (size := size + one.size) > _YIELD_AFTER_BYTES:
                size = one.size
                await asyncio.sleep(0)
            try:
                entry = one.entry
                given = parse_entry(entry, self._scrub) if isinstance(entry, bytes) else entry
                read.append(self._decoded(one, given))
            except Exception as error:  # noqa: BLE001 - told to the one who waits; others go on
                _reject_entry(one, error)
        return read

    def _decoded(self, sent: _SubmittedEntry, given: ParsedEntry) -> _DecodedEntry:
        """Decide whose entry it is."""
        origin = sent.origin
        if origin.user is not None:
            owner = TurnOwner(user=origin.user)
        else:
            owner = self._users.find_owner(
                origin.agent, given.named, holds_token=origin.holds_token
            )
        scope = MemoryScope(origin.agent, owner.user, origin.view)
        account = owner.account or origin.note.account
        note = replace(origin.note, user=scope.user, view=scope.view, account=account)
        return _DecodedEntry(scope, given, sent.future, note)

    async def _unburied(self, batch: Sequence[_DecodedEntry]) -> list[_DecodedEntry]:
        """Return those whose agents' tombstones could be looked at; the others are told why."""
        failed: dict[str, MemplaneError] = {}
        for agent in dict.fromkeys(one.agent for one in batch):
            try:
                await self._burying.look(agent)
            except MemplaneError as error:
                failed[agent] = error
        for one in batch:
            if one.agent in failed:
                _reject_entry(one, failed[one.agent])
        return [one for one in batch if one.agent not in failed]

    async def _apply(self, batch: Sequence[_DecodedEntry]) -> None:
        """Keep what is new in the ledger of received entries, then in the database."""
        prepared = await self._records.read(lambda rows: _prepare_batch(rows, batch), quick=True)
        new = [one for one in prepared if one.outcome is RetainOutcome.RETAINED]
        taken: dict[int, RetainOutcome] = {}
        if new:
            new, failed = await self._keep(new)
            _reject_failed(prepared, failed)
            agents = [one.waiting.agent for one in new]
            try:
                taken = await self._records.write(lambda rows: _insert_prepared(rows, new))
            except BaseException:
                self._watching.on_ledger_write(agents)
                raise
            self._watching.on_database_write(agents)
        for one in prepared:
            if not one.waiting.future.done():
                _resolve_receipt(one, taken.get(id(one.waiting), one.outcome))

    async def _keep(self, new: Sequence[_PreparedEntry]) -> tuple[list[_PreparedEntry], _Failures]:
        """Keep entries in the ledger; says which are kept, and why others are not."""
        kept: list[_PreparedEntry] = []
        failed: _Failures = {}
        submitted: list[tuple[_PreparedEntry, asyncio.Future[Entry]]] = []
        for one in new:
            try:
                note = encode_note(one.waiting.note)
                received = ReceivedEntry(one.waiting.agent, one.given.entry, note)
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


def _prepare_batch(rows: Connection, batch: Sequence[_DecodedEntry]) -> list[_PreparedEntry]:
    """Decide what becomes of each entry."""
    ids: dict[str, list[str]] = {}
    for waiting in batch:
        ids.setdefault(waiting.agent, []).append(waiting.given.entry.id)
    numbers = get_agent_numbers(rows, ids)
    known = {
        agent: table.predict_outcomes(rows, numbers.get(agent), ours)
        for agent, ours in ids.items()
    }
    first: dict[tuple[str, str], _DecodedEntry] = {}
    prepared: list[_PreparedEntry] = []
    for waiting in batch:
        entry_id = waiting.given.entry.id
        outcome = known[waiting.agent].get(entry_id, RetainOutcome.RETAINED)
        before = first.setdefault((waiting.agent, entry_id), waiting)
        if outcome is RetainOutcome.RETAINED and before is not waiting:
            prepared.append(_PreparedEntry(waiting, RetainOutcome.KNOWN, repeats=before))
        else:
            prepared.append(_PreparedEntry(waiting, outcome))
    return prepared


def _insert_prepared(rows: Connection, new: Sequence[_PreparedEntry]) -> dict[int, RetainOutcome]:
    """Take in what is new; says what became of each."""
    given = [(one.waiting.scope, one.given.stored) for one in new]
    numbers = (id(one.waiting) for one in new)
    return dict(zip(numbers, table.insert_episodes(rows, given), strict=True))


def _reject_failed(prepared: Sequence[_PreparedEntry], failed: _Failures) -> None:
    """Tell those whose entries were not kept, and those who gave the same entry again.

    The failures say so and not the futures: nobody may wait for the first of them any more.
    """
    for one in prepared:
        error = failed.get(id(one.repeats or one.waiting))
        if error is not None:
            _reject_entry(one.waiting, error)


def _resolve_receipt(one: _PreparedEntry, outcome: RetainOutcome) -> None:
    """Tell who waits what became of an entry."""
    kept = outcome is not RetainOutcome.FORGOTTEN
    one.waiting.future.set_result(
        RetainReceipt(
            id=one.given.entry.id,
            status=outcome.name.lower(),
            durable=kept,
            searchable=kept and one.given.stored.state is EpisodeState.SEARCHABLE,
            redacted=one.given.redacted,
        )
    )


def _reject_entry(waiting: _SubmittedEntry | _DecodedEntry, error: Exception) -> None:
    if not waiting.future.done():
        waiting.future.set_exception(error)
