"""Providers that answer well and badly: real ones on loopback, written with bare sockets."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import struct
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
import uvloop

from memplane.errors import (
    MemplaneError,
    UpstreamCut,
    UpstreamError,
    UpstreamStalled,
    UpstreamUnreachable,
)
from memplane.proxy.headers import Header
from memplane.proxy.provider import AuthScheme, UpstreamCandidate
from memplane.proxy.upstream import (
    AttemptBody,
    UpstreamAttempt,
    UpstreamClient,
    UpstreamResponse,
    UpstreamTimeouts,
    open_upstream,
)
from memplane.secret import Secret

KEY = "k3y/that+nobody=sees"
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
OVER = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def whole(body: bytes, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body)


def reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection the hard way."""
    made = writer.get_extra_info("socket")
    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@dataclass(slots=True)
class Seen:
    """One connection to a provider, and what came over it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    head: bytes = b""
    body: bytes = b""
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def line(self) -> bytes:
        return self.head.partition(b"\r\n")[0]

    @property
    def headers(self) -> list[Header]:
        pairs = (one.partition(b": ") for one in self.head.split(b"\r\n")[1:] if one)
        return [(name, value) for name, _, value in pairs]

    def header(self, name: bytes) -> list[bytes]:
        return [value for one, value in self.headers if one.lower() == name]

    async def read_request(self) -> bool:
        try:
            self.head = await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, OSError):
            return False
        if length := self.header(b"content-length"):
            self.body = await self.reader.readexactly(int(length[0]))
        if self.header(b"transfer-encoding"):
            self.body = await self.reader.readuntil(OVER)
        return True

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def until_gone(self) -> None:
        """Wait until the other side has closed the connection, in whatever way."""
        with suppress(OSError):
            while await self.reader.read(1 << 16):
                pass
        self.gone.set()


Conduct = Callable[[Seen], Awaitable[None]]


@dataclass(slots=True)
class Server:
    """A provider, and the connections that it got."""

    conduct: Conduct
    port: int = 0
    seen: list[Seen] = field(default_factory=list[Seen])
    asked: list[tuple[bytes, list[Header], bytes]] = field(
        default_factory=list[tuple[bytes, list[Header], bytes]]
    )

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen = Seen(reader, writer)
        self.seen.append(seen)
        try:
            while await seen.read_request():
                self.asked.append((seen.line, seen.headers, seen.body))
                await self.conduct(seen)
                if writer.is_closing():
                    break
        except OSError:
            pass
        finally:
            seen.gone.set()
            writer.close()

    def candidate(
        self, path: str = "/v1/messages", provider: str = "anthropic"
    ) -> UpstreamCandidate:
        url = f"http://127.0.0.1:{self.port}{path}"
        return UpstreamCandidate(provider, "some-model", url, Secret(KEY), AuthScheme.BEARER)

    def attempt(self, body: AttemptBody = b"{}", length: int | None = None) -> UpstreamAttempt:
        headers = ((b"authorization", b"Bearer " + KEY.encode()), (b"x-a", b"1"))
        return UpstreamAttempt(self.candidate(), "POST", headers, body, length)


@asynccontextmanager
async def running(conduct: Conduct) -> AsyncIterator[Server]:
    server = Server(conduct)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for one in server.seen:
            one.writer.transport.abort()
        await asyncio.wait_for(asyncio.gather(*(one.gone.wait() for one in server.seen)), 60)


def saying(*pieces: bytes) -> Conduct:
    async def conduct(seen: Seen) -> None:
        for piece in pieces:
            await seen.say(piece)

    return conduct


def then_closing(*pieces: bytes) -> Conduct:
    async def conduct(seen: Seen) -> None:
        await saying(*pieces)(seen)
        seen.writer.close()

    return conduct


async def body_of(answer: UpstreamResponse) -> bytes:
    return b"".join([piece async for piece in answer.chunks()])


@asynccontextmanager
async def asking(
    conduct: Conduct, patience: UpstreamTimeouts | None = None
) -> AsyncIterator[tuple[UpstreamClient, Server]]:
    async with (
        running(conduct) as server,
        open_upstream(patience=patience or UpstreamTimeouts()) as made,
    ):
        yield made, server


@asynccontextmanager
async def answering(
    conduct: Conduct, patience: UpstreamTimeouts | None = None
) -> AsyncIterator[tuple[UpstreamResponse, Server]]:
    async with (
        asking(conduct, patience) as (upstream, server),
        upstream.send([server.attempt()]) as answer,
    ):
        yield answer, server


async def nothing() -> None:
    pass


async def read_into(
    got: list[bytes],
    upstream: UpstreamClient,
    server: Server,
    then: Callable[[], Awaitable[None]] = nothing,
) -> None:
    """Read an answer piece by piece, and do something after each."""
    async with upstream.send([server.attempt()]) as answer:
        async for piece in answer.chunks():
            got.append(piece)
            await then()


def told(error: BaseException) -> str:
    """All that an error could ever print."""
    return "".join(traceback.format_exception(error)) + repr(error) + repr(error.__context__)


# What is sent


async def test_a_request_goes_out_as_it_was_given() -> None:
    async with asking(saying(whole(b"ok"))) as (upstream, server):
        headers = (
            (b"Authorization", b"Bearer " + KEY.encode()),
            (b"X-Twice", b"1"),
            (b"x-other", "é".encode()),
            (b"X-Twice", b"2"),
        )
        candidate = server.candidate("/v1/messages?beta=true&q=%zz%2F+a")
        body = b'{"a": 1}'
        async with upstream.send([UpstreamAttempt(candidate, "POST", headers, body)]) as answer:
            assert await body_of(answer) == b"ok"
    line, sent, got = server.asked[0]
    assert line == b"POST /v1/messages?beta=true&q=%zz%2F+a HTTP/1.1"
    assert got == body
    host = (b"Host", b"127.0.0.1:%d" % server.port)
    assert sent == [host, *headers, (b"Content-Length", b"8")]


async def test_a_request_without_a_body_has_none() -> None:
    async with asking(saying(whole(b"[]"))) as (upstream, server):
        attempt = UpstreamAttempt(server.candidate("/v1/models"), "GET", ())
        async with upstream.send([attempt]) as answer:
            assert await body_of(answer) == b"[]"
    _, sent, body = server.asked[0]
    assert [name for name, _ in sent] == [b"Host"]
    assert body == b""


@pytest.mark.parametrize("size", [1, 1 << 20, 40 << 20])
async def test_a_body_of_any_length_arrives(size: int) -> None:
    async with (
        asking(saying(whole(b"ok"))) as (upstream, server),
        upstream.send([server.attempt(b"a" * size)]) as answer,
    ):
        assert await body_of(answer) == b"ok"
    assert server.asked[0][2] == b"a" * size


async def pieces(*given: bytes) -> AsyncIterator[bytes]:
    for one in given:
        yield one


async def test_a_body_in_pieces_is_sent_chunked_or_with_its_length() -> None:
    async with asking(saying(whole(b"ok"))) as (upstream, server):
        for length in (None, 6):
            attempt = server.attempt(pieces(b"abc", b"def"), length=length)
            async with upstream.send([attempt]) as answer:
                assert await body_of(answer) == b"ok"
    chunked, counted = server.asked
    assert (b"Transfer-Encoding", b"chunked") in chunked[1]
    assert chunked[2] == chunk(b"abc") + chunk(b"def") + OVER
    assert (b"Content-Length", b"6") in counted[1]
    assert counted[2] == b"abcdef"


# What comes back


async def test_the_head_comes_back_as_it_was_sent() -> None:
    said = (
        b"HTTP/1.1 429 Slow Down\r\nRetry-After: 7\r\nX-Twice: 1\r\nx-twice: 2\r\n"
        b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\n\x1f\x8bxyz"
    )
    async with answering(saying(said)) as (answer, server):
        assert answer.status == 429
        assert answer.candidate == server.candidate()
        assert answer.headers == [
            (b"Retry-After", b"7"),
            (b"X-Twice", b"1"),
            (b"x-twice", b"2"),
            (b"Content-Encoding", b"gzip"),
            (b"Content-Length", b"5"),
        ]
        # Not decoded, although it says that it is compressed.
        assert await body_of(answer) == b"\x1f\x8bxyz"


async def test_a_piece_is_given_before_the_next_one_is_sent() -> None:
    go_on = asyncio.Event()

    async def conduct(seen: Seen) -> None:
        await seen.say(CHUNKED + chunk(b"first"))
        await go_on.wait()
        await seen.say(chunk(b"second") + OVER)

    async with answering(conduct) as (answer, _), aclosing(answer.chunks()) as come:
        assert await anext(come) == b"first"
        go_on.set()
        assert await anext(come) == b"second"
        assert [one async for one in come] == []


async def test_a_body_that_ends_with_its_connection_is_whole() -> None:
    said = b"data: all of it\n\n"
    async with answering(then_closing(HEAD + b"\r\n", said)) as (answer, _):
        assert await body_of(answer) == said


async def test_a_connection_is_used_again_after_a_whole_answer() -> None:
    async with asking(saying(whole(b"ok"))) as (upstream, server):
        for _ in range(3):
            async with upstream.send([server.attempt()]) as answer:
                assert await body_of(answer) == b"ok"
        assert len(server.seen) == 1


async def test_an_answer_that_was_given_back_is_not_closed_under_whoever_has_it_now() -> None:
    slowly = asyncio.Event()

    async def conduct(seen: Seen) -> None:
        if len(server.asked) == 1:
            await seen.say(whole(b"short"))
            return
        await seen.say(CHUNKED + chunk(b"a"))
        await slowly.wait()
        await seen.say(chunk(b"b") + OVER)

    async with asking(conduct) as (upstream, server):
        first = upstream.send([server.attempt()])
        answer = await first.__aenter__()
        assert await body_of(answer) == b"short"
        async with upstream.send([server.attempt()]) as other:
            assert len(server.seen) == 1
            await first.__aexit__(None, None, None)
            slowly.set()
            assert await body_of(other) == b"ab"


@pytest.mark.parametrize(("method", "status"), [("HEAD", b"200 OK"), ("GET", b"204 No Content")])
async def test_an_answer_without_a_body_is_whole(method: str, status: bytes) -> None:
    said = b"HTTP/1.1 %s\r\nx-a: 1\r\n\r\n" % status
    async with asking(saying(said)) as (upstream, server):
        attempt = UpstreamAttempt(server.candidate("/"), method, ())
        async with upstream.send([attempt]) as answer:
            assert await body_of(answer) == b""


async def test_cookies_are_not_kept() -> None:
    said = b"HTTP/1.1 200 OK\r\nset-cookie: a=b; path=/\r\ncontent-length: 0\r\n\r\n"
    async with asking(saying(said)) as (upstream, server):
        for _ in range(2):
            async with upstream.send([server.attempt()]) as answer:
                assert await body_of(answer) == b""
    assert not [name for _, sent, _ in server.asked for name, _ in sent if name == b"Cookie"]


async def test_the_environment_has_no_say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login a password b\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with (
        asking(saying(whole(b"ok"))) as (upstream, server),
        upstream.send([UpstreamAttempt(server.candidate(), "POST", ())]) as answer,
    ):
        assert await body_of(answer) == b"ok"
    assert not [name for name, _ in server.asked[0][1] if name == b"Authorization"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(status: int) -> None:
    async with running(saying(whole(b"secret things"))) as elsewhere:
        said = b"HTTP/1.1 %d Moved\r\nlocation: http://127.0.0.1:%d/\r\ncontent-length: 0\r\n\r\n"
        async with asking(saying(said % (status, elsewhere.port))) as (upstream, server):
            with pytest.raises(UpstreamUnreachable, match=f"answered {status}"):
                async with upstream.send([server.attempt()]):
                    pass
        assert elsewhere.seen == []


# One candidate after the other


@asynccontextmanager
async def all_running(*conducts: Conduct) -> AsyncIterator[list[Server]]:
    async with running(conducts[0]) as first:
        if len(conducts) == 1:
            yield [first]
            return
        async with all_running(*conducts[1:]) as others:
            yield [first, *others]


async def hold(seen: Seen) -> None:
    await seen.until_gone()


async def refuse(seen: Seen) -> None:
    seen.writer.close()


def nobody() -> UpstreamCandidate:
    """A port on which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    return UpstreamCandidate("openai", "m", f"http://127.0.0.1:{port}/v1/x?key={KEY}", Secret(KEY))


