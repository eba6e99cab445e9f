"""What tools, pages and files put into a conversation, out of every dialect's requests (pure).

The newest comes first, and there is a limit to how much is read: a request repeats its whole
conversation, which may be megabytes long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final, cast

import msgspec

from memplane.exchange.conversation_parser import find_messages
from memplane.kit.json_values import as_list, as_object, as_string, decode_json_or_none

MAX_RESULTS: Final = 64
MAX_RESULT_CHARS: Final = 32_768
_MAX_TOTAL_CHARS: Final = 65_536
_MAX_MESSAGES: Final = 2_000
_MAX_DEPTH: Final = 6
_CALL_TYPES: Final = frozenset(
    {"tool_use", "server_tool_use", "mcp_tool_use", "function_call", "custom_tool_call"}
)
_RESULT_ROLES: Final = frozenset({"tool", "function"})
_CALL_ID_MEMBERS: Final = ("tool_use_id", "tool_call_id", "call_id")
_ATTACHMENT_TYPES: Final = frozenset({"document", "search_result"})
_TEXT_MEMBERS: Final = ("text", "content", "output", "data", "result", "source", "results")


class ToolOutput(msgspec.Struct, frozen=True):
    """A text that nobody in the conversation wrote.

    Args:
        tool: The name of the tool that returned it; empty where that is not told.
        arguments: What the tool was called with.
        text: What it returned.
        is_attachment: It came with a message of the user, such as a document.
    """

    tool: str
    arguments: Mapping[str, object]
    text: str
    is_attachment: bool = False


class _ToolCall(msgspec.Struct, frozen=True):
    """A call as it was written: its arguments are read only when its result is."""

    name: str = ""
    written: object = None

    @property
    def arguments(self) -> dict[str, object]:
        written = self.written
        if isinstance(written, str):
            written = decode_json_or_none(written.encode("utf-8", "replace"))
        return as_object(written)


_UNKNOWN_CALL: Final = _ToolCall()


def extract_tool_results(
    request: object, response: object = None, trace: object = None
) -> list[ToolOutput]:
    """Return what tools returned in a turn and before it, the newest first.

    Args:
        request: The request to the model.
        response: A ledger entry's `response`, which may hold results of the provider's own tools.
        trace: A ledger entry's `tool_trace`.
    """
    messages = list(_messages_with_parts(as_list(find_messages(request))[-_MAX_MESSAGES:]))
    own = as_object(as_object(response).get("json"))
    parts = [
        as_object(part) for part in (*as_list(own.get("content")), *as_list(own.get("output")))
    ]
    if not messages and not parts and not trace:
        return []
    calls = dict(chain.from_iterable(map(_calls, (*messages, *parts))))
    outputs = chain(
        _traced(trace),
        chain.from_iterable(_results(part, calls) for part in reversed(parts)),
        chain.from_iterable(_results(message, calls) for message in reversed(messages)),
    )
    return list(_within_limits(outputs))


def _messages_with_parts(messages: list[object]) -> Iterator[Mapping[str, object]]:
    """Yield the messages that are more than somebody's words: most are not."""
    for raw_message in messages:
        message = as_object(raw_message)
        if (
            not isinstance(message.get("content"), str)
            or message.get("role") in _RESULT_ROLES
            or "tool_calls" in message
        ):
            yield message


def _within_limits(outputs: Iterator[ToolOutput]) -> Iterator[ToolOutput]:
    left = _MAX_TOTAL_CHARS
    for place, output in enumerate(outputs):
        if place >= MAX_RESULTS or left <= 0:
            return
        text = output.text[: min(MAX_RESULT_CHARS, left)]
        left -= len(text)
        yield msgspec.structs.replace(output, text=text)


def _traced(trace: object) -> Iterator[ToolOutput]:
    """Yield what a proxy's own tools returned."""
    calls = [
        call for entry in as_list(trace) for call in as_list(as_object(entry).get("tool_calls"))
    ]
    for raw_call in reversed(calls):
        call = as_object(raw_call)
        if text := _text(call.get("result")):
            called = _ToolCall(as_string(call.get("name")), call.get("arguments"))
            yield ToolOutput(called.name, called.arguments, text)


def _calls(message: Mapping[str, object]) -> Iterator[tuple[str, _ToolCall]]:
    """Yield the calls of a message, each with its id."""
    for raw_call in as_list(message.get("tool_calls")):
        call = as_object(raw_call)
        named = as_object(call.get("function")) or as_object(call.get("custom"))
        written = named.get("arguments", named.get("input"))
        yield as_string(call.get("id")), _ToolCall(as_string(named.get("name")), written)
    for raw_part in (message, *as_list(message.get("content"))):
        part = as_object(raw_part)
        if as_string(part.get("type")) in _CALL_TYPES:
            written = part.get("input", part.get("arguments"))
            called = _ToolCall(as_string(part.get("name")), written)
            yield as_string(part.get("call_id")) or as_string(part.get("id")), called


def _results(
    message: Mapping[str, object], calls: Mapping[str, _ToolCall]
) -> Iterator[ToolOutput]:
    """Yield what came back in a message, the last first."""
    if as_string(message.get("role")) in _RESULT_ROLES:
        call = _call_of(message, calls)
        name = as_string(message.get("name")) or call.name
        if text := _text(message.get("content")):
            yield ToolOutput(name, call.arguments, text)
        return
    for raw_part in reversed((message, *as_list(message.get("content")))):
        part = as_object(raw_part)
        kind = as_string(part.get("type"))
        if kind in _ATTACHMENT_TYPES:
            if text := _text(part):
                target = {"path": as_string(part.get("title")), "url": _url(part)}
                yield ToolOutput("", target, text, is_attachment=True)
        elif _is_result(kind):
            call = _call_of(part, calls)
            if text := _text(part.get("content", part.get("output", part.get("results")))):
                yield ToolOutput(call.name or _named_by_type(kind), call.arguments, text)


def _is_result(kind: str) -> bool:
    """Tell results such as `web_search_tool_result`, `function_call_output` and `mcp_call`."""
    return "tool_result" in kind or kind.endswith(("_call_output", "_call"))


def _named_by_type(kind: str) -> str:
    return kind.removesuffix("_tool_result").removesuffix("_call") if "_" in kind else kind


def _call_of(part: Mapping[str, object], calls: Mapping[str, _ToolCall]) -> _ToolCall:
    ids = (as_string(part.get(name)) for name in _CALL_ID_MEMBERS)
    known_call = next((calls[call_id] for call_id in ids if call_id in calls), _UNKNOWN_CALL)
    if known_call is _UNKNOWN_CALL and part.get("name"):
        return _ToolCall(as_string(part.get("name")), part.get("arguments"))
    return known_call


def _url(part: Mapping[str, object]) -> str:
    source = part.get("source")
    return source if isinstance(source, str) else as_string(as_object(source).get("url"))


def _text(value: object, depth: int = 0) -> str:
    """Return all words in a result, however it nests them."""
    if isinstance(value, str):
        return value
    if depth >= _MAX_DEPTH:
        return ""
    if isinstance(value, dict):
        members = cast("Mapping[str, object]", value)
        inner = [members[name] for name in _TEXT_MEMBERS if name in members]
        return "\n".join(filter(None, (_text(item, depth + 1) for item in inner)))
    texts = (_text(item, depth + 1) for item in as_list(value)[:MAX_RESULTS])
    return "\n".join(filter(None, texts))
