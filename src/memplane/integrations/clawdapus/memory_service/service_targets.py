"""Whom an operator's command is about: agents, where their ledgers lie, and who remembers them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from memplane.errors import PodError
from memplane.integrations.clawdapus.memory_service.client import ServiceAddress
from memplane.integrations.clawdapus.pod.agent_contexts import (
    AgentContext,
    PodContexts,
    ProxiedAgent,
    build_endpoint_url,
    complete_url,
    find_endpoint,
    find_pod_folder,
    select_targets,
)
from memplane.integrations.clawdapus.pod.memory_manifest import MemoryEndpoint
from memplane.integrations.clawdapus.pod.paths import COMPOSE_FILE
from memplane.ledger.folder import STATE_FOLDER_NAME, AgentFolder, list_ledger_agents
from memplane.ledger.tombstones import get_mirror_root
from memplane.secret import Secret

REQUEST_TIMEOUT_S: Final = 10.0
"""How long an operator waits for an answer, unless the manifest says more."""

_LEDGERS_FOLDER_NAME: Final = ".claw-session-history"
_TOMBSTONES_FOLDER_NAME: Final = ".claw-memory-tombstones"
_WILDCARD_HOSTS: Final = frozenset({"", "0.0.0.0", "::", "[::]"})  # noqa: S104 - read, not listened on
_DOCKER_TIMEOUT_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class LedgerPaths:
    """Ledgers, and the roots of the tombstones that hold for them; the first is the main one."""

    ledgers: Path
    tombstones: tuple[Path, ...]

    @property
    def state(self) -> Path:
        """Where memplane keeps what it needs beside these ledgers."""
        return self.ledgers / STATE_FOLDER_NAME

    def folder(self, agent: str) -> AgentFolder:
        """Return the folder of one agent's ledger.

        Raises:
            UnknownAgent: That is no agent's name.
        """
        return AgentFolder(self.ledgers, agent)


@dataclass(frozen=True, slots=True)
class ServiceTarget:
    """An agent, and where its memory service answers; None when it does not offer that."""

    context: AgentContext
    address: ServiceAddress | None

    @property
    def agent(self) -> str:
        """The agent's id."""
        return self.context.agent


@dataclass(frozen=True, slots=True)
class ServiceSelection:
    """What the command line says of a service; an address or a token wins over the manifest's."""

    service: str
    agents: tuple[str, ...] = ()
    url: str | None = None
    token: Secret | None = None

    @property
    def identity(self) -> str:
        """Which service this is: an address that was given may be another one's."""
        return f"{self.service} at {self.url}" if self.url else self.service


def resolve_pod_folder(file: str | None, working_folder: Path) -> Path | None:
    """Find the folder of the pod that a command is about: named by its file, or where we are.

    Raises:
        PodError: The file that was named is of no pod that was compiled.
    """
    if file is not None:
        return find_pod_folder(Path(file))
    return working_folder if (working_folder / COMPOSE_FILE).is_file() else None


def get_pod_paths(folder: Path) -> LedgerPaths:
    """Return where things lie in a pod."""
    ledgers = folder / _LEDGERS_FOLDER_NAME
    return LedgerPaths(ledgers, (folder / _TOMBSTONES_FOLDER_NAME, get_mirror_root(ledgers)))


def get_home_paths(home: Path, ledgers: Path) -> LedgerPaths:
    """Return where things lie in memplane's own home."""
    return LedgerPaths(ledgers, (home / "tombstones", get_mirror_root(ledgers)))


def find_pod_targets(
    contexts: PodContexts, selection: ServiceSelection, operation: str
) -> tuple[ServiceTarget, ...]:
    """Find the agents whose memory a service is, and where it answers.

    Raises:
        PodError: Nobody subscribes, an agent does not, or the service does not offer that.
    """
    chosen = select_targets(contexts, selection.service, selection.agents)
    return _make_targets(
        contexts, selection, [(agent, find_endpoint(agent, operation)) for agent in chosen]
    )


def find_all_pod_targets(
    contexts: PodContexts, selection: ServiceSelection, operation: str
) -> tuple[ServiceTarget, ...]:
    """Find the same agents also where the service does not offer that: they have no address.

    Raises:
        PodError: Nobody subscribes, or an agent does not.
    """
    chosen = select_targets(contexts, selection.service, selection.agents)
    offers = [
        (agent, agent.memory.operation(operation) if agent.memory else None) for agent in chosen
    ]
    return _make_targets(contexts, selection, offers)


