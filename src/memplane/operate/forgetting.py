"""Forgetting entries of a pod's agents: the tombstone first, then the memory service.

A tombstone is durable before anybody else is asked. A service that does not answer is asked again
later; one that cannot forget is not asked, and what is replayed to it is without the entry.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from memplane.clock import Clock
from memplane.errors import InvalidRequest, PodError
from memplane.ledger.reader import entries
from memplane.ledger.tombstones import (
    Tombstone,
    append_tombstones,
    spread_tombstones,
    tombstones_since,
)
from memplane.operate.queue import QueuedForget, enqueue, queued, remove
from memplane.operate.targets import Place, Target
from memplane.pod.contexts import AgentContext
from memplane.services.client import Address, Outcome, ServiceClient, Unanswered, explained
from memplane.services.telling import code_of, error_of, status_of
from memplane.services.wire import forget_body
from memplane.telemetry import MemoryOp, MemoryOperation, MemoryStatus

_AGAIN: Final = 2
"""The attempt that a forget which waited is told as: how often it was tried is not kept."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What an operator wants forgotten, and by which service."""

    service: str
    entry_ids: tuple[str, ...]
    reason: str = ""
    allow_unknown: bool = False


@dataclass(frozen=True, slots=True)
class Share:
    """The entries that one agent is to forget, and those that it has forgotten before."""

    pending: tuple[str, ...]
    skipped: tuple[str, ...] = ()

    @property
    def entry_ids(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.pending, *self.skipped)


@dataclass(frozen=True, slots=True)
class AgentForgot:
    """What came of one agent's share. `told` says that the service has taken it.

    `complaint` says why it has not; then the forget is queued.
    """

    agent: str
    forgotten: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    told: bool = False
    complaint: str = ""


@dataclass(frozen=True, slots=True)
class Drained:
    """How many queued forgets were sent, and why the others were not."""

    sent: int = 0
    left: tuple[tuple[QueuedForget, str], ...] = ()


def wanted_ids(given: Iterable[str]) -> tuple[str, ...]:
    """Trim ids and drop those that are named twice (pure).

    Raises:
        InvalidRequest: There are none.
    """
    ids = tuple(dict.fromkeys(one.strip() for one in given if one.strip()))
    if not ids:
        raise InvalidRequest("at least one --entry-id is required")
    return ids


def shares(
    wish: Wish,
    *,
    recorded: Mapping[str, Collection[str]],
    forgotten: Mapping[str, Collection[str]],
) -> dict[str, Share]:
    """Decide which agent forgets which entries (pure).

    An entry belongs to the agents in whose ledger it is, or who have forgotten it for this
    service. One that nobody knows is everybody's, if that is allowed: it may arrive later.

    Raises:
        InvalidRequest: Nobody knows an entry.
    """
    owners = {
        one: [agent for agent in recorded if one in recorded[agent] or one in forgotten[agent]]
        for one in wish.entry_ids
    }
    unknown = [one for one, agents in owners.items() if not agents]
    if unknown and not wish.allow_unknown:
        raise InvalidRequest(f"history does not contain entry id(s) {', '.join(unknown)}")
    found: dict[str, Share] = {}
    for agent, done in forgotten.items():
        own = [one for one in wish.entry_ids if agent in owners[one] or one in unknown]
        if own:
            found[agent] = Share(
                tuple(one for one in own if one not in done),
                tuple(one for one in own if one in done),
            )
    return found


