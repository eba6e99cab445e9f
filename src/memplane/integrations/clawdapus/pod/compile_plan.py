"""What a pod becomes: a pure plan of files, with their bytes and modes.

Nothing here reads, writes or makes anything up: tokens, zones and variables come in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, cast

import msgspec

from memplane.auth.pod_context import HISTORY_SERVICE_NAME
from memplane.errors import PodError
from memplane.integrations.clawdapus.pod.compose import PROXY_IMAGE, LedgerReplay, generate_compose
from memplane.integrations.clawdapus.pod.compose_ports import choose_container_port, read_ports
from memplane.integrations.clawdapus.pod.descriptor import OPERATION_NAMES, Descriptor
from memplane.integrations.clawdapus.pod.memory_manifest import (
    MemoryEndpoint,
    MemoryManifest,
    write_manifest,
)
from memplane.integrations.clawdapus.pod.paths import (
    COMPOSE_FILE,
    CONTEXT_FOLDER,
    POD_MANIFEST_FILE,
)
from memplane.integrations.clawdapus.pod.pod_file import Pod, PodService
from memplane.integrations.clawdapus.pod.variable_expansion import expand_variables
from memplane.kit.bounded_yaml import write_yaml
from memplane.secret import Secret

OPEN_MODE: Final = 0o644
PRIVATE_MODE: Final = 0o600


class CompileInput(msgspec.Struct, frozen=True):
    """All that a plan is made from, besides the pod itself."""

    descriptors: Mapping[str, Descriptor]
    agent_files: Mapping[str, bytes]
    environment: Mapping[str, str]
    new_secret: Callable[[], str]
    is_zone: Callable[[str], bool]
    why_missing: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    proxy_image: str = PROXY_IMAGE


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file to write, its path relative to the pod's folder."""

    path: str
    data: bytes = field(repr=False)
    mode: int = OPEN_MODE


class PlannedAgent(msgspec.Struct, frozen=True):
    """One agent that runs, and the service that is its memory."""

    id: str
    service: str
    memory: str | None


class CompilePlan(msgspec.Struct, frozen=True):
    """Everything that a compile writes, and what an operator should know."""

    pod: str
    agents: tuple[PlannedAgent, ...]
    files: tuple[PlannedFile, ...]
    warnings: tuple[str, ...] = ()


class _CompiledAgent(msgspec.Struct, frozen=True):
    id: str
    service: PodService
    ordinal: int | None
    token: str
    memory: MemoryManifest | None


class _ModelEntry(msgspec.Struct):
    slot: str
    ref: str


class _ModelPolicyFile(msgspec.Struct):
    mode: str
    allowed: list[_ModelEntry]


class _AgentMetadataFile(msgspec.Struct, omit_defaults=True):
    service: str
    pod: str
    type: str
    token: str
    timezone: str
    ordinal: int | None = None
    model_policy: _ModelPolicyFile | None = None


class _ServiceAuthFile(msgspec.Struct):
    """The token by which a memory service is known to the proxy's history."""

    service: str
    auth_type: str
    token: str
    principal: str


class _ManifestService(msgspec.Struct, omit_defaults=True):
    agents: tuple[str, ...]
    image: str = ""
    count: int = 1
    memory: str | None = None


class _PodManifestFile(msgspec.Struct, rename="camel"):
    pod_name: str
    services: dict[str, _ManifestService]


def plan_pod(pod: Pod, inputs: CompileInput) -> CompilePlan:
    """Decide what to write for a pod.

    Raises:
        PodError: An agent's memory is not there, is none, or cannot be asked.
    """
    agents = tuple(
        agent
        for service in pod.services
        if service.is_agent
        for agent in _agents_of(service, pod, inputs)
    )
    replays = _plan_replays(agents, pod, inputs)
    compose = generate_compose(
        pod,
        agent_tokens={service.id: service.token for service in agents},
        replays=replays.values(),
        image=inputs.proxy_image,
    )
    files = [
        PlannedFile(COMPOSE_FILE, write_yaml(compose.body), PRIVATE_MODE),
        PlannedFile(POD_MANIFEST_FILE, _json(_pod_manifest(pod))),
    ]
    for agent in agents:
        replay = replays.get(agent.memory.service) if agent.memory else None
        files += _context(agent, pod, inputs, replay)
    silent = [
        service.name for service in pod.services if service.is_agent and not _names_a_file(service)
    ]
    return CompilePlan(
        pod=pod.name,
        agents=tuple(
            PlannedAgent(
                service.id,
                service.service.name,
                service.memory.service if service.memory else None,
            )
            for service in agents
        ),
        files=tuple(files),
        warnings=(
            *pod.warnings,
            *compose.warnings,
            *(f'service "{name}": no agent file is named; AGENTS.md is empty' for name in silent),
        ),
    )


