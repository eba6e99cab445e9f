"""Memory services that are ill in every way, and the agent of a pod that has one of them."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memplane.proxy.recall_client import RecallClient
from tests.proxy.proxied import Proxied, proxied
from tests.proxy.test_governed import write_context, write_providers
from tests.support.answers import Said, chat_events, chat_stream

CHAT = "/v1/chat/completions"
SAID = Said("Peanuts, as far as I know.")
ASKED = (
    b'{ "model":"openai/m",\n "stream" : true, "messages":[{"role":"user","content":"What?"}] }'
)
FACT = "Ada is allergic to peanuts."
MEMORIES = json.dumps({"memories": [{"text": FACT}]}).encode()
MUCH = 100 << 20


# Services


@dataclass(slots=True)
class Visit:
    """One connection to a service, of which the request was read."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, body: bytes, status: str = "200 OK", **headers: str) -> None:
        said = {"Content-Length": str(len(body)), "Connection": "close", **headers}
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in said.items())
        await self.say(f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body)


Conduct = Callable[["Service", Visit], Awaitable[None]]


async def well(_service: Service, visit: Visit) -> None:
    await visit.answer(MEMORIES)


@dataclass(slots=True)
class Service:
    """Answers as its conduct says; counts who asked and what was sent."""

    conduct: Conduct
    port: int = 0
    asked: int = 0
    sent: int = 0
    base_url: str = ""
    elsewhere: Service | None = None
    _visits: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._visits.add(asyncio.create_task(self._visited(Visit(reader, writer))))

    async def _visited(self, visit: Visit) -> None:
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                head = (await visit.reader.readuntil(b"\r\n\r\n")).lower()
                length = head.partition(b"content-length:")[2].split(b"\r\n")[0]
                await visit.reader.readexactly(int(length))
                self.asked += 1
                await self.conduct(self, visit)
        finally:
            visit.writer.transport.abort()

    async def leave(self) -> None:
        for task in self._visits:
            task.cancel()
        for one in await asyncio.gather(*self._visits, return_exceptions=True):
            if isinstance(one, Exception):
                raise one


@asynccontextmanager
async def running_service(conduct: Conduct) -> AsyncIterator[Service]:
    service = Service(conduct)
    server = await asyncio.start_server(service.accept, "127.0.0.1", 0)
    service.port = server.sockets[0].getsockname()[1]
    service.base_url = f"http://127.0.0.1:{service.port}"
    try:
        yield service
    finally:
        server.close()
        await service.leave()


async def hang(_service: Service, visit: Visit) -> None:
    await visit.reader.read()


async def trickle(_service: Service, visit: Visit) -> None:
    await visit.say(b"HTTP/1.1 200 OK\r\nContent-Length: 16000\r\n\r\n{")
    while not visit.reader.at_eof():
        await visit.say(b" ")
        await asyncio.sleep(0.01)  # it is ill of being slow


async def trickle_its_head(_service: Service, visit: Visit) -> None:
    await visit.say(b"HTTP/1.1 200 OK\r\nX: ")
    while not visit.reader.at_eof():
        await visit.say(b"x")
        await asyncio.sleep(0.01)  # as above


async def fail(_service: Service, visit: Visit) -> None:
    await visit.answer(b"no", "500 Internal Server Error")


async def talk_nonsense(_service: Service, visit: Visit) -> None:
    await visit.say(b"\x16\x03\x01 220 smtp.example ESMTP\r\n\r\n")


async def answer_nonsense(_service: Service, visit: Visit) -> None:
    await visit.answer(b'{"memories":[{"text":\xff\xfe')


async def pour(service: Service, visit: Visit) -> None:
    await visit.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % MUCH)
    piece = b" " * (1 << 18)
    while service.sent < MUCH:
        await visit.say(piece)
        service.sent += len(piece)


async def pour_an_error(service: Service, visit: Visit) -> None:
    await visit.say(b"HTTP/1.1 500 No\r\nContent-Length: %d\r\n\r\n" % MUCH)
    piece = b" " * (1 << 18)
    while service.sent < MUCH:
        await visit.say(piece)
        service.sent += len(piece)


BOMB = gzip.compress(b" " * MUCH)


async def explode(_service: Service, visit: Visit) -> None:
    await visit.answer(BOMB, Content_Encoding="gzip")


async def reset(_service: Service, visit: Visit) -> None:
    connected: socket.socket = visit.writer.get_extra_info("socket")
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def redirect(service: Service, visit: Visit) -> None:
    assert service.elsewhere is not None
    target = f"http://localhost:{service.elsewhere.port}/recall"
    await visit.answer(b"", "307 Temporary Redirect", Location=target)


