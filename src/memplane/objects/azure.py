"""Objects in one Azure container; the version is the service's ETag."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from hashlib import md5
from typing import Any, Final, TypeVar

from azure.core import MatchConditions
from azure.core.exceptions import AzureError
from azure.storage.blob import BlobProperties, ContentSettings

from memplane.errors import BackendUnavailable, ConcurrencyError, ContainerMissing
from memplane.objects.appending import append_by_rewriting
from memplane.objects.azure_access import Access, Container, WithConnectionString, open_container
from memplane.objects.azure_errors import NotThere, translation
from memplane.objects.azure_reads import list_blobs, read_blob, version_of
from memplane.objects.keys import check_key, folded, is_valid, refuse_collision
from memplane.objects.lineage import Stamp
from memplane.objects.pacing import Pacing
from memplane.objects.store import (
    NO_METADATA,
    Absent,
    Anything,
    Expect,
    Listing,
    Matches,
    Object,
    ObjectInfo,
    Version,
)

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_CONTENT_TYPES: Final = {
    "md": "text/markdown; charset=utf-8",
    "json": "application/json",
    "jsonl": "application/x-ndjson",
    "html": "text/html; charset=utf-8",
    "txt": "text/plain; charset=utf-8",
}


@asynccontextmanager
async def open_azure_store(access: Access, *, pacing: Pacing) -> AsyncGenerator[AzureStore]:
    """Open the container with one connection pool, and close it again."""
    async with open_container(access) as container:
        may_create = isinstance(access, WithConnectionString)
        yield AzureStore(container, may_create=may_create, pacing=pacing)


class AzureStore:
    """Keeps the ObjectStore contract with If-Match and If-None-Match. It retries nothing."""

    def __init__(self, container: Container, *, may_create: bool, pacing: Pacing) -> None:
        self._container = container
        self._client = container.client
        self._may_create = may_create
        self._pacing = pacing
        self._spellings: dict[str, str] = {}
        self._listed: set[str] = set()
        self._creating: dict[str, str] = {}
        self._listing_names = asyncio.Lock()

    async def read(self, key: str) -> Object | None:
        check_key(key)
        return await self._unless_absent(partial(read_blob, self._container, key), key)

    async def stat(self, key: str) -> ObjectInfo | None:
        check_key(key)

        async def head() -> ObjectInfo:
            blob = self._client.get_blob_client(key)
            return _info(await blob.get_blob_properties())

        return await self._unless_absent(head, key)

    async def write(
        self, key: str, data: bytes, *, expect: Expect, metadata: Mapping[str, str] = NO_METADATA
    ) -> Version:
        check_key(key)
        if isinstance(expect, Matches):
            return await self._put(key, data, expect, metadata)
        refuse_collision(key, await self._rival_of(key))
        # From here on a rival is refused, though the service does not know the key yet.
        self._creating[folded(key)] = key
        try:
            return await self._put(key, data, expect, metadata)
        finally:
            self._creating.pop(folded(key), None)

    async def _put(
        self, key: str, data: bytes, expect: Expect, metadata: Mapping[str, str]
    ) -> Version:
        async def put() -> Version:
            blob = self._client.get_blob_client(key)
            answer = await blob.upload_blob(
                data,
                length=len(data),
                metadata=dict(metadata),
                content_settings=_content_settings(key, data),
                validate_content=True,
                **_precondition(expect),
            )
            return version_of(answer["etag"])

        try:
            version = await self._asked(put, key)
        except NotThere:
            # If-Match on a missing blob is 412 in Azure; 404 says the same.
            raise ConcurrencyError("is gone", key=key) from None
        self._spellings[folded(key)] = key
        return version

    async def append(self, key: str, data: bytes, *, stamp: Stamp) -> None:
        await append_by_rewriting(self, key, data, stamp=stamp, pacing=self._pacing)

    async def delete(self, key: str, *, expect: Matches | Anything) -> bool:
        check_key(key)

        async def delete() -> bool:
            condition = {} if isinstance(expect, Anything) else _if_match(expect)
            await self._client.get_blob_client(key).delete_blob(**condition)
            return True

        try:
            gone = await self._unless_absent(delete, key) is True
        except ConcurrencyError:
            # A condition on a blob that is absent counts as failed.
            if await self.stat(key) is not None:
                raise
            gone = False
        self._spellings.pop(folded(key), None)
        return gone

    async def listing(self, prefix: str = "") -> Listing:
        try:
            found = await self._asked(partial(list_blobs, self._container, prefix), "")
        except NotThere as error:
            raise BackendUnavailable("the listing answered that it is not there") from error
        entries = sorted(found, key=lambda one: one.key)
        valid = tuple(one for one in entries if is_valid(one.key))
        refused = tuple(one.key for one in entries if not is_valid(one.key))
        if refused:
            _log.warning("%d names in the container cannot be keys: %r", len(refused), refused[:5])
        if not prefix:
            self._spellings.clear()
        self._spellings |= {folded(one.key): one.key for one in valid}
        self._listed.add(prefix)
        return Listing(valid, refused)

    async def _rival_of(self, key: str) -> str | None:
        """Return the existing spelling of a key that may be new; asks for one listing at most."""
        async with self._listing_names:
            if not key.startswith(tuple(self._listed)):
                await self.listing()
        spelled = self._spellings.get(folded(key))
        if spelled is not None and spelled != key and await self.stat(spelled) is None:
            spelled = None
        return self._creating.get(folded(key), spelled)

    async def _unless_absent(self, call: Callable[[], Awaitable[_T]], key: str) -> _T | None:
        try:
            return await self._asked(call, key)
        except NotThere:
            return None

    async def _asked(self, call: Callable[[], Awaitable[_T]], key: str) -> _T:
        """Make one call; every error becomes ours, and a container we may create is created."""
        try:
            return await self._translated(call, key)
        except ContainerMissing:
            if not self._may_create:
                raise
            await self._create_container()
            return await self._translated(call, key)

    async def _create_container(self) -> None:
        try:
            await self._translated(self._client.create_container, "")
        except ConcurrencyError:
            _log.debug("somebody else created the container first")

    @staticmethod
    async def _translated(call: Callable[[], Awaitable[_T]], key: str) -> _T:
        try:
            return await call()
        except (AzureError, TimeoutError) as error:
            # Not as the cause: its text may hold the signed address.
            raise translation(error, key) from None


def _precondition(expect: Expect) -> dict[str, Any]:
    match expect:
        case Absent():
            # Without an ETag this is sent as If-None-Match: *
            return {"overwrite": False}
        case Matches():
            return {"overwrite": True, **_if_match(expect)}
        case Anything():
            return {"overwrite": True}


def _if_match(expect: Matches) -> dict[str, Any]:
    return {"etag": expect.version, "match_condition": MatchConditions.IfNotModified}


def _content_settings(key: str, data: bytes) -> ContentSettings:
    kind = _CONTENT_TYPES.get(key.rpartition(".")[2].lower(), "application/octet-stream")
    digest = md5(data, usedforsecurity=False).digest()
    return ContentSettings(content_type=kind, content_md5=bytearray(digest))


def _info(blob: BlobProperties) -> ObjectInfo:
    return ObjectInfo(
        blob.name,
        version_of(blob.etag),
        blob.size,
        blob.last_modified,
        dict(blob.metadata or {}),
    )
