"""The scripted provider of `memplane up --demo`: no key, no model, the same answer every time.

It speaks the three dialects that memplane proxies. What it says shows memory at work: it answers
from the memories in a request, and says so when there are none.
"""

from __future__ import annotations

import hashlib
import re
from array import array
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

import msgspec
from starlette.types import Receive, Scope, Send

from memplane.exchange.prompt_cleanup import INJECTED_BLOCK_HEADING, strip_client_text

DEMO_MODEL: Final = "memplane-demo"

_Document: TypeAlias = dict[str, object]

_MAX_BODY_BYTES: Final = 32 * 1024 * 1024
_CREATED_AT: Final = 0
"""Answers say when they were made; the same request gets the same answer."""
_DIMENSIONS: Final = 16
_BYTES_PER_TOKEN: Final = 4

_BLOCK: Final = re.compile(
    r"^--- BEGIN MEMORY[^\n]*\n(.*?)(?:^--- END MEMORY|\Z)", re.MULTILINE | re.DOTALL
)
_HEADER: Final = re.compile(r"\[[^\[\]]*\]")
_ASKED: Final = "Asked: "
_ANSWERED: Final = "Answer: "
_MAX_REMEMBERED_LINES: Final = 3
_QUESTION_MARKS: Final = ("?", "\uff1f", "\u061f")
_QUESTION_START: Final = re.compile(
    r"(?i)\W*(?:who|whom|whose|what|when|where|which|why|how|do|does|did|is|are|was|were|can|could"
    r"|will|would|should|have|has|tell|remind|list|show)\b"
)
_GREETINGS: Final = frozenset({"", "hello", "hi", "hey"})

_HELLO: Final = "Hello. Tell me something, and ask me about it in another conversation."
_WILL_REMEMBER: Final = "I will remember that."
_KNOWS_NOTHING: Final = "I know nothing about that yet. Tell me, and I will remember it."


def make_demo_reply(request: Mapping[str, object]) -> str:
    """Answer a request of any dialect, from the memories that stand with its newest prompt."""
    messages = _messages(request)
    newest = _since_the_last_answer(messages)
    words = _words(newest) or _words(messages)
    remembered = _remembered("\n".join(_text(message) for message in newest))
    asks = _is_question(words)
    if remembered:
        known = f"From what I remember: {' / '.join(remembered)}"
        return known if asks else f"{known}\n\n{_WILL_REMEMBER}"
    if words.strip(" .!").lower() in _GREETINGS:
        return _HELLO
    return _KNOWS_NOTHING if asks else _WILL_REMEMBER


def _messages(request: Mapping[str, object]) -> list[Mapping[str, object]]:
    given = request.get("messages", request.get("input"))
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return _objects(given)


def _objects(given: object) -> list[Mapping[str, object]]:
    if not isinstance(given, list):
        return []
    return [cast("_Document", one) for one in cast("list[object]", given) if isinstance(one, dict)]


def _since_the_last_answer(messages: list[Mapping[str, object]]) -> list[Mapping[str, object]]:
    answers = [at for at, message in enumerate(messages) if message.get("role") == "assistant"]
    return messages[answers[-1] + 1 :] if answers else messages


def _words(messages: list[Mapping[str, object]]) -> str:
    """Return what the user said last, without what programs put beside it."""
    for message in reversed(messages):
        if message.get("role") == "user":
            words = strip_client_text(_text(message))
            if words:
                return words
    return ""


