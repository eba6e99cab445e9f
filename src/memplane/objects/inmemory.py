"""Objects in a dict, for tests and for trying things out.

Every method yields to the event loop, as real I/O does: a fake that never waits hides races.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import count

from memplane.clock import Clock
from memplane.objects.appending import append_by_rewriting
from memplane.objects.keys import check_key, folded, refuse_collision
from memplane.objects.lineage import Stamp
from memplane.objects.pacing import Pacing
from memplane.objects.store import (
    NO_METADATA,
    Anything,
    Expect,
    Listing,
    Matches,
    Object,
    ObjectInfo,
    Version,
    info_of,
    require,
)


class InMemoryStore:
    """Keeps the ObjectStore contract without touching a disk."""

    def __init__(self, *, clock: Clock, pacing: Pacing) -> None:
        self._objects: dict[str, Object] = {}
        self._versions = count(1)
        self._clock = clock
        self._pacing = pacing

    async def read(self, key: str) -> Object | None:
        await asyncio.sleep(0)
        return self._objects.get(check_key(key))

    async def stat(self, key: str) -> ObjectInfo | None:
        found = await self.read(key)
        return info_of(key, found) if found else None

    async def write(
        self, key: str, data: bytes, *, expect: Expect, metadata: Mapping[str, str] = NO_METADATA
    ) -> Version:
        check_key(key)
        await asyncio.sleep(0)
        found = self._objects.get(key)
        require(expect, found.version if found else None, key=key)
        rivals = {folded(other): other for other in self._objects}
        refuse_collision(key, rivals.get(folded(key)))
        version = Version(f'"{next(self._versions)}"')
        self._objects[key] = Object(data, version, self._clock(), dict(metadata))
        return version

    async def append(self, key: str, data: bytes, *, stamp: Stamp) -> None:
        await append_by_rewriting(self, key, data, stamp=stamp, pacing=self._pacing)

    async def delete(self, key: str, *, expect: Matches | Anything) -> bool:
        check_key(key)
        await asyncio.sleep(0)
        found = self._objects.get(key)
        if found is None:
            return False
        require(expect, found.version, key=key)
        del self._objects[key]
        return True

    async def listing(self, prefix: str = "") -> Listing:
        await asyncio.sleep(0)
        keys = sorted(key for key in self._objects if key.startswith(prefix))
        return Listing(tuple(info_of(key, self._objects[key]) for key in keys))
