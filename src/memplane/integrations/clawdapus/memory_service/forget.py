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

from memplane.errors import InvalidRequest, PodError, UnknownMemory
from memplane.integrations.clawdapus.memory_service.client import (
    NoServiceResponse,
    ServiceAddress,
    ServiceClient,
    ServiceResult,
    explain_failure,
)
from memplane.integrations.clawdapus.memory_service.forget_queue import (
    QueuedForget,
    enqueue_forget,
    list_queued_forgets,
    remove_forget,
)
from memplane.integrations.clawdapus.memory_service.service_targets import (
    LedgerPaths,
    ServiceTarget,
)
from memplane.integrations.clawdapus.memory_service.telemetry_fields import (
    error_text_of,
    memory_status_of,
    status_code_of,
)
from memplane.integrations.clawdapus.memory_service.wire_format import encode_forget
from memplane.integrations.clawdapus.pod.agent_contexts import AgentContext
from memplane.kit.clock import Clock
from memplane.ledger.reader import read_entries
from memplane.ledger.tombstones import (
    Tombstone,
    append_tombstones,
    read_tombstones_since,
    replicate_tombstones,
)
from memplane.telemetry import MemoryEvent, MemoryOperation, OperationStatus

_RETRY_ATTEMPT_NUMBER: Final = 2
"""The attempt that a forget which waited is told as: how often it was tried is not kept."""


@dataclass(frozen=True, slots=True)
class PodForgetRequest:
    """What an operator wants forgotten, and by which service."""

    service: str
    entry_ids: tuple[str, ...]
    reason: str = ""
    allow_unknown: bool = False


@dataclass(frozen=True, slots=True)
class AgentForgetPlan:
    """The entries that one agent is to forget, and those that it has forgotten before."""

    pending: tuple[str, ...]
    skipped: tuple[str, ...] = ()

    @property
    def entry_ids(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.pending, *self.skipped)


@dataclass(frozen=True, slots=True)
class AgentForgetResult:
    """What came of one agent's share. `told` says that the service has taken it.

    `complaint` says why it has not; then the forget is queued.
    """

    agent: str
    forgotten: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    told: bool = False
    complaint: str = ""


@dataclass(frozen=True, slots=True)
class ForgetDrainReport:
    """How many queued forgets were sent, and why the others were not."""

    sent: int = 0
    left: tuple[tuple[QueuedForget, str], ...] = ()


def normalise_ids(entry_ids: Iterable[str]) -> tuple[str, ...]:
    """Trim ids and drop those that are named twice (pure).

    Raises:
        InvalidRequest: There are none.
    """
    ids = tuple(dict.fromkeys(entry_id.strip() for entry_id in entry_ids if entry_id.strip()))
    if not ids:
        raise InvalidRequest("at least one --entry-id is required")
    return ids


def plan_forget(
    wish: PodForgetRequest,
    *,
    recorded: Mapping[str, Collection[str]],
    forgotten: Mapping[str, Collection[str]],
) -> dict[str, AgentForgetPlan]:
    """Decide which agent forgets which entries (pure).

    An entry belongs to the agents in whose ledger it is, or who have forgotten it for this
    service. One that nobody knows is everybody's, if that is allowed: it may arrive later.

    Raises:
        UnknownMemory: Nobody knows an entry.
    """
    owners = {
        entry_id: [
            agent
            for agent in recorded
            if entry_id in recorded[agent] or entry_id in forgotten[agent]
        ]
        for entry_id in wish.entry_ids
    }
    unknown = [entry_id for entry_id, agents in owners.items() if not agents]
    if unknown and not wish.allow_unknown:
        raise UnknownMemory(f"history does not contain entry id(s) {', '.join(unknown)}")
    plans: dict[str, AgentForgetPlan] = {}
    for agent, forgotten_ids in forgotten.items():
        own_ids = [
            entry_id
            for entry_id in wish.entry_ids
            if agent in owners[entry_id] or entry_id in unknown
        ]
        if own_ids:
            plans[agent] = AgentForgetPlan(
                tuple(entry_id for entry_id in own_ids if entry_id not in forgotten_ids),
                tuple(entry_id for entry_id in own_ids if entry_id in forgotten_ids),
            )
    return plans


