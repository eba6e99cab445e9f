"""A client's run, watched at both ends: what the client received, and what its provider did.

A run with the provider directly and one through memplane can so be compared byte for byte.
"""

from __future__ import annotations

import asyncio
import io
import socket
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, TypeAlias

from tests.proxy.proxied import Proxied
from tests.support.answers import CHAT, Said, chat_json
from tests.support.upstream import Received

AGENT = "ada"
Headers: TypeAlias = list[tuple[str, str]]
_HOST = "127.0.0.1"
_BETWEEN_NEIGHBOURS = {"connection", "host", "transfer-encoding", "accept-encoding"}
_ADDED = {
    "date",
    "server",
    "x-content-type-options",
    "referrer-policy",
    "cross-origin-resource-policy",
    "cache-control",
}
"""What memplane may add to an answer."""


@dataclass(frozen=True, slots=True)
class Heard:
    """An answer as a client received it; of a chunked body, what was in the chunks."""

    status: int
    headers: Headers
    body: bytes
    is_whole: bool


@dataclass(slots=True)
class Run:
    """What was sent and heard at one path; `sent` is there once the run is over."""

    address: str
    path: str
    wire: Wire
    sent: list[Received] = field(default_factory=list[Received])

    @property
    def heard(self) -> list[Heard]:
        return self.wire.heard(self.path)

    async def until_heard(self, times: int) -> None:
        """Wait until so many answers came to their end."""
        async with self.wire.passed:
            await self.wire.passed.wait_for(
                lambda: sum(one.is_whole for one in self.heard) >= times
            )


@asynccontextmanager
async def watched(door: Proxied, path: str, *, direct: bool = False) -> AsyncIterator[Run]:
    """Watch what a client does with an address that leads to the provider or to memplane."""
    server, below = (
        (door.upstream.port, "") if direct else (_port(door.address), f"/agent/{AGENT}")
    )
    since = len(door.upstream.received)
    async with _tapped(server) as wire:
        run = Run(f"http://{_HOST}:{wire.port}{below}", below + path, wire)
        yield run
    run.sent = [one for one in door.upstream.received[since:] if one.path == path]


def differences(run: Run, direct: Run) -> list[str]:
    """Say in what a run differs from a direct one, beside what every two connections differ in."""
    found: list[str] = []
    for at, (sent, wanted) in enumerate(zip_longest(run.sent, direct.sent)):
        found += [f"request {at}: {what}" for what in _sent_otherwise(sent, wanted)]
    for at, (heard, expected) in enumerate(zip_longest(run.heard, direct.heard)):
        found += [f"answer {at}: {what}" for what in _heard_otherwise(heard, expected)]
    return found


def _sent_otherwise(sent: Received | None, wanted: Received | None) -> list[str]:
    if sent is None or wanted is None:
        return ["is not there" if sent is None else "is one too many"]
    parts = {
        "target": (sent.target, wanted.target),
        "headers": (_kept(sent.headers), _kept(wanted.headers)),
        "body": (sent.body, wanted.body),
    }
    return [
        f"{name}: {one!r}, not {other!r}" for name, (one, other) in parts.items() if one != other
    ]


def _heard_otherwise(heard: Heard | None, expected: Heard | None) -> list[str]:
    if heard is None or expected is None:
        return ["is not there" if heard is None else "is one too many"]
    parts = {
        "status": (heard.status, expected.status),
        "headers": (_without_ours(heard, expected), _kept(expected.headers)),
        "body": (heard.body, expected.body),
        "end": (heard.is_whole, expected.is_whole),
    }
    return [
        f"{name}: {one!r}, not {other!r}" for name, (one, other) in parts.items() if one != other
    ]


def _kept(headers: Headers) -> Headers:
    """What both runs must have: names are the same in any case."""
    lower = ((name.lower(), value) for name, value in headers)
    return [one for one in lower if one[0] not in _BETWEEN_NEIGHBOURS]


def _without_ours(heard: Heard, expected: Heard) -> Headers:
    """Leave out what memplane added, unless the provider sent just that."""
    sent = _kept(expected.headers)
    return [one for one in _kept(heard.headers) if one in sent or one[0] not in _ADDED]


# What memplane keeps


