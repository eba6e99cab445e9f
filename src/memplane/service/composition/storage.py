"""Where state lives: the storage that settings ask for, and the stores stacked on it."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from memplane.errors import BackendMisconfigured
from memplane.kit.clock import system_clock
from memplane.kit.ids import new_id
from memplane.kit.retry_clock import RetryClock
from memplane.service.composition.identity import find_identity, open_tokens
from memplane.settings import BlobSettings, S3Settings, Settings
from memplane.storage.cached_store import CachedStore
from memplane.storage.conflict_copies import ConflictCopyStore
from memplane.storage.identity.agent_user import AgentUser
from memplane.storage.local import LocalStore
from memplane.storage.manifest import ManifestStore
from memplane.storage.mirror import ObjectMirror
from memplane.storage.outbox import Outbox
from memplane.storage.retry import RetryStore

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from memplane.storage.azure_access import ContainerAccess, TokenSource
    from memplane.storage.s3 import S3Store
    from memplane.storage.store import ObjectStore

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """Objects in a folder."""

    root: Path


@dataclass(frozen=True, slots=True)
class BlobStorage:
    """Objects in one container, with its cache on this machine.

    `identity` is the agent's own; None for whatever this machine is logged in as.
    """

    blob: BlobSettings
    cache: Path
    identity: AgentUser | None = None


@dataclass(frozen=True, slots=True)
class S3Storage:
    """Objects in one bucket, with its cache on this machine."""

    s3: S3Settings
    cache: Path


ContainerStorage: TypeAlias = BlobStorage | S3Storage
Storage: TypeAlias = LocalStorage | ContainerStorage


@dataclass(frozen=True, slots=True)
class Choice:
    """The storage that settings ask for, why, and what is wrong with them."""

    storage: Storage
    reason: str
    complaint: str | None = None


def choose_storage(settings: Settings) -> Choice:
    """Choose where state lives.

    Raises:
        BackendMisconfigured: The cloud is half configured, and the settings are strict.
    """
    blob, s3 = settings.blob, settings.s3
    if settings.keep_memory_local:
        return Choice(LocalStorage(settings.data_dir), "MEMPLANE_KEEP_MEMORY_LOCAL is set")
    names_blob = bool(blob.sas_url or blob.endpoint or blob.connection_string or blob.container)
    if s3.bucket or s3.endpoint:
        return _choose_bucket(settings, is_blob_named=names_blob)
    if blob.sas_url:
        return _cloud(settings, "MEMPLANE_BLOB_SAS_URL is set")
    reachable = blob.endpoint or blob.connection_string
    if reachable and blob.container:
        way = "CONNECTION_STRING" if blob.connection_string else "ENDPOINT"
        return _cloud(settings, f"MEMPLANE_BLOB_{way} and MEMPLANE_BLOB_CONTAINER are set")
    if not reachable and not blob.container:
        return Choice(LocalStorage(settings.data_dir), "no container is configured")
    missing = "MEMPLANE_BLOB_CONTAINER" if reachable else "MEMPLANE_BLOB_ENDPOINT"
    return _stay_local(settings, f"{missing} is not set", "Set it")


def _choose_bucket(settings: Settings, *, is_blob_named: bool) -> Choice:
    """Choose the bucket, when all that it takes is set and nothing else is."""
    s3 = settings.s3
    if is_blob_named:
        reason = "MEMPLANE_S3_* and MEMPLANE_BLOB_* both name a container"
        return _stay_local(settings, reason, "Unset one of them")
    values = {"BUCKET": s3.bucket, "ACCESS_KEY": s3.access_key, "SECRET_KEY": s3.secret_key}
    missing = [f"MEMPLANE_S3_{name}" for name, value in values.items() if not value]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        return _stay_local(settings, f"{' and '.join(missing)} {verb} not set", "Set it")
    cache = settings.cache_dir / "s3" / fingerprint(s3)
    return Choice(S3Storage(s3, cache), "MEMPLANE_S3_BUCKET and an access key are set")


def _stay_local(settings: Settings, reason: str, remedy: str) -> Choice:
    """Stay on this machine because of half a configuration, loudly; strict settings refuse.

    Raises:
        BackendMisconfigured: The settings are strict.
    """
    complaint = f"the cloud is half configured: {reason}"
    if settings.strict_cloud:
        raise BackendMisconfigured(
            f"{complaint}. {remedy}, or set MEMPLANE_KEEP_MEMORY_LOCAL=true"
        )
    local = LocalStorage(settings.data_dir)
    return Choice(local, reason, f"{complaint}, so state stays on this machine")


def _cloud(settings: Settings, reason: str) -> Choice:
    blob = settings.blob
    by_token = not (blob.sas_url or blob.connection_string or blob.token)
    try:
        identity = find_identity(settings) if by_token else None
    except BackendMisconfigured as error:
        if settings.strict_cloud:
            raise
        return Choice(
            LocalStorage(settings.data_dir),
            "the agent's identity is half configured",
            f"{error}, so state stays on this machine",
        )
    if identity is not None:
        reason += "; as the Agent User of MEMPLANE_AGENT_ID"
    cache = settings.cache_dir / "blob" / fingerprint(blob)
    return Choice(BlobStorage(blob, cache, identity), reason)


def configured_container(settings: Settings) -> ContainerStorage:
    """Return the container that the settings name.

    Raises:
        BackendMisconfigured: They name none.
    """
    choice = choose_storage(settings)
    if isinstance(choice.storage, LocalStorage):
        raise BackendMisconfigured(
            f"no container to work with: {choice.reason}. Run `memplane cloud setup`, or set "
            "MEMPLANE_BLOB_ENDPOINT and MEMPLANE_BLOB_CONTAINER, MEMPLANE_BLOB_SAS_URL, "
            "MEMPLANE_BLOB_CONNECTION_STRING and MEMPLANE_BLOB_CONTAINER, or "
            "MEMPLANE_S3_BUCKET, MEMPLANE_S3_ACCESS_KEY and MEMPLANE_S3_SECRET_KEY"
        )
    return choice.storage


def named_container(settings: Settings) -> BlobSettings | S3Settings:
    """Return the part of the settings that names the container, whether or not it counts."""
    return settings.s3 if settings.s3.bucket else settings.blob


def fingerprint(container: BlobSettings | S3Settings) -> str:
    """Name a container so that two of them never share a cache."""
    return hashlib.sha256(container_address(container).encode()).hexdigest()[:16]


def container_address(container: BlobSettings | S3Settings) -> str:
    """Return the container's address without anything secret in it."""
    if isinstance(container, S3Settings):
        # Names in a bucket differ by case, unlike those of Azure's containers.
        endpoint = container.endpoint or f"https://s3.{container.region}.amazonaws.com"
        names = (endpoint.rstrip("/").lower(), container.bucket, container.prefix.strip("/"))
        return "/".join(filter(None, names))
    blob = container
    if blob.sas_url:
        parts = urlsplit(blob.sas_url.reveal())
        return f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/").lower()
    endpoint = blob.endpoint
    if blob.connection_string:
        pairs = (pair.partition("=") for pair in blob.connection_string.reveal().split(";"))
        fields = {name.lower(): value for name, _, value in pairs}
        account = fields.get("accountname", "")
        suffix = fields.get("endpointsuffix", "core.windows.net")
        endpoint = fields.get("blobendpoint") or f"https://{account}.blob.{suffix}"
    place = urlsplit(endpoint)
    return f"{place.scheme}://{place.netloc}{place.path.rstrip('/')}/{blob.container}".lower()


