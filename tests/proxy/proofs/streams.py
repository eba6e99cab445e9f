"""Streams of every dialect as providers send them, and as they should not; made by hand."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from itertools import chain

from memplane.exchange.anthropic import AnthropicMessages
from memplane.exchange.dialect import Dialect
from memplane.exchange.openai_chat import OpenAIChat
from memplane.exchange.openai_responses import OpenAIResponses
from memplane.exchange.reply_assembler import ReplyOutcome
from memplane.ledger.entry import Usage

CHAT, RESPONSES, ANTHROPIC = OpenAIChat(), OpenAIResponses(), AnthropicMessages()
WORDS = "Grüße, 世界 🌍 e\u0301\u2028end"


@dataclass(frozen=True, slots=True)
class Stream:
    """Bytes of a stream, and how it must end whatever way they are cut."""

    name: str
    dialect: Dialect
    body: bytes
    kind: ReplyOutcome = ReplyOutcome.WHOLE
    usage: Usage = Usage()  # noqa: RUF009 - it cannot be changed
    encoding: str = ""


Document = dict[str, object]


def _line(document: object, name: str = "", end: str = "\n") -> bytes:
    head = f"event: {name}{end}" if name else ""
    written = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return f"{head}data: {written}{end}{end}".encode()


def _chat(*, end: str = "\n", usage: object = None, done: str = "data: [DONE]") -> bytes:
    def chunk(delta: object, **more: object) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        return _line({"id": "c", "choices": [choice], **more}, end=end)

    parts = [chunk({"role": "assistant"}), *(chunk({"content": word}) for word in WORDS.split())]
    if usage is not None:
        parts.append(_line({"id": "c", "choices": [], "usage": usage}, end=end))
    return b"".join(parts) + f"{done}{end}{end}".encode() * bool(done)


def _anthropic(*, end: str = "\n", last: bool = True, names: bool = True) -> bytes:
    deltas: list[Document] = [
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": word}}
        for word in WORDS.split()
    ]
    documents: list[Document] = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 25, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        *deltas,
        {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 15}},
    ]
    documents += [{"type": "message_stop"}] * last
    return b"".join(_line(one, str(one["type"]) * names, end) for one in documents)


def _responses(
    *, end: str = "\n", last: str = "response.completed", status: str = "completed"
) -> bytes:
    usage = {"input_tokens": 30, "output_tokens": 12}
    deltas: list[Document] = [
        {"type": "response.output_text.delta", "delta": word} for word in WORDS.split()
    ]
    documents: list[Document] = [
        {"type": "response.created", "response": {"status": "in_progress", "usage": None}},
        *deltas,
        {"type": last, "response": {"status": status, "error": None, "usage": usage}},
    ]
    return b"".join(_line(one, str(one["type"]), end) for one in documents)


_COUNTED = {"prompt_tokens": 7, "completion_tokens": 9}
_A = Usage(25, 15)
_R = Usage(30, 12)
_BOM = b"\xef\xbb\xbf"
_ENDS = (("LF", "\n"), ("CR", "\r"), ("CRLF", "\r\n"))
_ERROR = _line({"type": "error", "error": {"type": "overloaded_error"}}, "error")
_GARBAGE = b'data: {"choices":[{"delta":\n\ndata: \xff\xfe\n\nevent\nid: 1\nretry: x\n:\n\n'

_OF_ENDS = chain.from_iterable(
    (
        Stream(f"chat {name}", CHAT, _chat(end=end)),
        Stream(f"chat usage {name}", CHAT, _chat(end=end, usage=_COUNTED), usage=Usage(7, 9)),
        Stream(f"anthropic {name}", ANTHROPIC, _anthropic(end=end), usage=_A),
        Stream(f"responses {name}", RESPONSES, _responses(end=end), usage=_R),
        Stream(f"BOM {name}", CHAT, _BOM + _chat(end=end)),
        Stream(
            f"comments {name}",
            ANTHROPIC,
            f": hi{end}{end}".encode() + _anthropic(end=end).replace(b"event", b": x\nevent"),
            usage=_A,
        ),
        Stream(f"unended {name}", CHAT, _chat(end=end).removesuffix(end.encode())),
        Stream(f"no end of line {name}", CHAT, _chat(end=end).removesuffix((end * 2).encode())),
        Stream(
            f"anthropic no end of line {name}",
            ANTHROPIC,
            _anthropic(end=end).removesuffix((end * 2).encode()),
            usage=_A,
        ),
        Stream(
            f"responses no end of line {name}",
            RESPONSES,
            _responses(end=end).removesuffix((end * 2).encode()),
            usage=_R,
        ),
    )
    for name, end in _ENDS
)

SMALL: tuple[Stream, ...] = (
    *_OF_ENDS,
    Stream("mixed ends", CHAT, b'data: {"x":1}\r\n\ndata: 1\n\r\ndata: 2\r\rdata: [DONE]\r\n\r'),
    Stream(
        "several data lines",
        CHAT,
        b'data: {"usage":\ndata: {"prompt_tokens":\ndata:5}}\n\ndata: [DONE]\n\n',
        usage=Usage(5),
    ),
    Stream("no blank after the colon", CHAT, _chat().replace(b"data: ", b"data:")),
    Stream("two blanks", CHAT, _chat(done="data:  [DONE]")),
    Stream("a name for the last", CHAT, _chat(done="event: done\ndata: [DONE]")),
    Stream("chat cut", CHAT, _chat(done=""), ReplyOutcome.CUT),
    Stream("chat cut in the last", CHAT, _chat()[:-4], ReplyOutcome.CUT),
    Stream("chat cut in data", CHAT, _chat()[:-30], ReplyOutcome.CUT),
    Stream(
        "a mark that is none", CHAT, b"data: 1\n\n" + _BOM + b"data: [DONE]\n\n", ReplyOutcome.CUT
    ),
    Stream("only a comment", CHAT, b": ping\n\n", ReplyOutcome.CUT),
    Stream("garbage", CHAT, _GARBAGE + _chat()),
    Stream("garbage and cut", CHAT, _GARBAGE, ReplyOutcome.CUT),
    Stream("only line ends", CHAT, b"\r\n\r\n\n\r", ReplyOutcome.FAILED),
    Stream("nothing", CHAT, b"", ReplyOutcome.FAILED),
    Stream("words about the last", CHAT, _line({"choices": "data: [DONE]\n\n"}), ReplyOutcome.CUT),
    Stream(
        "chat error", CHAT, _chat(done="") + _line({"error": {"code": 502}}), ReplyOutcome.FAILED
    ),
    Stream("chat error and done", CHAT, _line({"error": "x"}) + _chat(), ReplyOutcome.FAILED),
    Stream("error null", CHAT, _line({"choices": [], "error": None}) + _chat()),
    Stream("usage null", CHAT, _line({"choices": [], "usage": None}) + _chat()),
    Stream(
        "usage that grows",
        CHAT,
        b"".join(_line({"usage": {"completion_tokens": at}}) for at in (1, 5, 3)) + _chat(),
        usage=Usage(0, 5),
    ),
    Stream(
        "cost",
        CHAT,
        _chat(usage={**_COUNTED, "cost": 0.00014}),
        usage=Usage(7, 9, 0.00014),
    ),
    Stream("anthropic no names", ANTHROPIC, _anthropic(names=False), usage=_A),
    Stream("anthropic cut", ANTHROPIC, _anthropic(last=False), ReplyOutcome.CUT, _A),
    Stream("anthropic cut in the last", ANTHROPIC, _anthropic()[:-6], ReplyOutcome.CUT, _A),
    Stream("anthropic error", ANTHROPIC, _anthropic(last=False) + _ERROR, ReplyOutcome.FAILED, _A),
    Stream("anthropic error alone", ANTHROPIC, _ERROR, ReplyOutcome.FAILED),
    Stream("an error without data", ANTHROPIC, b"event: error\n\n", ReplyOutcome.FAILED),
    Stream("an error of plain words", ANTHROPIC, b"event: error\ndata: no\n", ReplyOutcome.FAILED),
    Stream("half a pair", ANTHROPIC, b'data: {"text":"\\ud83d"}\n\n' + _anthropic(), usage=_A),
    Stream("pings", ANTHROPIC, _line({"type": "ping"}, "ping") * 9 + _anthropic(), usage=_A),
    Stream(
        "responses incomplete",
        RESPONSES,
        _responses(last="response.incomplete", status="incomplete"),
        usage=_R,
    ),
    Stream(
        "responses failed",
        RESPONSES,
        _responses(last="response.failed", status="failed"),
        ReplyOutcome.FAILED,
        _R,
    ),
    Stream(
        "responses error", RESPONSES, _line({"type": "error", "code": "x"}), ReplyOutcome.FAILED
    ),
    Stream("responses cut in the last", RESPONSES, _responses()[:-10], ReplyOutcome.CUT),
    Stream("another dialect's last", RESPONSES, _chat(), ReplyOutcome.CUT),
)


def long_streams() -> list[Stream]:
    """Streams that are too long to be cut everywhere."""
    chosen = random.Random(9)  # noqa: S311 - the same words each time
    words = ["error", "usage", "🌍", "a\u2028b", "message_stop", "[DONE]", "\\", '"', "ü" * 50]
    text = [_line({"choices": [{"delta": {"content": chosen.choice(words)}}]}) for _ in range(400)]
    deltas = [
        _line({"type": "content_block_delta", "delta": {"text": chosen.choice(words)}}, "x")
        for _ in range(400)
    ]
    return [
        Stream("long chat", CHAT, b"".join(text) + _chat()),
        Stream("long anthropic", ANTHROPIC, b"".join(deltas) + _anthropic(), usage=_A),
        Stream("long anthropic CRLF", ANTHROPIC, crlf(b"".join(deltas) + _anthropic()), usage=_A),
        Stream("long chat cut", CHAT, b"".join(text), ReplyOutcome.CUT),
        Stream("long responses", RESPONSES, b"".join(deltas) + _responses(), usage=_R),
    ]


def eight_megabytes() -> Stream:
    huge = _line({"type": "response.output_text.done", "text": "Grüße 🌍" * 700_000})
    return Stream("8 MB", RESPONSES, huge + _responses(), usage=_R)


def crlf(body: bytes) -> bytes:
    return body.replace(b"\n", b"\r\n")