def _names_a_file(service: PodService) -> bool:
    return service.claw is not None and bool(service.claw.agent_file)


def _agents_of(service: PodService, pod: Pod, inputs: CompileInput) -> list[_CompiledAgent]:
    several = service.count > 1
    return [
        _CompiledAgent(
            id=name,
            service=service,
            ordinal=number if several else None,
            token=f"{name}:{inputs.new_secret()}",
            memory=_memory(service, pod, inputs),
        )
        for number, name in enumerate(service.names())
    ]


def _plan_replays(
    agents: tuple[_CompiledAgent, ...], pod: Pod, inputs: CompileInput
) -> dict[str, LedgerReplay]:
    """Give each memory service one token for the ledgers of all who use it."""
    users: dict[str, list[str]] = {}
    for agent in agents:
        if agent.memory:
            users.setdefault(agent.memory.service, []).append(agent.id)
    return {
        service.name: LedgerReplay(
            service.name,
            f"{service.name}-history:{inputs.new_secret()}",
            tuple(sorted(users[service.name])),
            _port(service, inputs.environment),
        )
        for service in sorted(pod.services, key=lambda each: each.name)
        if service.name in users
    }


# An agent's memory


def _memory(service: PodService, pod: Pod, inputs: CompileInput) -> MemoryManifest | None:
    subscription = service.claw.memory if service.claw else None
    if subscription is None:
        return None
    location = f'service "{service.name}"'
    target = pod.service(subscription.service)
    if target is None:
        raise PodError(f'{location}: memory targets unknown service "{subscription.service}"')
    descriptor = inputs.descriptors.get(subscription.service)
    if descriptor is None:
        reason = inputs.why_missing.get(subscription.service)
        missing = f'{location}: memory target "{subscription.service}" has no descriptor'
        raise PodError(f"{missing}: {reason}" if reason else missing)
    paths = descriptor.memory
    if paths is None:
        raise PodError(
            f'{location}: memory target "{subscription.service}" does not declare '
            "a memory capability"
        )
    return MemoryManifest(
        service=subscription.service,
        base_url=f"http://{subscription.service}:{_port(target, inputs.environment)}",
        token=_token(service, descriptor, inputs),
        # The short default suits recall alone; it would starve the other two.
        recall=_operation(paths.recall, subscription.timeout_ms),
        retain=_operation(
            paths.retain, subscription.timeout_ms if subscription.explicit else None
        ),
        forget=_operation(
            paths.forget, subscription.timeout_ms if subscription.explicit else None
        ),
    )


def _operation(path: str | None, timeout_ms: int | None) -> MemoryEndpoint | None:
    return MemoryEndpoint(path, timeout_ms) if path else None


def _port(target: PodService, environment: Mapping[str, str]) -> int:
    return choose_container_port(
        *(
            read_ports(
                _expand(target.compose.get(key), environment), f'service "{target.name}": {key}'
            )
            for key in ("expose", "ports")
        )
    )


def _expand(value: object, environment: Mapping[str, str]) -> object:
    match value:
        case str():
            return expand_variables(value, environment)
        case list():
            return [_expand(item, environment) for item in cast("list[object]", value)]
        case Mapping():
            tree = cast("Mapping[str, object]", value)
            return {key: _expand(item, environment) for key, item in tree.items()}
        case _:
            return value


def _token(service: PodService, descriptor: Descriptor, inputs: CompileInput) -> Secret | None:
    """Find the token for an agent's memory: the descriptor names the agent's variable.

    A token that a compile projected for that service would come first. This one projects those
    of the history alone, and nothing else survives it: it makes each agent's folder anew.
    """
    auth = descriptor.auth
    if auth is None or auth.type != "bearer" or not auth.env:
        return None
    value = _variable(service, auth.env, inputs.environment)
    if not value:
        raise PodError(
            f'service "{service.name}": feed auth: service env has no value for "{auth.env}" '
            "(required by descriptor auth.env for bearer auth)"
        )
    return Secret(value)