@pytest.mark.parametrize(
    "bad",
    [
        saying(whole(b"no", b"500 No")),
        saying(whole(b"no", b"503 No")),
        saying(whole(b"no", b"529 No")),
        saying(CHUNKED.replace(b"200 OK", b"502 No")),
        saying(b"HTTP/1.1 302 Go\r\nlocation: /x\r\ncontent-length: 0\r\n\r\n"),
        saying(b"this is not HTTP\r\n\r\n"),
        then_closing(b"HTTP/1.1 200 OK\r\nx-a: "),
        refuse,
        hold,
    ],
)
async def test_a_candidate_that_fails_is_followed_by_the_next(bad: Conduct) -> None:
    patience = UpstreamTimeouts(candidate=0.2)
    async with all_running(bad, bad, saying(whole(b"ok"))) as servers:
        async with open_upstream(patience=patience) as upstream:
            attempts = [one.attempt(b"%d" % place) for place, one in enumerate(servers)]
            async with upstream.send(attempts) as answer:
                assert answer.candidate == servers[2].candidate()
                assert await body_of(answer) == b"ok"
        assert [one.asked[0][2] for one in servers] == [b"0", b"1", b"2"]
        for one in servers[:2]:
            await asyncio.wait_for(one.seen[0].gone.wait(), 60)


