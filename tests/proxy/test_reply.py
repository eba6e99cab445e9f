"""What a reply was, from its bytes."""

from __future__ import annotations

import gzip
import json
import sys
import tracemalloc
import types
import zlib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.errors import InvalidRequest
from memplane.exchange import content_encoding, reply_assembler
from memplane.exchange.anthropic import AnthropicMessages
from memplane.exchange.content_encoding import decode_content
from memplane.exchange.dialect import Dialect
from memplane.exchange.dialect_registry import DIALECTS
from memplane.exchange.openai_chat import OpenAIChat
from memplane.exchange.openai_responses import OpenAIResponses
from memplane.exchange.reply_assembler import AssembledReply, ReplyAssembler, ReplyOutcome
from memplane.ledger.entry import JsonReply, StreamReply, Usage

CHAT = OpenAIChat()
ANTHROPIC = AnthropicMessages()
RESPONSES = OpenAIResponses()


def ended(
    dialect: Dialect, *chunks: bytes, stream: bool = True, encoding: str = ""
) -> AssembledReply:
    assembling = ReplyAssembler(dialect, stream=stream, encoding=encoding)
    for chunk in chunks:
        assembling.feed(chunk)
    return assembling.finish()


def data(*documents: object) -> bytes:
    return b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in documents)


