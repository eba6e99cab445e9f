"""What a client of memory services decides for itself; backfill and forget show the rest."""

from __future__ import annotations

import asyncio

import pytest

from memplane.integrations.clawdapus.memory_service.client import (
    NoServiceResponse,
    ServiceAddress,
    ServiceResponse,
    explain_failure,
    is_same_host,
    open_service_client,
    parse_retry_after,
)
from memplane.secret import Secret
from tests.support.turns import NOON

TOKEN = "s3cret-token"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("", 0), ("x", 0), ("-5", 0), ("1.5", 0), ("7", 7), ("Sun, 01 Mar 2026 11:00:00 GMT", 0)],
)
def test_what_a_service_asks_for(text: str, seconds: float) -> None:
    assert parse_retry_after(text, NOON) == seconds


@pytest.mark.parametrize(
    ("url", "target", "same"),
    [
        ("http://h/a", "http://H/b", True),
        ("http://h:80/a", "http://h/b", True),
        ("http://h/a", "https://h/a", True),
        ("https://h/a", "http://h/a", False),
        ("http://h:8080/a", "https://h/a", False),
        ("http://h:1/a", "http://h:2/a", False),
        ("http://h/a", "http://h.evil/a", False),
        ("http://h/a", "http://h@evil/a", False),
        ("http://[::1]:5/a", "http://[::1]:5/b", True),
    ],
)
def test_what_the_same_host_is(url: str, target: str, same: bool) -> None:  # noqa: FBT001
    assert is_same_host(url, target) is same


def test_addresses_and_answers_show_no_secret() -> None:
    address = ServiceAddress("http://user:pass@h:1/retain", Secret(TOKEN))
    assert address.shown == "http://h:1/retain"
    assert TOKEN not in repr(address)
    assert (
        explain_failure("retain", ServiceResponse(599))
        == "retain returned status 599: no reason given"
    )
    assert TOKEN not in explain_failure("retain", NoServiceResponse(f"x {TOKEN}"), Secret(TOKEN))


async def test_what_a_service_says_that_speaks_no_http_is_not_repeated() -> None:
    """It may be a memory."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b'{"memories":[{"text":"Ada takes pills"}]}\r\n\r\n')
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, open_service_client() as client:
        outcome = await client.post(ServiceAddress(f"http://127.0.0.1:{port}/recall", None), b"{}")
    assert outcome == NoServiceResponse("its answer is not HTTP, or ended early")