async def go_in_circles(_service: Service, visit: Visit) -> None:
    await visit.answer(b"", "308 Permanent Redirect", Location="/recall")


_PROCESS = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = {body!r}
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


@asynccontextmanager
async def stopped_process() -> AsyncIterator[tuple[str, Callable[[], None]]]:
    """A service whose process is stopped; the function lets it go on."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _PROCESS.format(body=MEMORIES), stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        port = int(await process.stdout.readline())
        os.kill(process.pid, signal.SIGSTOP)
        yield f"http://127.0.0.1:{port}", lambda: os.kill(process.pid, signal.SIGCONT)
    finally:
        process.kill()
        await process.wait()


# The agent


class Now:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass(slots=True)
class Crew:
    """An agent of a pod, whose memory is a service."""

    door: Proxied
    own: Mapping[str, str]
    now: Now
    patience: float = 30.0
    """When a turn that has not ended by then never will; no assertion is about less."""

    async def turn(self) -> list[str]:
        """Take a turn; returns what was wrong with it as the agent and the provider saw it."""
        before = len(self.door.upstream.asked(CHAT))
        try:
            async with asyncio.timeout(self.patience):
                answered = await self.door.post(CHAT, ASKED, agent="", headers=self.own)
        except TimeoutError:
            return ["the turn does not end"]
        wrong: list[str] = []
        if (answered.status, answered.body) != (200, b"".join(chat_events(SAID))):
            wrong.append(f"the answer is another one: {answered.status}")
        if len(self.door.upstream.asked(CHAT)) != before + 1:
            wrong.append("the provider was not asked once")
        return wrong

    @property
    def sent(self) -> bytes:
        """The body that the provider got last."""
        return self.door.upstream.asked(CHAT)[-1].body

    @property
    def told(self) -> dict[str, Any]:
        """What was told last of a recall."""
        return self.door.recalls()[-1]


UNCHANGED = ASKED.replace(b'"openai/m"', b'"m"')


@asynccontextmanager
async def crew(folder: Path, base_url: str, *, timeout_ms: int = 50) -> AsyncIterator[Crew]:
    root = folder / "context"
    async with proxied(folder, context_root=str(root)) as door:
        write_providers(door.settings.home, door)
        recall = {"path": "/recall", "timeout_ms": timeout_ms}
        memory = {"version": 1, "service": "mem-svc", "base_url": base_url, "recall": recall}
        own = write_context(root, memory=memory)
        door.upstream.at(CHAT, chat_stream(SAID))
        now = Now()
        recaller_of(door)._elapsed = now
        yield Crew(door, own, now)


def recaller_of(door: Proxied) -> RecallClient:
    return door.proxy.injector._recaller


async def illness(crew: Crew, service: Service | None, statuses: set[str]) -> list[str]:
    """Take turns while a service is ill; returns what it did to them, or what was not told."""
    wrong: list[str] = []
    for number in range(5):
        wrong += await crew.turn()
        if "the turn does not end" in wrong:
            return wrong
        if crew.sent != UNCHANGED:
            wrong.append("the provider got other bytes")
        told = crew.told
        expected = statuses if number < 3 else {"skipped"}
        if told["memory_status"] not in expected or not told.get("error"):
            wrong.append(f"told in turn {number}: {told}")
        if number >= 3 and told.get("error") != "breaker open":
            wrong.append(f"the breaker is not open in turn {number}")
    if crew.door.events("error"):
        wrong.append("a memory failure was told as an error of the turn")
    return wrong + (_too_much(service) if service is not None else [])


def _too_much(service: Service) -> list[str]:
    """Say what a service that is ill was asked, told and read too much of."""
    found = {
        f"it was asked {service.asked} times": service.asked > 3 * _MOST_REDIRECTS,
        "somebody else was told what the agent said": service.elsewhere is not None
        and service.elsewhere.asked > 0,
        "its long answer was read": service.sent > MUCH // 2,
    }
    return [what for what, is_so in found.items() if is_so]


_MOST_REDIRECTS = 5


async def recovery(crew: Crew) -> list[str]:
    """Take turns after half a minute, when the service is well again."""
    crew.now.now += 29.9
    wrong = await crew.turn()
    if crew.told.get("error") != "breaker open":
        wrong.append("it was asked before its half minute was over")
    crew.now.now += 0.2
    for _ in range(2):
        wrong += await crew.turn()
        if crew.told["memory_status"] != "succeeded" or FACT.encode() not in crew.sent:
            wrong.append(f"it is not asked again: {crew.told}")
    return wrong
