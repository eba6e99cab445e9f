"""What a compile left, as operator commands read it: agents, their memory, and where it answers.

Files that Clawdapus wrote are read alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final, TypeAlias, TypeVar, cast
from urllib.parse import SplitResult, urlsplit

import msgspec

from memplane.auth.agent_id import is_agent_id
from memplane.errors import PodError
from memplane.integrations.clawdapus.pod.compose_ports import DEFAULT_PORT, read_ports
from memplane.integrations.clawdapus.pod.memory_manifest import (
    MemoryEndpoint,
    MemoryManifest,
    read_manifest,
)
from memplane.integrations.clawdapus.pod.model_policy import ModelPolicy
from memplane.integrations.clawdapus.pod.paths import (
    COMPOSE_FILE,
    CONTEXT_FOLDER,
    MAX_POD_FILE_BYTES,
    POD_MANIFEST_FILE,
)
from memplane.kit.bounded_read import read_bounded

_T = TypeVar("_T")
# A service that is there a hundred times is written down as often.
_MAX_REPLICAS: Final = 100
ComposePortFinder: TypeAlias = Callable[[str, int], str | None]
_NO_COMPOSE: Final[ComposePortFinder] = lambda _service, _port: None  # noqa: E731


class AgentContext(msgspec.Struct, frozen=True):
    """What was compiled for one agent."""

    agent: str
    pod: str = ""
    service: str = ""
    type: str = ""
    timezone: str = ""
    memory: MemoryManifest | None = None


class PodContexts(msgspec.Struct, frozen=True):
    """The agents of a compiled pod, by their ids, and what is wrong with their files."""

    folder: Path
    agents: tuple[AgentContext, ...]
    warnings: tuple[str, ...] = ()


class ProxiedAgent(msgspec.Struct, frozen=True):
    """What a pod says of an agent whose turns pass through; `broken` says why it has no memory."""

    context: AgentContext
    policy: ModelPolicy | None = None
    broken: str = ""


class _AgentMetadata(msgspec.Struct):
    pod: str = ""
    service: str = ""
    type: str = ""
    timezone: str = ""
    model_policy: ModelPolicy | None = None


class _PodNameFile(msgspec.Struct, rename="camel"):
    pod_name: str


def find_pod_folder(file: Path) -> Path:
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


def read_pod_name(folder: Path) -> str:
    """Return the name of a compiled pod.

    Raises:
        PodError: Its manifest is missing or broken.
    """
    path = folder / POD_MANIFEST_FILE
    data = read_bounded(path, MAX_POD_FILE_BYTES)
    if data is None:
        raise PodError(f"there is no {path}. Compile the pod first: memplane pod compile")
    return _decode(data, _PodNameFile, str(path)).pod_name


def read_contexts(folder: Path) -> PodContexts:
    """Read the agents of a compiled pod; one whose files are broken is left out with a warning.

    Raises:
        PodError: There are none.
    """
    root = folder / CONTEXT_FOLDER
    agents: list[AgentContext] = []
    warnings: list[str] = []
    for name in list_agents(root):
        try:
            agents.append(_context(root / name, name))
        except PodError as error:
            warnings.append(f'agent "{name}": {error}')
    if not agents and not warnings:
        raise PodError(f'no generated agent context found in "{root}"')
    warnings += [
        f'agent "{agent.agent}": {agent.memory.warning}'
        for agent in agents
        if agent.memory and agent.memory.warning
    ]
    return PodContexts(folder, tuple(agents), tuple(warnings))


def list_agents(root: Path) -> list[str]:
    """Name the agents that a compile left folders for, sorted; none where there is nothing."""
    try:
        return sorted(
            folder.name
            for folder in root.iterdir()
            if folder.is_dir() and is_agent_id(folder.name)
        )
    except OSError:
        return []


def select_targets(
    contexts: PodContexts, service: str, wanted: Collection[str] = ()
) -> tuple[AgentContext, ...]:
    """Choose the agents whose memory a service is; `wanted` are the only ones asked for.

    Raises:
        PodError: There are none, or one that was asked for is not among them.
    """
    targets = tuple(
        agent for agent in contexts.agents if agent.memory and agent.memory.service == service
    )
    if not targets:
        raise PodError(f'no agents subscribe to memory service "{service}"')
    unknown_agents = sorted({*wanted} - {agent.agent for agent in targets})
    if unknown_agents:
        raise PodError(
            f'memory service "{service}" is not subscribed by agent(s) '
            f"{', '.join(unknown_agents)}. "
            f"There are: {', '.join(agent.agent for agent in targets)}"
        )
    return tuple(agent for agent in targets if not wanted or agent.agent in wanted)


def find_endpoint(target: AgentContext, operation: str) -> MemoryEndpoint:
    """Return what an agent's memory service offers.

    Raises:
        PodError: It does not offer that.
    """
    endpoint = target.memory.operation(operation) if target.memory else None
    if endpoint is None:
        service = target.memory.service if target.memory else ""
        raise PodError(
            f'memory service "{service}" has no {operation} endpoint for agent "{target.agent}"'
        )
    return endpoint


def build_endpoint_url(
    contexts: PodContexts,
    chosen: Collection[AgentContext],
    operation: MemoryEndpoint,
    *,
    url: str | None = None,
    compose_port: ComposePortFinder = _NO_COMPOSE,
) -> str:
    """Say where an operation of these agents' memory service answers, seen from this machine.

    An address that was given wins; then the port that the service publishes, then what a running
    Docker Compose says, then the address inside the pod.

    Raises:
        PodError: The address that was given is none, or the agents' files disagree.
    """
    if url is not None:
        return complete_url(url, operation.path)
    bases = sorted({agent.memory.base_url for agent in chosen if agent.memory})
    if len(bases) != 1:
        raise PodError(
            f"the agents' manifests have inconsistent base URLs ({', '.join(bases)}); "
            "pass --url to override"
        )
    inside = urlsplit(bases[0])
    service, port = inside.hostname or "", inside.port or DEFAULT_PORT
    address = find_published_address(contexts.folder, service, port) or compose_port(service, port)
    return (f"http://{address}" if address else bases[0]) + operation.path


def complete_url(url: str, path: str) -> str:
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


def find_published_address(folder: Path, service: str, port: int) -> str | None:
    """Say where a service's port is published, `host:port`; None when nobody wrote it down.

    Raises:
        PodError: The generated file cannot be read.
    """
    from memplane.kit.bounded_yaml import read_yaml  # noqa: PLC0415 - a proxy reads no YAML

    data = read_bounded(folder / COMPOSE_FILE, MAX_POD_FILE_BYTES * _MAX_REPLICAS) or b""
    body = read_yaml(data, COMPOSE_FILE, times=_MAX_REPLICAS)
    services = _tree(_tree(body).get("services"))
    ports = read_ports(
        _tree(services.get(service)).get("ports"), f'{COMPOSE_FILE}: service "{service}"'
    )
    known = [port_mapping for port_mapping in ports if port_mapping.published]
    same = [port_mapping for port_mapping in known if port_mapping.target == port]
    return next(
        (
            f"{port_mapping.reachable_host}:{port_mapping.published}"
            for port_mapping in same or known
        ),
        None,
    )


def _context(folder: Path, name: str) -> AgentContext:
    metadata = _decode(
        read_bounded(folder / "metadata.json", MAX_POD_FILE_BYTES), _AgentMetadata, "metadata.json"
    )
    manifest = read_bounded(folder / "memory.json", MAX_POD_FILE_BYTES)
    return _agent(name, metadata, None if manifest is None else read_manifest(manifest))


def read_proxied_agent(root: Path, agent: str) -> ProxiedAgent:
    """Read what a pod says of one agent, for a turn of it.

    Raises:
        PodError: Its metadata cannot be used.
    """
    folder = root / agent
    metadata = _decode(
        read_bounded(folder / "metadata.json", MAX_POD_FILE_BYTES), _AgentMetadata, "metadata.json"
    )
    memory, broken = None, ""
    try:
        manifest = read_bounded(folder / "memory.json", MAX_POD_FILE_BYTES)
        memory = None if manifest is None else read_manifest(manifest)
    except PodError as error:
        broken = str(error)
    return ProxiedAgent(_agent(agent, metadata, memory), metadata.model_policy, broken)


def _agent(name: str, metadata: _AgentMetadata, memory: MemoryManifest | None) -> AgentContext:
    return AgentContext(
        agent=name,
        pod=metadata.pod,
        service=metadata.service,
        type=metadata.type,
        timezone=metadata.timezone,
        memory=memory,
    )


def _decode(data: bytes | None, kind: type[_T], description: str) -> _T:
    if data is None:
        raise PodError(f"{description} is missing")
    try:
        return msgspec.json.decode(data, type=kind)
    except (ValueError, RecursionError) as error:
        raise PodError(f"{description} is invalid: {error}") from error


def _tree(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}
