"""Recording turns: one thread owns every file, and one sync makes many turns durable.

The sync is the batching window: what arrives while it runs is the next batch. A turn is
acknowledged after its line is durable; the chain follows, and is made durable with the anchors
once a second and at the end.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from enum import StrEnum
from itertools import groupby
from pathlib import Path
from typing import Final

import msgspec

from memplane.auth.agent_id import is_agent_id
from memplane.errors import EntryTooLarge, InvalidEntry, LedgerFull, NotRecorded
from memplane.kit.clock import Clock
from memplane.ledger.agent_writer import AgentWriter
from memplane.ledger.anchors import read_anchors, write_anchors
from memplane.ledger.chain import ChainEnd
from memplane.ledger.entry import Entry, ReceivedEntry, Turn
from memplane.ledger.folder import AgentFolder, make_invalid_agent
from memplane.ledger.line_reader import MAX_LINE_BYTES
from memplane.ledger.recovery import RecoveryReport
from memplane.ledger.segments import FileModes
from memplane.ledger.turn_note import make_note_line

_log = logging.getLogger(__name__)

_MAX_BATCH_TURNS: Final = 1024
_MAX_PARALLEL_SYNCS: Final = 16
_MAX_PARALLEL_AGENTS: Final = 64
_MAX_OPEN_AGENTS: Final = 128
_TURN_OVERHEAD_BYTES: Final = 512


class SyncPolicy(StrEnum):
    """When lines are made durable."""

    GROUP = "group"
    """Before they are acknowledged; one sync for all that wait."""

    INTERVAL = "interval"
    """Every 100 ms; a power loss takes that much."""

    NEVER = "never"
    """When the system likes; a power loss takes what it had not written."""


class LedgerOptions(msgspec.Struct, frozen=True):
    """What an operator can choose about a ledger."""

    syncing: SyncPolicy = SyncPolicy.GROUP
    max_bytes: int = 256 << 20
    queue_bytes: int = 64 << 20
    modes: FileModes = msgspec.field(default_factory=FileModes)


_CHECKPOINT_INTERVAL_S: Final[Mapping[SyncPolicy, float | None]] = {
    SyncPolicy.GROUP: 1.0,
    SyncPolicy.INTERVAL: 0.1,
    SyncPolicy.NEVER: None,
}


class LedgerCounters(msgspec.Struct):
    """What a ledger has done since it was opened.

    `failing` says, for each agent whose last turns were not recorded, why; `degraded` is what an
    operator should know although recording goes on.
    """

    entries: int = 0
    bytes: int = 0
    batches: int = 0
    sync_seconds: float = 0.0
    failed: int = 0
    refused: int = 0
    queued_bytes: int = 0
    found: int = 0
    torn: int = 0
    damaged: int = 0
    broken: int = 0
    failing: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    degraded: str = ""


Scrub = Callable[[Turn], Turn]
"""Takes secrets out of a turn."""


_NO_ENTRY: Final = Entry("", b"")


class _PendingTurn(msgspec.Struct):
    turn: Turn | ReceivedEntry
    size: int
    future: asyncio.Future[Entry]
    entry: Entry = _NO_ENTRY
    note: bytes = b""
    """What is said about the turn, and how much was taken out of it."""
    settled: bool = False


class Ledger:
    """Records turns for good. `append` returns when the turn would survive a power loss."""

    def __init__(
        self, root: Path, *, scrub: Scrub, clock: Clock, options: LedgerOptions | None = None
    ) -> None:
        self.figures = LedgerCounters()
        self._root = root
        self._scrub = scrub
        self._clock = clock
        self._options = options or LedgerOptions()
        self._queue: queue.SimpleQueue[_PendingTurn | None] = queue.SimpleQueue()
        self._counting = threading.Lock()
        self._gaps: Counter[str] = Counter()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._logs: dict[str, AgentWriter] = {}
        self._unsynced: set[str] = set()
        self._untold: dict[str, ChainEnd] = {}
        self._checked = time.monotonic()
        self._pool = ThreadPoolExecutor(_MAX_PARALLEL_SYNCS, thread_name_prefix="ledger-sync")

    async def append(self, turn: Turn | ReceivedEntry) -> Entry:
        """Record a turn; returns its entry, as written, once it is durable.

        What another recorder made is kept as it is given, secrets and all: scrub it before.

        Raises:
            UnknownAgent: The turn's agent has a name that no agent can have.
            NotRecorded: It was not written, or may not have been.
        """
        return await self.submit(turn)

    def submit(self, turn: Turn | ReceivedEntry) -> asyncio.Future[Entry]:
        """Begin to record a turn, as `append` does; the future is its entry, once it is durable.

        Raises:
            UnknownAgent: The turn's agent has a name that no agent can have.
            NotRecorded: It will not be written.
        """
        if self._closed:
            raise NotRecorded(f"a turn of {turn.agent} came after the ledger was closed")
        if not is_agent_id(turn.agent):
            raise make_invalid_agent(turn.agent)
        waiting = _PendingTurn(turn, _size_of(turn), asyncio.get_running_loop().create_future())
        self._reserve(waiting)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="ledger", daemon=True)
            self._thread.start()
        self._queue.put(waiting)
        return waiting.future

    def _reserve(self, waiting: _PendingTurn) -> None:
        with self._counting:
            queued = self.figures.queued_bytes
            if queued and queued + waiting.size > self._options.queue_bytes:
                self.figures.refused += 1
                self._gaps[waiting.turn.agent] += 1
                raise LedgerFull(
                    f"a turn of {waiting.turn.agent} was not recorded: {queued:,} bytes wait for "
                    "the disk already. The chain notes the gap"
                )
            self.figures.queued_bytes += waiting.size

    async def close(self) -> None:
        """Record what waits, make everything durable and let go of the files."""
        self._closed = True
        if self._thread is not None:
            self._queue.put(None)
            await asyncio.to_thread(self._thread.join)
        self._pool.shutdown()

    # The rest runs in the writer's thread.

    def _run(self) -> None:
        more = True
        while more:
            batch, more = self._take()
            if batch:
                self._commit(batch)
            if self._due() or not more:
                self._checkpoint()
        for log in self._logs.values():
            log.close()

    def _take(self) -> tuple[list[_PendingTurn], bool]:
        """Wait for turns and take all there are; False when no more will come."""
        batch: list[_PendingTurn] = []
        timeout = _CHECKPOINT_INTERVAL_S[self._options.syncing] if self._unsynced else None
        try:
            one = self._queue.get(timeout=timeout)
            while one is not None and len(batch) < _MAX_BATCH_TURNS:
                batch.append(one)
                one = self._queue.get_nowait()
        except queue.Empty:
            return batch, True
        if one is not None:
            batch.append(one)
        return batch, one is not None

    def _commit(self, batch: list[_PendingTurn]) -> None:
        """Write a batch, make it durable, acknowledge it, chain it."""
        self.figures.batches += 1
        by_agent = _by_agent(batch)
        for first in range(0, len(by_agent), _MAX_PARALLEL_AGENTS):
            self._commit_agents(by_agent[first : first + _MAX_PARALLEL_AGENTS])
            self._let_go_of_some()
        with self._counting:
            self.figures.queued_bytes -= sum(one.size for one in batch)

    def _commit_agents(self, by_agent: Sequence[tuple[str, list[_PendingTurn]]]) -> None:
        staged: list[tuple[AgentWriter, list[_PendingTurn]]] = []
        with ExitStack() as locks:
            # Every process takes the locks in the same order, so none waits for another in turn.
            for agent, waiting in by_agent:
                with self._failing(agent, waiting):
                    log = self._held(agent, locks)
                    ready = self._prepared(log, waiting)
                    staged.append((log, self._write(log, ready)))
            self._settle(staged)

    def _let_go_of_some(self) -> None:
        """Close the files of agents that were quiet for longest; a process may not open many."""
        if len(self._logs) > _MAX_OPEN_AGENTS:
            self._checkpoint()
            for agent in list(self._logs)[:-_MAX_PARALLEL_AGENTS]:
                self._logs.pop(agent).close()

    @contextmanager
    def _failing(self, agent: str, waiting: Sequence[_PendingTurn]) -> Generator[None]:
        """Tell those who wait when it fails, and open the agent's files anew next time."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - the thread goes on for everybody else
            log = self._logs.pop(agent, None)
            if log is not None:
                log.close()
            self._unsynced.discard(agent)
            reason = (isinstance(error, OSError) and error.strerror) or repr(error)
            _log.warning("the ledger of %s failed: %s", agent, reason, exc_info=True)
            lost = [one for one in waiting if not one.settled]
            if lost:
                self.figures.failing[agent] = f"turns of {agent} are not recorded: {reason}"
                self._lose(lost, NotRecorded(f"a turn of {agent} was not recorded: {reason}"))
            else:
                self.figures.degraded = f"the chain of {agent} is behind its ledger: {reason}"

    def _lose(self, waiting: Sequence[_PendingTurn], error: NotRecorded) -> None:
        """Tell those who wait that their turns were not recorded; the chain will note the gap."""
        with self._counting:
            self._gaps.update(one.turn.agent for one in waiting)
        self.figures.failed += len(waiting)
        _notify_waiters(waiting, error)

    def _held(self, agent: str, locks: ExitStack) -> AgentWriter:
        log = self._logs.pop(agent, None)
        if log is None:
            folder = AgentFolder(self._root, agent)
            modes, most = self._options.modes, self._options.max_bytes
            log = AgentWriter(folder, modes=modes, max_bytes=most)
        self._logs[agent] = log  # the last one in it is the last one that was used
        recovered = locks.enter_context(
            log.held(lambda: read_anchors(self._root).get(agent), self._clock)
        )
        if recovered is not None:
            self._unsynced.add(agent)
            self._report(agent, recovered)
            if recovered.broken:
                modes = self._options.modes
                write_anchors(self._root, {agent: log.end}, modes=modes, anew=True)
        return log

    def _report(self, agent: str, recovered: RecoveryReport) -> None:
        figures = self.figures
        figures.found += recovered.found
        figures.torn += recovered.torn
        figures.damaged += recovered.damaged
        figures.broken += recovered.broken
        if recovered.broken:
            figures.degraded = f"the ledger of {agent} has lost something that was recorded"

    def _prepared(self, log: AgentWriter, waiting: Sequence[_PendingTurn]) -> list[_PendingTurn]:
        """Make the entries; a turn that cannot be one fails alone."""
        ready: list[_PendingTurn] = []
        for one in waiting:
            try:
                self._make_entry(log, one)
            except ValueError as error:
                why = f"a turn of {one.turn.agent} was not recorded: {error}"
                self._lose([one], InvalidEntry(why))
                continue
            if len(one.entry.line) >= MAX_LINE_BYTES:
                size = f"{len(one.entry.line):,} bytes"
                why = f"a turn of {one.turn.agent} has {size}, too many"
                self._lose([one], EntryTooLarge(why))
                continue
            ready.append(one)
        return ready

    def _make_entry(self, log: AgentWriter, waiting: _PendingTurn) -> None:
        match waiting.turn:
            case Turn():
                scrubbed = self._scrub(waiting.turn)
                waiting.entry, waiting.note = log.recent.entry_for(scrubbed), scrubbed.note
            case ReceivedEntry(_, entry, note):
                waiting.entry, waiting.note = entry, note

    def _write(self, log: AgentWriter, ready: list[_PendingTurn]) -> list[_PendingTurn]:
        """Write turns, sealing segments that are full; returns those still to be made durable."""
        while (fitting := log.fitting([one.entry.line for one in ready])) < len(ready):
            now, ready = ready[:fitting], ready[fitting:]
            if now:
                self._write_lines(log, now)
                self._settle([(log, now)])
            if self._logs.get(log.folder.agent) is not log:
                raise OSError(errno.EIO, "its files failed meanwhile")
            log.seal()
        if ready:
            self._write_lines(log, ready)
        return ready

    def _write_lines(self, log: AgentWriter, ready: Sequence[_PendingTurn]) -> None:
        """Write turns, and before them what is said about them."""
        notes = [make_note_line(one.entry.id, one.note) for one in ready if one.note]
        if notes:
            log.write_notes(notes, durably=self._options.syncing is SyncPolicy.GROUP)
        log.write([one.entry.line for one in ready])

    def _settle(self, staged: Sequence[tuple[AgentWriter, list[_PendingTurn]]]) -> None:
        """Make written turns durable, acknowledge them, and chain them."""
        written = [(log, waiting) for log, waiting in staged if waiting]
        durable: list[tuple[AgentWriter, list[_PendingTurn]]] = []
        for (log, waiting), error in zip(written, self._synced(written), strict=True):
            agent = log.folder.agent
            with self._failing(agent, waiting):
                lines = [one.entry.line for one in waiting]
                if error is not None:
                    self._rescue(log, lines, error)
                self.figures.failing.pop(agent, None)
                self.figures.entries += len(lines)
                self.figures.bytes += sum(map(len, lines))
                durable.append((log, waiting))
        _notify_waiters([one for _, waiting in durable for one in waiting])
        for log, waiting in durable:
            with self._failing(log.folder.agent, waiting):
                log.chain([one.entry.line for one in waiting])
                self._unsynced.add(log.folder.agent)

    def _synced(
        self, written: Sequence[tuple[AgentWriter, list[_PendingTurn]]]
    ) -> Sequence[OSError | None]:
        if self._options.syncing is not SyncPolicy.GROUP:
            return [None] * len(written)
        started = time.perf_counter()
        logs = [log for log, _ in written]
        outcomes = list(map(_sync, logs) if len(logs) == 1 else self._pool.map(_sync, logs))
        self.figures.sync_seconds += time.perf_counter() - started
        return outcomes

    def _rescue(self, log: AgentWriter, lines: Sequence[bytes], error: OSError) -> None:
        """Write turns again into a new segment, since nobody knows what a failed sync kept."""
        agent = log.folder.agent
        self.figures.degraded = f"the disk failed under the ledger of {agent}: {error.strerror}"
        _log.error("%s; going on in a new segment", self.figures.degraded)
        log.replace_segment()
        log.write(lines)
        log.sync()

    def _due(self) -> bool:
        interval = _CHECKPOINT_INTERVAL_S[self._options.syncing]
        if interval is None or not (self._unsynced or self._gaps):
            return False
        return time.monotonic() - self._checked >= interval

    def _checkpoint(self) -> None:
        """Make the chains durable, and tell their ends to the anchors."""
        self._checked = time.monotonic()
        self._note_gaps()
        for agent in sorted(self._unsynced):
            with self._failing(agent, ()):
                log = self._logs[agent]
                if self._options.syncing is SyncPolicy.INTERVAL:
                    self._sync_late(log)
                end = log.sync_chain()
                if end is not None:
                    self._untold[agent] = end
        self._unsynced.clear()
        try:
            if self._untold:
                write_anchors(self._root, self._untold, modes=self._options.modes)
                self._untold.clear()
        except OSError as error:
            self.figures.degraded = f"the anchors cannot be written: {error.strerror}"
            _log.warning("%s", self.figures.degraded)

    def _sync_late(self, log: AgentWriter) -> None:
        """Sync what was acknowledged already; when that fails, some of it may be lost."""
        try:
            log.sync()
        except OSError as error:
            agent = log.folder.agent
            self.figures.degraded = (
                f"the disk failed under the ledger of {agent}: {error.strerror}. The last turns "
                "that were acknowledged may be lost"
            )
            _log.error("%s", self.figures.degraded)
            with log.held(lambda: None, self._clock):
                log.replace_segment()

    def _note_gaps(self) -> None:
        with self._counting:
            gaps, self._gaps = self._gaps, Counter()
        left = Counter(gaps)
        for agent, count in gaps.items():
            with self._failing(agent, ()), ExitStack() as locks:
                self._held(agent, locks).note_gap(count)
                self._unsynced.add(agent)
                del left[agent]
        with self._counting:
            self._gaps += left