def _text(message: Mapping[str, object]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    texts = (part.get("text") for part in _objects(content))
    return "\n".join(text for text in texts if isinstance(text, str))


def _is_question(words: str) -> bool:
    return words.endswith(_QUESTION_MARKS) or _QUESTION_START.match(words) is not None


def _remembered(text: str) -> list[str]:
    """Return the first lines of a memory block; what somebody told before what was asked."""
    block = _BLOCK.search(text)
    if block is None:
        return []
    lines = [line.strip() for line in block[1].splitlines()]
    lines = [
        line for line in lines if line and line != INJECTED_BLOCK_HEADING and not _is_header(line)
    ]
    said = [line.removeprefix(_ASKED) for line in lines if not line.startswith(_ANSWERED)]
    told = [line for line in said if not _is_question(line)]
    answered = [line.removeprefix(_ANSWERED) for line in lines if line.startswith(_ANSWERED)]
    return list(dict.fromkeys(told or answered or said))[:_MAX_REMEMBERED_LINES]


def _is_header(line: str) -> bool:
    return _HEADER.fullmatch(line) is not None


@dataclass(frozen=True, slots=True)
class _DemoReply:
    """What is said to one request, and what a provider says about it."""

    text: str
    model: str
    name: str
    read: int
    tells_usage: bool

    @property
    def written(self) -> int:
        return _tokens(self.text.encode())

    def pieces(self) -> list[str]:
        """Cut the text into words, each with the blanks that follow."""
        return re.findall(r"\s*\S+\s*", self.text)


def _reply_to(request: Mapping[str, object], body: bytes) -> _DemoReply:
    model = request.get("model")
    return _DemoReply(
        text=make_demo_reply(request),
        model=model if isinstance(model, str) else DEMO_MODEL,
        name=hashlib.blake2b(body, digest_size=12).hexdigest(),
        read=_tokens(body),
        tells_usage=any(
            one.get("include_usage") is True for one in _objects([request.get("stream_options")])
        ),
    )


def _tokens(data: bytes) -> int:
    return len(data) // _BYTES_PER_TOKEN + 1


def _chat(reply: _DemoReply) -> _Document:
    message = {"role": "assistant", "content": reply.text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return {
        "id": f"chatcmpl-{reply.name}",
        "object": "chat.completion",
        "created": _CREATED_AT,
        "model": reply.model,
        "choices": [choice],
        "usage": _chat_usage(reply),
    }


def _chat_usage(reply: _DemoReply) -> _Document:
    return {
        "prompt_tokens": reply.read,
        "completion_tokens": reply.written,
        "total_tokens": reply.read + reply.written,
    }


def _chat_events(reply: _DemoReply) -> Iterator[bytes]:
    def chunk(choices: Sequence[_Document], **more: object) -> bytes:
        return _event(
            {
                "id": f"chatcmpl-{reply.name}",
                "object": "chat.completion.chunk",
                "created": _CREATED_AT,
                "model": reply.model,
                "choices": choices,
                **more,
            }
        )

    def choice(delta: _Document, finish_reason: str | None = None) -> _Document:
        return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}

    yield chunk([choice({"role": "assistant", "content": ""})])
    for piece in reply.pieces():
        yield chunk([choice({"content": piece})])
    yield chunk([choice({}, "stop")])
    if reply.tells_usage:
        yield chunk([], usage=_chat_usage(reply))
    yield b"data: [DONE]\n\n"


def _message(reply: _DemoReply) -> _Document:
    return {
        "id": f"msg_{reply.name}",
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": [{"type": "text", "text": reply.text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": reply.read, "output_tokens": reply.written},
    }


def _message_events(reply: _DemoReply) -> Iterator[bytes]:
    begun: _Document = {**_message(reply), "content": [], "stop_reason": None}
    begun["usage"] = {"input_tokens": reply.read, "output_tokens": 1}
    yield _named_event("message_start", message=begun)
    yield _named_event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    yield _named_event("ping")
    for piece in reply.pieces():
        delta = {"type": "text_delta", "text": piece}
        yield _named_event("content_block_delta", index=0, delta=delta)
    yield _named_event("content_block_stop", index=0)
    ended = {"stop_reason": "end_turn", "stop_sequence": None}
    yield _named_event("message_delta", delta=ended, usage={"output_tokens": reply.written})
    yield _named_event("message_stop")


def _response(reply: _DemoReply) -> _Document:
    return _response_with(reply, "completed", [_response_item(reply, "completed")])


def _response_with(reply: _DemoReply, status: str, output: Sequence[_Document]) -> _Document:
    usage = {
        "input_tokens": reply.read,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": reply.written,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": reply.read + reply.written,
    }
    return {
        "id": f"resp_{reply.name}",
        "object": "response",
        "created_at": _CREATED_AT,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": reply.model,
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": usage if status == "completed" else None,
    }


def _response_item(reply: _DemoReply, status: str) -> _Document:
    return {
        "id": f"msg_{reply.name}",
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": [_output_text(reply.text)] if status == "completed" else [],
    }


def _output_text(text: str) -> _Document:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _response_events(reply: _DemoReply) -> Iterator[bytes]:
    begun = _response_with(reply, "in_progress", [])
    item = {"output_index": 0, "item_id": f"msg_{reply.name}"}
    part = {**item, "content_index": 0}
    events: list[tuple[str, _Document]] = [
        ("created", {"response": begun}),
        ("in_progress", {"response": begun}),
        ("output_item.added", {"output_index": 0, "item": _response_item(reply, "in_progress")}),
        ("content_part.added", {**part, "part": _output_text("")}),
        *(
            ("output_text.delta", {**part, "delta": piece, "logprobs": []})
            for piece in reply.pieces()
        ),
        ("output_text.done", {**part, "text": reply.text, "logprobs": []}),
        ("content_part.done", {**part, "part": _output_text(reply.text)}),
        ("output_item.done", {"output_index": 0, "item": _response_item(reply, "completed")}),
        ("completed", {"response": _response(reply)}),
    ]
    for number, (name, members) in enumerate(events):
        yield _named_event(f"response.{name}", sequence_number=number, **members)


