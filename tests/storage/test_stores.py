"""The object store contract, against every implementation and every decorator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memplane.kit.clock import system_clock
from memplane.kit.retry_clock import RetryClock
from memplane.service.composition.storage import (
    BlobStorage,
    S3Storage,
    _access,
    open_bucket_store,
    open_container,
)
from memplane.storage.azure import open_azure_store
from memplane.storage.cached_store import CachedStore
from memplane.storage.conflict_copies import ConflictCopyStore
from memplane.storage.in_memory_store import InMemoryStore
from memplane.storage.local import LocalStore
from memplane.storage.manifest import ManifestStore
from memplane.storage.mirror import ObjectMirror
from memplane.storage.outbox import Outbox
from memplane.storage.retry import RetryStore
from memplane.storage.store import ObjectStore
from memplane.testing.object_conformance import ObjectStoreConformance
from tests.support.azurite import Azurite
from tests.support.s3_server import S3Server

PACING = RetryClock()


def in_memory() -> InMemoryStore:
    return InMemoryStore(clock=system_clock, pacing=PACING)


class TestInMemory(ObjectStoreConformance):
    @pytest.fixture
    def store(self) -> ObjectStore:
        return in_memory()


class TestLocal(ObjectStoreConformance):
    keeps_metadata = False
    appends_can_end_in_doubt = False

    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        return LocalStore(tmp_path / "data")


class TestAzuriteOverHttp(ObjectStoreConformance):
    @pytest.fixture
    async def store(self, azurite: Azurite, container: str) -> AsyncIterator[ObjectStore]:
        async with open_azure_store(_access(azurite.by_key(container)), pacing=PACING) as store:
            yield store


class TestAzuriteOverHttpsWithTokens(ObjectStoreConformance):
    @pytest.fixture
    async def store(self, secure_azurite: Azurite, container: str) -> AsyncIterator[ObjectStore]:
        by_key = _access(secure_azurite.by_key(container))
        async with open_azure_store(by_key, pacing=PACING) as creator:
            await creator.listing()
        by_token = _access(secure_azurite.by_token(container))
        async with open_azure_store(by_token, pacing=PACING) as store:
            yield store
        # The emulator breaks connections off after some answers; TLS says goodbye to each, which
        # takes a moment that an event loop about to close would not give it.
        await asyncio.sleep(0.1)


class TestS3(ObjectStoreConformance):
    @pytest.fixture
    async def store(
        self, s3_server: S3Server, bucket: str, tmp_path: Path
    ) -> AsyncIterator[ObjectStore]:
        storage = S3Storage(s3_server.settings(bucket, prefix="memory"), tmp_path)
        async with open_bucket_store(storage, PACING) as store:
            yield store


@pytest.mark.long
class TestS3WithoutConditionalDeletes(ObjectStoreConformance):
    @pytest.fixture
    async def store(
        self, s3_server: S3Server, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> AsyncIterator[ObjectStore]:
        storage = S3Storage(s3_server.settings(bucket), tmp_path)
        async with open_bucket_store(storage, PACING) as store:
            monkeypatch.setattr(store, "_has_conditional_delete", False)
            yield store


class TestRetrying(ObjectStoreConformance):
    @pytest.fixture
    def store(self) -> ObjectStore:
        return RetryStore(
            in_memory(), pacing=PACING, new_write_id=iter(map(str, range(10**6))).__next__
        )


class TestSafekeeping(ObjectStoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        return ConflictCopyStore(in_memory(), tmp_path, clock=system_clock, pacing=PACING)


class TestManifested(ObjectStoreConformance):
    @pytest.fixture
    async def store(self) -> AsyncIterator[ObjectStore]:
        store = ManifestStore(in_memory(), clock=system_clock, pacing=PACING)
        yield store
        await store.close()


class TestCached(ObjectStoreConformance):
    appends_can_end_in_doubt = False

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[ObjectStore]:
        store = CachedStore(
            in_memory(),
            ObjectMirror(tmp_path / "mirror"),
            Outbox(tmp_path / "outbox", "writer", clock=system_clock),
            clock=system_clock,
            pacing=PACING,
        )
        await store.open()
        yield store
        await store.close()


class TestTheWholeStackOverAzurite(ObjectStoreConformance):
    @pytest.fixture
    async def store(
        self, azurite: Azurite, container: str, tmp_path: Path
    ) -> AsyncIterator[ObjectStore]:
        async with open_container(BlobStorage(azurite.by_key(container), tmp_path)) as store:
            yield store


@pytest.mark.long
class TestTheWholeStackOverS3(ObjectStoreConformance):
    @pytest.fixture
    async def store(
        self, s3_server: S3Server, bucket: str, tmp_path: Path
    ) -> AsyncIterator[ObjectStore]:
        async with open_container(S3Storage(s3_server.settings(bucket), tmp_path)) as store:
            yield store
