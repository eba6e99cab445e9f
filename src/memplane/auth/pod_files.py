"""The tokens that a pod's compile step left for an agent: `<context_root>/<agent>/`.

The files are small and are read for each request, because each compile replaces them.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from memplane.auth.agent_id import is_agent_id
from memplane.auth.pod_context import PodContext, ServiceToken, parse_agent_secret

_MAX_FILE_BYTES: Final = 1 << 20
_MAX_SERVICES: Final = 64
_T = TypeVar("_T")


class _PodAgentMetadata(msgspec.Struct):
    token: str


class _PodServiceAuth(msgspec.Struct):
    service: str = ""
    token: str = ""
    principal: str = ""


def read_pod_context(root: Path | None, agent: str) -> PodContext | None:
    """Read what a pod says about an agent; None when it says nothing."""
    if root is None or not is_agent_id(agent):
        return None
    folder = root / agent
    if not folder.is_dir():
        return None
    metadata = _decode(folder / "metadata.json", _PodAgentMetadata)
    secret = parse_agent_secret(metadata.token, agent) if metadata else None
    return PodContext(agent, secret, _services(folder / "service-auth"))


def _services(folder: Path) -> tuple[ServiceToken, ...]:
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix == ".json")
    except OSError:
        return ()
    read = (_decode(path, _PodServiceAuth) for path in files[:_MAX_SERVICES])
    return tuple(
        ServiceToken(service_file.service, service_file.principal, service_file.token)
        for service_file in read
        if service_file and service_file.token
    )


def _decode(path: Path, kind: type[_T]) -> _T | None:
    """Read a small JSON file; what is not there or broken grants nothing."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as handle:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            body = handle.read(_MAX_FILE_BYTES + 1)
        return msgspec.json.decode(body, type=kind) if len(body) <= _MAX_FILE_BYTES else None
    except (OSError, ValueError, RecursionError):
        return None
