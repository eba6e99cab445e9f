"""Whether all is well, in a few words (pure)."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from memplane.memory.contract import MemoryStatus
from memplane.plane.contract import LedgerStatus, Status, StorageStatus

Grade: TypeAlias = Literal["good", "look", "bad"]


class Finding(msgspec.Struct, frozen=True):
    """One part of memplane, how it is, and what an operator should know of it."""

    part: str
    grade: Grade
    words: str


def findings(status: Status) -> list[Finding]:
    """Say how each part is."""
    memory = [_memory(status.memory)] if status.memory is not None else []
    return [_ledger(status.ledger), *memory, _storage(status.storage)]


def _ledger(found: LedgerStatus) -> Finding:
    if found.failing:
        return Finding("Ledger", "bad", f"turns are not recorded: {found.failing}")
    if found.degraded:
        return Finding("Ledger", "look", found.degraded)
    if found.failed or found.refused:
        lost = f"{found.failed + found.refused:,} turns were not recorded since the start"
        return Finding("Ledger", "look", lost)
    if found.verbatim:
        return Finding("Ledger", "look", "turns are kept as they are, with the secrets in them")
    return Finding("Ledger", "good", f"{found.recorded:,} turns recorded since the start")


def _memory(found: MemoryStatus) -> Finding:
    if found.degraded:
        return Finding("Memory", "look", found.degraded)
    if found.unreadable:
        return Finding("Memory", "look", f"{found.unreadable:,} entries cannot be read")
    waiting = found.underived + found.unindexed
    if waiting:
        return Finding("Memory", "good", f"{waiting:,} turns are being worked on")
    return Finding("Memory", "good", f"{found.episodes:,} turns are remembered")


def _storage(found: StorageStatus) -> Finding:
    if found.complaint:
        return Finding("Storage", "bad", found.complaint)
    if found.rejected or found.conflicts:
        count = found.rejected + found.conflicts
        return Finding("Storage", "look", f"{count:,} writes were refused or collided")
    if found.waiting:
        return Finding("Storage", "look", f"{found.waiting:,} writes wait for {found.where}")
    return Finding("Storage", "good", found.reason)
