"""Whether all is well, in a few words (pure)."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from memplane.episodes.api_types import MemoryStatus
from memplane.service.model import LedgerStatus, Status, StorageStatus

Grade: TypeAlias = Literal["good", "look", "bad"]


class HealthFinding(msgspec.Struct, frozen=True):
    """One part of memplane, how it is, and what an operator should know of it."""

    part: str
    grade: Grade
    words: str


def assess_health(status: Status) -> list[HealthFinding]:
    """Say how each part is."""
    memory = [_memory(status.memory)] if status.memory is not None else []
    if status.failing:
        memory = [HealthFinding("Memory", "bad", status.failing)]
    return [_ledger(status.ledger), *memory, _storage(status.storage)]


def _ledger(found: LedgerStatus) -> HealthFinding:
    if found.failing:
        return HealthFinding("Ledger", "bad", f"turns are not recorded: {found.failing}")
    if found.degraded:
        return HealthFinding("Ledger", "look", found.degraded)
    if found.failed or found.refused:
        lost = f"{found.failed + found.refused:,} turns were not recorded since the start"
        return HealthFinding("Ledger", "look", lost)
    if found.verbatim:
        return HealthFinding(
            "Ledger", "look", "turns are kept as they are, with the secrets in them"
        )
    return HealthFinding("Ledger", "good", f"{found.recorded:,} turns recorded since the start")


def _memory(found: MemoryStatus) -> HealthFinding:
    if found.degraded:
        return HealthFinding("Memory", "look", found.degraded)
    if found.unreadable:
        return HealthFinding("Memory", "look", f"{found.unreadable:,} entries cannot be read")
    waiting = found.underived + found.unindexed
    if waiting:
        return HealthFinding("Memory", "good", f"{waiting:,} turns are being worked on")
    return HealthFinding("Memory", "good", f"{found.episodes:,} turns are remembered")


def _storage(found: StorageStatus) -> HealthFinding:
    if found.complaint:
        return HealthFinding("Storage", "bad", found.complaint)
    if found.rejected or found.conflicts:
        count = found.rejected + found.conflicts
        return HealthFinding("Storage", "look", f"{count:,} writes were refused or collided")
    if found.waiting:
        return HealthFinding("Storage", "look", f"{found.waiting:,} writes wait for {found.where}")
    return HealthFinding("Storage", "good", found.reason)
