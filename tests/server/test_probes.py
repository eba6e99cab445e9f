"""The table of security probes, for the routes there are. Each case is named after its probe."""

from __future__ import annotations

import json
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from memplane.server.protocol import MAX_HEAD_BYTES
from tests.server.door import (
    JSON,
    ask,
    bearer,
    fresh_address,
    own_host,
    post_json,
    read_reply,
    send_raw,
)
from tests.support.running import Running, environment, memplane, running_memplane


class Issued(NamedTuple):
    id: str
    token: str


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running_memplane(tmp_path_factory.mktemp("up") / "home") as started:
        yield started


def issue(running: Running, **wanted: object) -> Issued:
    reply = post_json(running, "/api/v1/tokens", wanted)
    assert reply.status == 201, reply.text
    body = reply.json()
    return Issued(body["about"]["id"], body["token"])


@pytest.fixture(scope="module")
def agent_a(running: Running) -> Issued:
    """Token T of agent A, with every scope an agent can have."""
    return issue(running, agent="a", scopes=["read", "write", "proxy"])


def authorised(token: str) -> str:
    return f"Authorization: Bearer {token}"


def case(probe: str, *values: object) -> object:
    return pytest.param(*values, id=probe)


# H, the Host header is a boundary

HOSTS = [
    case("H1", "Host: evil.example"),
    case("H2", "Host: 127.0.0.1:{port}?"),
    case("H3", "Host: 127.0.0.1:{port}#"),
    case("H3-path", "Host: 127.0.0.1:{port}/health?x="),
    case("H4", "Host: a@b"),
    case("H4-user", "Host: a@127.0.0.1:{port}"),
    case("H5", "Host: "),
    case("H6-duplicate", "Host: 127.0.0.1:{port}\r\nHost: 127.0.0.1:{port}"),
    case("H6-second", "Host: 127.0.0.1:{port}\r\nHost: evil.example"),
    case("H6-missing", "X-Host: 127.0.0.1:{port}"),
    case("H7-any", "Host: 0.0.0.0:{port}"),
    case("H7-any6", "Host: [::]:{port}"),
    case("H7-number", "Host: 2130706433"),
    case("H7-number-port", "Host: 2130706433:{port}"),
    case("H7-suffix", "Host: localhost.evil.com"),
    case("H7-suffix-port", "Host: localhost.evil.com:{port}"),
    case("H7-prefix", "Host: 127.0.0.1:{port}.evil.com"),
    case("H7-prefix-digits", "Host: 127.0.0.1:{port}0"),
    case("H7-dot", "Host: LOCALHOST:{port}."),
]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("path", ["/health", "/api/v1/status", "/api/v1/whoami"])
def test_a_foreign_host_learns_nothing(path: str, host: str, running: Running) -> None:
    reply = ask(running, f"GET {path}", host.format(port=running.port), bearer(running))
    assert reply.status in {400, 421}
    assert str(running.home) not in reply.text
    assert "version" not in reply.text