def _variable(service: PodService, name: str, environment: Mapping[str, str]) -> str:
    """Read a variable as the service will have it."""
    own = service.environment
    if name not in own:
        return ""
    value = own[name]
    if value is None:
        return environment.get(name, "").strip()
    try:
        return expand_variables(value, environment).strip()
    except PodError as error:
        raise PodError(f'service "{service.name}": {error}') from error


# An agent's folder


def _context(
    agent: _CompiledAgent, pod: Pod, inputs: CompileInput, replay: LedgerReplay | None
) -> list[PlannedFile]:
    folder = f"{CONTEXT_FOLDER}/{agent.id}"
    files = [
        PlannedFile(f"{folder}/AGENTS.md", inputs.agent_files.get(agent.service.name, b"")),
        PlannedFile(f"{folder}/CLAWDAPUS.md", _infrastructure(agent, pod).encode()),
        PlannedFile(f"{folder}/metadata.json", _json(_metadata(agent, pod, inputs))),
    ]
    if agent.memory:
        files.append(PlannedFile(f"{folder}/memory.json", write_manifest(agent.memory)))
    if replay:
        history = _ServiceAuthFile(HISTORY_SERVICE_NAME, "bearer", replay.token, replay.service)
        path = f"{folder}/service-auth/{history.service}.json"
        files.append(PlannedFile(path, _json(history), PRIVATE_MODE))
    return files


def _metadata(agent: _CompiledAgent, pod: Pod, inputs: CompileInput) -> _AgentMetadataFile:
    zone = _variable(agent.service, "TZ", inputs.environment)
    claw = agent.service.claw
    return _AgentMetadataFile(
        service=agent.service.name,
        pod=pod.name,
        type=claw.type if claw else "",
        token=agent.token,
        timezone=zone if zone and inputs.is_zone(zone) else "UTC",
        ordinal=agent.ordinal,
        model_policy=_model_policy(claw.models if claw else {}),
    )


def _model_policy(models: Mapping[str, str]) -> _ModelPolicyFile | None:
    """Allow the models that were named, each once, the primary and its fallback first."""
    first = {"primary": 0, "fallback": 1}
    allowed: dict[str, _ModelEntry] = {}
    for slot in sorted(models, key=lambda slot_name: (first.get(slot_name, 2), slot_name)):
        ref = models[slot].strip()
        if ref:
            allowed.setdefault(ref, _ModelEntry(slot, ref))
    return _ModelPolicyFile("clamp", list(allowed.values())) if allowed else None


def _infrastructure(agent: _CompiledAgent, pod: Pod) -> str:
    text = (
        f"# Where you run\n\n"
        f"You are `{agent.id}`, an agent of the pod `{pod.name}`.\n"
        "What you ask your model passes through the pod's proxy, which records each turn.\n"
    )
    if agent.memory is None:
        return text
    offered = [name for name in OPERATION_NAMES if agent.memory.operation(name)]
    return (
        f"{text}\n## Ambient Memory\n\n"
        f"The service `{agent.memory.service}` remembers for you. Active: {', '.join(offered)}.\n"
        "It works around your turns; there is nothing you have to call.\n"
        f"{''.join(_OPERATION_HELP[name] for name in offered)}"
        "Keep no memory of your own for the same things.\n"
    )


_OPERATION_HELP: Final = {
    "recall": "- recall: before a turn, what fits it is added to your request, between marks.\n",
    "retain": "- retain: after a turn that succeeded, the service is told of it.\n",
    "forget": "- forget: the operator can have an entry forgotten; it does not come back.\n",
}


def _pod_manifest(pod: Pod) -> _PodManifestFile:
    return _PodManifestFile(
        pod_name=pod.name,
        services={
            service.name: _ManifestService(
                agents=service.names() if service.is_agent else (),
                image=image if isinstance(image := service.compose.get("image"), str) else "",
                count=service.count,
                memory=service.claw.memory.service
                if service.claw and service.claw.memory
                else None,
            )
            for service in pod.services
        },
    )


def _json(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
