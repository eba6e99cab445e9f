"""Clients that withhold what they owe: a head, a body, or room for an answer."""

from __future__ import annotations

import asyncio
import http.client
import json
import resource
import select
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import pytest
import uvicorn
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from memplane.server.protocol import StrictProtocol
from tests.proxy.proxied import Prompt
from tests.server.door import JSON, ask, bearer, own_host, post_json, read_reply
from tests.support.running import Running, running_memplane

SLOTS: Final = 40
WITHHELD: Final = SLOTS + 5
FULL_SIZE: Final = 2050


def withheld_head(running: Running) -> bytes:
    """Return the head of a turn; the proxy asks clients on this machine for no token."""
    lines = [
        "POST /v1/chat/completions HTTP/1.1",
        own_host(running),
        JSON,
        "Authorization: Bearer sk-own",
        "Content-Length: 100",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


@contextmanager
def withheld_bodies(
    running: Running, count: int, *, source: str = "127.0.0.1", sent: slice = slice(None)
) -> Generator[list[socket.socket]]:
    """Open connections that send a head, or that much of it, and no body."""
    with ExitStack() as stack:
        connections: list[socket.socket] = []
        for _ in range(count):
            connection = stack.enter_context(
                socket.create_connection(
                    ("127.0.0.1", running.port), timeout=30, source_address=(source, 0)
                )
            )
            connection.sendall(withheld_head(running)[sent])
            connections.append(connection)
        yield connections


def unanswered(connections: list[socket.socket]) -> list[socket.socket]:
    """Return the connections on which nothing has come."""
    poll = select.poll()
    for connection in connections:
        poll.register(connection, select.POLLIN)
    answered = {number for number, _ in poll.poll(0)}
    return [one for one in connections if one.fileno() not in answered]


def assert_all_is_answered(running: Running) -> None:
    """Ask without a token, with one, and with one and a body."""
    host, token = own_host(running), bearer(running)
    assert ask(running, "GET /health", host).status == 200
    assert ask(running, "GET /api/v1/status", host, token).status == 200
    assert post_json(running, "/recall", {"agent_id": "ada", "messages": []}).status == 200
    # Most clients send the head and the body one after the other.
    body = b'{"agent_id":"ada","messages":[]}'
    head = [
        f"POST /recall HTTP/1.1\r\n{host}",
        token,
        JSON,
        f"Content-Length: {len(body)}",
        "",
        "",
    ]
    with socket.create_connection(("127.0.0.1", running.port), timeout=30) as connection:
        connection.sendall("\r\n".join(head).encode())
        connection.sendall(body)
        assert read_reply(connection).status == 200


@contextmanager
def running_with_slots(folder: Path) -> Generator[Running]:
    with running_memplane(
        folder / "home", env={"MEMPLANE_HTTP_CONCURRENT_REQUESTS": str(SLOTS)}
    ) as running:
        yield running


def test_one_address_withholds_at_most_a_quarter_of_the_slots(tmp_path: Path) -> None:
    with running_with_slots(tmp_path) as running, withheld_bodies(running, WITHHELD) as held:
        beyond = WITHHELD - SLOTS // 4
        ended = [read_reply(connection) for connection in held[:beyond]]
        assert {reply.status for reply in ended} == {408}
        assert unanswered(held[beyond:]) == held[beyond:]
        with withheld_bodies(running, SLOTS // 4, source="127.0.0.9") as others:
            assert_all_is_answered(running)
            assert len(unanswered(others)) == SLOTS // 4


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(slice(None), id="bodies"),
        pytest.param(slice(60), id="heads"),
        pytest.param(slice(0), id="requests"),
    ],
)
def test_2050_clients_that_withhold_do_not_keep_others_from_being_answered(
    sent: slice, tmp_path: Path
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with (
            running_memplane(tmp_path / "home") as running,
            withheld_bodies(running, FULL_SIZE, sent=sent) as held,
        ):
            assert_all_is_answered(running)
            assert len(unanswered(held)) >= 500, "others were answered while these were open"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# A server in this process, whose clients have less time


class Impatient(StrictProtocol):
    """Waits a tenth of a second for the next bytes."""

    BODY_TIMEOUT_S = 0.1
    UNREAD_TIMEOUT_S = 0.1
    DISCARD_IDLE_S = 0.1


@asynccontextmanager
async def served(app: ASGIApp, protocol: type[StrictProtocol] = Impatient) -> AsyncGenerator[int]:
    """Serve an application, with a protocol of its own, and say at which port."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    config = uvicorn.Config(
        app, http=protocol, ws="none", lifespan="off", log_config=None, timeout_graceful_shutdown=1
    )
    server = Prompt(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield listening.getsockname()[1]
    finally:
        server.end()
        await serving


async def count_body(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer how long the body is."""
    try:
        body = await Request(scope, receive).body()
    except ClientDisconnect:
        return
    await Response(str(len(body)))(scope, receive, send)


async def read_whole(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Read an answer with a length; return its status and its body."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return int(head.split(b" ", 2)[1]), await reader.readexactly(length)


HEAD: Final = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
CHUNKED: Final = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "begun",
    [
        pytest.param(HEAD % 10, id="nothing"),
        pytest.param(HEAD % 10 + b"12345", id="a part"),
        pytest.param(CHUNKED + b"5\r\n12345\r\n", id="a chunk"),
        pytest.param(CHUNKED + b"0\r\nX: y\r\n", id="a trailer"),
    ],
)
async def test_a_body_that_stops_is_answered_with_408_and_the_connection_is_closed(
    begun: bytes,
) -> None:
    async with served(count_body) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(begun)
        status, body = await read_whole(reader)
        assert (status, json.loads(body)["error"]["code"]) == (408, "request_timeout")
        assert "body" in json.loads(body)["error"]["message"]
        assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        pytest.param(HEAD % 10_000_000, b"x", id="a body"),
        pytest.param(CHUNKED, b"1\r\nx\r\n", id="chunks"),
        pytest.param(CHUNKED + b"1", b";e=f", id="the name of a chunk"),
        pytest.param(CHUNKED + b"0\r\n", b"X: y\r\n", id="trailers"),
    ],
)
async def test_a_byte_now_and_then_is_no_progress(begin: bytes, piece: bytes) -> None:
    async with served(count_body) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(begin)
        answering = asyncio.create_task(read_whole(reader))
        while not answering.done():
            writer.write(piece)
            await asyncio.wait([answering], timeout=0.02)
        assert (await answering)[0] == 408
        writer.close()


