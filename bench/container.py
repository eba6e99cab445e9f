"""A container of the emulator's to measure against."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from memplane.secret import Secret
from memplane.service.composition.storage import BlobStorage, open_store
from memplane.settings import BlobSettings
from memplane.storage.cached_store import CachedStore
from tests.support.azurite import ACCOUNT, KEY, Azurite, running_azurite


@contextmanager
def azurite() -> Iterator[Azurite]:
    with tempfile.TemporaryDirectory() as folder, running_azurite(Path(folder), None) as running:
        yield running


def blob_at(port: int, container: str) -> BlobSettings:
    connection = (
        f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};"
        f"BlobEndpoint=http://127.0.0.1:{port}/{ACCOUNT};"
    )
    return BlobSettings(connection_string=Secret(connection), container=container)


def new_container() -> str:
    return f"bench-{uuid.uuid4().hex[:12]}"


@asynccontextmanager
async def cached(blob: BlobSettings, cache: Path) -> AsyncIterator[CachedStore]:
    async with open_store(BlobStorage(blob, cache)) as store:
        assert isinstance(store, CachedStore)
        yield store
