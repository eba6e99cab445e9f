"""What the machine and the HTTP libraries take by themselves, to measure memplane against.

A relay of streams and a service that keeps bodies, on the same server and client libraries as
memplane's and without any of its work, each in a process of its own: `python -m bench.bare`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import apsw
import msgspec
import uvicorn
import uvloop
from starlette.types import ASGIApp, Receive, Scope, Send

from bench.starting import started

_QUIET_ROUNDS = 3


@contextmanager
def bare_relay(upstream: int) -> Iterator[int]:
    """Start a relay that passes each request on to a port, and each answer back."""
    with started("bench.bare", "relay", str(upstream)) as port:
        yield port


@contextmanager
def bare_service(folder: Path) -> Iterator[int]:
    """Start a service that acknowledges a body when it is synced in a file and in SQLite."""
    with started("bench.bare", "service", str(folder)) as port:
        yield port


@asynccontextmanager
async def _relaying(upstream: int) -> AsyncGenerator[ASGIApp]:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            body = await _body(receive)
            # Without the agent, whose name memplane takes off a path.
            path = scope["path"].removeprefix("/agent/agent")
            url = f"http://127.0.0.1:{upstream}{path}"
            kind = {"content-type": "application/json"}
            async with session.post(url, data=body, headers=kind) as answer:
                head = [(b"content-type", answer.headers["content-type"].encode())]
                await send(
                    {"type": "http.response.start", "status": answer.status, "headers": head}
                )
                async for piece in answer.content.iter_any():
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                await send({"type": "http.response.body", "body": b""})

        yield app


class _Kept:
    """A file and a table of bodies, both durable when `keep` returns."""

    def __init__(self, folder: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._file = os.open(folder / "bodies.jsonl", flags, 0o600)
        self._database: Any = apsw.Connection(str(folder / "bodies.db"))
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=FULL")
        self._database.execute("CREATE TABLE bodies (agent, id, body, UNIQUE (agent, id))")

    def keep(self, bodies: Sequence[bytes]) -> None:
        os.write(self._file, b"\n".join((*bodies, b"")))
        os.fdatasync(self._file)
        rows: list[tuple[str, str, bytes]] = []
        for body in bodies:
            asked = msgspec.json.decode(body)
            rows.append((asked["agent_id"], asked["entry"]["id"], body))
        self._database.execute("BEGIN IMMEDIATE")
        self._database.executemany("INSERT OR IGNORE INTO bodies VALUES (?, ?, ?)", rows)
        self._database.execute("COMMIT")


@asynccontextmanager
async def _keeping(folder: Path) -> AsyncGenerator[ASGIApp]:
    waiting: asyncio.Queue[tuple[bytes, asyncio.Future[None]]] = asyncio.Queue()

    async def apply(kept: _Kept) -> None:
        while True:
            batch = [await waiting.get()]
            for _ in range(_QUIET_ROUNDS):
                await asyncio.sleep(0)
            while not waiting.empty():
                batch.append(waiting.get_nowait())
            await asyncio.to_thread(kept.keep, [body for body, _ in batch])
            for _, acknowledged in batch:
                acknowledged.set_result(None)

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        acknowledged: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.put_nowait((await _body(receive), acknowledged))
        await acknowledged
        head = [(b"content-length", b"2"), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 202, "headers": head})
        await send({"type": "http.response.body", "body": b"{}"})

    applying = asyncio.create_task(apply(_Kept(folder)))
    yield app
    applying.cancel()


async def _body(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


async def _main() -> None:
    kind, given = sys.argv[1:]
    opening = _relaying(int(given)) if kind == "relay" else _keeping(Path(given))
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(2048)
        async with opening as app:
            config = uvicorn.Config(
                app, http="httptools", lifespan="off", log_config=None, access_log=False
            )
            print(listening.getsockname()[1], flush=True)
            await uvicorn.Server(config).serve(sockets=[listening])


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_main())
