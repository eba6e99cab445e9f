"""Objects in one Azure container; the version is the service's ETag."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

from memplane.errors import BackendUnavailable, ConcurrencyError, ContainerMissing
from memplane.kit.retry_clock import RetryClock
from memplane.storage.azure_access import (
    AzureContainer,
    ContainerAccess,
    WithConnectionString,
    open_container,
)
from memplane.storage.azure_errors import BlobNotFound
from memplane.storage.azure_reads import list_blobs, read_blob, stat_blob
from memplane.storage.azure_writes import create_container, delete_blob, put_blob
from memplane.storage.conditional_append import append_by_rewriting
from memplane.storage.keys import check_key, is_valid
from memplane.storage.lineage import Stamp
from memplane.storage.spellings import KeySpellings
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

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


@asynccontextmanager
async def open_azure_store(
    access: ContainerAccess, *, pacing: RetryClock
) -> AsyncGenerator[AzureStore]:
    """Open the container with one connection pool, and close it again."""
    async with open_container(access) as container:
        may_create = isinstance(access, WithConnectionString)
        yield AzureStore(container, may_create=may_create, pacing=pacing)


class AzureStore:
    """Keeps the ObjectStore contract with If-Match and If-None-Match. It retries nothing."""

    def __init__(self, container: AzureContainer, *, may_create: bool, pacing: RetryClock) -> None:
        self._container = container
        self._may_create = may_create
        self._pacing = pacing
        self._spellings = KeySpellings(self.listing, self._exists)

    async def read(self, key: str) -> StoredObject | None:
        check_key(key)
        return await self._unless_absent(partial(read_blob, self._container, key))

    async def stat(self, key: str) -> ObjectInfo | None:
        check_key(key)
        return await self._unless_absent(partial(stat_blob, self._container, key))

    async def write(
        self, key: str, data: bytes, *, expect: Expect, metadata: Mapping[str, str] = NO_METADATA
    ) -> Version:
        check_key(key)
        if isinstance(expect, Matches):
            return await self._put(key, data, expect, metadata)
        async with self._spellings.reserve(key):
            return await self._put(key, data, expect, metadata)

    async def _put(
        self, key: str, data: bytes, expect: Expect, metadata: Mapping[str, str]
    ) -> Version:
        put = partial(put_blob, self._container, key, data, expect=expect, metadata=metadata)
        try:
            version = await self._call(put)
        except BlobNotFound:
            # If-Match on a missing blob is 412 in Azure; 404 says the same.
            raise ConcurrencyError("is gone", key=key) from None
        self._spellings.record(key)
        return version

    async def append(self, key: str, data: bytes, *, stamp: Stamp) -> None:
        await append_by_rewriting(self, key, data, stamp=stamp, pacing=self._pacing)

    async def delete(self, key: str, *, expect: Matches | Anything) -> bool:
        check_key(key)
        try:
            await self._call(partial(delete_blob, self._container, key, expect))
            was_deleted = True
        except BlobNotFound:
            was_deleted = False
        except ConcurrencyError:
            # A condition on a blob that is absent counts as failed.
            if await self.stat(key) is not None:
                raise
            was_deleted = False
        self._spellings.drop(key)
        return was_deleted

    async def listing(self, prefix: str = "") -> ObjectListing:
        try:
            blobs = await self._call(partial(list_blobs, self._container, prefix))
        except BlobNotFound as error:
            raise BackendUnavailable("the listing answered that it is not there") from error
        entries = sorted(blobs, key=lambda info: info.key)
        valid = tuple(info for info in entries if is_valid(info.key))
        refused = tuple(info.key for info in entries if not is_valid(info.key))
        if refused:
            _log.warning("%d names in the container cannot be keys: %r", len(refused), refused[:5])
        self._spellings.learn(prefix, (info.key for info in valid))
        return ObjectListing(valid, refused)

    async def _exists(self, key: str) -> bool:
        return await self.stat(key) is not None

    async def _unless_absent(self, call: Callable[[], Awaitable[_T]]) -> _T | None:
        try:
            return await self._call(call)
        except BlobNotFound:
            return None

    async def _call(self, call: Callable[[], Awaitable[_T]]) -> _T:
        """Make one call; a container that is missing, and that we may create, is created."""
        try:
            return await call()
        except ContainerMissing:
            if not self._may_create:
                raise
            await self._create_container()
            return await call()

    async def _create_container(self) -> None:
        try:
            await create_container(self._container)
        except ConcurrencyError:
            _log.debug("somebody else created the container first")
