"""A plane in this process, which owns the home."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

from memplane.home import Home
from memplane.objects.outbox import count_waiting
from memplane.plane.contract import Status, StorageStatus
from memplane.spool import waiting_jobs
from memplane.version import VERSION


@dataclass(frozen=True, slots=True)
class StorageSummary:
    """The storage that was chosen; `cache` is its folder on this machine, when it has one."""

    kind: str
    where: str
    reason: str
    complaint: str | None
    cache: Path | None


@dataclass(frozen=True, slots=True)
class LocalPlane:
    """Keeps the Plane contract for the process that owns the home."""

    home: Home
    storage: StorageSummary

    async def status(self) -> Status:
        return await asyncio.to_thread(self._status)

    def _status(self) -> Status:
        owner = self.home.owner()
        return Status(
            version=VERSION,
            home=str(self.home.path),
            pid=os.getpid(),
            address=owner.address if owner else "",
            storage=self._storage_status(),
            jobs=len(waiting_jobs(self.home.spool)),
        )

    def _storage_status(self) -> StorageStatus:
        chosen = self.storage
        cache = chosen.cache
        return StorageStatus(
            kind=chosen.kind,
            where=chosen.where,
            reason=chosen.reason,
            complaint=chosen.complaint,
            waiting=count_waiting(cache / "outbox") if cache else 0,
            rejected=_count_files(cache / "rejected") if cache else 0,
            conflicts=_count_files(cache / "conflicts") if cache else 0,
        )


def _count_files(folder: Path) -> int:
    return sum(1 for path in folder.rglob("*") if path.is_file())
