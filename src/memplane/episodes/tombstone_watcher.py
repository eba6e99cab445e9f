"""Burying what others wrote tombstones for: a pod's operator does, beside a running memory.

It is looked for before anything is answered or taken in. Where nothing was written, that costs
no more than the status of a file.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeAlias

from memplane.database.interface import RecordStore
from memplane.episodes.ledger_follower import MemorySources, apply_tombstones
from memplane.ledger.tombstones import TOMBSTONES_FILE_NAME, list_agents_with_tombstones

_log = logging.getLogger(__name__)

_FileStamps: TypeAlias = tuple[tuple[int, int, int] | None, ...]
TombstoneCallback: TypeAlias = Callable[[str, Sequence[str]], Awaitable[object]]


class TombstoneWatcher:
    """Looks for tombstones. While `pausing` is held nothing is taken in, and nothing buried."""

    def __init__(self, records: RecordStore, places: MemorySources) -> None:
        self.told: list[TombstoneCallback] = []
        """Each is called with an agent and its entries that were just buried, and waited for."""
        self.intake_lock = asyncio.Lock()
        self._records = records
        self._places = places
        self._roots = [str(root) for root in places.tombstone_roots]
        self._seen: dict[str, _FileStamps] = {}
        self._nothing: _FileStamps = (None,) * len(self._roots)

    async def look(self, agent: str) -> None:
        """Bury what an agent's tombstones say by now; nobody goes on before that is done.

        Raises:
            LedgerError: They cannot be read.
            RecordsError: The database cannot be written.
        """
        if self._is_new(agent):
            # Who has a deadline and leaves does not stop it between the rows and those it tells.
            await asyncio.shield(self._bury_what_is_new(agent))

    async def _bury_what_is_new(self, agent: str) -> None:
        async with self.intake_lock:
            if self._is_new(agent):
                await self._bury(agent)

    async def check_all_agents(self) -> None:
        """Bury what any agent's tombstones say by now."""
        for root in self._places.tombstone_roots:
            for agent in list_agents_with_tombstones(root):
                await self.look(agent)

    def _is_new(self, agent: str) -> bool:
        return self._stamps(agent) != self._seen.get(agent, self._nothing)

    async def _bury(self, agent: str) -> None:
        # Taken first: what is written while we read is looked at once more.
        stamps = self._stamps(agent)
        new = await apply_tombstones(self._records, self._places, agent)
        if new:
            _log.info("%d entries of %s were forgotten beside us", len(new), agent)
            for tell in self.told:
                await tell(agent, new)
        self._seen[agent] = stamps

    def _stamps(self, agent: str) -> _FileStamps:
        return tuple(map(partial(_stamp, agent=agent), self._roots))


def _stamp(root: str, agent: str) -> tuple[int, int, int] | None:
    try:
        status = os.lstat(f"{root}/{agent}/{TOMBSTONES_FILE_NAME}")
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
