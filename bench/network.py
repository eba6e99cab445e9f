"""A line to the emulator with a delay, in a process of its own, that counts the requests."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.request import urlopen

_METHODS = (b"GET ", b"PUT ", b"HEAD ", b"DELETE ", b"POST ")
_COUNT = b"GET /requests-so-far "


@dataclass(slots=True)
class Line:
    """The near end of a line: its port, and how many requests have passed."""

    port: int

    def requests(self) -> int:
        with urlopen(f"http://127.0.0.1:{self.port}/requests-so-far") as answer:
            return int(answer.read())


@contextmanager
def line_to(port: int, *, delay: float) -> Iterator[Line]:
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.network", str(port), str(delay)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield Line(int(process.stdout.readline()))
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


class _Near(asyncio.Protocol):
    """Delays what goes up by one round trip; what comes down passes at once."""

    requests = 0

    def __init__(self, target: int, delay: float) -> None:
        self.target = target
        self.delay = delay
        self.far: asyncio.Future[asyncio.Transport] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.near = transport
        self.opening = asyncio.get_running_loop().create_task(self._open())

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        far, _ = await loop.create_connection(lambda: _Far(self.near), "127.0.0.1", self.target)
        self.far.set_result(far)

    def data_received(self, data: bytes) -> None:
        if data.startswith(_COUNT):
            body = str(_Near.requests).encode()
            head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
            self.near.write(head % len(body) + body)
            return
        _Near.requests += data.startswith(_METHODS)
        asyncio.get_running_loop().call_later(self.delay, self._pass_on, data)

    def _pass_on(self, data: bytes) -> None:
        self.far.add_done_callback(lambda far: far.result().write(data))

    def connection_lost(self, _error: Exception | None) -> None:
        self.far.add_done_callback(lambda far: far.result().close())


class _Far(asyncio.Protocol):
    def __init__(self, near: asyncio.Transport) -> None:
        self.near = near

    def data_received(self, data: bytes) -> None:
        self.near.write(data)

    def connection_lost(self, _error: Exception | None) -> None:
        self.near.close()


async def _serve(target: int, delay: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Near(target, delay), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), float(sys.argv[2])))
