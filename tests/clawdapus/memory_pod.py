"""A pod folder with ledgers, and memory services that answer as a test tells them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from aiohttp import web

from memplane.integrations.clawdapus.memory_service.service_targets import (
    LedgerPaths,
    get_pod_paths,
)
from memplane.ledger.entry import Entry
from memplane.ledger.tombstones import Tombstone, append_tombstones
from memplane.ledger.writer import LedgerOptions
from tests.clawdapus.service_contract import MemoryService
from tests.support.in_process import Done, memplane_here
from tests.support.turns import NOON, record, turn

TOKEN = "s3cret-token"
WHEN = "2026-03-01T12:00:00Z"
REFERENCE = Path(__file__).parents[2] / "examples" / "reference-memory" / "service.py"


@dataclass(frozen=True, slots=True)
class Post:
    """One request that a service got."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def agent(self) -> str:
        return str(self.body["agent_id"])

    @property
    def entry_id(self) -> str:
        return str(self.body["entry"]["id"])


Answer = Callable[[Post], Awaitable[web.StreamResponse | None]]


async def _nothing(_post: Post) -> None:
    return None


@dataclass(slots=True)
class Service:
    """Takes what it is sent, unless `answer` says something else."""

    base_url: str
    answer: Answer = _nothing
    posts: list[Post] = field(default_factory=list[Post])
    taken: list[Post] = field(default_factory=list[Post])

    @property
    def port(self) -> int:
        return int(self.base_url.rpartition(":")[2])

    async def handle(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        post = Post(request.path, headers, json.loads(await request.read()))
        self.posts.append(post)
        said = await self.answer(post)
        if said is not None:
            return said
        self.taken.append(post)
        if post.path == "/recall":
            return web.json_response({"memories": []})
        return web.Response(status=202 if post.path == "/retain" else 204)

    def retained(self, agent: str = "analyst") -> list[str]:
        """The ids that were taken for an agent, in the order they came."""
        return [one.entry_id for one in self.taken if one.path == "/retain" and one.agent == agent]

    def offered(self, agent: str = "analyst") -> list[str]:
        """The ids that were sent for an agent, taken or not."""
        return [one.entry_id for one in self.posts if one.path == "/retain" and one.agent == agent]


@asynccontextmanager
async def running_service() -> AsyncIterator[Service]:
    service = Service("")
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/{path:.*}", service.handle)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    service.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield service
    finally:
        await runner.cleanup()


@contextmanager
def reference_memory(folder: Path) -> Iterator[MemoryService]:
    """Run the real example service."""
    process = subprocess.Popen(
        [sys.executable, str(REFERENCE)],
        env={
            "PATH": os.environ["PATH"],
            "PORT": "0",
            "MEMORY_REF_DIR": str(folder),
            "MEMORY_REF_TOKEN": TOKEN,
        },
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        address = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
        assert address is not None
        yield MemoryService(address[0], TOKEN)
    finally:
        process.terminate()
        process.wait(timeout=30)
        process.stdout.close()


@dataclass(frozen=True, slots=True)
class MemoryPod:
    """A compiled pod in a folder."""

    folder: Path

    @property
    def file(self) -> Path:
        return self.folder / "claw-pod.yml"

    @property
    def place(self) -> LedgerPaths:
        return get_pod_paths(self.folder)

    def subscribe(
        self,
        *agents: str,
        service: str = "mem",
        port: int = 0,
        without: tuple[str, ...] = (),
        token: str = TOKEN,
        **more: Any,
    ) -> None:
        """Let agents have a service for their memory; it is published on the port."""
        manifest: dict[str, Any] = {
            "version": 1,
            "service": service,
            "base_url": f"http://{service}:8080",
            "recall": {"path": "/recall", "timeout_ms": 300},
            "retain": {"path": "/retain"},
            "forget": {"path": "/forget"},
            "auth": {"type": "bearer", "token": token},
            **more,
        }
        for one in without:
            del manifest[one]
        for agent in agents:
            here = self.folder / ".claw-runtime" / "context" / agent
            here.mkdir(parents=True, exist_ok=True)
            about = {"pod": "desk", "service": agent, "type": "claude", "timezone": "UTC"}
            (here / "metadata.json").write_text(json.dumps(about))
            (here / "memory.json").write_text(json.dumps(manifest))
        ports = f'["127.0.0.1:{port}:8080"]' if port else "[]"
        with (self.folder / "compose.generated.yml").open("a") as compose:
            compose.write(f"  {service}:\n    ports: {ports}\n")

    async def record(
        self, count: int, *, agent: str = "analyst", max_bytes: int = 1 << 28, start: int = 0
    ) -> list[Entry]:
        """Record turns, one a second; small segments come with few bytes."""
        turns = [
            turn(f"question {n} of {agent}", agent=agent, ts=NOON + timedelta(seconds=n))
            for n in range(start, start + count)
        ]
        return await record(self.place.ledgers, turns, LedgerOptions(max_bytes=max_bytes))

    def bury(self, entry_id: str, *, agent: str = "analyst", service: str = "mem") -> None:
        """Write a tombstone where claw does, and nowhere else."""
        stone = Tombstone(WHEN, agent, service, entry_id)
        append_tombstones(self.place.tombstones[0], agent, [stone])

    def ledger_bytes(self) -> dict[str, bytes]:
        """Everything that ledgers hold, by its path; memplane's own state is not theirs."""
        return {
            str(path.relative_to(self.place.ledgers)): path.read_bytes()
            for path in sorted(self.place.ledgers.rglob("*"))
            if path.is_file() and ".memplane" not in path.parts and path.name != "index.jsonl"
        }


def memory_pod(folder: Path) -> MemoryPod:
    folder.mkdir(parents=True)
    (folder / "claw-pod.yml").write_text("x-claw: {pod: desk}\n")
    (folder / "compose.generated.yml").write_text("services:\n")
    return MemoryPod(folder)


def command_line(*words: str) -> list[str]:
    return [sys.executable, "-m", "memplane", *words]


async def memplane(home: Path, *words: str, cwd: Path | None = None) -> Done:
    """Run a command while this loop goes on serving."""

    def there() -> Done:
        with contextlib.chdir(cwd or home.parent):
            return memplane_here(home, *words)

    ran = await asyncio.to_thread(there)
    assert "Traceback" not in ran.stderr, ran.stderr
    return ran
