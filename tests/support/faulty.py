"""A store in memory that can be told to fail: no answer, or an answer that gets lost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from memplane.errors import BackendUnavailable, ConcurrencyError
from memplane.kit.clock import system_clock
from memplane.kit.retry_clock import RetryClock
from memplane.storage.in_memory_store import InMemoryStore
from memplane.storage.lineage import Stamp
from memplane.storage.store import (
    NO_METADATA,
    Anything,
    Expect,
    Matches,
    ObjectInfo,
    ObjectListing,
    StoredObject,
    Version,
)


class Quick:
    """A clock that moves only when somebody waits, and at once."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    def pacing(self) -> RetryClock:
        return RetryClock(sleep=self.sleep, elapsed=lambda: self.now, chance=lambda: 0.5)


class FaultyStore:
    """Answers from memory unless `offline`; `lose_answers` writes land and are not confirmed."""

    def __init__(self, pacing: RetryClock) -> None:
        self.memory = InMemoryStore(clock=system_clock, pacing=pacing)
        self.offline = False
        self.lose_answers = 0
        self.fail_next = 0
        self.calls: list[str] = []
        self.hold: asyncio.Event | None = None
        self.holding = asyncio.Event()

    async def read(self, key: str) -> StoredObject | None:
        self._asked(f"read {key}")
        found = await self.memory.read(key)
        await self._hold_back()
        return found

    async def stat(self, key: str) -> ObjectInfo | None:
        self._asked(f"stat {key}")
        return await self.memory.stat(key)

    async def listing(self, prefix: str = "") -> ObjectListing:
        self._asked(f"listing {prefix}".strip())
        found = await self.memory.listing(prefix)
        await self._hold_back()
        return found

    async def write(
        self, key: str, data: bytes, *, expect: Expect, metadata: Mapping[str, str] = NO_METADATA
    ) -> Version:
        self._asked(f"write {key}")
        version = await self.memory.write(key, data, expect=expect, metadata=metadata)
        self._answer_gets_lost(key)
        return version

    async def append(self, key: str, data: bytes, *, stamp: Stamp) -> None:
        self._asked(f"append {key}")
        await self.memory.append(key, data, stamp=stamp)
        self._answer_gets_lost(key)

    async def delete(self, key: str, *, expect: Matches | Anything) -> bool:
        self._asked(f"delete {key}")
        gone = await self.memory.delete(key, expect=expect)
        self._answer_gets_lost(key)
        return gone

    async def _hold_back(self) -> None:
        """Keep the next answer back until `hold` is set, as a slow network would."""
        if self.hold is not None and not self.holding.is_set():
            self.holding.set()
            await self.hold.wait()

    def _asked(self, what: str) -> None:
        self.calls.append(what)
        if self.offline or self.fail_next:
            self.fail_next = max(0, self.fail_next - 1)
            raise BackendUnavailable("nobody answers", key=what.partition(" ")[2])

    def _answer_gets_lost(self, key: str) -> None:
        if self.lose_answers:
            self.lose_answers -= 1
            raise BackendUnavailable("the answer got lost", key=key)


async def overwrite(store: FaultyStore, key: str, data: bytes) -> None:
    """Write as another machine would."""
    with suppress(ConcurrencyError):
        await store.memory.write(key, data, expect=Anything())
