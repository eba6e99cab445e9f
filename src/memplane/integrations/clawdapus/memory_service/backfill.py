"""Backfill: agents' ledgers, replayed into a memory service.

Within one agent the order is kept, and several agents go at the same time. Each entry is redacted
as if it were sent live, tombstones are looked at before every attempt, and a checkpoint follows
each acknowledgement. So a backfill can be ended at any moment and run again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from memplane.errors import InvalidCursor, MemplaneError
from memplane.exchange.outgoing_entry import strip_memory
from memplane.integrations.clawdapus.memory_service.backfill_checkpoint import (
    BackfillJob,
    BackfillProgress,
    Checkpoint,
    RefusedEntry,
    open_checkpoint,
    read_progress,
)
from memplane.integrations.clawdapus.memory_service.client import (
    ServiceAddress,
    ServiceClient,
    ServiceResponse,
    ServiceResult,
    explain_failure,
    post_with_retries,
)
from memplane.integrations.clawdapus.memory_service.entry_filter import (
    EntryFilter,
    LedgerWalk,
    ReplayEntry,
    SkipReason,
)
from memplane.integrations.clawdapus.memory_service.service_targets import (
    LedgerPaths,
    ServiceTarget,
)
from memplane.integrations.clawdapus.memory_service.wire_format import encode_retain
from memplane.kit.clock import Clock
from memplane.kit.retry_clock import RetryClock
from memplane.ledger.tombstones import ForgottenIds
from memplane.redaction.redactor import RedactionResult

DEFAULT_CONCURRENCY: Final = 4
_MAX_BATCH_ENTRIES: Final = 32
_MAX_BATCH_BYTES: Final = 1 << 20
_SYNC_INTERVAL_S: Final = 1.0
_MAX_CONSECUTIVE_REFUSALS: Final = 100
_MAX_REPORTED_ENTRIES: Final = 100


@dataclass(frozen=True, slots=True)
class UndeliveredEntry:
    """An entry that the service refused for good, and its words."""

    entry_id: str
    status: int
    said: str


@dataclass(slots=True)
class AgentBackfillReport:
    """What came of one agent's backfill; a dry run counts what it would have replayed.

    `refused` are entries that the service does not take, the first of them in `undelivered`.
    `no_turns` are requests for titles and the like. `stopped` says why the rest was not tried.
    `unreadable` are lines that are no entries. `taken` is what the limit has counted, in earlier
    runs of the same backfill too.
    """

    agent: str
    replayed: int = 0
    forgotten: int = 0
    failed_turns: int = 0
    no_turns: int = 0
    unreadable: int = 0
    refused: int = 0
    resumed: bool = False
    undelivered: list[UndeliveredEntry] = field(default_factory=list[UndeliveredEntry])
    stopped: str = ""
    taken: int = 0

    @property
    def complaint(self) -> str:
        """Why not everything was delivered; empty when it was."""
        return self.stopped or (self.undelivered[0].said if self.undelivered else "")

    def merge_report(self, other: AgentBackfillReport) -> None:
        """Add what came of another ledger of the same agent."""
        self.replayed += other.replayed
        self.forgotten += other.forgotten
        self.failed_turns += other.failed_turns
        self.no_turns += other.no_turns
        self.unreadable += other.unreadable
        self.refused += other.refused
        self.resumed = self.resumed or other.resumed
        self.undelivered += other.undelivered
        self.stopped = self.stopped or other.stopped
        self.taken += other.taken

    def count_skipped(self, reason: SkipReason) -> None:
        """Count an entry that is not replayed."""
        match reason:
            case SkipReason.FORGOTTEN:
                self.forgotten += 1
            case SkipReason.FAILED:
                self.failed_turns += 1
            case SkipReason.NOT_A_TURN:
                self.no_turns += 1

    def refuse(self, entry: UndeliveredEntry) -> None:
        """Count an entry that the service does not take."""
        self.refused += 1
        if len(self.undelivered) < _MAX_REPORTED_ENTRIES:
            self.undelivered.append(entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """One backfill: what is replayed from where to which service, and with what.

    `service` tells services apart whose checkpoints must not be mixed. `elsewhere` is how many
    entries of an agent its limit has counted in another ledger.
    """

    service: str
    place: LedgerPaths
    selection: EntryFilter
    client: ServiceClient
    redact: Callable[[bytes], RedactionResult[bytes]]
    pacing: RetryClock
    clock: Clock
    concurrency: int = DEFAULT_CONCURRENCY
    resume: bool = True
    elsewhere: Mapping[str, int] = field(default_factory=dict[str, int])
    watch: Callable[[AgentBackfillReport], None] = lambda _report: None

    async def run(self, targets: Sequence[ServiceTarget]) -> list[AgentBackfillReport]:
        """Replay every agent's entries; what failed for one agent is in its report."""
        gate = asyncio.Semaphore(self.concurrency)

        async def replayed(target: ServiceTarget) -> AgentBackfillReport:
            report = AgentBackfillReport(target.agent)
            async with gate:
                try:
                    await self._replay(target, report)
                except (MemplaneError, OSError) as error:
                    report.stopped = str(error)
            return report

        return await asyncio.gather(*map(replayed, targets))

    def count(self, targets: Sequence[ServiceTarget]) -> list[AgentBackfillReport]:
        """Count what `run` would replay, and change nothing."""
        return [_counted(self, target.agent) for target in targets]

    def is_enough(self, agent: str, taken: int) -> bool:
        """Say whether an agent's limit is reached with so many entries of this ledger."""
        return self.selection.is_enough(self.elsewhere.get(agent, 0) + taken)

    def job(self, agent: str) -> BackfillJob:
        """Name the backfill of one agent, for its checkpoint."""
        chosen = self.selection
        return BackfillJob(self.service, agent, chosen.after, chosen.limit, chosen.include_errors)

    async def _replay(self, target: ServiceTarget, report: AgentBackfillReport) -> None:
        if target.address is None:
            return
        with ExitStack() as stack:
            opening = open_checkpoint(self.place.state, self.job(target.agent), resume=self.resume)
            checkpoint = await asyncio.to_thread(stack.enter_context, opening)
            report.resumed = bool(checkpoint.progress.cursor.id)
            replay = _AgentReplay(
                self, target, address=target.address, checkpoint=checkpoint, report=report
            )
            try:
                await replay.run()
            finally:
                report.taken = checkpoint.progress.taken
            await asyncio.to_thread(checkpoint.sync)


