"""Strangers on the network and pages in a browser get nothing."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.door import ask as ask_door
from tests.server.door import bearer, fresh_address, own_host
from tests.support.running import Running, running_memplane


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running_memplane(tmp_path_factory.mktemp("up") / "home") as started:
        yield started


def ask(running: Running, *lines: str) -> tuple[int, str]:
    reply = ask_door(running, lines[0].removesuffix(" HTTP/1.1"), *lines[1:])
    return reply.status, reply.text


def test_health_is_open_and_says_little(running: Running) -> None:
    status, reply = ask(running, "GET /health HTTP/1.1", own_host(running))
    assert status == 200
    assert '"ok":true' in reply.replace(" ", "")
    assert str(running.home) not in reply


def test_the_token_opens_the_door(running: Running) -> None:
    for host in (
        f"127.0.0.1:{running.port}",
        f"LOCALHOST:{running.port}",
        f"[::1]:{running.port}",
    ):
        status, reply = ask(
            running, "GET /api/v1/status HTTP/1.1", f"Host: {host}", bearer(running)
        )
        assert status == 200, host
        assert str(running.home) in reply


@pytest.mark.parametrize(
    "given",
    [
        None,
        "Authorization:",
        "Authorization: Bearer",
        "Authorization: Bearer ",
        "Authorization: Bearer wrong",
        "Authorization: Basic {token}",
        "Authorization: {token}",
        "Authorization: Bearer {token}x",
        "Authorization: Bearer ' OR 1=1--",
        "Authorization: Bearer \xe9\xff",
        "Authorization: Bearer {token}\r\nAuthorization: Bearer {token}",
    ],
)
@pytest.mark.parametrize(
    "path",
    ["/api/v1/status", "/nothing", "/api", "//health", "/health/", "/health/../api/v1/status"],
)
def test_without_the_token_every_path_is_refused_alike(
    path: str, given: str | None, running: Running
) -> None:
    header = [given.format(token=running.token)] if given else []
    reply = ask_door(running, f"GET {path}", own_host(running), *header, source=fresh_address())
    assert reply.status == 401
    assert reply.headers["www-authenticate"] == "Bearer"
    assert reply.body == (
        b'{"error":{"code":"unauthorized",'
        b'"message":"a valid bearer token is needed; '
        b"this machine's is in the home's token file\"}}"
    )


def test_a_token_in_the_address_is_no_token(running: Running) -> None:
    status, _ = ask(
        running, f"GET /api/v1/status?token={running.token} HTTP/1.1", own_host(running)
    )
    assert status == 401


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1:{port}?",
        "127.0.0.1:{port}#",
        "127.0.0.1:{port}/health?x=",
        "a@127.0.0.1:{port}",
        "a@b",
        "",
        "0.0.0.0:{port}",
        "[::]:{port}",
        "2130706433",
        "localhost.evil.com",
        "localhost",
        "LOCALHOST:{port}.",
        "127.0.0.1",
        "127.0.0.1:1",
        "127.0.0.1:{port}, evil.example",
    ],
)
@pytest.mark.parametrize("path", ["/health", "/api/v1/status"])
def test_a_foreign_host_is_refused_even_with_the_token(
    path: str, host: str, running: Running
) -> None:
    named = f"Host: {host.format(port=running.port)}"
    status, reply = ask(running, f"GET {path} HTTP/1.1", named, bearer(running))
    assert status in {400, 421}
    assert str(running.home) not in reply


def test_two_hosts_or_none_are_refused(running: Running) -> None:
    both = (own_host(running), "Host: evil.example")
    assert ask(running, "GET /health HTTP/1.1", *both)[0] in {400, 421}
    assert ask(running, "GET /health HTTP/1.1")[0] in {400, 421}


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1:3000", "http://localhost", ""]
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_a_foreign_origin_is_refused(method: str, origin: str, running: Running) -> None:
    status, reply = ask(
        running,
        f"{method} /api/v1/status HTTP/1.1",
        own_host(running),
        bearer(running),
        f"Origin: {origin}",
        "Access-Control-Request-Private-Network: true",
    )
    assert status == 403
    assert "access-control" not in reply.lower()


def test_our_own_origin_may_ask(running: Running) -> None:
    origin = f"Origin: http://127.0.0.1:{running.port}"
    status, _ = ask(
        running, "GET /api/v1/status HTTP/1.1", own_host(running), bearer(running), origin
    )
    assert status == 200


def test_the_socket_is_for_the_owner_alone(running: Running) -> None:
    mode = stat.S_IMODE((running.home / "socket").stat().st_mode)
    assert mode == 0o600
    assert stat.S_IMODE(running.home.stat().st_mode) == 0o700
    assert stat.S_IMODE((running.home / "token").stat().st_mode) == 0o600


def test_the_port_is_open_on_loopback_alone(running: Running) -> None:
    listening = [
        line.split()[1]
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/{running.process.pid}/net/{table}").read_text().splitlines()[1:]
        if line.split()[3] == "0A" and line.split()[1].endswith(f":{running.port:04X}")
    ]
    loopback = {"0100007F", "00000000000000000000000001000000"}
    assert {address.rpartition(":")[0] for address in listening} <= loopback
    assert listening


def test_the_token_may_come_as_a_key(running: Running) -> None:
    key = f"x-api-key: {running.token}"
    path = "GET /api/v1/whoami"
    assert ask_door(running, path, own_host(running), key).status == 200
    assert ask_door(running, path, own_host(running), "Authorization:  ", key).status == 200
    for more in ("Authorization: Basic eA==", key, f"Authorization: {key}"):
        source = fresh_address()
        assert ask_door(running, path, own_host(running), key, more, source=source).status == 401


def test_with_the_token_what_is_not_there_is_said_to_be_absent(running: Running) -> None:
    for path in ("/nothing", "/health/", "/api/v1/tokens/a/b/c", "/api/v1/status%0A"):
        reply = ask_door(running, f"GET {path}", own_host(running), bearer(running))
        assert reply.status == 404, path
        assert "nothing at that address" in reply.text


def test_another_method_is_told_which_there_are(running: Running) -> None:
    reply = ask_door(running, "PUT /api/v1/tokens", own_host(running), bearer(running))
    assert reply.status == 405
    assert {*reply.headers["allow"].split(", ")} == {"GET", "HEAD", "POST"}
    assert ask_door(running, "POST /health", own_host(running)).status == 401


@pytest.mark.parametrize(
    ("line", "headers"),
    [
        ("GET /health", ()),
        ("GET /api/v1/status", ()),
        ("GET /nothing", ()),
        ("GET /health", ("Origin: https://evil.example",)),
        ("GET /health", ("Host: evil.example",)),
        ("GET http://evil/health", ()),
        ("GET /health", ("Content-Length: 1", "Transfer-Encoding: chunked")),
    ],
)
def test_every_answer_carries_the_safe_headers(
    line: str, headers: tuple[str, ...], running: Running
) -> None:
    reply = ask_door(running, line, own_host(running), *headers)
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["referrer-policy"] == "no-referrer"
    assert reply.headers["cross-origin-resource-policy"] == "same-origin"
    assert reply.headers["cache-control"] == "no-store"
    assert not [name for name in reply.headers if name.startswith("access-control")]
    assert "server" not in reply.headers


def test_a_websocket_is_not_opened(running: Running) -> None:
    reply = ask_door(
        running,
        "GET /api/v1/status",
        own_host(running),
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    )
    assert reply.status == 401