@pytest.mark.parametrize(
    "target",
    [
        case("H8", "http://evil/ui"),
        case("H8-own", "http://127.0.0.1:{port}/health"),
        case("H8-path", "http://evil/health"),
        case("H8-https", "https://evil/api/v1/status"),
        case("H8-star", "*"),
        case("H8-authority", "evil:80"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "CONNECT"])
def test_only_a_path_can_be_asked_for(method: str, target: str, running: Running) -> None:
    line = f"{method} {target.format(port=running.port)}"
    reply = ask(running, line, own_host(running), bearer(running))
    assert reply.status == 400
    assert str(running.home) not in reply.text


# O, where a page comes from


@pytest.mark.parametrize(
    "origin",
    [
        case("O1", "https://evil.example"),
        case("O2-null", "null"),
        case("O2-port", "http://127.0.0.1:3000"),
        case("O2-empty", ""),
        case("O2-suffix", "http://127.0.0.1:{port}.evil.example"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD"])
def test_a_foreign_origin_is_refused(method: str, origin: str, running: Running) -> None:
    named = f"Origin: {origin.format(port=running.port)}"
    line = f"{method} /api/v1/tokens"
    assert ask(running, line, own_host(running), bearer(running), named).status == 403


@pytest.mark.parametrize("origin", [case("O3", "https://evil.example"), case("O3-own", None)])
def test_a_preflight_gets_no_permission(origin: str | None, running: Running) -> None:
    named = origin or f"http://127.0.0.1:{running.port}"
    reply = ask(
        running,
        "OPTIONS /api/v1/tokens",
        own_host(running),
        bearer(running),
        f"Origin: {named}",
        "Access-Control-Request-Method: POST",
        "Access-Control-Request-Private-Network: true",
    )
    assert reply.status in {403, 405}
    assert "access-control" not in reply.text.lower()


# X, what kind of body


@pytest.mark.parametrize(
    "headers",
    [
        case("X3", ("Content-Type: text/plain",)),
        case("X3-none", ()),
        case("X3-form", ("Content-Type: application/x-www-form-urlencoded",)),
        case("X3-encoded", (JSON, "Content-Encoding: gzip")),
    ],
)
def test_a_body_must_be_plain_json(headers: tuple[str, ...], running: Running) -> None:
    line = "POST /api/v1/tokens"
    body = b'{"admin":true}'
    reply = ask(running, line, own_host(running), bearer(running), *headers, body=body)
    assert reply.status == 415


# A, who asks

WRONG = [
    case("A1-missing", ()),
    case("A1-wrong", ("Authorization: Bearer wrong",)),
    case("A1-empty", ("Authorization:",)),
    case("A1-bearer", ("Authorization: Bearer",)),
    case("A1-sql", ("Authorization: Bearer ' OR 1=1--",)),
    case("A1-non-ascii", ("Authorization: Bearer \xe9\xff",)),
    case("A1-key", ("x-api-key: wrong",)),
    case("A1-agent", ("Authorization: Bearer a:wrong",)),
    case("A1-long", ("Authorization: Bearer " + "x" * 60_000,)),
]


@pytest.mark.parametrize("headers", WRONG)
@pytest.mark.parametrize("path", ["/api/v1/status", "/api/v1/whoami", "/metrics", "/nothing"])
def test_every_wrong_token_is_refused_alike(
    path: str, headers: tuple[str, ...], running: Running
) -> None:
    reply = ask(running, f"GET {path}", own_host(running), *headers, source=fresh_address())
    without = ask(running, "GET /nowhere", own_host(running))
    assert reply.status == without.status == 401
    assert reply.body == without.body
    # They may have been answered in different seconds.
    assert {**reply.headers, "date": ""} == {**without.headers, "date": ""}


@pytest.mark.parametrize(
    ("given", "status"),
    [
        case("A1-1MB", b"x" * 1_000_000, 431),
        case("A1-NUL", b"a\x00b", 400),
        case("A1-limit", b"x" * MAX_HEAD_BYTES, 431),
    ],
)
def test_a_head_that_no_client_sends_is_refused_by_the_parser(
    given: bytes, status: int, running: Running
) -> None:
    head = f"GET /health HTTP/1.1\r\n{own_host(running)}\r\nAuthorization: Bearer ".encode()
    reply = send_raw(running, head + given + b"\r\n\r\n")
    assert reply.status == status
    assert ask(running, "GET /health", own_host(running)).status == 200


def test_a_head_that_never_ends_is_refused(running: Running) -> None:
    with socket.create_connection(("127.0.0.1", running.port), timeout=30) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nX: ")
        for _ in range(40):
            connection.sendall(b"x" * 10_000)
        assert read_reply(connection).status == 431


@pytest.mark.parametrize("name", [case("A2", "token"), case("A2-key", "api_key")])
def test_a_token_in_the_address_never_counts(name: str, running: Running) -> None:
    line = f"GET /api/v1/whoami?{name}={running.token}&access_token={running.token}"
    assert ask(running, line, own_host(running)).status == 401


@pytest.mark.parametrize("path", [case("A3", "/api/v1/whoami"), case("A3-history", "/history")])
def test_a_thousand_wrong_tokens(path: str, running: Running) -> None:
    address, elsewhere = fresh_address(), fresh_address()
    line, host = f"GET {path}", own_host(running)
    statuses: list[int] = []
    with socket.create_connection(
        ("127.0.0.1", running.port), timeout=30, source_address=(address, 0)
    ) as connection:
        for number in range(1000):
            wrong = f"{line} HTTP/1.1\r\n{host}\r\nAuthorization: Bearer {number}\r\n\r\n"
            connection.sendall(wrong.encode())
            statuses.append(read_reply(connection).status)
    assert statuses[:100] == [401] * 100
    assert 429 in statuses
    assert set(statuses) == {401, 429}
    for source in (address, elsewhere):
        right = ask(running, "GET /api/v1/whoami", host, bearer(running), source=source)
        assert right.status == 200
    assert ask(running, line, host, authorised("x"), source=elsewhere).status == 401
    refused = ask(running, line, host, authorised("x"), source=address)
    assert refused.status == 401 or int(refused.headers["retry-after"]) > 0


@pytest.mark.parametrize(
    "line",
    [
        case("A5-status", "GET /api/v1/status"),
        case("A5-list", "GET /api/v1/tokens"),
        case("A5-issue", "POST /api/v1/tokens"),
        case("A5-revoke", "DELETE /api/v1/tokens/{id}"),
        case("A5-rotate", "POST /api/v1/tokens/{id}/rotate"),
        case("A5-metrics", "GET /metrics"),
    ],
)
def test_an_agents_token_reaches_nothing_of_the_admins(
    line: str, running: Running, agent_a: Issued
) -> None:
    other = issue(running, agent="b", scopes=["read"])
    given = authorised(agent_a.token)
    body = b'{"admin":true}' if line.startswith("POST /api/v1/tokens") else b""
    asked = line.format(id=other.id)
    reply = ask(running, asked, own_host(running), given, JSON, body=body)
    assert reply.status == 403
    unknown = ask(running, line.format(id="nothing"), own_host(running), given, JSON, body=body)
    assert (unknown.status, unknown.body) == (403, reply.body)
    still = ask(running, "GET /api/v1/whoami", own_host(running), authorised(other.token))
    assert still.status == 200


@pytest.mark.parametrize(
    "wanted",
    [
        case("A6-omitted", {"scopes": ["read"]}),
        case("A6-null", {"agent": None, "scopes": ["read"]}),
        case("A6-list", {"agent": [], "scopes": ["read"]}),
        case("A6-star", {"agent": "*", "scopes": ["read"]}),
        case("A6-empty", {"agent": "", "scopes": ["read"]}),
        case("A6-dots", {"agent": "../a", "scopes": ["read"]}),
        case("A6-scopes-omitted", {"agent": "a"}),
        case("A6-scopes-null", {"agent": "a", "scopes": None}),
        case("A6-scopes-list", {"agent": "a", "scopes": []}),
        case("A6-scopes-star", {"agent": "a", "scopes": ["*"]}),
        case("A6-scopes-empty", {"agent": "a", "scopes": ""}),
        case("A6-scopes-admin", {"agent": "a", "scopes": ["admin"]}),
    ],
)
def test_nothing_stands_for_every_agent(wanted: object, running: Running) -> None:
    reply = post_json(running, "/api/v1/tokens", wanted)
    assert reply.status == 422, reply.text


def test_a_wrong_type_is_named_with_its_place(running: Running) -> None:
    reply = post_json(running, "/api/v1/tokens", {"agent": 1, "scopes": ["read"]})
    assert reply.status == 422
    assert "$.agent" in reply.json()["error"]["message"]


# S5, one way to say how long a body is


@pytest.mark.parametrize(
    "headers",
    [
        case("S5", "Content-Length: 5\r\nTransfer-Encoding: chunked"),
        case("S5-other-order", "Transfer-Encoding: chunked\r\nContent-Length: 5"),
        case("S5-twice", "Content-Length: 5\r\nContent-Length: 6"),
        case("S5-same-twice", "Content-Length: 5\r\nContent-Length: 5"),
        case("S5-identity", "Transfer-Encoding: identity"),
        case("S5-hidden", "Transfer-Encoding: xchunked"),
        case("S5-sign", "Content-Length: +5"),
        case("S5-folded", "Transfer-Encoding:\r\n chunked"),
    ],
)
def test_a_body_with_two_lengths_is_refused(headers: str, running: Running) -> None:
    head = f"POST /api/v1/tokens HTTP/1.1\r\n{own_host(running)}\r\n{bearer(running)}\r\n"
    data = f"{head}{JSON}\r\n{headers}\r\n\r\n0\r\n\r\n"
    assert send_raw(running, data.encode()).status == 400


# Limits on bodies


def test_a_length_beyond_the_limit_is_refused_before_it_comes(running: Running) -> None:
    lengths = ("65537", "99999999999999", "9" * 19)
    for length in lengths:
        reply = ask(
            running,
            "POST /api/v1/tokens",
            own_host(running),
            bearer(running),
            JSON,
            f"Content-Length: {length}",
        )
        assert reply.status == 413, length


def test_a_chunked_body_is_counted_while_it_comes(running: Running) -> None:
    head = "\r\n".join(
        [
            "POST /api/v1/tokens HTTP/1.1",
            own_host(running),
            bearer(running),
            JSON,
            "Transfer-Encoding: chunked",
            "",
            "",
        ]
    )
    with socket.create_connection(("127.0.0.1", running.port), timeout=30) as connection:
        connection.sendall(head.encode())
        chunk = b"4000\r\n" + b" " * 0x4000 + b"\r\n"
        for _ in range(5):
            connection.sendall(chunk)
        # The body has not ended, and is refused all the same.
        assert read_reply(connection).status == 413


# J, hostile JSON


def test_a_lone_surrogate_is_taken(running: Running) -> None:
    """J1."""
    reply = post_json(
        running, "/api/v1/tokens", b'{"agent":"a","scopes":["read"],"note":"\\ud83d"}'
    )
    assert reply.status == 201


@pytest.mark.parametrize(
    ("body", "status"),
    [
        case("J2-depth", b"[" * 50_000, 400),
        case("J2-depth-in-field", b'{"x":' + b"[" * 50_000, 400),
        case("J2-integer", b'{"admin":true,"expires_in":' + b"1" * 5000 + b"}", 400),
        case("J2-nan", b'{"admin":true,"expires_in":NaN}', 400),
        case("J2-infinity", b'{"admin":true,"expires_in":-Infinity}', 400),
        case("J2-repeated", b'{"admin":true,"admin":false}', 400),
        case("J2-repeated-unknown", b'{"admin":true,"x":{"y":1,"y":2}}', 400),
        case("J2-bytes", b"\xff\xfe", 400),
        case("J2-nothing", b" ", 400),
        case("J2-null", b"null", 422),
        case("J2-list", b"[]", 422),
        case("J2-overflow", b'{"admin":true,"expires_in":1e400}', 400),
        case("J2-float", b'{"admin":true,"expires_in":1.5}', 422),
        case("J2-far", b'{"admin":true,"expires_in":99999999999999999999}', 422),
        case("J2-surrogate-name", b'{"admin":true,"name":"\\ud83d"}', 422),
        case("J2-surrogate-key", b'{"\\ud83d":1}', 422),
        case("J2-surrogate-switch", b'{"admin":"\\ud83d"}', 422),
        case("J2-surrogate-scope", b'{"agent":"a","scopes":["\\ud83d"]}', 422),
        case("J2-surrogate-alone", b'"\\ud83d"', 422),
        case("J2-proto", b'{"admin":true,"__proto__":{"admin":false},"__class__":"x"}', 201),
    ],
)
def test_hostile_json_is_refused_and_never_fails(
    body: bytes, status: int, running: Running
) -> None:
    reply = post_json(running, "/api/v1/tokens", body)
    assert reply.status == status, reply.text
    assert "Traceback" not in reply.text


@pytest.mark.parametrize(
    ("path", "rest"),
    [
        ("/retain", b'"entry":{"id":"e"}'),
        ("/recall", b'"messages":[]'),
        ("/forget", b'"entry_ids":["e"]'),
        ("/api/v1/memory/retain", b'"agent":"svc","entry":{"id":"e"}'),
    ],
)
@pytest.mark.parametrize("again", [b'"agent_id"', b' "\\u0061gent_id"', b'"x":1,"x"'])
def test_a_memory_service_takes_no_key_twice(
    running: Running, path: str, rest: bytes, again: bytes
) -> None:
    """J2."""
    body = b'{"agent_id":"svc",%s,%s:"svc2"}' % (rest, again)
    reply = post_json(running, path, body)
    assert reply.status == 400, reply.text
    assert "twice" in reply.text


def test_what_is_in_an_entry_may_be_there_twice(running: Running) -> None:
    """A recorder keeps requests as their clients wrote them."""
    entry = b'{"id":"e2","request_original":{"model":"a","model":"b","messages":[]}}'
    reply = post_json(running, "/retain", b'{"agent_id":"svc","entry":%s}' % entry)
    assert reply.status == 202, reply.text


# F and L, files and addresses


@pytest.mark.parametrize(
    "words", [["token", "create", "--admin"], ["retain", "--agent", "a", "It nests in Lisbon."]]
)
def test_files_are_private_under_any_umask(home: Path, words: list[str]) -> None:
    """F1."""
    program = (
        "import os, sys; os.umask(0); from memplane.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    made = subprocess.run(
        [sys.executable, "-c", program, *words],
        env=environment(home),
        capture_output=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    for path in home.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


@pytest.mark.parametrize("name", [case("F1-token", "token"), case("F1-tokens", "tokens.json")])
def test_it_does_not_start_when_others_can_read_a_secret(name: str, home: Path) -> None:
    assert memplane(home, "token", "create", "--admin").returncode == 0
    (home / "token").write_text("known\n")
    (home / "token").chmod(0o600)
    (home / name).chmod(0o640)
    ran = memplane(home, "up", "--port", "0")
    assert ran.returncode == 1
    assert f"{home / name} can be read by others" in ran.stderr


@pytest.mark.parametrize("probe", [case("L1", "0.0.0.0"), case("L1-6", "::")])  # noqa: S104
def test_there_is_no_way_to_listen_elsewhere(probe: str, home: Path) -> None:
    for words in (("up", "--host", probe), ("--set", f"http.host={probe}", "up")):
        ran = memplane(home, *words)
        assert ran.returncode == 2


def test_the_tokens_are_in_no_log(home: Path) -> None:
    with running_memplane(home) as running:
        token = issue(running, agent="a", scopes=["read"]).token
        given = authorised(token)
        ask(running, "GET /api/v1/status", own_host(running), given)
        ask(running, f"GET /x?token={token}", own_host(running), given)
        ask(running, f"GET http://evil/?{token}", own_host(running), given)
        secrets = [token, running.token]
        running.process.terminate()
        assert running.process.stdout is not None
        printed = running.printed + running.process.stdout.read()
    files = b"".join(
        path.read_bytes() for path in home.rglob("*") if path.is_file() and path.name != "token"
    )
    for secret in secrets:
        assert secret not in printed
        assert secret.encode() not in files
    assert json.loads((home / "tokens.json").read_text())["tokens"]
