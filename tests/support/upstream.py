"""A provider that answers byte for byte as a test scripts it, and keeps what it was sent.

It reads and writes raw connections: no library repairs what a client sent, adds a header to an
answer, or joins what a script sends apart.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias


class End(StrEnum):
    """How a connection ends before its time."""

    CLOSE = "close"
    """In good order; when the answer was not whole by then, it is cut."""
    RESET = "reset"
    """At once, with a reset."""
    STALL = "stall"
    """Nothing more is sent until the other side leaves."""


Step: TypeAlias = bytes | asyncio.Event | End
"""Send these bytes, wait until a test sets this, or end the connection."""
Answer: TypeAlias = Sequence[Step]


@dataclass(slots=True)
class Connection:
    """A connection, and when the other side left it: `gone_at` is the event loop's time."""

    number: int
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    gone_at: float = 0.0
    was_reset: bool = False

    def leave(self, *, was_reset: bool) -> None:
        self.gone_at = asyncio.get_running_loop().time()
        self.was_reset = was_reset
        self.gone.set()


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it came: `head` has all bytes up to the blank line and with it.

    Of a chunked body `body` has what was in the chunks.
    """

    connection: Connection
    head: bytes
    body: bytes

    @property
    def method(self) -> str:
        return self.head.split(b" ", 1)[0].decode()

    @property
    def target(self) -> str:
        return self.head.split(b" ", 2)[1].decode("latin-1")

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Names and values in their order and as they were written."""
        lines = self.head.decode("latin-1").split("\r\n")[1:-2]
        pairs = (line.partition(":") for line in lines)
        return [(name, value.strip()) for name, _, value in pairs]

    def header(self, name: str) -> str | None:
        """The first value of a header, whatever the case of its name."""
        found = (value for key, value in self.headers if key.lower() == name.lower())
        return next(found, None)

    def json(self) -> Any:
        return json.loads(self.body)


Script: TypeAlias = Callable[[Received], Answer]


def in_turn(*answers: Answer) -> Script:
    """Give the answers one after the other, and the last one for ever."""
    left = list(answers)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


@dataclass(slots=True)
class Upstream:
    """Answers by the script at a path; HEAD gets an empty answer, every other path 404."""

    port: int = 0
    scripts: dict[str, Script] = field(default_factory=dict[str, Script])
    received: list[Received] = field(default_factory=list[Received])
    connections: list[Connection] = field(default_factory=list[Connection])
    _tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    _arrived: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def at(self, path: str, *answers: Answer) -> None:
        """Answer at a path with these in turn, and with the last one for ever."""
        self.scripts[path] = in_turn(*answers)

    def asked(self, path: str) -> list[Received]:
        """The requests at a path."""
        return [one for one in self.received if one.path == path]

    async def until_asked(self, path: str, times: int = 1) -> Received:
        """Wait until so many requests came to a path; returns the last of them."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.asked(path)) >= times)
        return self.asked(path)[times - 1]

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(len(self.connections))
        self.connections.append(connection)
        self._tasks.add(asyncio.create_task(self._serve(connection, reader, writer)))

    async def leave(self) -> None:
        """End all connections; what went wrong in one is raised."""
        # What a script raised stays to be seen; whoever still waits is told to stop.
        for task in self._tasks:
            task.cancel()
        ended = await asyncio.gather(*self._tasks, return_exceptions=True)
        for one in ended:
            if isinstance(one, Exception):
                raise one

    async def _serve(
        self, connection: Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        requests: asyncio.Queue[Received | None] = asyncio.Queue()
        # Reading goes on while an answer is sent, or nobody would see the other side leave.
        reading = asyncio.create_task(_read_all(connection, reader, requests))
        try:
            while (request := await requests.get()) is not None:
                async with self._arrived:
                    self.received.append(request)
                    self._arrived.notify_all()
                if not await _send(self._answer_to(request), connection, writer):
                    break
        finally:
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def _answer_to(self, request: Received) -> Answer:
        if script := self.scripts.get(request.path):
            return script(request)
        status = b"200 OK" if request.method == "HEAD" else b"404 Not Found"
        return (b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n",)


@asynccontextmanager
async def running_upstream() -> AsyncIterator[Upstream]:
    """Listen on a free port of loopback."""
    upstream = Upstream()
    server = await asyncio.start_server(upstream.accept, "127.0.0.1", 0, limit=2**20, backlog=2048)
    upstream.port = server.sockets[0].getsockname()[1]
    try:
        yield upstream
    finally:
        server.close()
        await upstream.leave()


async def _read_all(
    connection: Connection, reader: asyncio.StreamReader, requests: asyncio.Queue[Received | None]
) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            requests.put_nowait(Received(connection, head, await _read_body(head, reader)))
    except asyncio.IncompleteReadError:
        connection.leave(was_reset=False)
    except OSError:
        connection.leave(was_reset=True)
    finally:
        requests.put_nowait(None)


async def _read_body(head: bytes, reader: asyncio.StreamReader) -> bytes:
    lines = dict(line.split(b":", 1) for line in head.lower().split(b"\r\n")[1:-2])
    if b"chunked" not in lines.get(b"transfer-encoding", b""):
        return await reader.readexactly(int(lines.get(b"content-length", b"0")))
    body = bytearray()
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readuntil(b"\r\n")
    return bytes(body)


async def _send(answer: Answer, connection: Connection, writer: asyncio.StreamWriter) -> bool:
    """Take the steps of an answer; returns whether the connection can be used again."""
    for step in answer:
        match step:
            case bytes():
                writer.write(step)
                with suppress(OSError):
                    await writer.drain()
            case asyncio.Event():
                await _either(step, connection.gone)
            case End.STALL:
                await connection.gone.wait()
            case End.CLOSE:
                return False
            case End.RESET:
                reset = struct.pack("ii", 1, 0)
                connected: socket.socket = writer.get_extra_info("socket")
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                writer.transport.abort()
                return False
        if connection.gone.is_set():
            return False
    return True


async def _either(*events: asyncio.Event) -> None:
    waiting = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