def _counted(backfill: Backfill, agent: str) -> AgentBackfillReport:
    report = AgentBackfillReport(agent)
    try:
        job = backfill.job(agent)
        progress = (
            read_progress(backfill.place.state, job) if backfill.resume else BackfillProgress()
        )
        report.resumed = bool(progress.cursor.id)
        try:
            _count(backfill, progress, report)
        except InvalidCursor:
            _count(backfill, BackfillProgress(), report)
    except (MemplaneError, OSError) as error:
        report.stopped = str(error)
    return report


def _count(backfill: Backfill, progress: BackfillProgress, report: AgentBackfillReport) -> None:
    selection = backfill.selection
    forgotten = ForgottenIds(backfill.place.tombstones, report.agent)
    forgotten.refresh()
    walk = LedgerWalk(backfill.place.folder(report.agent), progress.cursor, selection.after)
    report.taken = progress.taken
    report.replayed = sum(entry_id not in forgotten for entry_id in progress.refused)
    for entry in walk:
        if backfill.is_enough(report.agent, report.taken):
            break
        reason = selection.left_out(entry, forgotten)
        if reason is not None:
            report.count_skipped(reason)
        else:
            report.taken += 1
            report.replayed += 1
    walk.close()
    report.unreadable = walk.unreadable


@dataclass(frozen=True, slots=True)
class _PreparedReplay:
    """An entry with the body that retains it; None when it is left out.

    One that is `whole` has the memory in its prompt: nothing was forgotten when it was made.
    """

    entry: ReplayEntry
    body: bytes | None
    why: SkipReason | None = None
    whole: bool = True


