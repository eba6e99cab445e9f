"""What a compile left, as operator commands read it: agents, their memory, and where it answers.

Files that Clawdapus wrote are read alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final, TypeAlias, TypeVar, cast
from urllib.parse import SplitResult, urlsplit

import msgspec

from memplane.access.agents import is_agent_id
from memplane.errors import PodError
from memplane.pod.files import read_small
from memplane.pod.manifest import MemoryManifest, Operation, read_manifest
from memplane.pod.places import COMPOSE_FILE, CONTEXT, MOST_BYTES, POD_MANIFEST
from memplane.pod.policy import ModelPolicy
from memplane.pod.ports import DEFAULT_PORT, read_ports

_T = TypeVar("_T")
# A service that is there a hundred times is written down as often.
_REPEATED: Final = 100
ComposePort: TypeAlias = Callable[[str, int], str | None]
_NOT_RUNNING: Final[ComposePort] = lambda _service, _port: None  # noqa: E731


class AgentContext(msgspec.Struct, frozen=True):
    """What was compiled for one agent."""

    agent: str
    pod: str = ""
    service: str = ""
    type: str = ""
    timezone: str = ""
    memory: MemoryManifest | None = None


class Contexts(msgspec.Struct, frozen=True):
    """The agents of a compiled pod, by their ids, and what is wrong with their files."""

    folder: Path
    agents: tuple[AgentContext, ...]
    warnings: tuple[str, ...] = ()


class ProxiedAgent(msgspec.Struct, frozen=True):
    """What a pod says of an agent whose turns pass through; `broken` says why it has no memory."""

    context: AgentContext
    policy: ModelPolicy | None = None
    broken: str = ""


class _Metadata(msgspec.Struct):
    pod: str = ""
    service: str = ""
    type: str = ""
    timezone: str = ""
    model_policy: ModelPolicy | None = None


class _PodManifest(msgspec.Struct, rename="camel"):
    pod_name: str


def pod_folder(file: Path) -> Path:
    """Return the folder of a pod that was compiled; `file` names its pod file.

    Raises:
        PodError: It was not compiled.
    """
    folder = file.absolute().parent
    if not (folder / COMPOSE_FILE).is_file():
        raise PodError(
            f"no {COMPOSE_FILE} found in {folder}. Compile the pod first: memplane pod compile"
        )
    return folder


def pod_name(folder: Path) -> str:
    """Return the name of a compiled pod.

    Raises:
        PodError: Its manifest is missing or broken.
    """
    path = folder / POD_MANIFEST
    data = read_small(path, MOST_BYTES)
    if data is None:
        raise PodError(f"there is no {path}. Compile the pod first: memplane pod compile")
    return _decoded(data, _PodManifest, str(path)).pod_name


def read_contexts(folder: Path) -> Contexts:
    """Read the agents of a compiled pod; one whose files are broken is left out with a warning.

    Raises:
        PodError: There are none.
    """
    root = folder / CONTEXT
    agents: list[AgentContext] = []
    warnings: list[str] = []
    for name in agents_below(root):
        try:
            agents.append(_context(root / name, name))
        except PodError as error:
            warnings.append(f'agent "{name}": {error}')
    if not agents and not warnings:
        raise PodError(f'no generated agent context found in "{root}"')
    warnings += [
        f'agent "{one.agent}": {one.memory.warning}'
        for one in agents
        if one.memory and one.memory.warning
    ]
    return Contexts(folder, tuple(agents), tuple(warnings))


def agents_below(root: Path) -> list[str]:
    """Name the agents that a compile left folders for, sorted; none where there is nothing."""
    try:
        return sorted(one.name for one in root.iterdir() if one.is_dir() and is_agent_id(one.name))
    except OSError:
        return []


def targets(
    contexts: Contexts, service: str, wanted: Collection[str] = ()
) -> tuple[AgentContext, ...]:
    """Choose the agents whose memory a service is; `wanted` are the only ones asked for.

    Raises:
        PodError: There are none, or one that was asked for is not among them.
    """
    found = tuple(one for one in contexts.agents if one.memory and one.memory.service == service)
    if not found:
        raise PodError(f'no agents subscribe to memory service "{service}"')
    others = sorted({*wanted} - {one.agent for one in found})
    if others:
        raise PodError(
            f'memory service "{service}" is not subscribed by agent(s) {", ".join(others)}'
        )
    return tuple(one for one in found if not wanted or one.agent in wanted)


def endpoint(target: AgentContext, operation: str) -> Operation:
    """Return what an agent's memory service offers.

    Raises:
        PodError: It does not offer that.
    """
    found = target.memory.operation(operation) if target.memory else None
    if found is None:
        service = target.memory.service if target.memory else ""
        raise PodError(
            f'memory service "{service}" has no {operation} endpoint for agent "{target.agent}"'
        )
    return found


def operation_url(
    contexts: Contexts,
    chosen: Collection[AgentContext],
    operation: Operation,
    *,
    url: str | None = None,
    compose_port: ComposePort = _NOT_RUNNING,
) -> str:
    """Say where an operation of these agents' memory service answers, seen from this machine.

    An address that was given wins; then the port that the service publishes, then what a running
    Docker Compose says, then the address inside the pod.

    Raises:
        PodError: The address that was given is none, or the agents' files disagree.
    """
    if url is not None:
        return given_url(url, operation.path)
    bases = sorted({one.memory.base_url for one in chosen if one.memory})
    if len(bases) != 1:
        raise PodError(
            f"the agents' manifests have inconsistent base URLs ({', '.join(bases)}); "
            "pass --url to override"
        )
    inside = urlsplit(bases[0])
    service, port = inside.hostname or "", inside.port or DEFAULT_PORT
    address = published_address(contexts.folder, service, port) or compose_port(service, port)
    return (f"http://{address}" if address else bases[0]) + operation.path


def given_url(url: str, path: str) -> str:
    """Complete an address from the command line with the operation's path, if it has none.

    Raises:
        PodError: It has no scheme or no host.
    """
    try:
        parts = urlsplit(url.strip())
        usable = parts.scheme in {"http", "https"} and parts.hostname and (parts.port or True)
    except ValueError:
        parts, usable = SplitResult("", "", "", "", ""), False
    if not usable:
        raise PodError(f'url "{url}" needs a scheme and a host, such as http://127.0.0.1:8080')
    return parts._replace(path=path).geturl() if parts.path in {"", "/"} else parts.geturl()


def published_address(folder: Path, service: str, port: int) -> str | None:
    """Say where a service's port is published, `host:port`; None when nobody wrote it down.

    Raises:
        PodError: The generated file cannot be read.
    """
    from memplane.pod.yaml_text import read_yaml  # noqa: PLC0415 - a proxy reads no YAML

    data = read_small(folder / COMPOSE_FILE, MOST_BYTES * _REPEATED) or b""
    body = read_yaml(data, COMPOSE_FILE, times=_REPEATED)
    services = _tree(_tree(body).get("services"))
    ports = read_ports(
        _tree(services.get(service)).get("ports"), f'{COMPOSE_FILE}: service "{service}"'
    )
    known = [one for one in ports if one.published]
    same = [one for one in known if one.target == port]
    return next((f"{one.reachable_host}:{one.published}" for one in same or known), None)


def _context(folder: Path, name: str) -> AgentContext:
    metadata = _decoded(
        read_small(folder / "metadata.json", MOST_BYTES), _Metadata, "metadata.json"
    )
    manifest = read_small(folder / "memory.json", MOST_BYTES)
    return _agent(name, metadata, None if manifest is None else read_manifest(manifest))


def read_proxied_agent(root: Path, agent: str) -> ProxiedAgent:
    """Read what a pod says of one agent, for a turn of it.

    Raises:
        PodError: Its metadata cannot be used.
    """
    folder = root / agent
    metadata = _decoded(
        read_small(folder / "metadata.json", MOST_BYTES), _Metadata, "metadata.json"
    )
    memory, broken = None, ""
    try:
        manifest = read_small(folder / "memory.json", MOST_BYTES)
        memory = None if manifest is None else read_manifest(manifest)
    except PodError as error:
        broken = str(error)
    return ProxiedAgent(_agent(agent, metadata, memory), metadata.model_policy, broken)


def _agent(name: str, metadata: _Metadata, memory: MemoryManifest | None) -> AgentContext:
    return AgentContext(
        agent=name,
        pod=metadata.pod,
        service=metadata.service,
        type=metadata.type,
        timezone=metadata.timezone,
        memory=memory,
    )


def _decoded(data: bytes | None, kind: type[_T], what: str) -> _T:
    if data is None:
        raise PodError(f"{what} is missing")
    try:
        return msgspec.json.decode(data, type=kind)
    except (ValueError, RecursionError) as error:
        raise PodError(f"{what} is invalid: {error}") from error


def _tree(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}
