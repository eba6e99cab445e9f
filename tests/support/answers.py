"""What the three dialects' providers answer, as bytes for a scripted upstream."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

from tests.support.upstream import Answer, End, Received, Script

_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Call:
    """A model's call of a tool."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    id: str = "call_1"

    @property
    def written(self) -> str:
        return json.dumps(dict(self.arguments))


@dataclass(frozen=True, slots=True)
class Said:
    """A model's reply: a text, calls of tools, or both."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    id: str = "1"
    model: str = "scripted"
    read: int = 12
    written: int = 3

    def pieces(self) -> list[str]:
        """The text in pieces of seven characters."""
        return [self.text[at : at + 7] for at in range(0, len(self.text), 7)]


def whole(body: bytes, status: int = 200, headers: Mapping[str, str] = _NONE) -> Answer:
    """An answer in one piece, of a known length."""
    length = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    return (_head(status, {**length, **headers}) + body,)


def streamed(events: Iterable[bytes], headers: Mapping[str, str] = _NONE) -> Answer:
    """A stream of server-sent events: a step each, in chunks."""
    of_streams = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"}
    chunks = (b"%x\r\n%b\r\n" % (len(event), event) for event in events)
    return (_head(200, {**of_streams, **headers}), *chunks, b"0\r\n\r\n")


def cut(answer: Answer, steps: int, how: End = End.CLOSE) -> Answer:
    """The first steps of an answer, and then the end of the connection."""
    return (*answer[:steps], how)


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    reason = HTTPStatus(status).phrase if status in set(HTTPStatus) else "Overloaded"
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{key}: {headers[key]}" for key in headers)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _event(document: object, name: str = "") -> bytes:
    named = f"event: {name}\n" if name else ""
    return f"{named}data: {json.dumps(document)}\n\n".encode()


def _encoded(document: object) -> bytes:
    return json.dumps(document).encode()


# OpenAI Chat Completions


def chat_json(said: Said) -> Answer:
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.written},
        }
        for call in said.calls
    ]
    message = {"role": "assistant", "content": said.text or None, "refusal": None}
    choice = {
        "index": 0,
        "message": {**message, "tool_calls": calls} if calls else message,
        "logprobs": None,
        "finish_reason": "tool_calls" if calls else "stop",
    }
    head = {"id": f"chatcmpl-{said.id}", "object": "chat.completion", "created": 1_790_000_000}
    rest = {"model": said.model, "choices": [choice], "usage": _chat_usage(said)}
    return whole(_encoded({**head, **rest}), headers={"x-request-id": f"req_{said.id}"})


def chat_stream(said: Said, *, usage: bool = True) -> Answer:
    return streamed(chat_events(said, usage=usage), {"x-request-id": f"req_{said.id}"})


def chat_events(said: Said, *, usage: bool = True) -> list[bytes]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in said.pieces()]
    for at, call in enumerate(said.calls):
        named = {"name": call.name, "arguments": ""}
        begun = {"index": at, "id": call.id, "type": "function", "function": named}
        deltas.append({"tool_calls": [begun]})
        for part in _halves(call.written):
            deltas.append({"tool_calls": [{"index": at, "function": {"arguments": part}}]})
    choices: list[dict[str, Any]] = [
        {"index": 0, "delta": delta, "finish_reason": None} for delta in deltas
    ]
    why = "tool_calls" if said.calls else "stop"
    choices.append({"index": 0, "delta": {}, "finish_reason": why})
    head = {
        "id": f"chatcmpl-{said.id}",
        "object": "chat.completion.chunk",
        "created": 1_790_000_000,
        "model": said.model,
    }
    events = [_event({**head, "choices": [choice]}) for choice in choices]
    if usage:
        events.append(_event({**head, "choices": [], "usage": _chat_usage(said)}))
    return [*events, b"data: [DONE]\n\n"]


def _chat_usage(said: Said) -> dict[str, int]:
    total = said.read + said.written
    return {
        "prompt_tokens": said.read,
        "completion_tokens": said.written,
        "total_tokens": total,
    }


# OpenAI Responses


def responses_json(said: Said) -> Answer:
    document = _response(said, "completed", _items(said))
    return whole(_encoded(document), headers={"x-request-id": f"req_{said.id}"})


def responses_stream(said: Said) -> Answer:
    return streamed(responses_events(said), {"x-request-id": f"req_{said.id}"})


def responses_events(said: Said) -> list[bytes]:
    begun = _response(said, "in_progress", [])
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for at, item in enumerate(_items(said)):
        place = {"output_index": at, "item_id": item["id"]}
        is_call = item["type"] == "function_call"
        nothing: dict[str, Any] = {"arguments": ""} if is_call else {"content": []}
        opened = {**item, **nothing, "status": "in_progress"}
        events.append({"type": "response.output_item.added", "output_index": at, "item": opened})
        events += _call_events(place, item) if is_call else _text_events(place, said)
        events.append({"type": "response.output_item.done", "output_index": at, "item": item})
    done = _response(said, "completed", _items(said))
    events.append({"type": "response.completed", "response": done})
    return [
        _event({**event, "sequence_number": number}, event["type"])
        for number, event in enumerate(events)
    ]


def _text_events(place: Mapping[str, Any], said: Said) -> list[dict[str, Any]]:
    part = {**place, "content_index": 0}
    whole_part = _output_text(said.text)
    return [
        {"type": "response.content_part.added", **part, "part": _output_text("")},
        *(
            {"type": "response.output_text.delta", **part, "delta": piece, "logprobs": []}
            for piece in said.pieces()
        ),
        {"type": "response.output_text.done", **part, "text": said.text, "logprobs": []},
        {"type": "response.content_part.done", **part, "part": whole_part},
    ]


def _call_events(place: Mapping[str, Any], item: Mapping[str, Any]) -> list[dict[str, Any]]:
    name = "response.function_call_arguments"
    deltas = [{"type": f"{name}.delta", **place, "delta": p} for p in _halves(item["arguments"])]
    return [*deltas, {"type": f"{name}.done", **place, "arguments": item["arguments"]}]


def _items(said: Said) -> list[dict[str, Any]]:
    message = {
        "id": f"msg_{said.id}",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [_output_text(said.text)],
    }
    calls = [
        {
            "id": f"fc_{call.id}",
            "type": "function_call",
            "status": "completed",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.written,
        }
        for call in said.calls
    ]
    return [message, *calls] if said.text else calls


def _output_text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _response(said: Said, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    usage = {
        "input_tokens": said.read,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": said.written,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": said.read + said.written,
    }
    return {
        "id": f"resp_{said.id}",
        "object": "response",
        "created_at": 1_790_000_000,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": said.model,
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": usage if status == "completed" else None,
    }


# Anthropic Messages


def anthropic_json(said: Said) -> Answer:
    return whole(_encoded(_message(said)), headers={"request-id": f"req_{said.id}"})


def anthropic_stream(said: Said) -> Answer:
    return streamed(anthropic_events(said), {"request-id": f"req_{said.id}"})


def anthropic_events(said: Said) -> list[bytes]:
    begun = {**_message(said), "content": [], "stop_reason": None}
    begun["usage"] = {"input_tokens": said.read, "output_tokens": 1}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": begun}]
    for at, block in enumerate(_blocks(said)):
        opened = {**block, "text": ""} if "text" in block else {**block, "input": {}}
        events.append({"type": "content_block_start", "index": at, "content_block": opened})
        events += [
            {"type": "content_block_delta", "index": at, "delta": delta}
            for delta in _deltas(said, block)
        ]
        events.append({"type": "content_block_stop", "index": at})
    ended = {"stop_reason": "tool_use" if said.calls else "end_turn", "stop_sequence": None}
    usage = {"output_tokens": said.written}
    events.append({"type": "message_delta", "delta": ended, "usage": usage})
    events.append({"type": "message_stop"})
    return [_event(event, event["type"]) for event in events]


def anthropic_error_event(kind: str = "overloaded_error", message: str = "Overloaded") -> bytes:
    """An error within a stream that began well."""
    return _event({"type": "error", "error": {"type": kind, "message": message}}, "error")


def _message(said: Said) -> dict[str, Any]:
    return {
        "id": f"msg_{said.id}",
        "type": "message",
        "role": "assistant",
        "model": said.model,
        "content": _blocks(said),
        "stop_reason": "tool_use" if said.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": said.read, "output_tokens": said.written},
    }


def _blocks(said: Said) -> list[dict[str, Any]]:
    text = [{"type": "text", "text": said.text}] if said.text else []
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)}
        for call in said.calls
    ]
    return [*text, *calls]


def _deltas(said: Said, block: Mapping[str, Any]) -> list[dict[str, Any]]:
    if block["type"] == "text":
        return [{"type": "text_delta", "text": piece} for piece in said.pieces()]
    parts = _halves(json.dumps(block["input"]))
    return [{"type": "input_json_delta", "partial_json": part} for part in parts]


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


# Errors


def anthropic_error(
    status: int, kind: str, message: str = "no", headers: Mapping[str, str] = _NONE
) -> Answer:
    error = {"type": "error", "error": {"type": kind, "message": message}}
    return whole(_encoded(error), status, {"request-id": "req_error", **headers})


def openai_error(
    status: int, kind: str, message: str = "no", headers: Mapping[str, str] = _NONE
) -> Answer:
    error = {"error": {"message": message, "type": kind, "param": None, "code": None}}
    return whole(_encoded(error), status, {"x-request-id": "req_error", **headers})


# Scripts


@dataclass(frozen=True, slots=True)
class Form:
    """How a dialect answers a request that asks for a stream, and one that does not."""

    path: str
    stream: Callable[[Said], Answer]
    json: Callable[[Said], Answer]
    error: Callable[..., Answer]

    def replies(self, *given: Said | Answer) -> Script:
        """Reply in turn, each time as the request asks; the last one for ever.

        Answers go as they are.
        """
        left = list(given)

        def reply(request: Received) -> Answer:
            said = left.pop(0) if len(left) > 1 else left[0]
            if not isinstance(said, Said):
                return said
            return self.stream(said) if request.json().get("stream") else self.json(said)

        return reply


CHAT = Form("/v1/chat/completions", chat_stream, chat_json, openai_error)
RESPONSES = Form("/v1/responses", responses_stream, responses_json, openai_error)
ANTHROPIC = Form("/v1/messages", anthropic_stream, anthropic_json, anthropic_error)
