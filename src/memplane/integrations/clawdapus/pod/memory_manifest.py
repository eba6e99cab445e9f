"""`memory.json`: which service an agent's memory is, as the proxy reads it. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from memplane.errors import PodError
from memplane.secret import Secret

MANIFEST_VERSION: Final = 1


class MemoryEndpoint(msgspec.Struct, frozen=True):
    """One thing a service does: its path, and the time it may take; None is the caller's own."""

    path: str
    timeout_ms: int | None = None


class MemoryManifest(msgspec.Struct, frozen=True):
    """An agent's memory service. An operation that is None is not offered."""

    service: str
    base_url: str
    recall: MemoryEndpoint | None = None
    retain: MemoryEndpoint | None = None
    forget: MemoryEndpoint | None = None
    token: Secret | None = None
    version: int = MANIFEST_VERSION

    def operation(self, name: str) -> MemoryEndpoint | None:
        """Return one of recall, retain and forget."""
        return {"recall": self.recall, "retain": self.retain, "forget": self.forget}[name]

    def url_of(self, operation: MemoryEndpoint) -> str:
        """Return the address of an operation."""
        return self.base_url.removesuffix("/") + operation.path

    @property
    def warning(self) -> str | None:
        """What an operator should know about this file."""
        if self.version <= MANIFEST_VERSION:
            return None
        return f"memory.json has version {self.version}, which is read as {MANIFEST_VERSION}"


class _ManifestEndpoint(msgspec.Struct, omit_defaults=True):
    path: str
    timeout_ms: int | None = None


class _ManifestAuth(msgspec.Struct, omit_defaults=True):
    type: str = ""
    token: str = ""


class _ManifestBody(msgspec.Struct, omit_defaults=True):
    version: int
    service: str
    base_url: str
    recall: _ManifestEndpoint | None = None
    retain: _ManifestEndpoint | None = None
    forget: _ManifestEndpoint | None = None
    auth: _ManifestAuth | None = None


def write_manifest(manifest: MemoryManifest) -> bytes:
    """Write the file; what is absent is left out."""
    wire = _ManifestBody(
        version=manifest.version,
        service=manifest.service,
        base_url=manifest.base_url,
        recall=_written(manifest.recall),
        retain=_written(manifest.retain),
        forget=_written(manifest.forget),
        auth=_ManifestAuth("bearer", manifest.token.reveal()) if manifest.token else None,
    )
    return msgspec.json.format(msgspec.json.encode(wire), indent=2) + b"\n"


def read_manifest(data: bytes) -> MemoryManifest:
    """Read the file, as memplane or Clawdapus wrote it.

    Timeouts may stand at every operation or at recall alone. A version above 1 is read as 1.

    Raises:
        PodError: It cannot be used.
    """
    try:
        wire = msgspec.json.decode(data, type=_ManifestBody)
    except (ValueError, RecursionError) as error:
        raise PodError(f"memory manifest invalid: {error}") from error
    if not wire.service.strip() or not wire.base_url.strip():
        raise PodError("memory manifest invalid: service and base_url are required")
    auth = wire.auth
    bearer = auth is not None and auth.type.strip().lower() == "bearer" and auth.token
    return MemoryManifest(
        service=wire.service.strip(),
        base_url=wire.base_url.strip().removesuffix("/"),
        recall=_read(wire.recall),
        retain=_read(wire.retain),
        forget=_read(wire.forget),
        token=Secret(auth.token) if auth is not None and bearer else None,
        version=wire.version,
    )


def _written(operation: MemoryEndpoint | None) -> _ManifestEndpoint | None:
    return _ManifestEndpoint(operation.path, operation.timeout_ms) if operation else None


def _read(wire: _ManifestEndpoint | None) -> MemoryEndpoint | None:
    if wire is None or not wire.path:
        return None
    timeout = wire.timeout_ms if wire.timeout_ms and wire.timeout_ms > 0 else None
    return MemoryEndpoint(wire.path, timeout)
