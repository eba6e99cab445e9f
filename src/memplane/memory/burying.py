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

from memplane.ledger.tombstones import NAME, agents_with_tombstones
from memplane.memory.following import Places, bury_told
from memplane.records.store import Records

_log = logging.getLogger(__name__)

_Stamps: TypeAlias = tuple[tuple[int, int, int] | None, ...]
Told: TypeAlias = Callable[[str, Sequence[str]], Awaitable[object]]


class Burying:
    """Looks for tombstones. While `pausing` is held nothing is taken in, and nothing buried."""

    def __init__(self, records: Records, places: Places) -> None:
        self.told: list[Told] = []
        """Each is called with an agent and its entries that were just buried, and waited for."""
        self.pausing = asyncio.Lock()
        self._records = records
        self._places = places
        self._roots = [str(root) for root in places.told_in]
        self._seen: dict[str, _Stamps] = {}
        self._nothing: _Stamps = (None,) * len(self._roots)

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
        async with self.pausing:
            if self._is_new(agent):
                await self._bury(agent)

    async def look_everywhere(self) -> None:
        """Bury what any agent's tombstones say by now."""
        for root in self._places.told_in:
            for agent in agents_with_tombstones(root):
                await self.look(agent)

    def _is_new(self, agent: str) -> bool:
        return self._stamps(agent) != self._seen.get(agent, self._nothing)

    async def _bury(self, agent: str) -> None:
        # Taken first: what is written while we read is looked at once more.
        stamps = self._stamps(agent)
        new = await bury_told(self._records, self._places, agent)
        if new:
            _log.info("%d entries of %s were forgotten beside us", len(new), agent)
            for tell in self.told:
                await tell(agent, new)
        self._seen[agent] = stamps

    def _stamps(self, agent: str) -> _Stamps:
        return tuple(map(partial(_stamp, agent=agent), self._roots))


def _stamp(root: str, agent: str) -> tuple[int, int, int] | None:
    try:
        status = os.lstat(f"{root}/{agent}/{NAME}")
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
