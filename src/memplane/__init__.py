"""memplane gives AI agents durable memory: a ledger, memories, and a persona that travels.

Importing this package is cheap; each name loads its module when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memplane.version import VERSION as __version__  # noqa: N811 - the name Python expects

if TYPE_CHECKING:
    from memplane.backends import BlobBackend as BlobBackend
    from memplane.backends import CachedBlobBackend as CachedBlobBackend
    from memplane.backends import LocalBackend as LocalBackend
    from memplane.backends import get_backend as get_backend
    from memplane.backends import migrate_local_to_backend as migrate_local_to_backend
    from memplane.errors import MemplaneError as MemplaneError
    from memplane.objects.backend import KeyInfo as KeyInfo
    from memplane.objects.backend import MemoryBackend as MemoryBackend
    from memplane.objects.backend import Versioned as Versioned
    from memplane.objects.backend import VersionedBackend as VersionedBackend
    from memplane.objects.migration import MigrationReport as MigrationReport
    from memplane.persona.report import PersonaReport as PersonaReport
    from memplane.persona_backend import ConflictError as ConflictError
    from memplane.persona_backend import PersonaBackend as PersonaBackend
    from memplane.persona_backend import claude_code_memory_dir as claude_code_memory_dir
    from memplane.secret import Secret as Secret
    from memplane.service.client import Client as Client
    from memplane.service.client import SyncClient as SyncClient
    from memplane.service.model import Status as Status
    from memplane.settings import BlobSettings as BlobSettings
    from memplane.settings import Settings as Settings
    from memplane.settings import load_settings as load_settings


_HOME_OF: Final = {
    "BlobBackend": "memplane.backends",
    "CachedBlobBackend": "memplane.backends",
    "ConflictError": "memplane.persona_backend",
    "LocalBackend": "memplane.backends",
    "PersonaBackend": "memplane.persona_backend",
    "claude_code_memory_dir": "memplane.persona_backend",
    "get_backend": "memplane.backends",
    "MemplaneError": "memplane.errors",
    "KeyInfo": "memplane.objects.backend",
    "MemoryBackend": "memplane.objects.backend",
    "Versioned": "memplane.objects.backend",
    "VersionedBackend": "memplane.objects.backend",
    "MigrationReport": "memplane.objects.migration",
    "migrate_local_to_backend": "memplane.backends",
    "PersonaReport": "memplane.persona.report",
    "Client": "memplane.service.client",
    "SyncClient": "memplane.service.client",
    "Status": "memplane.service.model",
    "Secret": "memplane.secret",
    "BlobSettings": "memplane.settings",
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
    "Secret",
    "Settings",
    "Status",
    "SyncClient",
    "Versioned",
    "VersionedBackend",
    "__version__",
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
