"""Clients of one server, each with a connection that it keeps: `python -m bench.asking`.

Standard input has what to ask: the port, token, path, number of clients and further lines of the
head, then a body a line. They do as little as they can, since they share the machine with what is
measured.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from typing import cast

import uvloop

_END = b"\r\n\r\n"
_LENGTH = b"content-length: "


class _Client(asyncio.Protocol):
    """Asks one thing after the other, as long as there is something to ask."""

    def __init__(self, head: bytes, bodies: Iterator[bytes], took: list[float]) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._head = head
        self._bodies = bodies
        self._took = took
        self._came = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._ask()

    def data_received(self, data: bytes) -> None:
        self._came += data
        end = self._came.find(_END)
        if end < 0:
            return
        head = self._came[: end + 2].lower()
        if not head.startswith(b"http/1.1 2"):
            self._end(AssertionError(self._came))
            return
        at = head.find(_LENGTH)
        length = int(head[at + len(_LENGTH) : head.find(b"\r", at)]) if at >= 0 else 0
        if len(self._came) >= end + len(_END) + length:
            self._took.append(time.perf_counter() - self._began)
            self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc or ConnectionError("the connection was closed"))

    def _ask(self) -> None:
        body = next(self._bodies, None)
        if body is None:
            self._end(None)
            return
        self._came = b""
        self._began = time.perf_counter()
        self._transport.write(self._head % len(body) + body)

    def _end(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None) if error is None else self.done.set_exception(error)
            self._transport.close()


async def main() -> None:
    given, *bodies = sys.stdin.buffer.read().split(b"\n")
    port, token, path, clients, *lines = json.loads(given)
    further = "".join(f"{line}\r\n" for line in lines)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
        f"{further}Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    ).encode()
    left, took = iter(bodies), list[float]()
    loop = asyncio.get_running_loop()
    started = time.perf_counter()
    made = [
        await loop.create_connection(lambda: _Client(head, left, took), "127.0.0.1", port)
        for _ in range(clients)
    ]
    await asyncio.gather(*(client.done for _, client in made))
    print(json.dumps([time.perf_counter() - started, took]))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
