"""What a memory service says about itself: `.claw-describe.json`. Pure."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from memplane.errors import PodError

DESCRIPTOR_FILE: Final = ".claw-describe.json"
DESCRIPTOR_LABEL: Final = "claw.describe"
OPERATION_NAMES: Final = ("recall", "retain", "forget")
MAX_DESCRIPTOR_BYTES: Final = 1 << 20

_MIN_MEMORY_VERSION: Final = 2
_AUTH_TYPES: Final = frozenset({"bearer", "header", "none"})
_INVISIBLE_CHARS: Final = re.compile(r"[\s\x00-\x1f\x7f]")


class MemoryEndpointPaths(msgspec.Struct, frozen=True):
    """Where a service offers what; None is not offered."""

    recall: str | None = None
    retain: str | None = None
    forget: str | None = None


class DescriptorAuth(msgspec.Struct, frozen=True):
    """How a service wants to be asked, and the variable that holds its token."""

    type: str
    env: str = ""


class Descriptor(msgspec.Struct, frozen=True):
    """A service's description of itself."""

    version: int
    description: str = ""
    skill: str = ""
    memory: MemoryEndpointPaths | None = None
    auth: DescriptorAuth | None = None


class _DescriptorPath(msgspec.Struct, omit_defaults=True):
    path: str | None = None


class _DescriptorMemory(msgspec.Struct, omit_defaults=True):
    recall: _DescriptorPath | None = None
    retain: _DescriptorPath | None = None
    forget: _DescriptorPath | None = None


class _DescriptorAuthBody(msgspec.Struct, omit_defaults=True):
    type: str | None = None
    env: str | None = None


class _DescriptorBody(msgspec.Struct, omit_defaults=True):
    version: int | None = None
    description: str | None = None
    skill: str | None = None
    memory: _DescriptorMemory | None = None
    auth: _DescriptorAuthBody | None = None


def read_descriptor(data: bytes) -> Descriptor:
    """Read a descriptor and check it; keys that nobody knows are ignored.

    Raises:
        PodError: It breaks one of the rules; the message is that of the contract.
    """
    if len(data) > MAX_DESCRIPTOR_BYTES:
        raise PodError(f"parse descriptor JSON: it is larger than {MAX_DESCRIPTOR_BYTES} bytes")
    try:
        wire = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"), type=_DescriptorBody)
    except (ValueError, RecursionError) as error:
        raise PodError(f"parse descriptor JSON: {error}") from error
    version = wire.version or 0
    if version not in {1, 2}:
        raise PodError(f"descriptor version must be 1 or 2, got {version}")
    if wire.memory is not None and version < _MIN_MEMORY_VERSION:
        raise PodError("descriptor version 1 does not support memory")
    return Descriptor(
        version=version,
        description=(wire.description or "").strip(),
        skill=(wire.skill or "").strip(),
        memory=None if wire.memory is None else _memory(wire.memory),
        auth=None if wire.auth is None else _auth(wire.auth),
    )


def write_descriptor(descriptor: Descriptor) -> bytes:
    """Write a descriptor as a service ships it."""
    memory, auth = descriptor.memory, descriptor.auth
    wire = _DescriptorBody(
        version=descriptor.version,
        description=descriptor.description or None,
        skill=descriptor.skill or None,
        memory=_written(memory) if memory else None,
        auth=_DescriptorAuthBody(auth.type, auth.env or None) if auth else None,
    )
    return msgspec.json.format(msgspec.json.encode(wire), indent=2) + b"\n"


def own_descriptor() -> Descriptor:
    """Describe memplane itself as a memory service."""
    return Descriptor(
        version=2,
        description="memplane: durable memory for AI agents",
        memory=MemoryEndpointPaths("/recall", "/retain", "/forget"),
        auth=DescriptorAuth("bearer", "MEMPLANE_SERVICE_TOKEN"),
    )


def _written(memory: MemoryEndpointPaths) -> _DescriptorMemory:
    return _DescriptorMemory(
        recall=_DescriptorPath(memory.recall) if memory.recall else None,
        retain=_DescriptorPath(memory.retain) if memory.retain else None,
        forget=_DescriptorPath(memory.forget) if memory.forget else None,
    )


def _memory(wire: _DescriptorMemory) -> MemoryEndpointPaths:
    if wire.recall is None and wire.retain is None:
        raise PodError("memory: at least one of recall or retain must be declared")
    return MemoryEndpointPaths(
        _path("recall", wire.recall), _path("retain", wire.retain), _path("forget", wire.forget)
    )


def _path(operation: str, wire: _DescriptorPath | None) -> str | None:
    if wire is None:
        return None
    path = (wire.path or "").strip()
    if not path:
        raise PodError(f"memory.{operation}.path is required")
    if not path.startswith("/"):
        raise PodError(f"memory.{operation}.path \"{path}\" must start with '/'")
    if _INVISIBLE_CHARS.search(path):
        raise PodError(f'memory.{operation}.path "{path}" has a blank or control character')
    return path


def _auth(wire: _DescriptorAuthBody) -> DescriptorAuth:
    kind = (wire.type or "").strip().lower()
    if kind not in _AUTH_TYPES:
        raise PodError(f'auth.type "{kind}" is unsupported')
    return DescriptorAuth(kind, (wire.env or "").strip())
