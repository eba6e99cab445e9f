"""The synchronous door for programs that keep text: MemoryBackend, and how to get one."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from memplane.assemble.storage import (
    BlobStorage,
    LocalStorage,
    Storage,
    announce_choice,
    choose_storage,
    fingerprint,
    open_store,
)
from memplane.ids import new_id
from memplane.objects.backend import StoreBackend
from memplane.settings import BlobSettings, Settings, settings_from_environment


class LocalBackend(StoreBackend):
    """Text in a folder of this machine."""

    def __init__(self, root: Path | str) -> None:
        storage = LocalStorage(Path(root))
        super().__init__(lambda: open_store(storage), new_writer=new_id)


class BlobBackend(StoreBackend):
    """Text in a container; every call is a request. `cache` keeps what overwrites replaced."""

    def __init__(self, blob: BlobSettings, *, cache: Path | None = None) -> None:
        self.storage = storage = _blob_storage(blob, cache)
        super().__init__(lambda: open_store(storage, cached=False), new_writer=new_id)


class CachedBlobBackend(StoreBackend):
    """Text in a container with a mirror on this machine; the default in cloud mode."""

    def __init__(self, blob: BlobSettings, *, cache: Path | None = None) -> None:
        self.storage = storage = _blob_storage(blob, cache)
        super().__init__(lambda: open_store(storage), new_writer=new_id)


def _blob_storage(blob: BlobSettings, cache: Path | None) -> BlobStorage:
    if cache is None:
        cache = settings_from_environment().cache_dir / "blob" / fingerprint(blob)
    return BlobStorage(blob, cache)


def get_backend(settings: Settings | None = None) -> StoreBackend:
    """Return the backend that the settings ask for, by default those of the environment.

    Asked again for the same storage, it returns the same one, so that its writes stay in order.

    Raises:
        BackendMisconfigured: The cloud is half configured, and the settings are strict.
    """
    choice = choose_storage(settings or settings_from_environment())
    announce_choice(choice)
    return _backend_of(choice.storage)


@cache
def _backend_of(storage: Storage) -> StoreBackend:
    match storage:
        case LocalStorage(root):
            return LocalBackend(root)
        case BlobStorage(blob, cache):
            return CachedBlobBackend(blob, cache=cache)
