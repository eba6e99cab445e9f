"""Retain into other people's memory services: what ledgers have, delivered until it is taken.

The ledger is the outbox and each agent has its own place in it, so a crash loses nothing: the
next start goes on behind the last entry that was acknowledged. Within an agent the order is
kept, and an agent whose service is slow holds up nobody else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from memplane.errors import InvalidCursor, MemplaneError
from memplane.integrations.clawdapus.memory_service.client import (
    ServiceResponse,
    ServiceResult,
    parse_retry_after,
)
from memplane.integrations.clawdapus.memory_service.delivery import (
    DeliveryContext,
    DeliveryItem,
    LedgerDeliveryReader,
    delivery_route,
    make_dead_letter,
    send_item,
)
from memplane.integrations.clawdapus.memory_service.delivery_state import (
    DeliveryProgress,
    DeliveryRoute,
    read_progress,
    write_dead_letter,
    write_progress,
)
from memplane.integrations.clawdapus.pod.agent_contexts import AgentContext
from memplane.integrations.clawdapus.pod.memory_manifest import MemoryManifest
from memplane.kit.retry_clock import RetryAttempts
from memplane.telemetry import MemoryEvent, MemoryOperation, OperationStatus

RETRY_WINDOW: Final = timedelta(days=7)
_FIRST_RETRY_PAUSE_S: Final = 0.5
_MAX_RETRY_PAUSE_S: Final = 300.0

_log = logging.getLogger(__name__)


class DeliveryWorkers:
    """Delivers what is recorded. `recorded` may be called for any agent, also one without a pod.

    Everything runs on one event loop.
    """

    def __init__(self, needs: DeliveryContext) -> None:
        self._needs = needs
        self._agents: dict[str, _AgentDeliveryWorker] = {}
        self._draining = False

    @property
    def waiting(self) -> int:
        """How many entries are still to be delivered, as far as is known."""
        return sum(worker.waiting for worker in self._agents.values())

    async def start(self, agents: Iterable[str]) -> None:
        """Go on with every agent that has a service; a new one begins with what is to come."""
        for agent in agents:
            try:
                target = await asyncio.to_thread(self._needs.agent_of, agent)
            except MemplaneError as error:
                _log.warning("nothing is delivered for %s: %s", agent, error)
                continue
            if target is not None and self.expect(target.context):
                await self._agent(agent).go_on(delivery_route(target.context))

    def expect(self, context: AgentContext) -> bool:
        """Have it kept where an agent's delivery begins, before a turn of it is recorded.

        False when it has no service that retains. From the second time on it costs nothing.
        """
        if context.memory is None or context.memory.retain is None:
            return False
        self._agent(context.agent).expect(delivery_route(context))
        return True

    def recorded(self, agent: str) -> None:
        """Say that a turn of an agent was recorded; it is delivered soon."""
        if not self._draining:
            worker = self._agent(agent)
            worker.waiting += 1
            worker.wake()

    async def drain(self, seconds: float) -> int:
        """Deliver what can be at once, for so long at most, and end; returns how many wait.

        What waits stays in the ledger, and the next start goes on with it.
        """
        self._draining = True
        for worker in self._agents.values():
            worker.hurry()
        tasks = [task for worker in self._agents.values() for task in worker.tasks]
        if tasks:
            _, unfinished = await asyncio.wait(tasks, timeout=seconds)
            for task in unfinished:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return self.waiting

    def _agent(self, agent: str) -> _AgentDeliveryWorker:
        if agent not in self._agents:
            self._agents[agent] = _AgentDeliveryWorker(self._needs, agent, lambda: self.waiting)
        return self._agents[agent]


class _AgentDeliveryWorker:
    """Delivers one agent's entries, one after the other, whenever it is woken."""

    def __init__(self, needs: DeliveryContext, agent: str, depth: Callable[[], int]) -> None:
        self.waiting = 0
        self._needs = needs
        self._agent = agent
        self._depth = depth
        self._ledger = LedgerDeliveryReader(needs, agent)
        self._expected: dict[DeliveryRoute, asyncio.Task[None]] = {}
        self._running: asyncio.Task[None] | None = None
        self._again = False
        self._resting = False
        self._hurried = False

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """What goes on."""
        return [*self._expected.values(), *((self._running,) if self._running else ())]

    def expect(self, route: DeliveryRoute) -> None:
        """Have it kept where a delivery begins."""
        if route not in self._expected:
            self._expected[route] = asyncio.create_task(self._save_progress(route))

    async def go_on(self, route: DeliveryRoute) -> None:
        """Deliver what an earlier process left."""
        await self._expected[route]
        try:
            self.waiting = await asyncio.to_thread(self._count, route)
        except (MemplaneError, OSError) as error:
            _log.warning("what waits for %s cannot be counted: %s", route.service, error)
        self.wake()

    def wake(self) -> None:
        """Deliver what there is; what comes meanwhile is delivered too."""
        self._again = True
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())

    def hurry(self) -> None:
        """Do not wait for anything any more."""
        self._hurried = True
        if self._resting and self._running is not None:
            self._running.cancel()

    async def _save_progress(self, route: DeliveryRoute) -> None:
        try:
            await asyncio.to_thread(self._progress, route)
        except (MemplaneError, OSError) as error:
            _log.warning("nothing is delivered for %s yet: %s", route.agent, error)
            del self._expected[route]  # the next turn tries again

    def _progress(self, route: DeliveryRoute) -> DeliveryProgress:
        """Return how far a delivery is; a new one begins at the ledger's end, and that is kept."""
        progress = read_progress(self._needs.folder, route)
        if progress is None:
            progress = DeliveryProgress(self._ledger.end())
            write_progress(self._needs.folder, route, progress)
        return progress

    def _count(self, route: DeliveryRoute) -> int:
        try:
            return self._ledger.count_after(self._progress(route).cursor)
        except InvalidCursor:
            return self._ledger.count_after(DeliveryProgress().cursor)

    async def _run(self) -> None:
        if self._expected:
            await asyncio.wait(self._expected.values())
        pauses = self._attempts(float("inf"))
        while self._again:
            self._again = False
            try:
                await self._deliver_all()
                pauses = self._attempts(float("inf"))
            except (MemplaneError, OSError) as error:
                # It is kept, and tried again.
                _log.warning("nothing is delivered for %s now: %s", self._agent, error)
                if not self._hurried:
                    self._again = await self._wait_for_retry(pauses)

    async def _deliver_all(self) -> None:
        """Deliver until nothing is left, nobody wants it, or it has to wait for the next start."""
        while (target := await self._target()) is not None:
            context, manifest = target
            item = await asyncio.to_thread(self._next, context)
            if item is None:
                self.waiting = 0
                return
            if not await self._settled(manifest, delivery_route(context), item):
                return

    async def _target(self) -> tuple[AgentContext, MemoryManifest] | None:
        """Say where to deliver to now; None, and told so, when there is no such place."""
        target = await asyncio.to_thread(self._needs.agent_of, self._agent)
        manifest = target.context.memory if target else None
        if target is not None and manifest is not None and manifest.retain is not None:
            return target.context, manifest
        if target is not None and self.waiting:
            if target.broken:
                self._report("", OperationStatus.FAILED, error=target.broken)
            elif manifest is not None:
                self._report(manifest.service, OperationStatus.SKIPPED)
        self.waiting = 0
        return None

    def _next(self, context: AgentContext) -> DeliveryItem | None:
        route = delivery_route(context)
        start = self._progress(route).cursor
        item = self._ledger.read_next_item(context, start)
        if isinstance(item, DeliveryItem):
            return item
        if item != start:
            # Only entries that nobody remembers.
            write_progress(self._needs.folder, route, DeliveryProgress(item))
        return None

    async def _settled(
        self, manifest: MemoryManifest, route: DeliveryRoute, item: DeliveryItem
    ) -> bool:
        """Deliver a letter, or give it up; False when it has to wait for the next start."""
        needs = self._needs
        progress = await asyncio.to_thread(self._progress, route)
        attempts = self._attempts(self._patience(progress))
        while not await asyncio.to_thread(self._ledger.is_forgotten, item.id):
            tried = progress.attempts + 1
            outcome = await send_item(
                needs, self._agent, manifest, item, attempt=tried, depth=self._depth()
            )
            if outcome.ok:
                break
            progress = DeliveryProgress(progress.cursor, progress.since or needs.clock(), tried)
            if outcome.is_retryable:
                await asyncio.to_thread(write_progress, needs.folder, route, progress)
                if self._hurried:
                    return False
                if await self._wait_for_retry(attempts, _read_retry_after(outcome, needs.clock())):
                    fresh = await self._target()
                    if fresh is None or fresh[1].service != route.service:
                        return fresh is not None
                    # What was forgotten meanwhile may be cited in it: it is read anew.
                    next_item = await asyncio.to_thread(self._next, fresh[0])
                    if next_item is None or next_item.id != item.id:
                        return True
                    item, manifest = next_item, fresh[1]
                    continue
            given_up = make_dead_letter(route, item, outcome, manifest=manifest, now=needs.clock())
            await asyncio.to_thread(write_dead_letter, needs.folder, given_up)
            break
        # Only now: whatever happened before, the entry would have been sent again.
        await asyncio.to_thread(write_progress, needs.folder, route, DeliveryProgress(item.cursor))
        self.waiting = max(self.waiting - 1, 0)
        return True

    def _patience(self, progress: DeliveryProgress) -> float:
        """Say for how many seconds a letter is tried: until a week after its first failure."""
        now = self._needs.clock()
        return (min(progress.since or now, now) + RETRY_WINDOW - now).total_seconds()

    def _attempts(self, seconds: float) -> RetryAttempts:
        pacing = self._needs.pacing
        # Twenty per cent more or less, where others take fifty.
        narrow = replace(pacing, chance=lambda: 0.3 + 0.4 * pacing.chance())
        until = pacing.elapsed() + seconds
        return RetryAttempts(
            narrow, until=until, wait=_FIRST_RETRY_PAUSE_S, max_wait_s=_MAX_RETRY_PAUSE_S
        )

    async def _wait_for_retry(self, attempts: RetryAttempts, at_least: float = 0.0) -> bool:
        self._resting = True
        try:
            return await attempts.wait_for_next(at_least=at_least)
        finally:
            self._resting = False

    def _report(self, service: str, status: OperationStatus, *, error: str = "") -> None:
        self._needs.emit(
            MemoryEvent(
                ts=self._needs.clock(),
                claw_id=self._agent,
                error=error,
                memory_service=service,
                memory_op=MemoryOperation.RETAIN,
                memory_status=status,
            )
        )


def _read_retry_after(outcome: ServiceResult, now: datetime) -> float:
    return (
        parse_retry_after(outcome.retry_after, now)
        if isinstance(outcome, ServiceResponse)
        else 0.0
    )
