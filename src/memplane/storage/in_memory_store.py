"""Objects in a dict, for tests and for trying things out.

Every method yields to the event loop, as real I/O does: a fake that never waits hides races.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import count

from memplane.kit.clock import Clock
from memplane.kit.retry_clock import RetryClock
from memplane.storage.conditional_append import append_by_rewriting
from memplane.storage.keys import check_key, fold_key, refuse_collision
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
    check_expectation,
    describe_object,
)


class InMemoryStore:
    """Keeps the ObjectStore contract without touching a disk."""

    def __init__(self, *, clock: Clock, pacing: RetryClock) -> None:
        self._objects: dict[str, StoredObject] = {}
        self._versions = count(1)
        self._clock = clock
        self._pacing = pacing

    async def read(self, key: str) -> StoredObject | None:
        await asyncio.sleep(0)
        return self._objects.get(check_key(key))

    async def stat(self, key: str) -> ObjectInfo | None:
        stored = await self.read(key)
        return describe_object(key, stored) if stored else None

    async def write(
        self, key: str, data: bytes, *, expect: Expect, metadata: Mapping[str, str] = NO_METADATA
    ) -> Version:
        check_key(key)
        await asyncio.sleep(0)
        stored = self._objects.get(key)
        check_expectation(expect, stored.version if stored else None, key=key)
        rivals = {fold_key(other): other for other in self._objects}
        refuse_collision(key, rivals.get(fold_key(key)))
        version = Version(f'"{next(self._versions)}"')
        self._objects[key] = StoredObject(data, version, self._clock(), dict(metadata))
        return version

    async def append(self, key: str, data: bytes, *, stamp: Stamp) -> None:
        await append_by_rewriting(self, key, data, stamp=stamp, pacing=self._pacing)

    async def delete(self, key: str, *, expect: Matches | Anything) -> bool:
        check_key(key)
        await asyncio.sleep(0)
        stored = self._objects.get(key)
        if stored is None:
            return False
        check_expectation(expect, stored.version, key=key)
        del self._objects[key]
        return True

    async def listing(self, prefix: str = "") -> ObjectListing:
        await asyncio.sleep(0)
        keys = sorted(key for key in self._objects if key.startswith(prefix))
        return ObjectListing(tuple(describe_object(key, self._objects[key]) for key in keys))
