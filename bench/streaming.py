"""Streams that are begun at a steady pace and read to their end: `python -m bench.streaming`.

Standard input has what to ask, as `Streams` says, then a body a line. A connection is kept for the
next stream, as clients' libraries do.
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any, cast

import uvloop

from bench.provider import stream

_OK = b"HTTP/1.1 200 "
_END = b"\r\n0\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """Whom to ask, and how: a stream is begun every so many seconds and has so many events."""

    port: int
    path: str
    every: float
    events: int
    most_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """What came: how long each first byte took, how many were open at once, and what failed."""

    first: list[float]
    most_open: int
    bytes: int
    errors: list[str]


def begin(streams: Streams, bodies: list[bytes]) -> subprocess.Popen[bytes]:
    """Begin to read streams in a process of its own; `ended` waits for what came."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.streaming"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(b"\n".join((json.dumps(asdict(streams)).encode(), *bodies)))
    process.stdin.close()
    return process


def ended(process: subprocess.Popen[bytes]) -> Streamed:
    assert process.stdout is not None
    with process.stdout as printed:
        came: dict[str, Any] = json.loads(printed.read())
    assert process.wait() == 0
    return Streamed(**came)


class _Connection(asyncio.Protocol):
    """One connection, with one stream at a time."""

    def __init__(self) -> None:
        self._received: list[bytes] = []
        self._began = 0.0
        self._done: asyncio.Future[None] | None = None
        self.first = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if not self.first and b"data: " in data:
            self.first = time.perf_counter() - self._began
        self._received.append(data)
        if not self._received[0].startswith(_OK):
            self._settle(ConnectionError(data.decode(errors="replace")))
        if data.endswith(b"\n") and b"".join(self._received[-3:]).endswith(_END):
            self._settle(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._settle(exc or ConnectionError("it was closed"))

    def _settle(self, error: Exception | None) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(None) if error is None else self._done.set_exception(error)

    async def read(self, request: bytes) -> bytes:
        """Ask, and return the whole answer."""
        self._received.clear()
        self._done = asyncio.get_running_loop().create_future()
        self.first = 0.0
        self._began = time.perf_counter()
        self.transport.write(request)
        await self._done
        return b"".join(self._received)


class _Reading:
    """Reads streams, and keeps what came of them."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._expected = stream(streams.events)
        self._free: list[_Connection] = []
        self._open = 0
        self.most_open = 0
        self.bytes = 0
        self.first: list[float] = []
        self.errors: list[str] = []

    async def read(self, request: bytes) -> None:
        self._open += 1
        self.most_open = max(self.most_open, self._open)
        try:
            connection = self._kept() or await self._connected()
            answer = await connection.read(request)
        except OSError as error:
            self.errors.append(repr(error))
        else:
            self._check(answer)
            self.first.append(connection.first)
            self._free.append(connection)
        finally:
            self._open -= 1

    def _kept(self) -> _Connection | None:
        """Return a connection that another stream has left; servers close those left too long."""
        while self._free:
            connection = self._free.pop()
            if not connection.transport.is_closing():
                return connection
        return None

    async def _connected(self) -> _Connection:
        loop = asyncio.get_running_loop()
        return (await loop.create_connection(_Connection, "127.0.0.1", self._streams.port))[1]

    def _check(self, answer: bytes) -> None:
        body = _unframed(answer.partition(b"\r\n\r\n")[2])
        self.bytes += len(body)
        if body != self._expected:
            self.errors.append(f"{len(body)} bytes came, of {len(self._expected)}, or others")


def _unframed(data: bytes) -> bytes:
    parts: list[bytes] = []
    position = 0
    while (line := data.find(b"\r\n", position)) >= 0:
        size = int(data[position:line], 16)
        parts.append(data[line + 2 : line + 2 + size])
        position = line + 2 + size + 2
    return b"".join(parts)


async def main() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    given, *bodies = sys.stdin.buffer.read().split(b"\n")
    streams = Streams(**json.loads(given))
    reading = _Reading(streams)
    head = (
        f"POST {streams.path} HTTP/1.1\r\nHost: 127.0.0.1:{streams.port}\r\n"
        "Authorization: Bearer sk-bench\r\nAccept: text/event-stream\r\n"
        "User-Agent: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    ).encode()
    # At any moment, as clients do: at a fixed one all events of all streams would come together,
    # just when the next stream begins.
    at = random.Random(5)
    began = time.perf_counter()
    try:
        async with asyncio.timeout(streams.most_seconds), asyncio.TaskGroup() as group:
            for number, body in enumerate(bodies):
                due = began + (number + at.random()) * streams.every
                await asyncio.sleep(due - time.perf_counter())
                group.create_task(reading.read(head % len(body) + body))
    except TimeoutError:
        reading.errors.append(f"not everything came in {streams.most_seconds:.0f} s")
    came = Streamed(
        first=reading.first,
        most_open=reading.most_open,
        bytes=reading.bytes,
        errors=reading.errors,
    )
    print(json.dumps(asdict(came)))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