@dataclass(frozen=True, slots=True)
class ForgetRunner:
    """Forgets entries of the agents of one pod."""

    place: LedgerPaths
    client: ServiceClient
    clock: Clock
    emit: Callable[[MemoryEvent], None] = lambda _event: None
    """Tells how each service took it."""
    elapsed: Callable[[], float] = time.monotonic

    async def decide(
        self, targets: Sequence[ServiceTarget], wish: PodForgetRequest
    ) -> dict[str, AgentForgetPlan]:
        """Look into ledgers and tombstones, and decide which agent forgets which entries.

        Raises:
            UnknownMemory: Nobody knows an entry.
            LedgerError: A file cannot be read, or not be brought up to date.
        """
        return await asyncio.to_thread(self._decide, [target.agent for target in targets], wish)

    def _decide(self, agents: Sequence[str], wish: PodForgetRequest) -> dict[str, AgentForgetPlan]:
        recorded = {agent: self._recorded(agent, wish.entry_ids) for agent in agents}
        forgotten = {agent: self._forgotten(agent, wish.service) for agent in agents}
        return plan_forget(wish, recorded=recorded, forgotten=forgotten)

    def _recorded(self, agent: str, entry_ids: Collection[str]) -> set[str]:
        missing = set(entry_ids)
        for entry_id, _ in read_entries(self.place.folder(agent)):
            missing.discard(entry_id)
            if not missing:
                break
        return set(entry_ids) - missing

    def _forgotten(self, agent: str, service: str) -> set[str]:
        """Return what was forgotten for a service; another one may still have to be told."""
        replicate_tombstones(self.place.tombstones, agent)
        tombstones = read_tombstones_since(self.place.tombstones[0], agent).tombstones
        return {
            tombstone.entry_id
            for tombstone in tombstones
            if tombstone.memory_service.strip() == service
        }

    async def forget(
        self, target: ServiceTarget, share: AgentForgetPlan, wish: PodForgetRequest
    ) -> AgentForgetResult:
        """Forget an agent's share.

        Raises:
            LedgerError: The tombstone is not durable; the service was not asked.
        """
        result = AgentForgetResult(target.agent, share.pending, share.skipped)
        if not share.pending:
            return result
        ts = self.clock().strftime("%Y-%m-%dT%H:%M:%SZ")
        item = QueuedForget(wish.service, target.agent, share.pending, wish.reason, ts)
        if target.address is None:
            await asyncio.to_thread(self._write_tombstones, item)
            self.emit(self._event(item))
            return result
        path = await asyncio.to_thread(self._enqueue_and_tombstone, item)
        outcome = await self._report(target.context, target.address, item, path)
        if outcome.ok:
            return replace(result, told=True)
        return replace(result, complaint=explain_failure("forget", outcome, target.address.token))

    async def drain(self, target_of: Callable[[QueuedForget], ServiceTarget]) -> ForgetDrainReport:
        """Send the forgets that wait; those of a service that does not answer keep waiting.

        Raises:
            LedgerError: A tombstone or the queue cannot be written.
        """
        sent = 0
        remaining: list[tuple[QueuedForget, str]] = []
        silent: dict[str, str] = {}
        for path, item in await asyncio.to_thread(list_queued_forgets, self.place.state):
            complaint = silent.get(item.service)
            if complaint is None:
                complaint = await self._send(path, item, target_of, silent)
            if complaint:
                remaining.append((item, complaint))
            else:
                sent += 1
        return ForgetDrainReport(sent, tuple(remaining))

    async def _send(
        self,
        path: Path,
        item: QueuedForget,
        target_of: Callable[[QueuedForget], ServiceTarget],
        silent: dict[str, str],
    ) -> str:
        """Send one forget and return why it was not taken; a silent service is noted."""
        await asyncio.to_thread(self._write_tombstones, item)
        try:
            target = await asyncio.to_thread(target_of, item)
        except PodError as error:
            return str(error)
        if target.address is None:
            await asyncio.to_thread(remove_forget, path)
            self.emit(self._event(item))
            return ""
        outcome = await self._report(
            target.context, target.address, item, path, attempt=_RETRY_ATTEMPT_NUMBER
        )
        if outcome.ok:
            return ""
        complaint = explain_failure("forget", outcome, target.address.token)
        if isinstance(outcome, NoServiceResponse):
            silent[item.service] = complaint
        return complaint

    async def _report(
        self,
        context: AgentContext,
        address: ServiceAddress,
        item: QueuedForget,
        path: Path,
        *,
        attempt: int = 1,
    ) -> ServiceResult:
        started = self.elapsed()
        outcome = await self.client.post(
            address, encode_forget(context, item.entry_ids, item.reason)
        )
        self.emit(
            msgspec.structs.replace(
                self._event(item),
                latency_ms=round((self.elapsed() - started) * 1000),
                status_code=status_code_of(outcome),
                error=error_text_of("forget", outcome, address.token),
                memory_status=memory_status_of(outcome),
                memory_attempt=attempt,
            )
        )
        if outcome.ok:
            await asyncio.to_thread(remove_forget, path)
        return outcome

    def _event(self, item: QueuedForget) -> MemoryEvent:
        return MemoryEvent(
            ts=self.clock(),
            claw_id=item.agent,
            memory_service=item.service,
            memory_op=MemoryOperation.FORGET,
            memory_status=OperationStatus.SKIPPED,
        )

    def _enqueue_and_tombstone(self, item: QueuedForget) -> Path:
        path = enqueue_forget(self.place.state, item)
        self._write_tombstones(item)
        return path

    def _write_tombstones(self, item: QueuedForget) -> None:
        """Write the tombstones of a forget where they are not yet."""
        for root in self.place.tombstones:
            existing = {
                (tombstone.memory_service, tombstone.entry_id)
                for tombstone in read_tombstones_since(root, item.agent).tombstones
            }
            append_tombstones(
                root,
                item.agent,
                [
                    Tombstone(item.ts, item.agent, item.service, tombstone, item.reason)
                    for tombstone in item.entry_ids
                    if (item.service, tombstone) not in existing
                ],
            )