async def telling(door: Proxied, fact: str) -> None:
    """Say something that is remembered when this returns."""
    door.upstream.at(CHAT.path, chat_json(Said("Noted.")))
    await door.chat(fact, agent=AGENT)
    assert await door.remembered(AGENT, fact)


def replayed(door: Proxied, entry: Mapping[str, Any]) -> list[bool]:
    """Tell of each memory in a turn's prompts whether it stood there before."""
    return [one.replayed for one in door.note(entry).injected]


# The wire between


@dataclass(slots=True)
class _Connection:
    asked: list[str] = field(default_factory=list[str])
    answered: bytearray = field(default_factory=bytearray)


@dataclass(slots=True)
class Wire:
    """Passes bytes on, in both directions, and keeps those that come back."""

    server: int
    port: int = 0
    asked: list[tuple[_Connection, int]] = field(default_factory=list[Any])
    passed: asyncio.Condition = field(default_factory=asyncio.Condition)
    tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    def heard(self, path: str) -> list[Heard]:
        """The answers to the requests at a path, in the order of the requests."""
        answers = [
            (
                connection.asked[at],
                dict(enumerate(_answers_in(bytes(connection.answered)))).get(at),
            )
            for connection, at in self.asked
        ]
        return [heard for target, heard in answers if heard and target.split("?")[0] == path]

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.tasks.add(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection()
        there, onward = await asyncio.open_connection(_HOST, self.server)
        asking = asyncio.create_task(self._ask(connection, reader, onward))
        try:
            while data := await there.read(1 << 16):
                connection.answered += data
                writer.write(data)
                async with self.passed:
                    self.passed.notify_all()
        except ConnectionResetError:
            own: socket.socket = writer.get_extra_info("socket")
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        finally:
            asking.cancel()
            for end in (onward, writer):
                end.close()
                with suppress(OSError):
                    await end.wait_closed()
        with suppress(asyncio.CancelledError):
            await asking

    async def _ask(
        self, connection: _Connection, reader: asyncio.StreamReader, onward: asyncio.StreamWriter
    ) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.asked.append((connection, len(connection.asked)))
                connection.asked.append(head.split(b" ", 2)[1].decode())
                # The server answers under its own address only.
                own, servers = (f"{_HOST}:{port}".encode() for port in (self.port, self.server))
                length = _fields(head).get("content-length", "0")
                onward.write(head.replace(own, servers) + await reader.readexactly(int(length)))
        except (asyncio.IncompleteReadError, OSError):
            onward.close()


@asynccontextmanager
async def _tapped(server: int) -> AsyncIterator[Wire]:
    wire = Wire(server)
    listening = await asyncio.start_server(wire.accept, _HOST, 0, limit=1 << 20)
    wire.port = listening.sockets[0].getsockname()[1]
    try:
        yield wire
    finally:
        listening.close()
        for task in wire.tasks:
            task.cancel()
        for ended in await asyncio.gather(*wire.tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended


def _answers_in(data: bytes) -> list[Heard]:
    left = io.BytesIO(data)
    heard: list[Heard] = []
    while left.tell() < len(data):
        lines = list(iter(lambda: left.readline() or b"\r\n", b"\r\n"))
        fields = _fields(b"".join(lines))
        chunked = fields.get("transfer-encoding") == "chunked"
        body, is_whole = _chunks(left) if chunked else _sized(left, fields["content-length"])
        headers = [(name, value.strip()) for name, _, value in map(_split, lines[1:])]
        heard.append(Heard(int(lines[0].split()[1]), headers, body, is_whole))
    return heard


def _sized(left: io.BytesIO, length: str) -> tuple[bytes, bool]:
    body = left.read(int(length))
    return body, len(body) == int(length)


def _chunks(left: io.BytesIO) -> tuple[bytes, bool]:
    body = b""
    while size := int(left.readline() or b"0", 16):
        body += left.read(size)
        left.readline()
    return body, left.readline() == b"\r\n"


def _split(line: bytes) -> tuple[str, str, str]:
    return line.decode("latin-1").rstrip("\r\n").partition(":")


def _fields(head: bytes) -> dict[str, str]:
    named = map(_split, head.splitlines()[1:])
    return {name.lower(): value.strip() for name, _, value in named}


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])
