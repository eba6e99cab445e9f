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
        self._counters_lock = threading.Lock()
        self._gaps: Counter[str] = Counter()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._logs: dict[str, AgentWriter] = {}
        self._unsynced: set[str] = set()
        self._untold: dict[str, ChainEnd] = {}
        self._last_checkpoint = time.monotonic()
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
        pending = _PendingTurn(turn, _size_of(turn), asyncio.get_running_loop().create_future())
        self._reserve(pending)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="ledger", daemon=True)
            self._thread.start()
        self._queue.put(pending)
        return pending.future

    def _reserve(self, pending: _PendingTurn) -> None:
        with self._counters_lock:
            queued = self.figures.queued_bytes
            if queued and queued + pending.size > self._options.queue_bytes:
                self.figures.refused += 1
                self._gaps[pending.turn.agent] += 1
                raise LedgerFull(
                    f"a turn of {pending.turn.agent} was not recorded: {queued:,} bytes wait for "
                    "the disk already. The chain notes the gap"
                )
            self.figures.queued_bytes += pending.size

    async def close(self) -> None:
        """Record what waits, make everything durable and let go of the files."""
        self._closed = True
        if self._thread is not None:
            self._queue.put(None)
            await asyncio.to_thread(self._thread.join)
        self._pool.shutdown()

    # The rest runs in the writer's thread.

    def _run(self) -> None:
        has_more = True
        while has_more:
            batch, has_more = self._take_batch()
            if batch:
                self._commit(batch)
            if self._is_checkpoint_due() or not has_more:
                self._checkpoint()
        for log in self._logs.values():
            log.close()

    def _take_batch(self) -> tuple[list[_PendingTurn], bool]:
        """Wait for turns and take all there are; False when no more will come."""
        batch: list[_PendingTurn] = []
        timeout = _CHECKPOINT_INTERVAL_S[self._options.syncing] if self._unsynced else None
        try:
            pending = self._queue.get(timeout=timeout)
            while pending is not None and len(batch) < _MAX_BATCH_TURNS:
                batch.append(pending)
                pending = self._queue.get_nowait()
        except queue.Empty:
            return batch, True
        if pending is not None:
            batch.append(pending)
        return batch, pending is not None

    def _commit(self, batch: list[_PendingTurn]) -> None:
        """Write a batch, make it durable, acknowledge it, chain it."""
        self.figures.batches += 1
        by_agent = _by_agent(batch)
        for first in range(0, len(by_agent), _MAX_PARALLEL_AGENTS):
            self._commit_agents(by_agent[first : first + _MAX_PARALLEL_AGENTS])
            self._close_idle_writers()
        with self._counters_lock:
            self.figures.queued_bytes -= sum(pending.size for pending in batch)

    def _commit_agents(self, by_agent: Sequence[tuple[str, list[_PendingTurn]]]) -> None:
        staged: list[tuple[AgentWriter, list[_PendingTurn]]] = []
        with ExitStack() as locks:
            # Every process takes the locks in the same order, so none waits for another in turn.
            for agent, turns in by_agent:
                with self._report_failures(agent, turns):
                    log = self._open_writer(agent, locks)
                    ready = self._prepare(log, turns)
                    staged.append((log, self._write(log, ready)))
            self._settle(staged)

    def _close_idle_writers(self) -> None:
        """Close the files of agents that were quiet for longest; a process may not open many."""
        if len(self._logs) > _MAX_OPEN_AGENTS:
            self._checkpoint()
            for agent in list(self._logs)[:-_MAX_PARALLEL_AGENTS]:
                self._logs.pop(agent).close()

    @contextmanager
    def _report_failures(self, agent: str, turns: Sequence[_PendingTurn]) -> Generator[None]:
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
            lost = [pending for pending in turns if not pending.settled]
            if lost:
                self.figures.failing[agent] = f"turns of {agent} are not recorded: {reason}"
                self._lose(lost, NotRecorded(f"a turn of {agent} was not recorded: {reason}"))
            else:
                self.figures.degraded = f"the chain of {agent} is behind its ledger: {reason}"

    def _lose(self, turns: Sequence[_PendingTurn], error: NotRecorded) -> None:
        """Tell those who wait that their turns were not recorded; the chain will note the gap."""
        with self._counters_lock:
            self._gaps.update(pending.turn.agent for pending in turns)
        self.figures.failed += len(turns)
        _notify_waiters(turns, error)

    def _open_writer(self, agent: str, locks: ExitStack) -> AgentWriter:
        log = self._logs.pop(agent, None)
        if log is None:
            folder = AgentFolder(self._root, agent)
            modes, max_bytes = self._options.modes, self._options.max_bytes
            log = AgentWriter(folder, modes=modes, max_bytes=max_bytes)
        self._logs[agent] = log  # the last one in it is the last one that was used
        recovery = locks.enter_context(
            log.open_locked(lambda: read_anchors(self._root).get(agent), self._clock)
        )
        if recovery is not None:
            self._unsynced.add(agent)
            self._report(agent, recovery)
            if recovery.broken:
                modes = self._options.modes
                write_anchors(self._root, {agent: log.end}, modes=modes, anew=True)
        return log

    def _report(self, agent: str, recovery: RecoveryReport) -> None:
        figures = self.figures
        figures.found += recovery.found
        figures.torn += recovery.torn
        figures.damaged += recovery.damaged
        figures.broken += recovery.broken
        if recovery.broken:
            figures.degraded = f"the ledger of {agent} has lost something that was recorded"

    def _prepare(self, log: AgentWriter, turns: Sequence[_PendingTurn]) -> list[_PendingTurn]:
        """Make the entries; a turn that cannot be one fails alone."""
        ready: list[_PendingTurn] = []
        for pending in turns:
            try:
                self._make_entry(log, pending)
            except ValueError as error:
                message = f"a turn of {pending.turn.agent} was not recorded: {error}"
                self._lose([pending], InvalidEntry(message))
                continue
            if len(pending.entry.line) >= MAX_LINE_BYTES:
                size = f"{len(pending.entry.line):,} bytes"
                message = f"a turn of {pending.turn.agent} has {size}, too many"
                self._lose([pending], EntryTooLarge(message))
                continue
            ready.append(pending)
        return ready

    def _make_entry(self, log: AgentWriter, pending: _PendingTurn) -> None:
        match pending.turn:
            case Turn():
                redacted = self._scrub(pending.turn)
                pending.entry, pending.note = log.recent.entry_for(redacted), redacted.note
            case ReceivedEntry(_, entry, note):
                pending.entry, pending.note = entry, note

    def _write(self, log: AgentWriter, ready: list[_PendingTurn]) -> list[_PendingTurn]:
        """Write turns, sealing segments that are full; returns those still to be made durable."""
        while (
            fitting_count := log.count_fitting([pending.entry.line for pending in ready])
        ) < len(ready):
            batch, ready = ready[:fitting_count], ready[fitting_count:]
            if batch:
                self._write_lines(log, batch)
                self._settle([(log, batch)])
            if self._logs.get(log.folder.agent) is not log:
                raise OSError(errno.EIO, "its files failed meanwhile")
            log.seal()
        if ready:
            self._write_lines(log, ready)
        return ready

    def _write_lines(self, log: AgentWriter, ready: Sequence[_PendingTurn]) -> None:
        """Write turns, and before them what is said about them."""
        notes = [
            make_note_line(pending.entry.id, pending.note) for pending in ready if pending.note
        ]
        if notes:
            log.write_notes(notes, durably=self._options.syncing is SyncPolicy.GROUP)
        log.write([pending.entry.line for pending in ready])

    def _settle(self, staged: Sequence[tuple[AgentWriter, list[_PendingTurn]]]) -> None:
        """Make written turns durable, acknowledge them, and chain them."""
        written = [(log, turns) for log, turns in staged if turns]
        durable: list[tuple[AgentWriter, list[_PendingTurn]]] = []
        for (log, turns), error in zip(written, self._sync_logs(written), strict=True):
            agent = log.folder.agent
            with self._report_failures(agent, turns):
                lines = [pending.entry.line for pending in turns]
                if error is not None:
                    self._rescue(log, lines, error)
                self.figures.failing.pop(agent, None)
                self.figures.entries += len(lines)
                self.figures.bytes += sum(map(len, lines))
                durable.append((log, turns))
        _notify_waiters([pending for _, turns in durable for pending in turns])
        for log, turns in durable:
            with self._report_failures(log.folder.agent, turns):
                log.chain([pending.entry.line for pending in turns])
                self._unsynced.add(log.folder.agent)

    def _sync_logs(
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

    def _is_checkpoint_due(self) -> bool:
        interval = _CHECKPOINT_INTERVAL_S[self._options.syncing]
        if interval is None or not (self._unsynced or self._gaps):
            return False
        return time.monotonic() - self._last_checkpoint >= interval

    def _checkpoint(self) -> None:
        """Make the chains durable, and tell their ends to the anchors."""
        self._last_checkpoint = time.monotonic()
        self._note_gaps()
        for agent in sorted(self._unsynced):
            with self._report_failures(agent, ()):
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
            with log.open_locked(lambda: None, self._clock):
                log.replace_segment()

    def _note_gaps(self) -> None:
        with self._counters_lock:
            gaps, self._gaps = self._gaps, Counter()
        remaining = Counter(gaps)
        for agent, count in gaps.items():
            with self._report_failures(agent, ()), ExitStack() as locks:
                self._open_writer(agent, locks).note_gap(count)
                self._unsynced.add(agent)
                del remaining[agent]
        with self._counters_lock:
            self._gaps += remaining


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
    ordered = sorted(batch, key=lambda pending: pending.turn.agent)
    return [
        (agent, list(group))
        for agent, group in groupby(ordered, lambda pending: pending.turn.agent)
    ]


def _sync(log: AgentWriter) -> OSError | None:
    try:
        log.sync()
    except OSError as error:
        return error
    return None


def _notify_waiters(turns: Sequence[_PendingTurn], error: NotRecorded | None = None) -> None:
    """Resolve the futures of those who wait, in their own loops."""
    unsettled = [pending for pending in turns if not pending.settled]
    for pending in unsettled:
        pending.settled = True
    for loop, group in groupby(unsettled, key=lambda pending: pending.future.get_loop()):
        # The loop may have ended without waiting; then nobody is there to be told.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_resolve, list(group), error)


def _resolve(turns: Sequence[_PendingTurn], error: NotRecorded | None) -> None:
    for pending in turns:
        if pending.future.done():
            continue
        if error is not None:
            pending.future.set_exception(error)
        else:
            pending.future.set_result(pending.entry)