class _AgentReplay:
    """Replays one agent's entries, and writes down how far it came."""

    def __init__(
        self,
        backfill: Backfill,
        target: ServiceTarget,
        *,
        address: ServiceAddress,
        checkpoint: Checkpoint,
        report: AgentBackfillReport,
    ) -> None:
        self._backfill = backfill
        self._target = target
        self._address = address
        self._checkpoint = checkpoint
        self._report = report
        self._forgotten = ForgottenIds(backfill.place.tombstones, target.agent)
        self._folder = backfill.place.folder(target.agent)
        self._refused_in_a_row = 0
        self._synced = backfill.pacing.elapsed()

    async def run(self) -> None:
        """Replay what was refused before, then what follows; from the beginning if need be."""
        try:
            await self._retry_refused()
            await self._replay_new()
        except InvalidCursor:
            # Another ledger lies there now. What it shares with the old one is known by its ids.
            self._checkpoint.start_over()
            self._report.resumed = False
            await self._replay_new()

    async def _retry_refused(self) -> None:
        for entry_id, refused in list(self._checkpoint.progress.refused.items()):
            ready = await asyncio.to_thread(self._reread, entry_id, refused)
            outcome = await self._offer(ready)
            if self._report.stopped:
                return
            if outcome is None or outcome.ok:
                self._checkpoint.settle(entry_id)

    def _reread(self, entry_id: str, refused: RefusedEntry) -> _PreparedReplay:
        walk = LedgerWalk(self._folder, refused.before, self._backfill.selection.after)
        entry = next(iter(walk), None)
        walk.close()
        if entry is None or entry.id != entry_id:
            raise InvalidCursor("the entry is not where it was")
        return self._prepare(entry)

    async def _replay_new(self) -> None:
        start = self._checkpoint.progress.cursor
        walk = LedgerWalk(self._folder, start, self._backfill.selection.after)
        while not self._is_over() and (batch := await asyncio.to_thread(self._batch, iter(walk))):
            for ready in batch:
                if self._is_over():
                    break
                await self._process(ready)
        walk.close()
        self._report.unreadable = walk.unreadable

    def _is_over(self) -> bool:
        taken = self._checkpoint.progress.taken
        return bool(self._report.stopped) or self._backfill.is_enough(self._target.agent, taken)

    def _batch(self, entries: Iterator[ReplayEntry]) -> list[_PreparedReplay]:
        """Read and redact some entries, off the loop: a few, or one that is very long."""
        self._forgotten.refresh()
        batch: list[_PreparedReplay] = []
        size = 0
        for entry in entries:
            batch.append(self._prepare(entry))
            size += len(entry.line)
            if len(batch) == _MAX_BATCH_ENTRIES or size >= _MAX_BATCH_BYTES:
                break
        return batch

    def _prepare(self, entry: ReplayEntry) -> _PreparedReplay:
        reason = self._backfill.selection.left_out(entry, self._forgotten)
        if reason is not None:
            return _PreparedReplay(entry, None, reason)
        is_unfiltered = self._forgotten.is_empty
        redacted = self._backfill.redact(entry.line if is_unfiltered else strip_memory(entry.line))
        body = encode_retain(self._target.context, redacted, removed=entry.removed)
        return _PreparedReplay(entry, body, whole=is_unfiltered)

    async def _process(self, ready: _PreparedReplay) -> None:
        """Deal with the next entry, and go on behind it unless the service is not there."""
        entry, progress = ready.entry, self._checkpoint.progress
        if entry.id in progress.refused:
            # Killed before it could go on behind it, or the same turn twice: it was tried already.
            self._checkpoint.advance(entry.cursor, taken=progress.taken + 1)
            return
        outcome = await self._offer(ready)
        if self._report.stopped:
            return
        if outcome is None:
            self._checkpoint.advance(entry.cursor, taken=progress.taken)
            return
        self._refused_in_a_row = 0 if outcome.ok else self._refused_in_a_row + 1
        if isinstance(outcome, ServiceResponse) and not outcome.ok:
            self._checkpoint.refuse(entry.id, RefusedEntry(entry.before, outcome.status))
        self._checkpoint.advance(entry.cursor, taken=progress.taken + 1)
        if self._refused_in_a_row == _MAX_CONSECUTIVE_REFUSALS:
            self._report.stopped = explain_failure("retain", outcome, self._address.token)
        await self._sync_sometimes()

    async def _offer(self, ready: _PreparedReplay) -> ServiceResult | None:
        """Send an entry and count what came of it; None when it is left out."""
        report, entry = self._report, ready.entry
        if ready.body is None:
            report.count_skipped(ready.why or SkipReason.FORGOTTEN)
            return None
        outcome = await self._post_until_answered(ready, ready.body)
        if (
            outcome is None
            and (prepared_again := await asyncio.to_thread(self._prepare, entry)).body
        ):
            # Something else was forgotten meanwhile, and its prompt may cite it.
            outcome = await self._post_until_answered(prepared_again, prepared_again.body)
        if outcome is None:
            report.count_skipped(SkipReason.FORGOTTEN)
        elif outcome.ok:
            report.replayed += 1
        elif isinstance(outcome, ServiceResponse) and not outcome.is_retryable:
            message = explain_failure("retain", outcome, self._address.token)
            report.refuse(UndeliveredEntry(entry.id, outcome.status, message))
        else:
            report.stopped = explain_failure("retain", outcome, self._address.token)
        self._backfill.watch(report)
        return outcome

    async def _post_until_answered(
        self, ready: _PreparedReplay, body: bytes
    ) -> ServiceResult | None:
        """Send a body; None when it must not be sent as it is any more."""

        def is_wanted() -> bool:
            self._forgotten.refresh()
            known = ready.entry.id in self._forgotten
            return not known and (self._forgotten.is_empty or not ready.whole)

        return await post_with_retries(
            self._backfill.client,
            self._address,
            body,
            pacing=self._backfill.pacing,
            clock=self._backfill.clock,
            is_wanted=is_wanted,
        )

    async def _sync_sometimes(self) -> None:
        now = self._backfill.pacing.elapsed()
        if now - self._synced >= _SYNC_INTERVAL_S:
            self._synced = now
            await asyncio.to_thread(self._checkpoint.sync)
