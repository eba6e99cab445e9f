"""`compose.generated.yml`: the pod as Docker Compose runs it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, cast

import msgspec

from memplane.errors import PodError
from memplane.integrations.clawdapus.pod.pod_file import Pod, PodService, read_environment

PROXY_SERVICE: Final = "cllama"
PROXY_PORT: Final = 8080
HISTORY_URL: Final = f"http://{PROXY_SERVICE}:{PROXY_PORT}/history"
PROXY_IMAGE: Final = "memplane:latest"
_HTTP_PORT: Final = 80
_ALLOWED_HOSTS_VARIABLE: Final = "MEMPLANE_HTTP_ALLOWED_HOSTS"
_PORT_VARIABLE: Final = "MEMPLANE_HTTP_PORT"
_COMMAND: Final = ("memplane", "up", "--port", str(PROXY_PORT))
_PROXY_VOLUMES: Final = {
    "./.claw-runtime/context": ("/claw/context", "ro"),
    "./.claw-auth": ("/claw/auth", "rw"),
    "./.claw-session-history": ("/claw/session-history", "rw"),
}


class LedgerReplay(msgspec.Struct, frozen=True):
    """What a memory service needs to read the ledgers of those who use it."""

    service: str
    token: str
    agents: tuple[str, ...]
    port: int


class GeneratedCompose(msgspec.Struct, frozen=True):
    """What Docker Compose is given, and what is odd about it."""

    body: Mapping[str, object]
    warnings: tuple[str, ...] = ()


def generate_compose(
    pod: Pod, *, agent_tokens: Mapping[str, str], replays: Iterable[LedgerReplay], image: str
) -> GeneratedCompose:
    """Put the pod together as it will run, with the proxy if there is an agent.

    Raises:
        PodError: A service has the proxy's name, or one to be told of histories is not there.
    """
    counted = {
        pod_service.name: pod_service.names()
        for pod_service in pod.services
        if pod_service.count > 1
    }
    services: dict[str, object] = {}
    for service in pod.services:
        body = _with_replicas(service.compose, counted)
        for name in service.names():
            services[name] = _with_token(body, name, agent_tokens.get(name))
    for replay in replays:
        services[replay.service] = _with_history(services.get(replay.service), replay)
    warnings: list[str] = []
    if agent_tokens:
        if PROXY_SERVICE in services:
            raise PodError(
                f'service "{PROXY_SERVICE}": the proxy is called so; choose another name'
            )
        services[PROXY_SERVICE] = _proxy(pod, image, warnings)
    return GeneratedCompose({"services": services, **pod.compose}, tuple(warnings))


def _with_token(body: Mapping[str, object], agent: str, token: str | None) -> Mapping[str, object]:
    if token is None:
        return body
    return _with_variables(
        body,
        {
            "CLLAMA_TOKEN": token,
            "CLAW_AGENT_ID": agent,
            "CLAW_SELF_HISTORY_URL": HISTORY_URL,
            "CLAW_SELF_HISTORY_TOKEN": token,
        },
    )


def _with_history(body: object, replay: LedgerReplay) -> Mapping[str, object]:
    if body is None:
        raise PodError(f'history replay target "{replay.service}" not found in pod services')
    service = cast("Mapping[str, object]", body)
    return _with_variables(
        service,
        {
            **_listening(service, replay),
            "CLAW_HISTORY_URL": HISTORY_URL,
            "CLAW_HISTORY_TOKEN": replay.token,
            "CLAW_HISTORY_AGENT_IDS": ",".join(sorted(replay.agents)),
        },
    )


def _listening(body: Mapping[str, object], replay: LedgerReplay) -> dict[str, str]:
    """Let memplane as a memory service listen where the proxy asks, and accept that name.

    Other memory services ignore these variables. Those that the pod sets keep their value.
    """
    own = read_environment(body.get("environment"), "environment")
    name = f"{replay.service}:{replay.port}"
    hosts = [name, replay.service] if replay.port == _HTTP_PORT else [name]
    if _ALLOWED_HOSTS_VARIABLE in own:
        value = own[_ALLOWED_HOSTS_VARIABLE]
        hosts.insert(0, f"${{{_ALLOWED_HOSTS_VARIABLE}:-}}" if value is None else value)
    variables = {_ALLOWED_HOSTS_VARIABLE: ",".join(hosts)}
    return variables if _PORT_VARIABLE in own else {**variables, _PORT_VARIABLE: str(replay.port)}


def _with_variables(body: Mapping[str, object], more: Mapping[str, str]) -> dict[str, object]:
    before = read_environment(body.get("environment"), "environment")
    return {**body, "environment": {**before, **more}}


def _with_replicas(
    body: Mapping[str, object], counted: Mapping[str, tuple[str, ...]]
) -> dict[str, object]:
    """Let whoever waits for a service that is there several times wait for each."""
    waits = body.get("depends_on")
    if isinstance(waits, list):
        each = [
            replica for name in cast("list[str]", waits) for replica in counted.get(name, (name,))
        ]
        return {**body, "depends_on": each}
    if isinstance(waits, Mapping):
        terms = cast("Mapping[str, object]", waits).items()
        on_all = {replica: term for name, term in terms for replica in counted.get(name, (name,))}
        return {**body, "depends_on": on_all}
    return dict(body)


def _proxy(pod: Pod, image: str, warnings: list[str]) -> dict[str, object]:
    agents = [service for service in pod.services if service.is_agent]
    targets = {
        service.claw.memory.service for service in agents if service.claw and service.claw.memory
    }
    beside = [*agents, *(service for service in pod.services if service.name in targets)]
    body: dict[str, object] = {
        "image": image,
        "command": list(_COMMAND),
        "restart": "unless-stopped",
        "labels": {"claw.pod": pod.name.replace("$", "$$"), "claw.role": "proxy"},
        "environment": {
            **_keys(agents, warnings),
            "CLAW_POD": pod.name.replace("$", "$$"),
            "CLAW_CONTEXT_ROOT": "/claw/context",
            "CLAW_AUTH_DIR": "/claw/auth",
            "CLAW_SESSION_HISTORY_DIR": "/claw/session-history",
            "MEMPLANE_HOME": "/claw/session-history/.memplane",
            # Agents are other containers, the pod's network is its own, and tokens are asked for.
            "MEMPLANE_HTTP_HOST": "0.0.0.0",  # noqa: S104
            "MEMPLANE_HTTP_TRUSTED_NETWORK": "true",
            _ALLOWED_HOSTS_VARIABLE: f"{PROXY_SERVICE}:{PROXY_PORT}",
            # An audit reads what the container prints.
            "MEMPLANE_TELEMETRY_STDOUT": "true",
        },
        "expose": [str(PROXY_PORT)],
        "volumes": [
            f"{host_path}:{container_path}:{mode}"
            for host_path, (container_path, mode) in _PROXY_VOLUMES.items()
        ],
    }
    networks = sorted({name for service in beside for name in _networks(service)})
    return body if networks == ["default"] else {**body, "networks": networks}


def _keys(agents: Iterable[PodService], warnings: list[str]) -> dict[str, str]:
    """Collect the variables that agents want their proxy to have."""
    keys: dict[str, str] = {}
    for agent in agents:
        for name, value in agent.claw.proxy_environment.items() if agent.claw else ():
            if keys.setdefault(name, value) != value:
                warnings.append(f'service "{agent.name}": cllama-env {name} replaces another\'s')
                keys[name] = value
    return keys


def _networks(service: PodService) -> Iterable[str]:
    named = service.compose.get("networks")
    if isinstance(named, (list, Mapping)) and named:
        return [str(network) for network in cast("Iterable[object]", named)]
    return ["default"]