async def test_a_body_has_time_while_the_server_does_not_read_it() -> None:
    looked = asyncio.Event()

    class Watched(Impatient):
        def _check_body(self) -> None:
            super()._check_body()
            looked.set()

    async def count_late(scope: Scope, receive: Receive, send: Send) -> None:
        for _ in range(3):
            looked.clear()
            await looked.wait()
        await count_body(scope, receive, send)

    size = 10_000_000
    async with served(count_late, Watched) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HEAD % size + b"x" * size)
        assert await read_whole(reader) == (200, str(size).encode())
        writer.close()


async def refuse_at_once(scope: Scope, receive: Receive, send: Send) -> None:
    await Response("too long", 413)(scope, receive, send)


@pytest.mark.parametrize("also", ["", "Connection: close\r\n"])
async def test_what_is_answered_early_is_answered_also_to_a_client_that_still_sends(
    also: str,
) -> None:
    size = 34_000_000
    head = HEAD.replace(b"\r\n\r\n", b"\r\n%s\r\n") % (size, also.encode())
    async with served(refuse_at_once) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head)
        for _ in range(34):
            writer.write(b"x" * 1_000_000)
            await writer.drain()
        assert await read_whole(reader) == (413, b"too long")
        if also:
            assert await reader.read() == b""
        else:
            writer.write(HEAD % 0)
            assert (await read_whole(reader))[0] == 413, "the connection goes on"
        writer.close()


async def test_the_rest_of_a_body_that_was_answered_is_not_waited_for_long() -> None:
    async with served(refuse_at_once) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HEAD % 10)
        assert (await read_whole(reader))[0] == 413
        assert await reader.read() == b""
        writer.close()


async def test_an_answer_that_nobody_reads_is_given_up() -> None:
    ended = asyncio.Event()

    async def answer_for_ever(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        gone = asyncio.ensure_future(receive())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not gone.done():
            await send({"type": "http.response.body", "body": b"x" * 1_000_000, "more_body": True})
            await asyncio.sleep(0)
        ended.set()

    async with served(answer_for_ever) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await ended.wait()
        writer.close()


async def test_an_empty_line_between_requests_keeps_no_connection_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("memplane.server.protocol._HEAD_TIMEOUT_S", 0.1)
    async with served(count_body) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HEAD % 0)
        assert (await read_whole(reader))[0] == 200
        writer.write(b"\r\n")
        assert (await read_whole(reader))[0] == 408
        writer.close()


async def test_connections_without_a_request_leave_files_for_others() -> None:
    class Few(StrictProtocol):
        def max_connections(self) -> int:
            return 10

    async with served(count_body, Few) as port:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(30)]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HEAD % 0)
        assert (await read_whole(reader))[0] == 200
        closed = [asyncio.ensure_future(one.read()) for one, _ in silent]
        done, still = await asyncio.wait(closed, return_when=asyncio.FIRST_COMPLETED)
        assert closed[0] in done, "the oldest goes first"
        assert len(still) >= 9
        for each in still:
            each.cancel()
        for _, one in [*silent, (reader, writer)]:
            one.close()


@pytest.mark.parametrize("connection", ["close", "keep-alive"])
def test_a_body_that_is_too_long_is_answered_with_413_while_it_is_sent(
    tmp_path: Path, connection: str
) -> None:
    """Clients of the standard library send all of a body before they read."""
    with running_memplane(tmp_path / "home") as running:
        size = 34_000_000
        client = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
        given = {"Authorization": f"Bearer {running.token}", "Content-Type": "application/json"}
        client.request("POST", "/retain", b"x" * size, {**given, "Connection": connection})
        reply = client.getresponse()
        assert reply.status == 413
        assert json.loads(reply.read())["error"]["code"] == "too_large"
        chunks = (b"x" * 1_000_000 for _ in range(34))
        client.request("POST", "/retain", chunks, given, encode_chunked=True)
        assert client.getresponse().status == 413
        client.close()
