"""P10: who leaves is noticed at once, and nobody takes a part of an answer for the whole.

Negative controls, each seen red: a relay that does not cancel its work when the client leaves
(`test_upstream_is_closed_when_the_client_leaves` never ends), a relay that ends the answer
whatever happened (`test_an_answer_that_breaks_off_anywhere_never_looks_whole`), and recording what
came before the end (both).
"""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import aiohttp
import pytest

from tests.proxy.proxied import Proxied, proxied
from tests.support.answers import Said, chat_events, chat_json, chat_stream
from tests.support.upstream import End

CHAT = "/v1/chat/completions"
SAID = Said("A reply of some length, so that there is something to cut in it.")
BODY = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
HEAD, *CHUNKS = (step for step in chat_stream(SAID) if isinstance(step, bytes))
SENT = b"".join(CHUNKS)
CUTS = sorted({*range(0, len(SENT), max(1, len(SENT) // 18)), 1, len(SENT) - 1})


def url(door: Proxied) -> str:
    return f"{door.address}/agent/ada{CHAT}"


@pytest.mark.parametrize("how", [End.CLOSE, End.RESET])
async def test_an_answer_that_breaks_off_anywhere_never_looks_whole(
    how: End, tmp_path: Path
) -> None:
    async with proxied(tmp_path) as door:
        for at in CUTS:
            door.upstream.at(CHAT, (HEAD + SENT[:at], how))
            with pytest.raises(aiohttp.ClientError):
                await door.post(CHAT, BODY)
        assert await door.recorded() == []
        assert len(door.events("error")) == len(CUTS)


async def test_what_came_before_a_cut_is_passed_on(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, (HEAD, *CHUNKS[:3], End.CLOSE))
        async with door.http.post(url(door), json=BODY) as reply:
            expected = b"".join(chat_events(SAID)[:3])
            assert await reply.content.readexactly(len(expected)) == expected
            with pytest.raises(aiohttp.ClientPayloadError):
                await reply.content.read()


@pytest.mark.parametrize("abruptly", [True, False])
async def test_upstream_is_closed_when_the_client_leaves(
    tmp_path: Path, *, abruptly: bool
) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, (HEAD, CHUNKS[0], End.STALL))
        async with aiohttp.ClientSession() as client:
            reply = await client.post(url(door), json=BODY)
            await reply.content.readany()
            if abruptly:
                reply.close()
            else:
                await client.close()
        (connection,) = door.upstream.connections
        async with asyncio.timeout(5):
            await connection.gone.wait()
        assert await door.recorded() == []
        (told,) = door.events("error")
        assert told["error"] == "the client left"


async def test_upstream_is_closed_when_the_client_leaves_before_the_head(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, (End.STALL,))
        asking = asyncio.create_task(door.post(CHAT, BODY))
        received = await door.upstream.until_asked(CHAT)
        asking.cancel()
        async with asyncio.timeout(5):
            await received.connection.gone.wait()
        assert await door.recorded() == []


async def test_upstream_is_closed_when_the_client_stops_reading_and_leaves(tmp_path: Path) -> None:
    """The proxy is waiting to send then, which is where abandoned streams are lost."""
    async with proxied(tmp_path) as door:
        long = b"data: " + b"x" * 65536 + b"\n\n"
        chunk = b"%x\r\n%b\r\n" % (len(long), long)
        door.upstream.at(CHAT, (HEAD, *([chunk] * 400), End.STALL))
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", int(door.address.rpartition(":")[2]), limit=1024
        )
        body = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}'
        writer.write(
            b"POST /agent/ada%b HTTP/1.1\r\nHost: %b\r\nContent-Length: %d\r\n\r\n%b"
            % (CHAT.encode(), door.address.removeprefix("http://").encode(), len(body), body)
        )
        await reader.readuntil(b"\r\n\r\n")
        received = await door.upstream.until_asked(CHAT)
        writer.transport.abort()
        async with asyncio.timeout(5):
            await received.connection.gone.wait()


async def test_many_leave_at_once_and_nothing_is_left_of_them(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, (HEAD, CHUNKS[0], End.STALL))

        async def leave_early() -> None:
            async with aiohttp.ClientSession() as client:
                reply = await client.post(url(door), json=BODY)
                await reply.content.readany()
                reply.close()

        await leave_early()
        files, tasks = _open_files(), len(asyncio.all_tasks())
        for _ in range(5):
            await asyncio.gather(*(leave_early() for _ in range(50)))
            async with asyncio.timeout(10):
                for connection in door.upstream.connections:
                    await connection.gone.wait()
        async with asyncio.timeout(10):
            while _open_files() > files + 8 or len(asyncio.all_tasks()) > tasks + 8:
                gc.collect()
                await asyncio.sleep(0.01)
        # And it goes on.
        door.upstream.at(CHAT, chat_json(SAID))
        assert (await door.chat("hello")).status == 200
        assert len(await door.recorded()) == 1


async def test_health_answers_while_long_requests_are_broken_off(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, (HEAD, CHUNKS[0], End.STALL))
        long = {**BODY, "messages": [{"role": "user", "content": "x" * (5 << 20)}]}

        async def leave_early() -> None:
            asking = asyncio.create_task(door.post(CHAT, long))
            await asyncio.wait((asking,), timeout=0.05)
            asking.cancel()

        leaving = asyncio.gather(*(leave_early() for _ in range(30)))
        answered = 0
        while not leaving.done():
            async with door.http.get(f"{door.address}/health") as reply:
                answered += reply.status == 200
        await leaving
        assert answered
        async with door.http.get(f"{door.address}/health") as reply:
            assert reply.status == 200


def _open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