def _event(document: _Document) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(document)


def _named_event(name: str, **members: object) -> bytes:
    return b"event: %b\n%b" % (name.encode(), _event({"type": name, **members}))


def _token_count(_request: Mapping[str, object], body: bytes) -> _Document:
    return {"input_tokens": _tokens(body)}


def _embeddings(request: Mapping[str, object], body: bytes) -> _Document:
    given = request.get("input")
    listed = cast("list[object]", given) if isinstance(given, list) else [given]
    # A list of numbers is one text, as tokens.
    inputs: list[object] = [given] if all(isinstance(one, int) for one in listed) else listed
    compact = request.get("encoding_format") == "base64"
    data = [
        {"object": "embedding", "index": at, "embedding": _vector(one, compact=compact)}
        for at, one in enumerate(inputs)
    ]
    read = _tokens(body)
    usage = {"prompt_tokens": read, "total_tokens": read}
    return {
        "object": "list",
        "data": data,
        "model": request.get("model", DEMO_MODEL),
        "usage": usage,
    }


def _vector(text: object, *, compact: bool) -> str | list[float]:
    digest = hashlib.blake2b(msgspec.json.encode(text), digest_size=_DIMENSIONS).digest()
    raw = array("f", ((byte - 127.5) / 127.5 for byte in digest))
    return b64encode(raw.tobytes()).decode() if compact else raw.tolist()


_MODELS: Final[_Document] = {
    "object": "list",
    "data": [
        {
            "id": DEMO_MODEL,
            "object": "model",
            "type": "model",
            "display_name": "memplane's demo",
            "lifecycle": "active",
            "created": _CREATED_AT,
            "created_at": "1970-01-01T00:00:00Z",
            "owned_by": "memplane",
        }
    ],
    "has_more": False,
    "first_id": DEMO_MODEL,
    "last_id": DEMO_MODEL,
}
"""In the forms of OpenAI and of Anthropic at once, since either client may ask here."""


_CONVERSATIONS: Final[
    Mapping[str, tuple[Callable[[_DemoReply], _Document], Callable[[_DemoReply], Iterator[bytes]]]]
] = {
    "/v1/chat/completions": (_chat, _chat_events),
    "/v1/messages": (_message, _message_events),
    "/v1/responses": (_response, _response_events),
}
_OTHERS: Final[Mapping[str, Callable[[Mapping[str, object], bytes], _Document]]] = {
    "/v1/messages/count_tokens": _token_count,
    "/v1/embeddings": _embeddings,
}


async def demo_provider(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one request, whoever asks (an ASGI application)."""
    if scope["type"] != "http":
        return
    path, method = scope["path"], scope["method"]
    if path == "/v1/models" and method in {"GET", "HEAD"}:
        await _send_document(send, _MODELS)
    elif path not in _CONVERSATIONS and path not in _OTHERS:
        await _send_error(send, 404, "not_found_error", f"the demo has nothing at {path}")
    elif method != "POST":
        await _send_error(send, 405, "invalid_request_error", "use POST here")
    else:
        await _answer(path, await _body(receive), send)


async def _answer(path: str, body: bytes | None, send: Send) -> None:
    if body is None:
        await _send_error(send, 413, "request_too_large", "the body is too long")
        return
    try:
        request = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        await _send_error(send, 400, "invalid_request_error", "the body is no JSON object")
        return
    if path in _OTHERS:
        await _send_document(send, _OTHERS[path](request, body))
        return
    whole, events = _CONVERSATIONS[path]
    reply = _reply_to(request, body)
    if request.get("stream") is True:
        await _start(send, 200, b"text/event-stream")
        for event in events(reply):
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    else:
        await _send_document(send, whole(reply))


async def _body(receive: Receive) -> bytes | None:
    """Read the body; None when it is too long."""
    read = bytearray()
    more = True
    while more and len(read) <= _MAX_BODY_BYTES:
        message = await receive()
        read += message.get("body", b"")
        more = message.get("more_body", False)
    return bytes(read) if len(read) <= _MAX_BODY_BYTES else None


async def _send_error(send: Send, status: int, kind: str, message: str) -> None:
    error = {"type": kind, "message": message, "param": None, "code": None}
    await _send_document(send, {"type": "error", "error": error}, status)


async def _send_document(send: Send, document: _Document, status: int = 200) -> None:
    body = msgspec.json.encode(document)
    await _start(send, status, b"application/json", (b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _start(send: Send, status: int, kind: bytes, *more: tuple[bytes, bytes]) -> None:
    headers = [(b"content-type", kind), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