def find_queued_target(
    contexts: PodContexts, service: str, agent: str, selection: ServiceSelection | None = None
) -> ServiceTarget:
    """Find whom a queued forget is for; what was asked for the same service wins.

    Raises:
        PodError: The agent does not subscribe to that service any more.
    """
    selection_of_service = (
        selection
        if selection is not None and selection.service == service
        else ServiceSelection(service)
    )
    (target,) = find_all_pod_targets(
        contexts, replace(selection_of_service, agents=(agent,)), "forget"
    )
    return target


def make_proxied_target(proxied: ProxiedAgent | None, service: str, agent: str) -> ServiceTarget:
    """Find whom a queued forget is for as an agent's proxy reaches its service (pure).

    Raises:
        PodError: The agent does not subscribe to that service any more.
    """
    manifest = proxied.context.memory if proxied else None
    if proxied is None or manifest is None or manifest.service != service:
        raise PodError(f'memory service "{service}" is not subscribed by agent(s) {agent}')
    if manifest.forget is None:
        return ServiceTarget(proxied.context, None)
    seconds = max(REQUEST_TIMEOUT_S, (manifest.forget.timeout_ms or 0) / 1000)
    return ServiceTarget(
        proxied.context, ServiceAddress(manifest.url_of(manifest.forget), manifest.token, seconds)
    )


def adapt_selection(
    contexts: PodContexts, selection: ServiceSelection, operation: str
) -> ServiceSelection:
    """Make an address that was given for one operation good for another of the same service."""
    if selection.url is None:
        return selection
    parts = urlsplit(selection.url)
    offers = (agent.memory.operation(operation) for agent in contexts.agents if agent.memory)
    paths = {offer.path for offer in offers if offer}
    base = parts._replace(path="", query="").geturl()
    return replace(selection, url=base if parts.path in {"", "/", *paths} else None)


def _make_targets(
    contexts: PodContexts,
    selection: ServiceSelection,
    offers: Sequence[tuple[AgentContext, MemoryEndpoint | None]],
) -> tuple[ServiceTarget, ...]:
    chosen = [agent for agent, _ in offers]
    paths = {offer.path: offer for _, offer in offers if offer}
    port = cache(partial(_find_compose_port, contexts.folder))
    urls = {
        path: build_endpoint_url(contexts, chosen, offer, url=selection.url, compose_port=port)
        for path, offer in paths.items()
    }

    def address_of(agent: AgentContext, offer: MemoryEndpoint) -> ServiceAddress:
        token = selection.token or (agent.memory.token if agent.memory else None)
        seconds = max(REQUEST_TIMEOUT_S, (offer.timeout_ms or 0) / 1000)
        return ServiceAddress(urls[offer.path], token, seconds)

    return tuple(
        ServiceTarget(agent, address_of(agent, offer) if offer else None)
        for agent, offer in offers
    )


def find_home_targets(
    ledgers: Path, selection: ServiceSelection, path: str
) -> tuple[ServiceTarget, ...]:
    """Find the agents of memplane's own ledgers; the service is an address, or has one.

    Raises:
        PodError: There is no address.
        UnknownAgent: A name is no agent's.
    """
    url = selection.url or (selection.service if urlsplit(selection.service).scheme else None)
    if url is None:
        raise PodError(
            f'there is no {COMPOSE_FILE} here that would say where "{selection.service}" is. Name '
            "the pod's file with -f, or give the service's address: --url http://HOST:PORT"
        )
    address = ServiceAddress(complete_url(url, path), selection.token, REQUEST_TIMEOUT_S)
    agents = selection.agents or list_ledger_agents(ledgers)
    for agent in agents:
        AgentFolder(ledgers, agent)
    return tuple(ServiceTarget(AgentContext(agent), address) for agent in agents)


def _find_compose_port(folder: Path, service: str, port: int) -> str | None:
    """Ask a running Docker Compose where it published a port; None when it cannot tell."""
    docker = shutil.which("docker")
    if docker is None:
        return None
    words = [docker, "compose", "-f", str(folder / COMPOSE_FILE), "port", service, str(port)]
    try:
        ran = subprocess.run(  # noqa: S603 - a list of words, and no shell
            words, capture_output=True, timeout=_DOCKER_TIMEOUT_S, check=False, text=True
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    lines = ran.stdout.splitlines() if ran.returncode == 0 else []
    return resolve_published_address(lines[0]) if lines else None


def resolve_published_address(published: str) -> str | None:
    """Turn what Docker says, `0.0.0.0:49153`, into an address to connect to."""
    host, colon, port = published.strip().rpartition(":")
    if not colon or not port.isdecimal() or int(port) == 0:
        return None
    return f"127.0.0.1:{port}" if host in _WILDCARD_HOSTS else f"{host}:{port}"
