"""The contract of a plane; `memplane.testing.plane_conformance` checks it."""

from __future__ import annotations

from typing import Protocol

import msgspec


class StorageStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Where state lives, and what has not got there yet."""

    kind: str
    where: str
    reason: str
    complaint: str | None = None
    waiting: int = 0
    rejected: int = 0
    conflicts: int = 0


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What a plane says about itself."""

    version: str
    home: str
    pid: int
    address: str
    storage: StorageStatus
    jobs: int = 0


class Plane(Protocol):
    """What agents and operators ask of memplane; every door calls these.

    Every method may raise OwnerUnavailable where the plane lives in another process.
    """

    async def status(self) -> Status:
        """Say what is configured, where state lives and what is pending."""
        ...
