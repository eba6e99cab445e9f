"""memplane gives AI agents durable memory: a ledger, memories, and a persona that travels.

Importing this package is cheap; each name loads its module when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memplane.version import VERSION as __version__  # noqa: N811 - the name Python expects

if TYPE_CHECKING:
    from memplane.errors import MemplaneError as MemplaneError
    from memplane.persona.report import PersonaReport as PersonaReport
    from memplane.secret import Secret as Secret
    from memplane.service.backends import BlobBackend as BlobBackend
    from memplane.service.backends import CachedBlobBackend as CachedBlobBackend
    from memplane.service.backends import LocalBackend as LocalBackend
    from memplane.service.backends import (
        acquire_agent_user_storage_token as acquire_agent_user_storage_token,
    )
    from memplane.service.backends import get_backend as get_backend
    from memplane.service.backends import migrate_local_to_backend as migrate_local_to_backend
    from memplane.service.client import Client as Client
    from memplane.service.client import SyncClient as SyncClient
    from memplane.service.model import Status as Status
    from memplane.service.persona_backend import ConflictError as ConflictError
    from memplane.service.persona_backend import PersonaBackend as PersonaBackend
    from memplane.service.persona_backend import claude_code_memory_dir as claude_code_memory_dir
    from memplane.settings import BlobSettings as BlobSettings
    from memplane.settings import S3Settings as S3Settings
    from memplane.settings import Settings as Settings
    from memplane.settings import load_settings as load_settings
    from memplane.storage.backend import KeyInfo as KeyInfo
    from memplane.storage.backend import MemoryBackend as MemoryBackend
    from memplane.storage.backend import Versioned as Versioned
    from memplane.storage.backend import VersionedBackend as VersionedBackend
    from memplane.storage.migration import MigrationReport as MigrationReport


_HOME_OF: Final = {
    "BlobBackend": "memplane.service.backends",
    "CachedBlobBackend": "memplane.service.backends",
    "ConflictError": "memplane.service.persona_backend",
    "LocalBackend": "memplane.service.backends",
    "PersonaBackend": "memplane.service.persona_backend",
    "claude_code_memory_dir": "memplane.service.persona_backend",
    "acquire_agent_user_storage_token": "memplane.service.backends",
    "get_backend": "memplane.service.backends",
    "MemplaneError": "memplane.errors",
    "KeyInfo": "memplane.storage.backend",
    "MemoryBackend": "memplane.storage.backend",
    "Versioned": "memplane.storage.backend",
    "VersionedBackend": "memplane.storage.backend",
    "MigrationReport": "memplane.storage.migration",
    "migrate_local_to_backend": "memplane.service.backends",
    "PersonaReport": "memplane.persona.report",
    "Client": "memplane.service.client",
    "SyncClient": "memplane.service.client",
    "Status": "memplane.service.model",
    "Secret": "memplane.secret",
    "BlobSettings": "memplane.settings",
    "S3Settings": "memplane.settings",
    "Settings": "memplane.settings",
    "load_settings": "memplane.settings",
}
_DEPRECATED: Final = {"Plane": "Client", "open_plane": "Client"}
"""Names of earlier versions, and what took their place."""

__all__ = [
    "BlobBackend",
    "BlobSettings",
    "CachedBlobBackend",
    "Client",
    "ConflictError",
    "KeyInfo",
    "LocalBackend",
    "MemoryBackend",
    "MemplaneError",
    "MigrationReport",
    "PersonaBackend",
    "PersonaReport",
    "S3Settings",
    "Secret",
    "Settings",
    "Status",
    "SyncClient",
    "Versioned",
    "VersionedBackend",
    "__version__",
    "acquire_agent_user_storage_token",
    "claude_code_memory_dir",
    "get_backend",
    "load_settings",
    "migrate_local_to_backend",
]


if not TYPE_CHECKING:  # or any name would be accepted by type checkers

    def __getattr__(name: str) -> object:
        if name in _DEPRECATED:
            from warnings import warn

            new = _DEPRECATED[name]
            warn(f"memplane.{name} is now memplane.{new}", DeprecationWarning, stacklevel=2)
            name = new
        if name not in _HOME_OF:
            raise AttributeError(f"module 'memplane' has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(_HOME_OF[name]), name)
