"""The proxy with all its parts, served on a free port, before a scripted upstream."""

from __future__ import annotations

import asyncio
import io
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import uvicorn

from memplane.episodes.api_types import MemoryBlock, RecallRequest
from memplane.home import Home
from memplane.ledger.folder import AgentFolder
from memplane.ledger.note_reader import find_note
from memplane.ledger.reader import read_entries
from memplane.ledger.turn_note import TurnNote
from memplane.proxy.turn import Proxy
from memplane.server.app import create_app
from memplane.server.demo_server import SecondaryServer
from memplane.server.host_origin_check import loopback_hosts
from memplane.server.protocol import StrictProtocol
from memplane.server.proxy_api import ProxyHandler, proxy_endpoints
from memplane.server.snapshot_api import snapshot_endpoints
from memplane.service.client import local_client
from memplane.service.composition.home import open_services, open_telemetry
from memplane.service.composition.proxy import open_proxy
from memplane.service.operations.memory import recall
from memplane.service.services import Services
from memplane.settings import Settings
from memplane.settings.sources import load_settings
from memplane.telemetry import Telemetry
from tests.support.upstream import Upstream, running_upstream


@dataclass(frozen=True, slots=True)
class Answered:
    """What a client was answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True)
class Proxied:
    """A proxy that is served."""

    address: str
    upstream: Upstream
    services: Services
    proxy: Proxy
    settings: Settings
    http: aiohttp.ClientSession
    server: uvicorn.Server
    told: Path
    headers: dict[str, str] = field(default_factory=lambda: {"Authorization": "Bearer sk-own"})

    async def post(
        self,
        path: str,
        body: object,
        *,
        agent: str = "ada",
        headers: Mapping[str, str] | None = None,
    ) -> Answered:
        """Post a body, JSON or bytes as they are, and read the whole answer."""
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        below = f"/agent/{agent}" if agent else ""
        async with self.http.post(
            f"{self.address}{below}{path}",
            data=io.BytesIO(data),
            headers={"Content-Type": "application/json", **self.headers, **(headers or {})},
        ) as reply:
            return Answered(reply.status, reply.headers, await reply.read())

    async def chat(self, *said: str, agent: str = "ada", **more: Any) -> Answered:
        """Say something over OpenAI's chat dialect; every second text is the model's."""
        roles = ("user", "assistant")
        messages = [{"role": roles[at % 2], "content": text} for at, text in enumerate(said)]
        headers = more.pop("headers", None)
        body = {"model": "gpt-4o", "messages": messages, **more}
        return await self.post("/v1/chat/completions", body, agent=agent, headers=headers)

    async def settled(self) -> None:
        """Wait until no request is under way."""
        own = asyncio.current_task()
        while under_way := [one for one in self.server.server_state.tasks if one is not own]:
            await asyncio.wait(under_way)

    async def recorded(self, agent: str = "ada") -> list[dict[str, Any]]:
        """Return an agent's entries, once everything given to the recorder is durable."""
        await self.proxy.recorder.drain()
        folder = AgentFolder(self.settings.ledger.dir, agent)
        return [msgspec.json.decode(line) for _, line in read_entries(folder)]

    def note(self, entry: Mapping[str, Any]) -> TurnNote:
        """Return what is said about an entry."""
        folder = AgentFolder(self.settings.ledger.dir, entry["claw_id"])
        return find_note(folder, entry["id"]) or TurnNote()

    async def remembered(self, agent: str, question: str) -> tuple[MemoryBlock, ...]:
        """Ask the memory, once it has followed the ledger and knows where turns were said."""
        await self.proxy.recorder.drain()
        async with asyncio.timeout(30):
            while not self.proxy.injector._sticky.is_written:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
        memory = await self.services.lazy_memory.memory()
        await memory.follow()
        return (
            await local_client(self.services).call(
                recall, RecallRequest(agent=agent, text=question)
            )
        ).memories

    def events(self, kind: str = "") -> list[dict[str, Any]]:
        """Return what was told, all or of one kind."""
        lines = self.told.read_bytes().splitlines() if self.told.exists() else []
        told = [msgspec.json.decode(line) for line in lines]
        return [one for one in told if not kind or one["type"] == kind]

    def recalls(self) -> list[dict[str, Any]]:
        """Return what was told of recalls."""
        return [one for one in self.events("memory_op") if one["memory_op"] == "recall"]


@asynccontextmanager
async def proxied(folder: Path, **settings: str) -> AsyncIterator[Proxied]:
    """Serve the proxy of a home in a folder; `proxy__injection` is the setting proxy.injection."""
    async with running_upstream() as upstream:
        flags = {
            "home": str(folder / "home"),
            "proxy.upstream_openai": upstream.address,
            "proxy.upstream_anthropic": upstream.address,
            **{name.replace("__", "."): value for name, value in settings.items()},
        }
        chosen = load_settings(flags, {})
        home = Home(chosen.home)
        home.create()
        telemetry = open_telemetry(chosen)
        async with (
            open_services(chosen, admins={"home": home.token()}, serving=True) as services,
            open_proxy(chosen, services, telemetry) as proxy,
            _served(chosen, services, proxy, telemetry) as (server, port),
            aiohttp.ClientSession(auto_decompress=False) as http,
        ):
            address = f"http://127.0.0.1:{port}"
            yield Proxied(
                address, upstream, services, proxy, chosen, http, server, home.telemetry_file
            )


class Prompt(SecondaryServer):
    """A server that ends as soon as nothing is under way; others sleep before they look."""

    async def main_loop(self) -> None:
        self._ticking = asyncio.create_task(super().main_loop())
        await asyncio.wait([self._ticking])

    def end(self) -> None:
        self._ticking.cancel()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for one in (*self.servers, *(sockets or ())):
            one.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await asyncio.sleep(0)  # what was closed is gone in the next round of the loop
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown()


@asynccontextmanager
async def _served(
    settings: Settings, services: Services, proxy: Proxy, telemetry: Telemetry
) -> AsyncIterator[tuple[uvicorn.Server, int]]:
    del telemetry
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(2048)
    port = listening.getsockname()[1]
    door = ProxyHandler(
        proxy=proxy,
        tokens=services.issued,
        context_root=settings.context_root,
        default_agent=settings.agent or "default",
    )
    app = create_app(
        services,
        hosts=loopback_hosts(port),
        tokens=services.issued,
        endpoints=[
            *proxy_endpoints(door),
            *snapshot_endpoints(services.recording.root, services.home.tombstones),
        ],
    )
    config = uvicorn.Config(
        app,
        http=StrictProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=2,
    )
    server = Prompt(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield server, port
    finally:
        server.end()
        await serving
