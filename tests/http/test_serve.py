"""How the door listens."""

from __future__ import annotations

import asyncio
import socket

from memplane.http.serve import _listening


async def test_small_answers_are_sent_at_once() -> None:
    """Otherwise each answer on a kept connection waits for a delayed acknowledgement."""
    with _listening(0) as listening:
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
