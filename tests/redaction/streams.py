"""Streams of events as model vendors send them, and what they say in the end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any


def body(events: Iterable[object], *, newline: str = "\n") -> bytes:
    return "".join(f"data: {json.dumps(one)}{newline}{newline}" for one in events).encode()


def _chat(deltas: Sequence[str]) -> bytes:
    return body(
        {"id": "c1", "choices": [{"index": 0, "delta": {"content": one}}]} for one in deltas
    )


def _arguments(deltas: Sequence[str]) -> bytes:
    first = {
        "index": 0,
        "id": "call_1",
        "type": "function",
        "function": {"name": "f", "arguments": deltas[0]},
    }
    rest = [{"index": 0, "function": {"arguments": one}} for one in deltas[1:]]
    return body(
        {"choices": [{"index": 0, "delta": {"tool_calls": [one]}}]} for one in (first, *rest)
    )


def _messages(deltas: Sequence[str]) -> bytes:
    events = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": one}}
        for one in deltas
    ]
    return b"event: content_block_delta\n".join((b"", *(body([one]) for one in events)))


def _partial_json(deltas: Sequence[str]) -> bytes:
    return body(
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": one},
        }
        for one in deltas
    )


def _responses(deltas: Sequence[str]) -> bytes:
    return body(
        {
            "type": "response.output_text.delta",
            "item_id": "msg_1",
            "output_index": 0,
            "content_index": 0,
            "delta": one,
        }
        for one in deltas
    )


def _interleaved(deltas: Sequence[str]) -> bytes:
    """Two choices in turn; the other one has nothing to hide."""
    choices = [
        choice for one in deltas for choice in ({"index": 0, "delta": {"content": one}}, None)
    ]
    other = {"index": 1, "delta": {"content": "la la "}}
    return body({"choices": [choice or other]} for choice in choices)


DIALECTS: Mapping[str, Callable[[Sequence[str]], bytes]] = {
    "chat": _chat,
    "chat arguments": _arguments,
    "messages": _messages,
    "messages arguments": _partial_json,
    "responses": _responses,
    "two choices in turn": _interleaved,
}


def said(raw: bytes) -> str:
    """Return the text that the first lane of a body adds up to."""
    lines = [line[6:] for line in raw.splitlines() if line.startswith(b"data: {")]
    return "".join(_said(json.loads(line)) for line in lines)


def _said(event: dict[str, Any]) -> str:
    match event:
        case {"choices": [{"index": 0, "delta": {"content": str(text)}}]}:
            return text
        case {"choices": [{"delta": {"tool_calls": [{"function": {"arguments": str(text)}}]}}]}:
            return text
        case {"delta": {"text": str(text)} | {"partial_json": str(text)} | str(text)}:
            return text
        case _:
            return ""
