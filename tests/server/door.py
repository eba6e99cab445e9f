"""The door from outside: raw bytes to a real process, and whole requests to an application."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memplane.server.responses import AppLayer, send_response
from tests.support.running import Running

_ADDRESSES = itertools.count(2)


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes
    text: str = field(repr=False, default="")

    def json(self) -> Any:
        return json.loads(self.body)


def fresh_address() -> str:
    """An address of loopback from which nobody has given a wrong token yet."""
    number = next(_ADDRESSES)
    return f"127.{1 + number // 60000}.{number // 250 % 240}.{1 + number % 250}"


def send_raw(running: Running, data: bytes, *, source: str = "127.0.0.1") -> Reply:
    """Send bytes as they are, so that no client repairs what is under test."""
    with socket.create_connection(
        ("127.0.0.1", running.port), timeout=30, source_address=(source, 0)
    ) as connection:
        connection.sendall(data)
        return read_reply(connection, bodiless=data.startswith(b"HEAD "))


def read_reply(connection: socket.socket, *, bodiless: bool = False) -> Reply:
    with connection.makefile("rb") as file:
        status = int(file.readline().split(b" ", 2)[1])
        lines: list[str] = []
        while (line := file.readline()) not in {b"\r\n", b""}:
            lines.append(line.decode("latin-1").rstrip("\r\n"))
        pairs = (line.partition(":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        body = b"" if bodiless else file.read(int(headers.get("content-length", "0")))
    return Reply(status, headers, body, "\n".join([*lines, body.decode("latin-1")]))


def ask(
    running: Running, line: str, *headers: str, body: bytes = b"", source: str = "127.0.0.1"
) -> Reply:
    """Ask with exactly these headers, and a length when there is a body."""
    length = [f"Content-Length: {len(body)}"] if body else []
    head = "\r\n".join([f"{line} HTTP/1.1", *headers, *length, "", ""])
    return send_raw(running, head.encode("latin-1") + body, source=source)


def own_host(running: Running) -> str:
    return f"Host: 127.0.0.1:{running.port}"


def bearer(running: Running) -> str:
    return f"Authorization: Bearer {running.token}"


JSON = "Content-Type: application/json"


def post_json(running: Running, path: str, body: bytes | object, *headers: str) -> Reply:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = headers or (bearer(running),)
    return ask(running, f"POST {path}", own_host(running), JSON, *given, body=sent)


def sending(layer: AppLayer) -> ASGIApp:
    """Make an application of a layer that returns its answers."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send_response(await layer(scope, receive), scope, receive, send)

    return app


async def call(
    app: ASGIApp,
    line: str,
    *headers: tuple[str, str],
    body: tuple[bytes, ...] = (),
    host: str = "localhost",
) -> Reply:
    """Ask an application that runs here, over what looks like the owner's socket."""
    method, _, path = line.partition(" ")
    parts = list(body) or [b""]
    sent: list[Message] = []

    async def receive() -> Message:
        if not parts:
            await asyncio.Event().wait()  # as a server does while the client listens
        part = parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "http_version": "1.1",
        "server": None,
        "client": None,
        "headers": [
            (name.lower().encode(), value.encode("latin-1"))
            for name, value in (("Host", host), *headers)
        ],
    }
    await app(scope, receive, send)
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Reply(sent[0]["status"], found, b"".join(one["body"] for one in sent[1:]))
