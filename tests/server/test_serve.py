"""How the door listens."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from memplane.errors import SettingsError
from memplane.server.server import LOOPBACK, _check_host, _open_listeners
from tests.support.running import memplane, running_memplane


async def test_small_answers_are_sent_at_once() -> None:
    """Otherwise each answer on a kept connection waits for a delayed acknowledgement."""
    with _open_listeners(LOOPBACK, 0) as listening:
        assert [await is_sent_at_once(one) for one in listening] == [True] * len(listening)


async def is_sent_at_once(listening: socket.socket) -> bool:
    accepted: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def accept(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection: socket.socket = writer.get_extra_info("socket")
        accepted.set_result(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    host, port = listening.getsockname()[:2]
    async with await asyncio.start_server(accept, sock=listening):
        _, writer = await asyncio.open_connection(host, port)
        at_once = await accepted
        writer.close()
        await writer.wait_closed()
    return bool(at_once)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1"])  # noqa: S104
def test_beyond_loopback_somebody_must_say_that_the_network_is_trusted(host: str) -> None:
    with pytest.raises(SettingsError, match="trusted_network"):
        _check_host(host, trusted=False)
    _check_host(host, trusted=True)


@pytest.mark.parametrize("host", ["", "localhost", "::1", "127.0.0.1:80", "nobody.example"])
def test_an_address_that_is_none_is_said_so(host: str) -> None:
    with pytest.raises(SettingsError, match=r"http\.host"):
        _check_host(host, trusted=True)


def test_another_loopback_address_is_listened_on_and_its_host_must_be_allowed(
    tmp_path: Path,
) -> None:
    refused = memplane(tmp_path / "home", "up", env={"MEMPLANE_HTTP_HOST": "192.0.2.1"})
    assert refused.returncode == 2
    assert "http.trusted_network = true" in refused.stderr
    with running_memplane(tmp_path / "home") as running, socket.socket() as probe:
        # Nothing else listens than what was asked for.
        assert probe.connect_ex(("127.0.0.2", running.port)) != 0