@asynccontextmanager
async def open_store(storage: Storage, *, cached: bool = True) -> AsyncGenerator[ObjectStore]:
    """Open the store, and close it again; what waits is sent first."""
    match storage:
        case LocalStorage(root):
            yield LocalStore(root)
        case BlobStorage() | S3Storage():
            async with AsyncExitStack() as stack:
                container = await stack.enter_async_context(open_container(storage))
                if not cached:
                    yield container
                    return
                cache = storage.cache
                store = CachedStore(
                    container,
                    ObjectMirror(cache / "mirror"),
                    Outbox(cache / "outbox", new_id(), clock=system_clock),
                    clock=system_clock,
                    pacing=RetryClock(),
                )
                stack.push_async_callback(store.close)
                await store.open()
                yield store


@asynccontextmanager
async def open_container(storage: ContainerStorage) -> AsyncGenerator[ManifestStore]:
    """Open the container itself: retried, with safe overwrites and a manifest."""
    pacing = RetryClock()
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(_open_service(storage, pacing))
        retrying = RetryStore(service, pacing=pacing, new_write_id=new_id)
        conflicts = storage.cache / "conflicts"
        keeping = ConflictCopyStore(retrying, conflicts, clock=system_clock, pacing=pacing)
        store = ManifestStore(keeping, clock=system_clock, pacing=pacing)
        stack.push_async_callback(store.close)
        yield store


