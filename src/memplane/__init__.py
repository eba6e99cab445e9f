"""memplane gives AI agents durable memory: a ledger, memories, and a persona that travels.

Importing this package is cheap; each name loads its module when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memplane.version import VERSION as __version__  # noqa: N811 - the name Python expects

if TYPE_CHECKING:
    from memplane.assemble.plane import open_plane as open_plane
    from memplane.backends import BlobBackend as BlobBackend
    from memplane.backends import CachedBlobBackend as CachedBlobBackend
    from memplane.backends import LocalBackend as LocalBackend
    from memplane.backends import get_backend as get_backend
    from memplane.errors import MemplaneError as MemplaneError
    from memplane.objects.backend import KeyInfo as KeyInfo
    from memplane.objects.backend import MemoryBackend as MemoryBackend
    from memplane.objects.backend import Versioned as Versioned
    from memplane.objects.backend import VersionedBackend as VersionedBackend
    from memplane.objects.migration import MigrationReport as MigrationReport
    from memplane.objects.migration import migrate_local_to_backend as migrate_local_to_backend
    from memplane.persona.report import PersonaReport as PersonaReport
    from memplane.persona_backend import ConflictError as ConflictError
    from memplane.persona_backend import PersonaBackend as PersonaBackend
    from memplane.persona_backend import claude_code_memory_dir as claude_code_memory_dir
    from memplane.plane.contract import Plane as Plane
    from memplane.plane.contract import Status as Status
    from memplane.secret import Secret as Secret
    from memplane.settings import BlobSettings as BlobSettings
    from memplane.settings import Settings as Settings
    from memplane.settings import load_settings as load_settings


_HOME_OF: Final = {
    "open_plane": "memplane.assemble.plane",
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
    "migrate_local_to_backend": "memplane.objects.migration",
    "PersonaReport": "memplane.persona.report",
    "Plane": "memplane.plane.contract",
    "Status": "memplane.plane.contract",
    "Secret": "memplane.secret",
    "BlobSettings": "memplane.settings",
    "Settings": "memplane.settings",
    "load_settings": "memplane.settings",
}

__all__ = [
    "BlobBackend",
    "BlobSettings",
    "CachedBlobBackend",
    "ConflictError",
    "KeyInfo",
    "LocalBackend",
    "MemoryBackend",
    "MemplaneError",
    "MigrationReport",
    "PersonaBackend",
    "PersonaReport",
    "Plane",
    "Secret",
    "Settings",
    "Status",
    "Versioned",
    "VersionedBackend",
    "__version__",
    "claude_code_memory_dir",
    "get_backend",
    "load_settings",
    "migrate_local_to_backend",
    "open_plane",
]


if not TYPE_CHECKING:  # or any name would be accepted by type checkers

    def __getattr__(name: str) -> object:
        if name not in _HOME_OF:
            raise AttributeError(f"module 'memplane' has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(_HOME_OF[name]), name)
