"""What operations work with in the process that owns the home."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from memplane.auth.token_store import TokenStore
from memplane.home import Home
from memplane.service.lazy_memory import LazyMemory
from memplane.service.ledger_service import LedgerService

if TYPE_CHECKING:
    from memplane.observations.service import ObservationService
    from memplane.persona.service import PersonaService


class StorageSummary(msgspec.Struct, frozen=True):
    """The storage that was chosen; `cache` is its folder on this machine, when it has one."""

    kind: str
    where: str
    reason: str
    complaint: str | None
    cache: Path | None


class HomeFiles(msgspec.Struct, frozen=True):
    """Files that are read and written beside the process that owns the home.

    The usual folder of documents is that of `agent`; "" is nobody's.
    """

    open_documents: Callable[[], PersonaService]
    agent: str = ""


class Services(msgspec.Struct, frozen=True):
    """The parts of a home that are open; memory opens when it is first used."""

    home: Home
    storage: StorageSummary
    issued: TokenStore
    recording: LedgerService
    lazy_memory: LazyMemory
    files: HomeFiles
    unkept: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    """Why the last entry of an agent was not kept, of each whose last one was not."""

    def failing(self) -> tuple[str, ...]:
        """Say what is not kept now, for everybody: without names and places."""
        turns = ("turns are not recorded",) if self.recording.ledger.figures.failing else ()
        entries = ("entries that are given to be retained are not kept",) if self.unkept else ()
        return (*turns, *entries)

    async def memories(self) -> ObservationService:
        """Return what was learned, without what rests on turns that others forgot meanwhile."""
        await (await self.lazy_memory.memory()).apply_all_tombstones()
        return await self.lazy_memory.curator()