def _open_service(
    storage: ContainerStorage, pacing: RetryClock
) -> AbstractAsyncContextManager[ObjectStore]:
    """Open the store that sends requests. Imported here, because that takes a while."""
    if isinstance(storage, S3Storage):
        return open_bucket_store(storage, pacing)
    from memplane.storage.azure import open_azure_store  # noqa: PLC0415

    return open_azure_store(_access(storage.blob, storage.identity), pacing=pacing)


def open_bucket_store(
    storage: S3Storage, pacing: RetryClock
) -> AbstractAsyncContextManager[S3Store]:
    """Open the bucket alone, without retries."""
    from memplane.storage.s3 import open_s3_store  # noqa: PLC0415
    from memplane.storage.s3_access import S3Access  # noqa: PLC0415
    from memplane.storage.s3_signature import AccessKey  # noqa: PLC0415

    s3 = storage.s3
    access = S3Access(
        s3.bucket,
        AccessKey(s3.access_key, s3.secret_key, s3.session_token),
        endpoint=s3.endpoint,
        region=s3.region,
        prefix=s3.prefix,
        path_style=s3.path_style,
        ca_file=s3.ca_file,
    )
    return open_s3_store(access, pacing=pacing)


def _access(blob: BlobSettings, identity: AgentUser | None = None) -> ContainerAccess:
    """Choose the credentials: this is the seam through which every identity comes."""
    from memplane.storage.azure_access import (  # noqa: PLC0415
        WithConnectionString,
        WithSas,
        WithTokens,
    )

    if blob.sas_url:
        return WithSas(blob.sas_url, blob.ca_file)
    if blob.connection_string:
        return WithConnectionString(blob.connection_string, blob.container, blob.ca_file)
    return WithTokens(blob.endpoint, blob.container, _token_source(blob, identity), blob.ca_file)


def _token_source(blob: BlobSettings, identity: AgentUser | None) -> TokenSource:
    """Choose where bearer tokens come from."""
    from memplane.storage.token_sources import (  # noqa: PLC0415
        AgentUserTokenSource,
        AmbientTokenSource,
        FixedTokenSource,
    )

    if blob.token:
        return FixedTokenSource(blob.token)
    if identity is not None:
        return AgentUserTokenSource(open_tokens(identity))
    return AmbientTokenSource(clock=system_clock)


def announce_choice(choice: Choice) -> None:
    """Log where state lives and why; half a configuration is never quiet."""
    _log.info("state lives in %s: %s", place_of(choice.storage), choice.reason)
    if choice.complaint:
        _warn_once(choice.complaint)


@cache
def _warn_once(complaint: str) -> None:
    _log.warning("%s", complaint)


def place_of(storage: Storage) -> str:
    """Name where it is, without anything secret."""
    match storage:
        case LocalStorage(root):
            return str(root)
        case BlobStorage(blob):
            return container_address(blob)
        case S3Storage(s3):
            return container_address(s3)