@pytest.mark.parametrize("status", [200, 400, 401, 404, 429, 499])
async def test_a_candidate_that_answers_is_the_last(status: int) -> None:
    answering = saying(whole(b"mine", b"%d Said" % status))
    async with all_running(answering, saying(whole(b"ok"))) as servers:
        attempts = [one.attempt() for one in servers]
        async with open_upstream() as upstream, upstream.send(attempts) as answer:
            assert answer.status == status
            assert await body_of(answer) == b"mine"
        assert servers[1].seen == []


async def test_the_last_candidates_failure_is_relayed_as_it_is() -> None:
    bad = saying(whole(b"first", b"500 No")), saying(whole(b"last", b"503 No"))
    async with all_running(*bad) as servers:
        attempts = [one.attempt() for one in servers]
        async with open_upstream() as upstream, upstream.send(attempts) as answer:
            assert answer.status == 503
            assert await body_of(answer) == b"last"


async def test_an_unreachable_candidate_is_followed_by_the_next() -> None:
    async with asking(saying(whole(b"ok"))) as (upstream, server):
        attempts = [UpstreamAttempt(nobody(), "POST", (), b"{}"), server.attempt()]
        async with upstream.send(attempts) as answer:
            assert await body_of(answer) == b"ok"


async def test_nobody_there_is_said_without_the_key() -> None:
    async with open_upstream() as upstream:
        with pytest.raises(UpstreamUnreachable) as caught:
            async with upstream.send([UpstreamAttempt(nobody(), "POST", (), b"{}")]):
                pass
    assert "openai at 127.0.0.1:" in str(caught.value)
    assert KEY not in told(caught.value)
    assert isinstance(caught.value, MemplaneError)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (saying(b"this is not HTTP\r\n\r\n"), "not HTTP"),
        (refuse, "closed the connection"),
        (then_closing(b"HTTP/1.1 200 OK\r\nx-a: "), "closed the connection"),
    ],
)
async def test_no_answer_is_said_without_the_key(bad: Conduct, why: str) -> None:
    async with asking(bad) as (upstream, server):
        attempt = UpstreamAttempt(
            server.candidate(f"/v1/x?key={KEY}"), "POST", server.attempt().headers, b"{}"
        )
        with pytest.raises(UpstreamUnreachable, match=why) as caught:
            async with upstream.send([attempt]):
                pass
    assert KEY not in told(caught.value)
    assert KEY not in repr(attempt)


