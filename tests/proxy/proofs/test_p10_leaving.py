"""P10: who leaves is noticed at once, and nobody takes a part of an answer for the whole.

Controls, at the end of this file: a relay that does not stop its work when the client leaves, one
that ends an answer whatever happened, and one that records what came before the end.
"""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import struct
import threading
from pathlib import Path

import aiohttp
import pytest

from memplane.episodes.api_types import RecallRequest, RecallResponse
from memplane.exchange.reply_assembler import AssembledReply, ReplyAssembler, ReplyOutcome
from memplane.ledger.agent_writer import AgentWriter
from memplane.server.response_stream import HttpResponseWriter, StreamedResponse
from tests.proxy.proxied import Proxied, proxied
from tests.support.answers import (
    Said,
    anthropic_events,
    chat_events,
    chat_json,
    chat_stream,
    responses_events,
    streamed,
    whole,
)
from tests.support.upstream import Answer, End

CHAT = "/v1/chat/completions"
SAID = Said("A reply of some length, so that there is something to cut in it.")
BODY = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
HEAD, *CHUNKS = (step for step in chat_stream(SAID) if isinstance(step, bytes))
SENT = b"".join(CHUNKS)


def offsets(sent: bytes) -> list[int]:
    """Twenty places in what is sent, its ends among them."""
    return sorted({*range(0, len(sent), max(1, len(sent) // 17)), 1, len(sent) - 2, len(sent) - 1})


CUTS = offsets(SENT)
BEFORE_THE_END = [at for at in CUTS[1:] if b"[DONE]" not in SENT[:at]]
EVENTS = b"".join(chat_events(SAID))
STREAMS = {
    CHAT: chat_events(SAID),
    "/v1/responses": responses_events(SAID),
    "/v1/messages": anthropic_events(SAID),
}
FRAMED: dict[str, Answer] = {
    "chunked events": chat_stream(SAID),
    "events of a length": whole(EVENTS, headers={"Content-Type": "text/event-stream"}),
    "JSON of a length": chat_json(SAID),
    "chunked JSON": streamed([EVENTS], {"Content-Type": "application/json"}),
}
PATIENCE = 60.0
"""When something that has not happened by then never will; no assertion is about less."""
SHORT = 0.75


def url(door: Proxied) -> str:
    return f"{door.address}/agent/ada{CHAT}"


@pytest.mark.parametrize("how", [End.CLOSE, End.RESET])
@pytest.mark.parametrize("form", FRAMED)
async def test_an_answer_that_breaks_off_anywhere_never_looks_whole(
    form: str, how: End, tmp_path: Path
) -> None:
    async with proxied(tmp_path) as door:
        assert await breaking_off(door, FRAMED[form], how) == []


async def breaking_off(door: Proxied, answer: Answer, how: End) -> list[str]:
    """Break an answer off at twenty places; returns where a part was taken for the whole."""
    sent = b"".join(step for step in answer if isinstance(step, bytes))
    head, blank, body = sent.partition(b"\r\n\r\n")
    cuts, wrong = offsets(body), list[str]()
    assert len(cuts) >= 20
    for at in cuts:
        door.upstream.at(CHAT, (head + blank + body[:at], how))
        try:
            async with asyncio.timeout(PATIENCE):
                await door.post(CHAT, BODY)
        except aiohttp.ClientError:
            continue
        wrong.append(f"cut at {at}, and it looks whole")
    if await door.recorded():
        wrong.append("a part was recorded")
    traces = [one for one in door.events("error") if one["outcome"] == "cut"]
    if len(traces) != len(cuts):
        wrong.append(f"{len(traces)} traces of {len(cuts)}")
    return wrong


async def test_a_stream_that_falls_silent_anywhere_is_told_so_and_is_no_turn(
    tmp_path: Path,
) -> None:
    async with proxied(
        tmp_path, proxy__first_byte_timeout_ms="40", proxy__idle_timeout_ms="40"
    ) as door:
        cuts = offsets(EVENTS)[1:]
        for at in cuts:
            (_, chunk, _) = streamed([EVENTS[:at]])
            assert isinstance(chunk, bytes)
            door.upstream.at(CHAT, (HEAD + chunk, End.STALL))
            got = await until_it_breaks(door)
            came, mark, told = got.partition(b"\n\nevent: error\ndata: ")
            assert (came, bool(mark)) == (EVENTS[:at], True)
            assert "went silent" in json.loads(told)["error"]["message"]
            assert told.endswith(b"\n\n")
        assert await door.recorded() == []
        traces = [one["outcome"] for one in door.events("error")]
        assert traces == ["cut"] * len(cuts)


@pytest.mark.parametrize("form", ["JSON of a length", "chunked JSON", "events of a length"])
async def test_nothing_is_added_to_an_answer_that_is_no_stream_of_events(
    form: str, tmp_path: Path
) -> None:
    """Where a length was said, an event of ours could make up for what is missing."""
    async with proxied(
        tmp_path, proxy__first_byte_timeout_ms="40", proxy__idle_timeout_ms="40"
    ) as door:
        sent = b"".join(step for step in FRAMED[form] if isinstance(step, bytes))
        door.upstream.at(CHAT, (sent[: len(sent) // 2], End.STALL))
        got = await until_it_breaks(door)
        assert b"event: error" not in got
        assert got in sent
        assert await door.recorded() == []


async def until_it_breaks(door: Proxied) -> bytes:
    """Read an answer that breaks off; returns what came before."""
    got = b""
    async with door.http.post(url(door), json=BODY) as reply:
        try:
            async with asyncio.timeout(PATIENCE):
                while piece := await reply.content.readany():
                    got += piece
        except aiohttp.ClientPayloadError:
            return got
    raise AssertionError("it looks whole")


async def test_an_early_end_in_good_order_is_passed_on_and_is_no_turn(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        assert await early_end(door) == []


async def early_end(door: Proxied) -> list[str]:
    """End a stream before its last event, as if it were whole."""
    door.upstream.at(CHAT, streamed(chat_events(SAID)[:-1]))
    assert (await door.post(CHAT, BODY)).body == b"".join(chat_events(SAID)[:-1])
    wrong = ["a part was recorded"] if await door.recorded() else []
    traces = [one["outcome"] for one in door.events("error")]
    return wrong if traces == ["cut"] else [*wrong, f"its traces are {traces}"]


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
        for at in BEFORE_THE_END:
            assert await leaving(door, at, abruptly=abruptly) == []
        await door.settled()
        assert await door.recorded() == []
        told = [(one["error"], one["outcome"]) for one in door.events("error")]
        assert told == [("the client left", "cut")] * len(BEFORE_THE_END)


async def leaving(
    door: Proxied, at: int, *, abruptly: bool, patience: float = PATIENCE
) -> list[str]:
    """Leave when so many bytes were sent, with a reset or in good order, while more may come."""
    door.upstream.at(CHAT, (HEAD, SENT[:at], End.STALL))
    before = len(door.upstream.received)
    body = json.dumps(BODY).encode()
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", int(door.address.rpartition(":")[2])
    )
    writer.write(
        b"POST /agent/ada%b HTTP/1.1\r\nHost: %b\r\nContent-Length: %d\r\n\r\n%b"
        % (CHAT.encode(), door.address.removeprefix("http://").encode(), len(body), body)
    )
    await reader.readuntil(b"\r\n\r\n")
    received = await door.upstream.until_asked(CHAT, before + 1)
    if abruptly:
        connected: socket.socket = writer.get_extra_info("socket")
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    else:
        writer.close()
    try:
        async with asyncio.timeout(patience):
            await received.connection.gone.wait()
    except TimeoutError:
        return [f"the client left at {at}, and upstream was not closed"]
    return []


@pytest.mark.parametrize("path", STREAMS)
async def test_who_leaves_with_the_last_event_has_a_whole_answer(
    path: str, tmp_path: Path
) -> None:
    """Clients do not wait for the end of the connection, which may come much later."""
    async with proxied(tmp_path) as door:
        await leaving_with(door, path, STREAMS[path])
        (entry,) = await door.recorded()
        assert entry["response"]["text"] == b"".join(STREAMS[path]).decode()
        assert [one["outcome"] for one in door.events("response")] == ["recorded"]


@pytest.mark.parametrize("path", STREAMS)
async def test_who_leaves_before_the_last_event_has_a_part(path: str, tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        await leaving_with(door, path, STREAMS[path][:-1])
        assert await door.recorded() == []
        assert [one["error"] for one in door.events("error")] == ["the client left"]


async def leaving_with(door: Proxied, path: str, events: list[bytes]) -> None:
    """Leave as soon as these events are read, while the provider keeps its connection open."""
    head, *chunks, _ = streamed(events)
    door.upstream.at(path, (head, *chunks, End.STALL))
    body = {**BODY, "input": "hello"}
    async with door.http.post(f"{door.address}/agent/ada{path}", json=body) as reply:
        await reply.content.readexactly(len(b"".join(events)))
        reply.close()
    async with asyncio.timeout(PATIENCE):
        await door.upstream.asked(path)[-1].connection.gone.wait()
    await door.settled()


async def test_an_answer_that_was_whole_is_recorded_although_the_client_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go, sync = threading.Event(), AgentWriter.sync

    def stall(self: AgentWriter) -> None:
        let_go.wait()
        sync(self)

    monkeypatch.setattr(AgentWriter, "sync", stall)
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, chat_stream(SAID))
        async with aiohttp.ClientSession() as client:
            reply = await client.post(url(door), json=BODY)
            assert await reply.read() == EVENTS
        let_go.set()
        assert len(await door.recorded()) == 1


async def test_upstream_is_closed_when_the_client_leaves_before_the_head(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, (End.STALL,))
        asking = asyncio.create_task(door.post(CHAT, BODY))
        received = await door.upstream.until_asked(CHAT)
        asking.cancel()
        async with asyncio.timeout(PATIENCE):
            await received.connection.gone.wait()
        assert await door.recorded() == []


async def test_a_server_that_ends_cuts_what_it_waited_for_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, (HEAD, CHUNKS[0], End.STALL))
        async with door.http.post(url(door), json=BODY) as reply:
            await reply.content.readany()
            for task in door.server.server_state.tasks:
                task.cancel()  # as it does with what has not ended in time
            with pytest.raises(aiohttp.ClientPayloadError):
                await reply.content.read()
        await door.settled()
        assert await door.recorded() == []
        (told,) = door.events("error")
        assert (told["error"], told["outcome"]) == ("memplane was stopped", "cut")
    assert caplog.records == []


async def test_who_leaves_while_memory_is_asked_leaves_a_trace(tmp_path: Path) -> None:
    class Slow:
        asked = asyncio.Event()

        async def recall(self, _ask: RecallRequest) -> RecallResponse:
            self.asked.set()
            return await asyncio.Future()

    async with proxied(tmp_path, proxy__recall_ms="60000") as door:
        memory = Slow()
        door.proxy.injector._recaller._memories = memory
        asking = asyncio.create_task(door.post(CHAT, BODY))
        await memory.asked.wait()
        asking.cancel()
        async with asyncio.timeout(PATIENCE):
            await door.settled()
        assert door.upstream.received == []
        (told,) = door.events("error")
        assert (told["error"], told["outcome"]) == ("the client left", "cut")


@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize("body", [b"", b"{}"], ids=["without a body", "with a body"])
async def test_upstream_is_closed_when_the_client_leaves_what_is_no_turn(
    body: bytes, tmp_path: Path, *, begun: bool
) -> None:
    """Such as a response that is fetched again, as a stream."""
    async with proxied(tmp_path) as door:
        path, method = "/v1/responses/r1", "POST" if body else "GET"
        door.upstream.at(path, (HEAD, CHUNKS[0], End.STALL) if begun else (End.STALL,))

        async def ask() -> None:
            where = f"{door.address}/agent/ada{path}?stream=true"
            async with door.http.request(method, where, data=body) as reply:
                await reply.content.readany()
                reply.close()

        asking = asyncio.create_task(ask())
        received = await door.upstream.until_asked(path)
        if begun:
            await asking
        asking.cancel()
        async with asyncio.timeout(PATIENCE):
            await received.connection.gone.wait()


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
        async with asyncio.timeout(PATIENCE):
            await received.connection.gone.wait()


@pytest.mark.parametrize("rounds", [4, pytest.param(10, marks=pytest.mark.long)])
async def test_many_leave_at_once_and_nothing_is_left_of_them(rounds: int, tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, (HEAD, CHUNKS[0], End.STALL))

        async def leave_early() -> None:
            async with aiohttp.ClientSession() as client:
                reply = await client.post(url(door), json=BODY)
                await reply.content.readany()
                reply.close()

        await leave_early()
        for connection in door.upstream.connections:
            await connection.gone.wait()
        files, tasks = _open_files(), len(asyncio.all_tasks())
        for _ in range(rounds):
            await asyncio.gather(*(leave_early() for _ in range(50)))
            async with asyncio.timeout(PATIENCE):
                for connection in door.upstream.connections:
                    await connection.gone.wait()
        async with asyncio.timeout(PATIENCE):
            while _open_files() > files or len(asyncio.all_tasks()) > tasks:
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


# Controls: the same checks, and a proxy that breaks the promise.


async def test_a_relay_that_goes_on_when_the_client_left_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(StreamedResponse, "_left", never)
    async with proxied(tmp_path) as door:
        assert await leaving(door, CUTS[3], abruptly=True, patience=SHORT) != []


async def test_an_answer_that_is_ended_whatever_happened_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def end(client: HttpResponseWriter, _error: Exception) -> None:
        await client.end()

    monkeypatch.setattr("memplane.proxy.turn.send_upstream_failure", end)
    async with proxied(tmp_path) as door:
        wrong = await breaking_off(door, FRAMED["chunked events"], End.CLOSE)
        assert sum("it looks whole" in one for one in wrong) == len(CUTS)


async def test_an_early_end_that_counts_as_a_turn_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = ReplyAssembler.finish

    def hopeful(self: ReplyAssembler) -> AssembledReply:
        came = ended(self)
        return AssembledReply(ReplyOutcome.WHOLE, came.reply, came.usage)

    monkeypatch.setattr(ReplyAssembler, "finish", hopeful)
    async with proxied(tmp_path) as door:
        assert "a part was recorded" in await early_end(door)