@dataclass(frozen=True, slots=True)
class Forgetting:
    """Forgets entries of the agents of one pod."""

    place: Place
    client: ServiceClient
    clock: Clock
    emit: Callable[[MemoryOp], None] = lambda _event: None
    """Tells how each service took it."""
    elapsed: Callable[[], float] = time.monotonic

    async def decide(self, targets: Sequence[Target], wish: Wish) -> dict[str, Share]:
        """Look into ledgers and tombstones, and decide which agent forgets which entries.

        Raises:
            InvalidRequest: Nobody knows an entry.
            LedgerError: A file cannot be read, or not be brought up to date.
        """
        return await asyncio.to_thread(self._decide, [one.agent for one in targets], wish)

    def _decide(self, agents: Sequence[str], wish: Wish) -> dict[str, Share]:
        recorded = {agent: self._recorded(agent, wish.entry_ids) for agent in agents}
        forgotten = {agent: self._forgotten(agent, wish.service) for agent in agents}
        return shares(wish, recorded=recorded, forgotten=forgotten)

    def _recorded(self, agent: str, wanted: Collection[str]) -> set[str]:
        missing = set(wanted)
        for entry_id, _ in entries(self.place.folder(agent)):
            missing.discard(entry_id)
            if not missing:
                break
        return set(wanted) - missing

    def _forgotten(self, agent: str, service: str) -> set[str]:
        """Return what was forgotten for a service; another one may still have to be told."""
        spread_tombstones(self.place.tombstones, agent)
        there = tombstones_since(self.place.tombstones[0], agent).tombstones
        return {one.entry_id for one in there if one.memory_service.strip() == service}

    async def forget(self, target: Target, share: Share, wish: Wish) -> AgentForgot:
        """Forget an agent's share.

        Raises:
            LedgerError: The tombstone is not durable; the service was not asked.
        """
        done = AgentForgot(target.agent, share.pending, share.skipped)
        if not share.pending:
            return done
        ts = self.clock().strftime("%Y-%m-%dT%H:%M:%SZ")
        item = QueuedForget(wish.service, target.agent, share.pending, wish.reason, ts)
        if target.address is None:
            await asyncio.to_thread(self._bury, item)
            self.emit(self._event(item))
            return done
        path = await asyncio.to_thread(self._enqueue_and_bury, item)
        outcome = await self._tell(target.context, target.address, item, path)
        if outcome.ok:
            return replace(done, told=True)
        return replace(done, complaint=explained("forget", outcome, target.address.token))

    async def drain(self, target_of: Callable[[QueuedForget], Target]) -> Drained:
        """Send the forgets that wait; those of a service that does not answer keep waiting.

        Raises:
            LedgerError: A tombstone or the queue cannot be written.
        """
        sent = 0
        left: list[tuple[QueuedForget, str]] = []
        silent: dict[str, str] = {}
        for path, item in await asyncio.to_thread(queued, self.place.state):
            complaint = silent.get(item.service)
            if complaint is None:
                complaint = await self._send(path, item, target_of, silent)
            if complaint:
                left.append((item, complaint))
            else:
                sent += 1
        return Drained(sent, tuple(left))

    async def _send(
        self,
        path: Path,
        item: QueuedForget,
        target_of: Callable[[QueuedForget], Target],
        silent: dict[str, str],
    ) -> str:
        """Send one forget and return why it was not taken; a silent service is noted."""
        await asyncio.to_thread(self._bury, item)
        try:
            target = await asyncio.to_thread(target_of, item)
        except PodError as error:
            return str(error)
        if target.address is None:
            await asyncio.to_thread(remove, path)
            self.emit(self._event(item))
            return ""
        outcome = await self._tell(target.context, target.address, item, path, attempt=_AGAIN)
        if outcome.ok:
            return ""
        complaint = explained("forget", outcome, target.address.token)
        if isinstance(outcome, Unanswered):
            silent[item.service] = complaint
        return complaint

    async def _tell(
        self,
        context: AgentContext,
        address: Address,
        item: QueuedForget,
        path: Path,
        *,
        attempt: int = 1,
    ) -> Outcome:
        started = self.elapsed()
        outcome = await self.client.post(
            address, forget_body(context, item.entry_ids, item.reason)
        )
        self.emit(
            msgspec.structs.replace(
                self._event(item),
                latency_ms=round((self.elapsed() - started) * 1000),
                status_code=code_of(outcome),
                error=error_of("forget", outcome, address.token),
                memory_status=status_of(outcome),
                memory_attempt=attempt,
            )
        )
        if outcome.ok:
            await asyncio.to_thread(remove, path)
        return outcome

    def _event(self, item: QueuedForget) -> MemoryOp:
        return MemoryOp(
            ts=self.clock(),
            claw_id=item.agent,
            memory_service=item.service,
            memory_op=MemoryOperation.FORGET,
            memory_status=MemoryStatus.SKIPPED,
        )

    def _enqueue_and_bury(self, item: QueuedForget) -> Path:
        path = enqueue(self.place.state, item)
        self._bury(item)
        return path

    def _bury(self, item: QueuedForget) -> None:
        """Write the tombstones of a forget where they are not yet."""
        for root in self.place.tombstones:
            there = {
                (one.memory_service, one.entry_id)
                for one in tombstones_since(root, item.agent).tombstones
            }
            append_tombstones(
                root,
                item.agent,
                [
                    Tombstone(item.ts, item.agent, item.service, one, item.reason)
                    for one in item.entry_ids
                    if (item.service, one) not in there
                ],
            )
