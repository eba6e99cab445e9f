"""Text behind keys for synchronous programs: MemoryBackend, and how to get one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache
from pathlib import Path

from memplane.errors import BackendMisconfigured
from memplane.kit.ids import new_id
from memplane.service.composition.identity import find_identity, open_tokens
from memplane.service.composition.storage import (
    BlobStorage,
    ContainerStorage,
    LocalStorage,
    S3Storage,
    Storage,
    announce_choice,
    choose_storage,
    fingerprint,
    open_store,
)
from memplane.settings import BlobSettings, S3Settings, Settings, load_settings_from_environment
from memplane.storage.backend import StoreBackend
from memplane.storage.identity.agent_user import AgentUser, Resource
from memplane.storage.migration import (
    PERSONA_PREFIX,
    LocalRoot,
    MigrationDestination,
    MigrationReport,
    copy_tree,
)


class LocalBackend(StoreBackend):
    """Text in a folder of this machine."""

    def __init__(self, root: Path | str) -> None:
        storage = LocalStorage(Path(root))
        super().__init__(lambda: open_store(storage), new_writer=new_id)


class BlobBackend(StoreBackend):
    """Text in a container; every call is a request. `cache` keeps what overwrites replaced."""

    def __init__(
        self,
        container: BlobSettings | S3Settings,
        *,
        cache: Path | None = None,
        identity: AgentUser | None = None,
    ) -> None:
        self.storage = storage = _container_storage(container, cache, identity)
        super().__init__(lambda: open_store(storage, cached=False), new_writer=new_id)


class CachedBlobBackend(StoreBackend):
    """Text in a container with a mirror on this machine; the default in cloud mode."""

    def __init__(
        self,
        container: BlobSettings | S3Settings,
        *,
        cache: Path | None = None,
        identity: AgentUser | None = None,
    ) -> None:
        self.storage = storage = _container_storage(container, cache, identity)
        super().__init__(lambda: open_store(storage), new_writer=new_id)


def _container_storage(
    container: BlobSettings | S3Settings, cache: Path | None, identity: AgentUser | None
) -> ContainerStorage:
    kind = "s3" if isinstance(container, S3Settings) else "blob"
    if cache is None:
        cache = load_settings_from_environment().cache_dir / kind / fingerprint(container)
    if isinstance(container, S3Settings):
        return S3Storage(container, cache)
    return BlobStorage(container, cache, identity)


def get_backend(settings: Settings | None = None) -> StoreBackend:
    """Return the backend that the settings ask for, by default those of the environment.

    Asked again for the same storage, it returns the same one, so that its writes stay in order.

    Raises:
        BackendMisconfigured: The cloud is half configured, and the settings are strict.
    """
    choice = choose_storage(settings or load_settings_from_environment())
    announce_choice(choice)
    return _backend_of(choice.storage)


@cache
def _backend_of(storage: Storage) -> StoreBackend:
    match storage:
        case LocalStorage(root):
            return LocalBackend(root)
        case BlobStorage(blob, cache, identity):
            return CachedBlobBackend(blob, cache=cache, identity=identity)
        case S3Storage(s3, cache):
            return CachedBlobBackend(s3, cache=cache)


def acquire_agent_user_storage_token(settings: Settings | None = None) -> str:
    """Return a token of the Agent User for the storage service, by default by the environment.

    It is kept in memory until five minutes before it ends. It is a secret.

    Raises:
        BackendMisconfigured: The settings name no identity, or a part of one.
        HopError: One of the three hops was refused; `hop` says which, and the text what to do.
        BackendUnavailable: The token endpoint did not answer.
    """
    identity = find_identity(settings or load_settings_from_environment())
    if identity is None:
        raise BackendMisconfigured("no Agent User is configured. `memplane cloud setup` does that")
    return open_tokens(identity).token(Resource.STORAGE)


def migrate_local_to_backend(
    local_root: LocalRoot,
    backend: MigrationDestination,
    *,
    sources: Sequence[str] | None = None,
    persona_prefix: str = PERSONA_PREFIX,
    allow_secrets: Collection[str] = (),
    progress: Callable[[int, int, str], None] | None = None,
) -> MigrationReport:
    """Copy a local tree, or several (folder, prefix) pairs, into a backend.

    A key that exists is skipped, so a second run copies nothing. `sources` names the subtrees to
    take. Persona documents of a tree without a prefix go below `persona_prefix`. Every copy is
    read back and compared. `progress` is told (done, of how many, key).

    What persona sync would not publish is held back, and so is every other file that seems to hold
    a secret; `allow_secrets` names keys, or what is above them, that may go all the same.

    Raises:
        StorageError: The backend could not say what it holds. Nothing was copied.
    """
    from memplane.service.composition.persona import (  # noqa: PLC0415 - nothing else here needs it
        upload_refusal,
    )

    settings = load_settings_from_environment()
    return copy_tree(
        local_root,
        backend,
        refuse=upload_refusal(settings, prefix=persona_prefix, allowed=allow_secrets),
        sources=sources,
        persona_prefix=persona_prefix,
        progress=progress,
    )
