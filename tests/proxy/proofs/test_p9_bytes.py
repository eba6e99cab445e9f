"""P9: a client gets the bytes that were sent, what a reply was does not depend on how they were
cut, and nothing raises.

Controls, in this file: a parser that decodes each chunk by itself, one that drops what has no end
of line yet, one that forgets a CR whose LF comes later, one that sees a byte order mark in each
chunk, and a reply without its last chunk; and a proxy that decodes each chunk, writes events anew,
keeps what has no end of line, or drops the last piece.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memplane.exchange.dialect import Dialect
from memplane.exchange.dialect_registry import DIALECTS
from memplane.exchange.reply_assembler import AssembledReply, ReplyAssembler, ReplyOutcome
from memplane.exchange.sse import SseEvent, SseParser
from memplane.ledger.entry import JsonReply, StreamReply, Usage
from memplane.server.response_stream import HttpResponseWriter
from tests.proxy.proofs.streams import (
    ANTHROPIC,
    CHAT,
    RESPONSES,
    SMALL,
    Stream,
    eight_megabytes,
    long_streams,
)
from tests.proxy.proxied import Proxied, proxied
from tests.support.answers import streamed

RECHUNKINGS = 2000
SEED = 20261116

Parse = Callable[[Iterable[bytes]], list[SseEvent]]


def assembled(dialect: Dialect, chunks: Iterable[bytes]) -> AssembledReply:
    assembling = ReplyAssembler(dialect, stream=True, encoding="")
    for chunk in chunks:
        assembling.feed(chunk)
    return assembling.finish()


def parsed(chunks: Iterable[bytes]) -> list[SseEvent]:
    events = SseParser()
    found = [event for chunk in chunks for event in events.feed(chunk)]
    return found + events.end()


def everywhere(body: bytes) -> Iterator[list[bytes]]:
    """Cut at every offset, at every pair of neighbouring ones, and into single bytes."""
    for at in range(len(body) + 1):
        yield [body[:at], body[at:]]
        yield [body[:at], body[at : at + 1], body[at + 1 :]]
    yield [body[at : at + 1] for at in range(len(body))]


def at_random(body: bytes, chosen: random.Random, times: int) -> Iterator[list[bytes]]:
    for _ in range(times):
        count = min(chosen.choice((1, 3, 20, 200)), len(body))
        cuts = [0, *sorted(chosen.sample(range(len(body) + 1), count)), len(body)]
        yield [body[start:end] for start, end in pairwise(cuts)]


def differs(stream: Stream, chunkings: Iterable[list[bytes]], parse: Parse) -> bool:
    """Say whether events depend on the cuts, or tell another end than the whole did."""
    whole = parsed([stream.body])
    return any(parse(chunks) != whole for chunks in chunkings)


def test_there_are_enough_streams_of_every_dialect() -> None:
    assert len(SMALL) >= 50
    assert {stream.dialect for stream in SMALL} == set(DIALECTS)
    assert len({stream.name for stream in SMALL}) == len(SMALL)


@pytest.mark.parametrize("stream", SMALL, ids=lambda stream: stream.name)
def test_each_stream_ends_as_it_should(stream: Stream) -> None:
    ended = assembled(stream.dialect, [stream.body])

    assert (ended.kind, ended.usage) == (stream.kind, stream.usage)
    assert ended.reply == StreamReply(stream.body if stream.body.strip() else b"")


@pytest.mark.parametrize("stream", SMALL, ids=lambda stream: stream.name)
def test_cut_at_every_offset(stream: Stream) -> None:
    expected = assembled(stream.dialect, [stream.body])

    assert not differs(stream, everywhere(stream.body), parsed)
    assert all(assembled(stream.dialect, cut) == expected for cut in everywhere(stream.body))


@pytest.mark.parametrize("stream", long_streams(), ids=lambda stream: stream.name)
def test_long_streams_cut_at_random(stream: Stream) -> None:
    chosen = random.Random(SEED)  # noqa: S311 - failures must come again
    expected = assembled(stream.dialect, [stream.body])
    digest = hashlib.sha256(stream.body).digest()

    assert (expected.kind, expected.usage) == (stream.kind, stream.usage)
    for chunks in at_random(stream.body, chosen, RECHUNKINGS // len(long_streams())):
        ended = assembled(stream.dialect, chunks)
        assert ended == expected
        assert hashlib.sha256(ended.reply.body).digest() == digest
        assert not differs(stream, [chunks], parsed)


@pytest.mark.parametrize(
    "times", [RECHUNKINGS, pytest.param(10_000, marks=pytest.mark.long)], ids=["fast", "long"]
)
def test_small_streams_cut_at_random_into_many_pieces(times: int) -> None:
    chosen = random.Random(SEED + times)  # noqa: S311 - failures must come again
    for _ in range(times):
        stream = chosen.choice(SMALL)
        for chunks in at_random(stream.body, chosen, 1):
            assert not differs(stream, [chunks], parsed)
            assert assembled(stream.dialect, chunks) == assembled(stream.dialect, [stream.body])


def test_an_encoded_reply_and_one_that_is_no_stream_cut_anywhere() -> None:
    plain = b'{"usage":{"input_tokens":3,"output_tokens":4},"content":"Gr\xc3\xbc\xc3\x9fe"}'

    def ended(chunks: Iterable[bytes], encoding: str) -> AssembledReply:
        assembling = ReplyAssembler(ANTHROPIC, stream=False, encoding=encoding)
        for chunk in chunks:
            assembling.feed(chunk)
        return assembling.finish()

    whole = AssembledReply(ReplyOutcome.WHOLE, JsonReply(plain), Usage(3, 4))
    assert all(ended(cut, "") == whole for cut in everywhere(plain))
    packed = gzip.compress(plain)
    assert all(ended(cut, "gzip") == whole for cut in everywhere(packed))


def test_an_event_of_eight_megabytes() -> None:
    stream = eight_megabytes()
    expected = assembled(stream.dialect, [stream.body])
    whole = parsed([stream.body])

    assert len(stream.body) > 8_000_000
    assert (expected.kind, expected.usage) == (stream.kind, stream.usage)
    for size in (1000, 4096, 65_537):
        chunks = [stream.body[at : at + size] for at in range(0, len(stream.body), size)]
        assert assembled(stream.dialect, chunks) == expected
        assert parsed(chunks) == whole


@given(st.sampled_from(DIALECTS), st.lists(st.binary(max_size=50), max_size=10))
@settings(max_examples=300)
def test_any_bytes(dialect: Dialect, chunks: list[bytes]) -> None:
    assert assembled(dialect, chunks) == assembled(dialect, [b"".join(chunks)])
    assert parsed(chunks) == parsed([b"".join(chunks)])


# Through the proxy

PATHS: dict[Dialect, str] = {
    CHAT: "/v1/chat/completions",
    RESPONSES: "/v1/responses",
    ANTHROPIC: "/v1/messages",
}


class Pause(asyncio.Event):
    """Lets everybody else read, so that what was sent apart is also read apart."""

    async def wait(self) -> Literal[True]:
        for _ in range(8):
            await asyncio.sleep(0)
        return True


async def through(door: Proxied, stream: Stream, chunks: Iterable[bytes]) -> tuple[bytes, Any]:
    """Send a stream in these chunks; returns what the client got, and what was recorded of it."""
    path = PATHS[stream.dialect]
    answer = streamed(chunk for chunk in chunks if chunk)
    door.upstream.at(path, tuple(step for one in answer for step in (one, Pause())))
    body = {"model": "m", "stream": True, "messages": [], "input": "hello"}
    agent = f"a{len(door.upstream.received)}"
    answered = await door.post(path, body, agent=agent)
    await door.settled()
    entries = await door.recorded(agent)
    kept = [(one["response"], one.get("usage"), one.get("status")) for one in entries]
    return hashlib.sha256(answered.body).digest(), kept


async def changed(door: Proxied, streams: Iterable[Stream], times: int) -> list[str]:
    """Name the streams of which a client got other bytes, or the ledger another entry."""
    chosen = random.Random(SEED)  # noqa: S311 - failures must come again
    found: list[str] = []
    for stream in streams:
        sent = hashlib.sha256(stream.body).digest()
        _, entry = await through(door, stream, [stream.body])
        cuts = at_random(stream.body, chosen, times)
        if any([await through(door, stream, cut) != (sent, entry) for cut in cuts]):
            found.append(stream.name)
        if bool(entry) != (stream.kind is not ReplyOutcome.CUT):
            found.append(f"{stream.name} is recorded wrongly")
    return found


@pytest.mark.parametrize("times", [1, pytest.param(8, marks=pytest.mark.long)])
async def test_a_client_gets_the_bytes_that_were_sent(times: int, tmp_path: Path) -> None:
    async with proxied(tmp_path, ledger__fsync="never") as door:
        assert await changed(door, (*SMALL, *long_streams()), times) == []


async def test_a_client_gets_an_event_of_eight_megabytes(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        assert await changed(door, [eight_megabytes()], 1) == []


def _decoded(data: bytes) -> bytes:
    return data.decode("utf-8", "replace").encode()


def _written_anew(data: bytes) -> bytes:
    lines = data.split(b"\n")
    for at, line in enumerate(lines):
        if line.startswith(b"data: {"):
            with suppress(ValueError):
                lines[at] = b"data: " + json.dumps(json.loads(line[6:])).encode()
    return b"\n".join(lines)


def _without_tail(data: bytes) -> bytes:
    return data[: data.rfind(b"\n") + 1]


def _without_last_byte(data: bytes) -> bytes:
    return data[:-1] if data.endswith(b"\n\n") else data


@pytest.mark.parametrize("broken", [_decoded, _written_anew, _without_tail, _without_last_byte])
async def test_a_proxy_that_changes_bytes_is_caught(
    broken: Callable[[bytes], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = HttpResponseWriter.send

    async def send_broken(self: HttpResponseWriter, data: bytes) -> None:
        await send(self, broken(data))

    monkeypatch.setattr(HttpResponseWriter, "send", send_broken)
    async with proxied(tmp_path, ledger__fsync="never") as door:
        assert await changed(door, SMALL[:4], 3) != []


async def test_an_entry_that_depends_on_the_cuts_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = ReplyAssembler.feed
    monkeypatch.setattr(ReplyAssembler, "feed", lambda self, chunk: feed(self, _decoded(chunk)))
    async with proxied(tmp_path, ledger__fsync="never") as door:
        assert await changed(door, SMALL[:1], 20) != []


_PIECES = st.sampled_from(
    (
        *(b"\r", b"\n", b"\n\n", b"data:", b"data: ", b"event: error", b"event: message_stop"),
        *(
            b"[DONE]",
            b'{"type":"message_stop"}',
            b'{"usage":{"input_tokens":3}}',
            b'{"error":"x"}',
        ),
        *(b"\xef\xbb\xbf", b":", b" ", b"\xf0\x9f", b'{"type":"response.completed"}', b"_tokens"),
    )
)


@given(st.sampled_from(DIALECTS), st.lists(_PIECES, max_size=25))
@settings(max_examples=500)
def test_reading_only_events_that_tell_something_is_reading_all(
    dialect: Dialect, pieces: list[bytes]
) -> None:
    """The reply reads few events; here every one is read, one after the other."""
    body = b"".join(pieces)
    ended = assembled(dialect, pieces)
    if not body.strip():
        return

    separate = [assembled(dialect, [whole_event(one)]) for one in parsed([body])]

    kinds = {one.kind.value for one in separate}
    expected = next((kind for kind in ("failed", "whole") if kind in kinds), "cut")
    assert ended.kind.value == expected
    assert ended.usage.prompt_tokens == max(
        (one.usage.prompt_tokens for one in separate), default=0
    )


def whole_event(event: SseEvent) -> bytes:
    lines = [f"data: {line}" for line in event.data.split("\n")]
    return "\n".join((f"event: {event.name}", *lines, "", "")).encode()


class _DecodesEachChunk(SseParser):
    def feed(self, data: bytes) -> list[SseEvent]:
        return super().feed(data.decode("utf-8", "replace").encode())


class _DropsTheTail(SseParser):
    def feed(self, data: bytes) -> list[SseEvent]:
        found = super().feed(data)
        self._unfinished.clear()
        return found


class _ForgetsTheReturn(SseParser):
    def feed(self, data: bytes) -> list[SseEvent]:
        self._after_return = False
        return super().feed(data)


class _SeesMarksInEachChunk(SseParser):
    def feed(self, data: bytes) -> list[SseEvent]:
        return super().feed(data.removeprefix(b"\xef\xbb\xbf"))


@pytest.mark.parametrize(
    "broken", [_DecodesEachChunk, _DropsTheTail, _ForgetsTheReturn, _SeesMarksInEachChunk]
)
def test_a_broken_parser_is_caught(broken: type[SseParser]) -> None:
    def parse(chunks: Iterable[bytes]) -> list[SseEvent]:
        events = broken()
        found = [event for chunk in chunks for event in events.feed(chunk)]
        return found + events.end()

    assert any(differs(stream, everywhere(stream.body), parse) for stream in SMALL)


def test_a_reply_without_its_last_chunk_is_caught() -> None:
    caught = [
        stream
        for stream in SMALL
        if any(
            assembled(stream.dialect, cut[:-1]) != assembled(stream.dialect, cut)
            for cut in everywhere(stream.body)
        )
    ]

    assert len(caught) > len(SMALL) / 2
