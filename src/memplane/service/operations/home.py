"""The home: what is configured, where state lives and what is pending."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from memplane.auth.grants import Scope
from memplane.episodes.api_types import MemoryStatus
from memplane.ledger.folder import list_ledger_agents
from memplane.service.model import LedgerStatus, Status, StorageStatus
from memplane.service.operation import Context, operation
from memplane.service.services import Services
from memplane.service.spool import list_jobs
from memplane.storage.outbox import count_waiting
from memplane.version import VERSION


@operation(
    "GET",
    "/api/v1/status",
    scope=Scope.ADMIN,
)
async def get_status(context: Context) -> Status:
    """Return what is configured, where state lives and what is pending."""
    memory = context.services.lazy_memory.if_opened
    remembered = await memory.status() if memory is not None else None
    return await asyncio.to_thread(_status, context.services, remembered)


def _status(services: Services, memory: MemoryStatus | None) -> Status:
    owner = services.home.owner()
    return Status(
        version=VERSION,
        home=str(services.home.path),
        pid=os.getpid(),
        address=owner.address if owner else "",
        storage=_storage_status(services),
        ledger=_ledger_status(services),
        memory=memory,
        jobs=len(list_jobs(services.home.spool)),
        failing=next(
            (f"entries of {agent} are not kept: {why}" for agent, why in services.unkept.items()),
            "",
        ),
    )


def _ledger_status(services: Services) -> LedgerStatus:
    recording = services.recording
    figures = recording.ledger.figures
    return LedgerStatus(
        where=str(recording.root),
        agents=len(list_ledger_agents(recording.root)),
        verbatim=recording.verbatim,
        recorded=figures.entries,
        failed=figures.failed,
        refused=figures.refused,
        failing=next(iter(figures.failing.values()), ""),
        degraded=figures.degraded,
        redacted=dict(recording.redacted),
    )


def _storage_status(services: Services) -> StorageStatus:
    storage = services.storage
    cache = storage.cache
    return StorageStatus(
        kind=storage.kind,
        where=storage.where,
        reason=storage.reason,
        complaint=storage.complaint,
        waiting=count_waiting(cache / "outbox") if cache else 0,
        rejected=_count_files(cache / "rejected") if cache else 0,
        conflicts=_count_files(cache / "conflicts") if cache else 0,
    )


def _count_files(folder: Path) -> int:
    return sum(1 for path in folder.rglob("*") if path.is_file())
