"""Clients of one server, each with a connection that it keeps: `python -m bench.asking`.

Standard input has what to ask: the port, token, path, number of clients and further lines of the
head, then a body a line.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Iterator

import uvloop

_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


async def ask(port: int, head: bytes, bodies: Iterator[bytes]) -> list[float]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    took: list[float] = []
    for body in bodies:
        started = time.perf_counter()
        writer.write(head % len(body) + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 2"), answer
        found = _LENGTH.search(answer)
        if found is not None:
            await reader.readexactly(int(found[1]))
        took.append(time.perf_counter() - started)
    writer.close()
    return took


async def main() -> None:
    given, *bodies = sys.stdin.buffer.read().split(b"\n")
    port, token, path, clients, *lines = json.loads(given)
    further = "".join(f"{line}\r\n" for line in lines)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
        f"{further}Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    ).encode()
    left = iter(bodies)
    started = time.perf_counter()
    took = await asyncio.gather(*(ask(port, head, left) for _ in range(clients)))
    seconds = time.perf_counter() - started
    print(json.dumps([seconds, [one for client in took for one in client]]))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
