"""`compose.generated.yml`: the pod as Docker Compose runs it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, cast

import msgspec

from memplane.errors import PodError
from memplane.pod.grammar import Pod, Service, environment_of

PROXY: Final = "cllama"
PROXY_PORT: Final = 8080
HISTORY_URL: Final = f"http://{PROXY}:{PROXY_PORT}/history"
PROXY_IMAGE: Final = "memplane:latest"
_COMMAND: Final = ("memplane", "up", "--port", str(PROXY_PORT))
_PLACES: Final = {
    "./.claw-runtime/context": ("/claw/context", "ro"),
    "./.claw-auth": ("/claw/auth", "rw"),
    "./.claw-session-history": ("/claw/session-history", "rw"),
}


class Replay(msgspec.Struct, frozen=True):
    """What a memory service needs to read the ledgers of those who use it."""

    service: str
    token: str
    agents: tuple[str, ...]


class Generated(msgspec.Struct, frozen=True):
    """What Docker Compose is given, and what is odd about it."""

    body: Mapping[str, object]
    warnings: tuple[str, ...] = ()


def generated_compose(
    pod: Pod, *, agent_tokens: Mapping[str, str], replays: Iterable[Replay], image: str
) -> Generated:
    """Put the pod together as it will run, with the proxy if there is an agent.

    Raises:
        PodError: A service has the proxy's name, or one to be told of histories is not there.
    """
    counted = {one.name: one.names() for one in pod.services if one.count > 1}
    services: dict[str, object] = {}
    for service in pod.services:
        body = _with_replicas(service.compose, counted)
        for name in service.names():
            services[name] = _with_token(body, name, agent_tokens.get(name))
    for replay in replays:
        services[replay.service] = _with_history(services.get(replay.service), replay)
    warnings: list[str] = []
    if agent_tokens:
        if PROXY in services:
            raise PodError(f'service "{PROXY}": the proxy is called so; choose another name')
        services[PROXY] = _proxy(pod, image, warnings)
    return Generated({"services": services, **pod.compose}, tuple(warnings))


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


def _with_history(body: object, replay: Replay) -> Mapping[str, object]:
    if body is None:
        raise PodError(f'history replay target "{replay.service}" not found in pod services')
    return _with_variables(
        cast("Mapping[str, object]", body),
        {
            "CLAW_HISTORY_URL": HISTORY_URL,
            "CLAW_HISTORY_TOKEN": replay.token,
            "CLAW_HISTORY_AGENT_IDS": ",".join(sorted(replay.agents)),
        },
    )


def _with_variables(body: Mapping[str, object], more: Mapping[str, str]) -> dict[str, object]:
    before = environment_of(body.get("environment"), "environment")
    return {**body, "environment": {**before, **more}}


def _with_replicas(
    body: Mapping[str, object], counted: Mapping[str, tuple[str, ...]]
) -> dict[str, object]:
    """Let whoever waits for a service that is there several times wait for each."""
    waits = body.get("depends_on")
    if isinstance(waits, list):
        each = [one for name in cast("list[str]", waits) for one in counted.get(name, (name,))]
        return {**body, "depends_on": each}
    if isinstance(waits, Mapping):
        terms = cast("Mapping[str, object]", waits).items()
        on_all = {one: term for name, term in terms for one in counted.get(name, (name,))}
        return {**body, "depends_on": on_all}
    return dict(body)


def _proxy(pod: Pod, image: str, warnings: list[str]) -> dict[str, object]:
    agents = [one for one in pod.services if one.is_agent]
    targets = {one.claw.memory.service for one in agents if one.claw and one.claw.memory}
    beside = [*agents, *(one for one in pod.services if one.name in targets)]
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
            "MEMPLANE_HTTP_ALLOWED_HOSTS": f"{PROXY}:{PROXY_PORT}",
            # An audit reads what the container prints.
            "MEMPLANE_TELEMETRY_STDOUT": "true",
        },
        "expose": [str(PROXY_PORT)],
        "volumes": [f"{here}:{there}:{mode}" for here, (there, mode) in _PLACES.items()],
    }
    networks = sorted({name for one in beside for name in _networks(one)})
    return body if networks == ["default"] else {**body, "networks": networks}


def _keys(agents: Iterable[Service], warnings: list[str]) -> dict[str, str]:
    """Collect the variables that agents want their proxy to have."""
    found: dict[str, str] = {}
    for agent in agents:
        for name, value in agent.claw.proxy_environment.items() if agent.claw else ():
            if found.setdefault(name, value) != value:
                warnings.append(f'service "{agent.name}": cllama-env {name} replaces another\'s')
                found[name] = value
    return found


def _networks(service: Service) -> Iterable[str]:
    named = service.compose.get("networks")
    if isinstance(named, (list, Mapping)) and named:
        return [str(one) for one in cast("Iterable[object]", named)]
    return ["default"]
