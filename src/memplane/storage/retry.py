"""A store that tries again after transient faults, and never after a conflict."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

from memplane.errors import BackendUnavailable, ConcurrencyError
from memplane.kit.retry_clock import RetryClock
from memplane.storage.lineage import Stamp
from memplane.storage.store import (
    NO_METADATA,
    Anything,
    Expect,
    Matches,
    ObjectInfo,
    ObjectListing,
    ObjectStore,
    StoredObject,
    Version,
)

WRITE_ID_METADATA: Final = "memplane_write"
"""The metadata name that tells whose write an object is from."""

_T = TypeVar("_T")


class RetryStore:
    """Four attempts, with growing pauses or the pause the service asks for.

    A write that got no answer may have landed; the second attempt then conflicts with the first.
    Each write carries an id of its own in the metadata, so that it recognises itself.
    """

    def __init__(
        self, inner: ObjectStore, *, pacing: RetryClock, new_write_id: Callable[[], str]
    ) -> None:
        self._inner = inner
        self._pacing = pacing
        self._new_write_id = new_write_id

    async def read(self, key: str) -> StoredObject | None:
        return await self._retry(lambda: self._inner.read(key))

    async def stat(self, key: str) -> ObjectInfo | None:
        return await self._retry(lambda: self._inner.stat(key))

    async def listing(self, prefix: str = "") -> ObjectListing:
        return await self._retry(lambda: self._inner.listing(prefix))

    async def append(self, key: str, data: bytes, *, stamp: Stamp) -> None:
        # Harmless to repeat: a stamp that landed adds nothing.
        await self._retry(lambda: self._inner.append(key, data, stamp=stamp))

    async def write(
        self, key: str, data: bytes, *, expect: Expect, metadata: Mapping[str, str] = NO_METADATA
    ) -> Version:
        write_id = self._new_write_id()
        attempts = 0

        async def write() -> Version:
            nonlocal attempts
            attempts += 1
            full_metadata = {**metadata, WRITE_ID_METADATA: write_id}
            try:
                return await self._inner.write(key, data, expect=expect, metadata=full_metadata)
            except ConcurrencyError:
                info = await self._inner.stat(key) if attempts > 1 else None
                if info is None or info.metadata.get(WRITE_ID_METADATA) != write_id:
                    raise
                return info.version

        return await self._retry(write)

    async def delete(self, key: str, *, expect: Matches | Anything) -> bool:
        attempts = 0

        async def delete() -> bool:
            nonlocal attempts
            attempts += 1
            # Gone at the second attempt means that the first one landed.
            return await self._inner.delete(key, expect=expect) or attempts > 1

        return await self._retry(delete)

    async def _retry(self, call: Callable[[], Awaitable[_T]]) -> _T:
        attempts = self._pacing.for_faults()
        while True:
            try:
                return await call()
            except BackendUnavailable as error:
                if not await attempts.wait_for_next(at_least=error.retry_after or 0.0):
                    raise