@asynccontextmanager
async def open_ledger(
    root: Path, *, scrub: Scrub, clock: Clock, options: LedgerOptions | None = None
) -> AsyncGenerator[Ledger]:
    """Open a ledger; files are touched when the first turn comes."""
    ledger = Ledger(root, scrub=scrub, clock=clock, options=options)
    try:
        yield ledger
    finally:
        await ledger.close()


def _size_of(turn: Turn | ReceivedEntry) -> int:
    if isinstance(turn, ReceivedEntry):
        return len(turn.entry.line)
    bodies = turn.request_original, turn.request_effective, turn.reply.body, turn.tool_trace
    return sum(map(len, bodies)) + _TURN_OVERHEAD_BYTES


def _by_agent(batch: Sequence[_PendingTurn]) -> list[tuple[str, list[_PendingTurn]]]:
    """Group turns by agent, sorted, each agent's turns in the order they came."""
    ordered = sorted(batch, key=lambda one: one.turn.agent)
    return [(agent, list(group)) for agent, group in groupby(ordered, lambda one: one.turn.agent)]


def _sync(log: AgentWriter) -> OSError | None:
    try:
        log.sync()
    except OSError as error:
        return error
    return None


def _notify_waiters(waiting: Sequence[_PendingTurn], error: NotRecorded | None = None) -> None:
    """Resolve the futures of those who wait, in their own loops."""
    unsettled = [one for one in waiting if not one.settled]
    for one in unsettled:
        one.settled = True
    for loop, group in groupby(unsettled, key=lambda one: one.future.get_loop()):
        # The loop may have ended without waiting; then nobody is there to be told.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_resolve, list(group), error)


def _resolve(waiting: Sequence[_PendingTurn], error: NotRecorded | None) -> None:
    for one in waiting:
        if one.future.done():
            continue
        if error is not None:
            one.future.set_exception(error)
        else:
            one.future.set_result(one.entry)
