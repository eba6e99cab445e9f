"""Objects in one bucket of an S3-compatible service; the version is the service's ETag."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

from memplane.errors import BackendMisconfigured, ConcurrencyError
from memplane.kit.concurrency import run_for_each
from memplane.kit.ids import new_id
from memplane.kit.retry_clock import RetryClock
from memplane.storage.conditional_append import append_by_rewriting
from memplane.storage.keys import check_key, is_valid
from memplane.storage.lineage import Stamp
from memplane.storage.s3_access import S3Access, S3Bucket, open_bucket
from memplane.storage.s3_objects import (
    delete_object,
    is_delete_conditional,
    is_put_conditional,
    list_objects,
    put_object,
    read_object,
    stat_object,
)
from memplane.storage.spellings import KeySpellings
from memplane.storage.store import (
    NO_METADATA,
    Absent,
    Anything,
    Expect,
    Matches,
    ObjectInfo,
    ObjectListing,
    StoredObject,
    Version,
)

REMOVED_METADATA: Final = "memplane_removed"
"""The metadata name of what stands for a deletion, where the service has no conditional one."""

_PROBE_PREFIX: Final = ".memplane-probe-"
_MAX_CONCURRENT_REQUESTS: Final = 64

_log = logging.getLogger(__name__)


@asynccontextmanager
async def open_s3_store(access: S3Access, *, pacing: RetryClock) -> AsyncGenerator[S3Store]:
    """Open the bucket with one connection pool, and close it again."""
    async with open_bucket(access) as bucket:
        yield S3Store(bucket, pacing=pacing)


class S3Store:
    """Keeps the ObjectStore contract with If-Match and If-None-Match. It retries nothing.

    A listing of S3 has no metadata, so each listed object is asked for once, and again when it
    has changed.
    """

    def __init__(self, bucket: S3Bucket, *, pacing: RetryClock) -> None:
        self._bucket = bucket
        self._pacing = pacing
        self._spellings = KeySpellings(self._learn_names, self._exists)
        self._known: dict[str, ObjectInfo] = {}
        self._has_conditional_delete: bool | None = None
        self._has_conditional_put: bool | None = None
        self._trying = asyncio.Lock()

    async def read(self, key: str) -> StoredObject | None:
        check_key(key)
        stored = await read_object(self._bucket, key)
        return None if stored is None or REMOVED_METADATA in stored.metadata else stored

    async def stat(self, key: str) -> ObjectInfo | None:
        check_key(key)
        info = await stat_object(self._bucket, key)
        return None if info is None or REMOVED_METADATA in info.metadata else info

    async def write(
        self, key: str, data: bytes, *, expect: Expect, metadata: Mapping[str, str] = NO_METADATA
    ) -> Version:
        check_key(key)
        await self._require_conditional_puts()
        if isinstance(expect, Matches):
            return await self._put(key, data, expect, metadata)
        async with self._spellings.reserve(key):
            return await self._put(key, data, expect, metadata)

    async def _put(
        self, key: str, data: bytes, expect: Expect, metadata: Mapping[str, str]
    ) -> Version:
        try:
            version = await put_object(self._bucket, key, data, expect=expect, metadata=metadata)
        except ConcurrencyError:
            tombstone = await stat_object(self._bucket, key) if expect == Absent() else None
            if tombstone is None or REMOVED_METADATA not in tombstone.metadata:
                raise
            version = await put_object(
                self._bucket, key, data, expect=Matches(tombstone.version), metadata=metadata
            )
        self._known.pop(key, None)
        self._spellings.record(key)
        return version

    async def _require_conditional_puts(self) -> None:
        """Try, once, whether the service honours what every write rests on."""
        async with self._trying:
            if self._has_conditional_put is None:
                probe = f"{_PROBE_PREFIX}{new_id()}"
                self._has_conditional_put = await is_put_conditional(self._bucket, probe)
        if not self._has_conditional_put:
            raise BackendMisconfigured(
                "the S3 service ignores the conditions of writes, so two machines could lose "
                "each other's. Nothing was written. Use another service, or a newer version of it"
            )

    async def append(self, key: str, data: bytes, *, stamp: Stamp) -> None:
        await append_by_rewriting(self, key, data, stamp=stamp, pacing=self._pacing)

    async def delete(self, key: str, *, expect: Matches | Anything) -> bool:
        info = await self.stat(key)
        if info is not None and isinstance(expect, Matches):
            if info.version != expect.version:
                raise ConcurrencyError("was changed by someone else", key=key)
            await self._delete_matching(key, expect)
        elif info is not None:
            await delete_object(self._bucket, key)
        self._spellings.drop(key)
        return info is not None

    async def _delete_matching(self, key: str, expect: Matches) -> None:
        if await self.has_conditional_delete():
            await delete_object(self._bucket, key, expect)
            return
        await self._require_conditional_puts()
        # Its content is its own, so that no version of a document is ever a tombstone's.
        body = f"memplane removed this object ({new_id()})\n".encode()
        metadata = {REMOVED_METADATA: "1"}
        await put_object(self._bucket, key, body, expect=expect, metadata=metadata)

    async def has_conditional_delete(self) -> bool:
        """Try, once, whether the service deletes only what is still as expected."""
        if self._has_conditional_delete is None:
            self._has_conditional_delete = await self._try_conditional_delete()
        return self._has_conditional_delete

    async def _try_conditional_delete(self) -> bool:
        probe = f"{_PROBE_PREFIX}{new_id()}"
        await put_object(self._bucket, probe, b"probe\n", expect=Absent(), metadata=NO_METADATA)
        is_honoured = await is_delete_conditional(self._bucket, probe)
        await delete_object(self._bucket, probe)
        return is_honoured

    async def listing(self, prefix: str = "") -> ObjectListing:
        entries = await self._list_names(prefix)
        valid = [info for info in entries if is_valid(info.key)]
        refused = tuple(info.key for info in entries if not is_valid(info.key))
        if refused:
            _log.warning("%d names in the bucket cannot be keys: %r", len(refused), refused[:5])
        outdated = [info for info in valid if not self._is_known(info)]
        await run_for_each(outdated, self._ask_metadata, max_concurrent=_MAX_CONCURRENT_REQUESTS)
        known = (self._known.get(info.key) for info in valid)
        present = tuple(
            info for info in known if info is not None and REMOVED_METADATA not in info.metadata
        )
        self._spellings.learn(prefix, (info.key for info in present))
        return ObjectListing(present, refused)

    async def _list_names(self, prefix: str) -> list[ObjectInfo]:
        """List what is there, without metadata, folders of consoles, and probes."""
        listed = await list_objects(self._bucket, prefix)
        entries = [
            info
            for info in listed
            if not info.key.startswith(_PROBE_PREFIX)
            and not (info.key.endswith("/") and info.size == 0)
        ]
        return sorted(entries, key=lambda info: info.key)

    def _is_known(self, listed: ObjectInfo) -> bool:
        known = self._known.get(listed.key)
        return known is not None and _identity_of(known) == _identity_of(listed)

    async def _ask_metadata(self, listed: ObjectInfo) -> None:
        info = await stat_object(self._bucket, listed.key)
        if info is None:
            self._known.pop(listed.key, None)
        elif info.version == listed.version:
            # The moment of the listing has fractions of a second, and tells two writes apart.
            self._known[listed.key] = ObjectInfo(
                info.key, info.version, info.size, listed.modified, info.metadata
            )
        else:
            self._known[listed.key] = info

    async def _learn_names(self) -> None:
        """Learn which spellings are in use; a tombstone's counts until it is asked for."""
        entries = await self._list_names("")
        self._spellings.learn("", (info.key for info in entries if is_valid(info.key)))

    async def _exists(self, key: str) -> bool:
        return await self.stat(key) is not None


def _identity_of(info: ObjectInfo) -> tuple[Version, datetime]:
    return info.version, info.modified