def delta(words: str, **more: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": {"content": words}}], **more}


DONE = b"data: [DONE]\n\n"
STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


def test_a_stream_with_its_last_event_is_whole_and_kept_as_it_came() -> None:
    body = b"\xef\xbb\xbf: ping\r\n\r\n" + data(delta("h\u00e9")) + b"data: [DONE]\r\n"

    assert ended(CHAT, body) == AssembledReply(ReplyOutcome.WHOLE, StreamReply(body))


@pytest.mark.parametrize("size", [0, 100, 700, 3000])
def test_a_stream_of_many_pieces_is_kept_as_it_came(size: int) -> None:
    pieces = [data(delta(f"{n} " + "word" * (size // 4))) for n in range(101)]
    assert ended(CHAT, *pieces, DONE) == AssembledReply(
        ReplyOutcome.WHOLE, StreamReply(b"".join((*pieces, DONE)))
    )


def test_a_stream_that_runs_takes_a_fraction_of_its_length() -> None:
    pieces = [data({"id": "chatcmpl-1", "model": "m", **delta(f" word{n}")}) for n in range(960)]
    tracemalloc.start()
    try:
        assembling = ReplyAssembler(CHAT, stream=True)
        for piece in pieces:
            assembling.feed(bytes(bytearray(piece)))  # as from the network: nobody else holds it
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < assembling.length / 4


@pytest.mark.parametrize(
    ("dialect", "last"),
    [
        (CHAT, DONE),
        (ANTHROPIC, STOP),
        (RESPONSES, data({"type": "response.completed", "response": {}})),
        (RESPONSES, data({"type": "response.incomplete", "response": {"error": None}})),
    ],
)
def test_each_dialect_has_its_own_last_event(dialect: Dialect, last: bytes) -> None:
    for other in DIALECTS:
        expected = ReplyOutcome.WHOLE if other == dialect else ReplyOutcome.CUT
        assert ended(other, data({"x": 1}), last).kind is expected


def test_a_stream_that_only_talks_of_the_last_event_is_cut() -> None:
    for dialect in DIALECTS:
        talk = data(*(delta(f"{mark} error usage _tokens") for mark in dialect.last))
        assert ended(dialect, talk) == AssembledReply(
            ReplyOutcome.CUT, StreamReply(talk), problem="the stream ended without its last event"
        )


@pytest.mark.parametrize(
    ("dialect", "body", "why"),
    [
        (
            ANTHROPIC,
            b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n',
            "overloaded_error",
        ),
        (ANTHROPIC, b"event: error\ndata: oops\n\n" + STOP, "the stream has an error event"),
        (CHAT, data(delta("a"), {"error": {"message": "no"}}) + DONE, "no"),
        (CHAT, data({"error": "first"}, {"error": "second"}), "first"),
        (
            RESPONSES,
            data({"type": "response.failed", "response": {"status": "failed"}}),
            "the response is failed",
        ),
        (RESPONSES, data({"type": "error", "message": "no"}), "no"),
    ],
)
def test_an_error_in_a_stream(dialect: Dialect, body: bytes, why: str) -> None:
    assert ended(dialect, body) == AssembledReply(
        ReplyOutcome.FAILED, StreamReply(body), problem=why
    )


def test_usage_is_the_largest_that_was_said() -> None:
    body = data(
        {"type": "message_start", "message": {"usage": {"input_tokens": 25, "output_tokens": 1}}},
        {"type": "message_delta", "usage": {"output_tokens": 15}},
        {"type": "message_delta", "usage": {"input_tokens": 3, "output_tokens": 12}},
    )

    assert ended(ANTHROPIC, body, STOP).usage == Usage(25, 15)


def test_usage_of_the_other_dialects() -> None:
    counted = {"prompt_tokens": 7, "completion_tokens": 9, "cost": 0.00014}
    last = {"usage": {"input_tokens": 4, "output_tokens": 5}}

    in_chat = data(delta("a", usage=None), {"choices": [], "usage": counted}) + DONE
    assert ended(CHAT, in_chat).usage == Usage(7, 9, 0.00014)
    in_responses = data({"type": "response.completed", "response": last})
    assert ended(RESPONSES, in_responses).usage == Usage(4, 5)
    whole = json.dumps({"choices": [], "usage": counted}).encode()
    assert ended(CHAT, whole, stream=False).usage == Usage(7, 9, 0.00014)


@pytest.mark.parametrize(
    "counted",
    [
        {"prompt_tokens": -1, "completion_tokens": True, "cost": -1},
        {"prompt_tokens": "7", "completion_tokens": None, "cost": "1"},
        {"prompt_tokens": 10**400, "completion_tokens": 1e300, "cost": True},
        {"prompt_tokens": [], "cost": {}},
    ],
)
def test_what_is_no_count_is_none(counted: object) -> None:
    assert ended(CHAT, data({"usage": counted}), DONE).usage == Usage()
    assert (
        ended(CHAT, data({"usage": [counted], "message": [], "response": 1}), DONE).usage
        == Usage()
    )


def test_a_cost_beyond_every_number_is_none() -> None:
    body = b'data: {"usage":{"prompt_tokens":2,"cost":1e999}}\n\n'

    assert ended(CHAT, body, DONE).usage == Usage(2)


def test_a_reply_in_one_piece() -> None:
    body = b' {"id" : "x", "choices": [ ] }\n'

    assert ended(CHAT, body[:5], body[5:], stream=False) == AssembledReply(
        ReplyOutcome.WHOLE, JsonReply(body)
    )


def test_an_error_in_one_piece() -> None:
    body = b'{"error":{"message":"no"}}'

    assert ended(CHAT, body, stream=False) == AssembledReply(
        ReplyOutcome.FAILED, JsonReply(body), problem="no"
    )


@pytest.mark.parametrize("body", [b"<html>", b'{"choices":[{"mess', b"\xff", b"{}{}", DONE])
def test_what_is_not_json_is_not_recorded(body: bytes) -> None:
    assert ended(CHAT, body, stream=False) == AssembledReply(
        ReplyOutcome.CUT, JsonReply(b""), problem="the reply is not JSON"
    )


def test_half_a_surrogate_pair_is_json() -> None:
    body = b'{"choices":[{"message":{"content":"\\ud83d"}}],"usage":{"prompt_tokens":3}}'

    assert ended(CHAT, body, stream=False) == AssembledReply(
        ReplyOutcome.WHOLE, JsonReply(body), Usage(3)
    )


def test_an_empty_reply_is_a_failure() -> None:
    assert ended(CHAT, stream=False) == AssembledReply(
        ReplyOutcome.FAILED, JsonReply(b""), problem="the reply is empty"
    )
    assert ended(CHAT, b"\n", b"") == AssembledReply(
        ReplyOutcome.FAILED, StreamReply(b""), problem="the reply is empty"
    )


def raw_deflate(body: bytes) -> bytes:
    squeezing = zlib.compressobj(wbits=-15)
    return squeezing.compress(body) + squeezing.flush()


@pytest.mark.parametrize(
    ("encoding", "squeeze"),
    [
        ("gzip", gzip.compress),
        (" GZIP ", lambda body: gzip.compress(body[:9]) + gzip.compress(body[9:])),
        ("x-gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", raw_deflate),
        ("identity", bytes),
        ("deflate, gzip", lambda body: gzip.compress(zlib.compress(body))),
    ],
)
def test_encodings_are_undone_for_the_record(encoding: str, squeeze: object) -> None:
    assert callable(squeeze)
    body = data(delta("a" * 5000), {"usage": {"prompt_tokens": 3}}) + DONE
    squeezed = squeeze(body)
    pieces = [squeezed[at : at + 7] for at in range(0, len(squeezed), 7)]

    assert ended(CHAT, *pieces, encoding=encoding) == AssembledReply(
        ReplyOutcome.WHOLE, StreamReply(body), Usage(3)
    )


def test_an_encoded_stream_that_was_cut_is_cut() -> None:
    noise = data(*(delta(str(hash(str(at)))) for at in range(500)))
    squeezed = gzip.compress(noise + DONE)

    cut = ended(CHAT, squeezed[: len(squeezed) // 2], encoding="gzip")

    assert cut.kind is ReplyOutcome.CUT
    assert isinstance(cut.reply, StreamReply)
    assert noise.startswith(cut.reply.body)
    assert cut.reply.body
    assert ended(CHAT, squeezed[:5], encoding="gzip") == AssembledReply(
        ReplyOutcome.CUT, StreamReply(b""), problem="the encoded reply was cut"
    )


@pytest.mark.parametrize(
    ("encoding", "why"),
    [
        ("gzip", "the encoded body is damaged"),
        ("deflate", "the encoded body is damaged"),
        ("aes128gcm", "the encoding 'aes128gcm' is not known"),
    ],
)
def test_an_encoding_that_cannot_be_undone_leaves_nothing_to_record(
    encoding: str, why: str
) -> None:
    assert ended(CHAT, b"\xff" + DONE, encoding=encoding) == AssembledReply(
        ReplyOutcome.CUT, StreamReply(b""), problem=why
    )


@pytest.fixture
def no_libraries() -> Iterator[None]:
    content_encoding._load_zstd.cache_clear()
    content_encoding._load_brotli.cache_clear()
    yield
    content_encoding._load_zstd.cache_clear()
    content_encoding._load_brotli.cache_clear()


@pytest.mark.usefixtures("no_libraries")
@pytest.mark.parametrize(
    ("encoding", "modules"),
    [("br", ("brotli", "brotlicffi")), ("zstd", ("compression.zstd", "backports.zstd"))],
)
def test_libraries_are_used_where_they_are_there(
    encoding: str, modules: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in modules:
        monkeypatch.setitem(sys.modules, module, None)
    assert ended(CHAT, DONE, encoding=encoding).problem == (
        f"there is no library for the encoding {encoding!r}"
    )

    content_encoding._load_zstd.cache_clear()
    content_encoding._load_brotli.cache_clear()
    monkeypatch.setitem(sys.modules, modules[0], stand_in())
    assert ended(CHAT, zlib.compress(DONE), encoding=encoding).kind is ReplyOutcome.WHOLE
    assert ended(CHAT, b"\xff" * 9, encoding=encoding).problem == "the encoded body is damaged"
    with pytest.raises(InvalidRequest, match="longer than 9 bytes"):
        decode_content(zlib.compress(DONE), encoding, max_bytes=9)


def stand_in() -> types.ModuleType:
    """A library with both names, for which zlib does the work."""

    class Decompressor:
        def __init__(self) -> None:
            self._inflating = zlib.decompressobj()

        def process(self, squeezed: bytes) -> bytes:
            return self._inflating.decompress(squeezed)

        decompress = process

    module = types.ModuleType("stand_in")
    module.__dict__.update(
        Decompressor=Decompressor,
        error=zlib.error,
        ZstdDecompressor=Decompressor,
        ZstdError=zlib.error,
    )
    return module


def test_no_more_of_a_bomb_is_undone_than_may_be_kept() -> None:
    bomb = gzip.compress(bytes(50_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRequest):
            decode_content(bomb, "gzip", max_bytes=1000)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_bomb_is_too_long() -> None:
    with pytest.raises(InvalidRequest, match="longer than 1000 bytes"):
        decode_content(gzip.compress(bytes(10_000_000)), "gzip", max_bytes=1000)
    assert decode_content(gzip.compress(bytes(1000)), "gzip", max_bytes=1000) == bytes(1000)
    two = gzip.compress(bytes(600)) * 2
    with pytest.raises(InvalidRequest, match="longer than 1000 bytes"):
        decode_content(two, "gzip", max_bytes=1000)


def test_what_is_too_long_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply_assembler, "MAX_REPLY_BYTES", 20)
    assembling = ReplyAssembler(CHAT, stream=True, encoding="")
    assembling.feed(b"data: 1\n\n")
    assembling.feed(b"data: 2\n\n\n\n\n")
    assembling.feed(DONE)

    assert assembling.finish() == AssembledReply(
        ReplyOutcome.CUT, StreamReply(b""), problem="too long to record"
    )
    assert not assembling._chunks
    assert ended(CHAT, gzip.compress(bytes(30))[:20], encoding="gzip").kind is ReplyOutcome.CUT
    assert ended(CHAT, b": 67\n\n", DONE).kind is ReplyOutcome.WHOLE


@given(
    dialect=st.sampled_from(DIALECTS),
    chunks=st.lists(st.binary(max_size=30), max_size=10),
    stream=st.booleans(),
)
def test_any_bytes_end_somehow(dialect: Dialect, chunks: list[bytes], *, stream: bool) -> None:
    for encoding in ("", "gzip", "deflate"):
        assert ended(dialect, *chunks, stream=stream, encoding=encoding) == ended(
            dialect, b"".join(chunks), stream=stream, encoding=encoding
        )
