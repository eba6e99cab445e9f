"""What a request is on the wire: its trailers, a body that is too long, probes of clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.door import JSON, ask, own_host, send_raw
from tests.support.running import Running, running_memplane


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running_memplane(tmp_path_factory.mktemp("up") / "home") as started:
        yield started


@pytest.mark.parametrize("name", ["Authorization: Bearer ", "X-Api-Key: "])
def test_a_token_in_a_trailer_is_not_accepted(name: str, running: Running) -> None:
    lines = ["POST /recall HTTP/1.1", own_host(running), JSON, "Transfer-Encoding: chunked"]
    head = "\r\n".join([*lines, "Trailer: Authorization", "", ""])
    body = '{"agent_id":"ada","messages":[]}'
    chunks = f"{len(body):x}\r\n{body}\r\n0\r\n{name}{running.token}\r\n\r\n"
    assert send_raw(running, (head + chunks).encode()).status == 401


@pytest.mark.parametrize(
    "path",
    ["/", "/agent/ada", "/agent/ada/", "/agent/ada/v1", "/agent/nobody", "/agent/%2e"],
)
def test_clients_may_probe_their_base_url_before_their_first_turn(
    path: str, running: Running
) -> None:
    """The answer is the same for every name."""
    reply = ask(running, f"HEAD {path}", own_host(running))
    assert (reply.status, reply.headers.get("content-length")) == (200, "0")


@pytest.mark.parametrize("path", ["/agent/ada/", "/agent/ada/v1", "/agent/ada/completions"])
def test_posting_to_a_base_url_says_what_it_should_be(path: str, running: Running) -> None:
    reply = ask(running, f"POST {path}", own_host(running), JSON, body=b"{}")
    assert (reply.status, reply.json()["error"]["code"]) == (404, "not_found")