async def test_a_name_that_leads_to_a_private_address_is_not_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def resolve(*_: object, **__: object) -> Sequence[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", server.port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    async with running(saying(whole(b"ok"))) as server:
        url = f"http://api.example.com:{server.port}/v1/x"
        attempt = UpstreamAttempt(UpstreamCandidate("openai", "m", url), "POST", ())
        async with open_upstream() as upstream:
            with pytest.raises(UpstreamUnreachable, match="private address"):
                async with upstream.send([attempt]):
                    pass
        assert server.seen == []
        async with (
            open_upstream(allowed=["API.example.com"]) as upstream,
            upstream.send([attempt]) as answer,
        ):
            assert await body_of(answer) == b"ok"


# An answer that ends early


def cut(said: bytes, come: asyncio.Event, *, hard: bool) -> Conduct:
    """Say something, and break the connection when it has come."""

    async def conduct(seen: Seen) -> None:
        await seen.say(said)
        await come.wait()
        if hard:
            reset(seen.writer)
        else:
            seen.writer.close()

    return conduct


CUTS = (
    HEAD + b"content-length: 10\r\n\r\n" + b"12345",
    CHUNKED + chunk(b"12345"),
    CHUNKED + b"a\r\n12345",
    CHUNKED + chunk(b"12345") + b"0\r\n",
    CHUNKED + chunk(b"12345") + b"0",
)


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("said", CUTS)
async def test_a_cut_answer_is_no_clean_end(said: bytes, hard: bool) -> None:  # noqa: FBT001
    come = asyncio.Event()
    got: list[bytes] = []
    async with asking(cut(said, come, hard=hard)) as (upstream, server):
        with pytest.raises(UpstreamCut) as caught:
            await read_into(got, upstream, server, setting(come))
    assert b"".join(got) == b"12345"
    assert KEY not in told(caught.value)


def setting(event: asyncio.Event) -> Callable[[], Awaitable[None]]:
    async def then() -> None:
        event.set()

    return then


async def test_a_reset_is_no_clean_end_where_the_end_of_the_connection_would_be() -> None:
    come = asyncio.Event()
    got: list[bytes] = []
    async with asking(cut(HEAD + b"\r\n12345", come, hard=True)) as (upstream, server):
        with pytest.raises(UpstreamCut):
            await read_into(got, upstream, server, setting(come))
    assert got == [b"12345"]


async def test_garbage_between_chunks_is_no_clean_end() -> None:
    come = asyncio.Event()
    got: list[bytes] = []

    async def conduct(seen: Seen) -> None:
        await seen.say(CHUNKED + chunk(b"12345"))
        await come.wait()
        await seen.say(b"zz\r\n")
        await seen.until_gone()

    async with asking(conduct) as (upstream, server):
        with pytest.raises(UpstreamCut):
            await read_into(got, upstream, server, setting(come))
    assert got == [b"12345"]


async def test_what_came_before_a_cut_is_given_to_a_slow_reader() -> None:
    come = asyncio.Event()
    got: list[bytes] = []

    async def conduct(seen: Seen) -> None:
        await seen.say(CHUNKED + chunk(b"first"))
        await come.wait()
        await seen.say(chunk(b"second") + chunk(b"third"))
        seen.writer.close()
        await seen.writer.wait_closed()

    async def be_busy_until_the_connection_is_gone() -> None:
        come.set()
        await asyncio.wait_for(server.seen[0].gone.wait(), 60)
        await settled()

    async with asking(conduct) as (upstream, server):
        with pytest.raises(UpstreamCut):
            await read_into(got, upstream, server, be_busy_until_the_connection_is_gone)
    assert b"".join(got) == b"firstsecondthird"


async def settled() -> None:
    """Let everything happen that is about to."""
    for _ in range(20):
        await asyncio.sleep(0)
    await asyncio.to_thread(int)


# Waiting


async def test_a_head_that_does_not_come_is_a_stall() -> None:
    async with asking(hold, UpstreamTimeouts(first_byte=0.05)) as (upstream, server):
        with pytest.raises(UpstreamStalled) as caught:
            async with upstream.send([server.attempt()]):
                pass
        assert caught.value.phase == "head"
        await asyncio.wait_for(server.seen[0].gone.wait(), 60)


@pytest.mark.parametrize(("said", "phase"), [(b"", "first byte"), (chunk(b"a"), "idle")])
async def test_a_body_that_does_not_come_is_a_stall(said: bytes, phase: str) -> None:
    async def conduct(seen: Seen) -> None:
        await seen.say(CHUNKED + said)
        await seen.until_gone()

    waits = (
        UpstreamTimeouts(first_byte=0.3, idle=60)
        if not said
        else UpstreamTimeouts(first_byte=60, idle=0.05)
    )
    async with asking(conduct, waits) as (upstream, server):
        with pytest.raises(UpstreamStalled) as caught:
            async with upstream.send([server.attempt()]) as answer:
                await body_of(answer)
        assert caught.value.phase == phase
        assert isinstance(caught.value, UpstreamError)
        await asyncio.wait_for(server.seen[0].gone.wait(), 60)


async def test_a_long_stream_that_goes_on_is_not_cut() -> None:
    async def conduct(seen: Seen) -> None:
        await seen.say(CHUNKED)
        for _ in range(13):
            await asyncio.sleep(0.1)
            await seen.say(chunk(b"a"))
        await seen.say(OVER)

    patience = UpstreamTimeouts(candidate=1.2, first_byte=1.2, idle=1.2)
    async with answering(conduct, patience) as (answer, _):
        assert await body_of(answer) == b"a" * 13


async def test_a_reader_that_takes_its_time_is_no_stall() -> None:
    more = asyncio.Event()

    async def conduct(seen: Seen) -> None:
        await seen.say(CHUNKED + chunk(b"a"))
        await more.wait()
        await seen.say(chunk(b"b") + OVER)

    patience = UpstreamTimeouts(idle=0.05)
    async with answering(conduct, patience) as (answer, _), aclosing(answer.chunks()) as come:
        assert await anext(come) == b"a"
        await asyncio.sleep(0.15)
        more.set()
        assert [one async for one in come] == [b"b"]


# Leaving


async def test_leaving_early_closes_the_connection_at_once() -> None:
    async def conduct(seen: Seen) -> None:
        await seen.say(CHUNKED + chunk(b"a"))
        await seen.until_gone()

    async with asking(conduct) as (upstream, server):
        async with upstream.send([server.attempt()]) as answer, aclosing(answer.chunks()) as come:
            assert await anext(come) == b"a"
        await asyncio.wait_for(server.seen[0].gone.wait(), 60)


@pytest.mark.parametrize("said", [b"", CHUNKED, CHUNKED + chunk(b"a")])
async def test_a_cancelled_request_closes_the_connection(said: bytes) -> None:
    reached = asyncio.Event()

    async def conduct(seen: Seen) -> None:
        await seen.say(said)
        reached.set()
        await seen.until_gone()

    async with asking(conduct) as (upstream, server):

        async def ask() -> None:
            async with upstream.send([server.attempt()]) as answer:
                await body_of(answer)

        task = asyncio.create_task(ask())
        await reached.wait()
        await settled()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(server.seen[0].gone.wait(), 60)


async def test_a_provider_that_reads_nothing_does_not_hold_the_connection() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    server.setblocking(False)  # noqa: FBT003
    loop = asyncio.get_running_loop()
    url = f"http://127.0.0.1:{server.getsockname()[1]}/v1/x"
    with server:
        async with open_upstream(patience=UpstreamTimeouts(first_byte=0.5)) as upstream:
            attempt = UpstreamAttempt(
                UpstreamCandidate("openai", "m", url), "POST", (), b"a" * (30 << 20)
            )
            before = open_sockets()
            with pytest.raises(UpstreamStalled):
                async with upstream.send([attempt]):
                    pass
            await settled()
            accepted, _ = await asyncio.wait_for(loop.sock_accept(server), 60)
            accepted.close()
            assert open_sockets() == before


def open_sockets() -> int:
    found = 0
    for descriptor in range(4096):
        with suppress(OSError):
            found += stat.S_ISSOCK(os.fstat(descriptor).st_mode)
    return found


async def cycle(upstream: UpstreamClient, server: Server, place: int) -> None:
    with suppress(UpstreamError):
        async with upstream.send([server.attempt(b"%d" % (place % 4))]) as answer:
            async for _ in answer.chunks():
                if place % 4 == 1:
                    break


async def test_nothing_is_left_after_many_cycles() -> None:
    async def conduct(seen: Seen) -> None:
        match seen.body:
            case b"0":
                await seen.say(CHUNKED + chunk(b"a") + OVER)
            case b"1":
                await seen.say(CHUNKED + chunk(b"a"))
                await seen.until_gone()
            case b"2":
                await seen.say(CHUNKED + chunk(b"a"))
                reset(seen.writer)
            case _:
                await seen.until_gone()

    async with running(conduct) as server:
        before = open_sockets()
        async with open_upstream(patience=UpstreamTimeouts(first_byte=2.0)) as upstream:
            await asyncio.gather(*(cycle(upstream, server, place) for place in range(100)))
        assert len(server.asked) == 100
        for one in server.seen:
            await asyncio.wait_for(one.gone.wait(), 60)
        await settled()
        assert open_sockets() == before
    await settled()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize(
    "behaviour",
    [
        test_a_request_goes_out_as_it_was_given,
        test_a_body_that_ends_with_its_connection_is_whole,
        test_a_reset_is_no_clean_end_where_the_end_of_the_connection_would_be,
        test_garbage_between_chunks_is_no_clean_end,
        test_what_came_before_a_cut_is_given_to_a_slow_reader,
        test_a_head_that_does_not_come_is_a_stall,
        test_leaving_early_closes_the_connection_at_once,
        test_a_provider_that_reads_nothing_does_not_hold_the_connection,
        test_nothing_is_left_after_many_cycles,
        *(
            partial(test_a_cut_answer_is_no_clean_end, said, hard)
            for said in CUTS
            for hard in (False, True)
        ),
    ],
)
def test_the_servers_own_loop_does_it_too(behaviour: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(60):
            await behaviour()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())
