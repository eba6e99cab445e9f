"""What was said in a turn, out of every dialect's requests and replies (pure).

Other recorders send what they have, so nothing here relies on a shape: what cannot be read as
somebody's words is left out, and nothing raises.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from typing import Any, Final, cast

import msgspec

from memplane.exchange.prompt_cleanup import strip_client_text
from memplane.ledger.entry_summary import EntrySummary

_USER: Final = "user"
_TEXT_PART_TYPES: Final = frozenset({"", "text", "input_text", "output_text"})
_CALL_PART_TYPES: Final = frozenset(
    {
        "tool_use",
        "server_tool_use",
        "mcp_tool_use",
        "function_call",
        "custom_tool_call",
        "mcp_call",
    }
)
_FINAL_EVENT_TYPES: Final = frozenset(
    {"response.completed", "response.incomplete", "response.failed"}
)
_MAX_CALLS: Final = 100
_MAX_TOOL_NAME_CHARS: Final = 128
_BYTE_ORDER_MARK: Final = "\ufeff"


class ParsedReply(msgspec.Struct, frozen=True):
    """What a model answered, and the tools that it called, each named once."""

    text: str = ""
    calls: tuple[str, ...] = ()


def extract_questions(request: object) -> list[str]:
    """Return what users said in a request, oldest first, without what programs put there.

    What tools answered is not something a user said, though it comes under the user's role.
    """
    return list(iterate_user_texts_backwards(find_messages(request)))[::-1]


def extract_last_question(turn: EntrySummary) -> str:
    """Return what a user said last in a turn, on one line; empty when nobody said anything.

    The request as it came counts; what was sent to the provider serves where there is no other.
    """
    request = _decode_object(bytes(turn.request_original)) or _decode_object(
        bytes(turn.request_effective)
    )
    return " ".join(next(iterate_user_texts_backwards(find_messages(request)), "").split())


def extract_answer(response: object) -> str:
    """Return what the model answered, from a ledger entry's `response`."""
    return parse_reply(response).text


def find_messages(request: object) -> object:
    """Return what holds the conversation in a request, whatever the dialect calls it."""
    body = _members(request)
    messages = body.get("messages")
    return body.get("input") if messages is None else messages


def iterate_user_texts_backwards(messages: object) -> Iterator[str]:
    """Yield what users said, the newest first, so that a long conversation is not read whole."""
    if isinstance(messages, str):
        messages = [messages]
    for message in reversed(_items(messages)):
        text = _extract_user_text(message)
        if text:
            yield text


def parse_reply(response: object) -> ParsedReply:
    """Read a ledger entry's `response`, be it a stream or in one piece."""
    body = _members(response)
    text = body.get("text")
    if isinstance(text, str) and body.get("format") != "json":
        return _parse_streamed_reply(text)
    return _parse_unary_reply(_members(body.get("json")))


def extract_tool_names(reply: ParsedReply, trace: object) -> tuple[str, ...]:
    """Name the tools of a turn: those of the reply, and those that a proxy called meanwhile.

    Args:
        reply: What the model answered at last.
        trace: A ledger entry's `tool_trace`.
    """
    names = [
        _string(_members(call).get("name"))
        for trace_entry in _items(trace)
        for call in _items(_members(trace_entry).get("tool_calls"))
    ]
    return _reply("", [*names, *reply.calls]).calls if names else reply.calls


def _extract_user_text(message: object) -> str:
    """Return a user's words; each text is cleaned by itself, as it was put there by itself."""
    if isinstance(message, str):
        texts: Iterator[str] = iter((message,))
    elif _members(message).get("role") == _USER:
        texts = _texts(_members(message).get("content"))
    else:
        return ""
    return _encodable("\n".join(filter(None, map(strip_client_text, texts))))


def _parse_unary_reply(body: dict[str, Any]) -> ParsedReply:
    answers: list[str] = []
    names: list[str] = []
    for choice in _items(body.get("choices")):
        message = _members(_members(choice).get("message"))
        answers.append(_message_text(message) or _string(_members(choice).get("text")))
        names += _iterate_call_names(message)
    parts = list(_texts(body.get("content")))
    for item in _items(body.get("output")):
        parts += _texts(_members(item).get("content"))
    names += map(_call_name, (*_items(body.get("content")), *_items(body.get("output"))))
    return _reply(_first_with_words(answers) or "\n".join(filter(None, parts)), names)


def _reply(text: str, names: list[str]) -> ParsedReply:
    tool_names = dict.fromkeys(_encodable(name)[:_MAX_TOOL_NAME_CHARS] for name in names if name)
    return ParsedReply(_encodable(text), tuple(tool_names)[:_MAX_CALLS])


def _first_with_words(texts: list[str]) -> str:
    return next((text for text in texts if text.strip()), "")


def _message_text(message: dict[str, Any]) -> str:
    text = "\n".join(filter(None, _texts(message.get("content"))))
    return text or _string(message.get("refusal"))


def _iterate_call_names(message: dict[str, Any]) -> Iterator[str]:
    """Yield the names of a message's tool calls, the one of the older form among them."""
    for call in _items(message.get("tool_calls")):
        yield _tool_name(_members(call))
    yield _string(_members(message.get("function_call")).get("name"))


def _tool_name(call: dict[str, Any]) -> str:
    function = _members(call.get("function")) or _members(call.get("custom"))
    return _string(function.get("name"))


def _call_name(part: object) -> str:
    body = _members(part)
    return _string(body.get("name")) if _string(body.get("type")) in _CALL_PART_TYPES else ""


def _texts(content: object) -> Iterator[str]:
    """Yield the texts of a message's content, which is a string or a list of parts."""
    if isinstance(content, str):
        yield content
        return
    for part in _items(content):
        body = _members(part)
        kind = _string(body.get("type"))
        if kind in _TEXT_PART_TYPES:
            yield part if isinstance(part, str) else _string(body.get("text"))
        elif kind == "refusal":
            yield _string(body.get("refusal"))


class _StreamAssembler(msgspec.Struct):
    """What the events of a stream add up to.

    Args:
        choices: The texts of each choice, where a dialect has choices.
        refusals: What was said instead, where a choice was refused.
        parts: The texts of each part, where an answer has parts, in the order they began.
        names: The name of each call, in the order they began.
        latest_calls: Which call a delta that does not say so belongs to.
        final_reply: The reply that the last event brings along in one piece.
    """

    choices: dict[int, list[str]] = msgspec.field(default_factory=dict[int, list[str]])
    refusals: dict[int, list[str]] = msgspec.field(default_factory=dict[int, list[str]])
    parts: dict[Hashable, list[str]] = msgspec.field(default_factory=dict[Hashable, list[str]])
    names: dict[Hashable, str] = msgspec.field(default_factory=dict[Hashable, str])
    latest_calls: dict[Hashable, str] = msgspec.field(default_factory=dict[Hashable, str])
    final_reply: ParsedReply = ParsedReply()

    def add(self, event: dict[str, Any]) -> None:
        """Add what an event says; each kind is named by the dialect that has it."""
        for choice in _items(event.get("choices")):
            self._add_choice(_members(choice))
        kind = _string(event.get("type"))
        if kind.startswith("content_block_"):
            self._add_block(event)
        elif kind in _FINAL_EVENT_TYPES:
            self.final_reply = _parse_unary_reply(_members(event.get("response")))
        elif kind.startswith("response."):
            self._add_item(kind, event)

    def reply(self) -> ParsedReply:
        """Return the answer; the whole of the last event serves when its deltas are missing."""
        answers = [
            "".join(lanes[index])
            for lanes in (self.choices, self.refusals)
            for index in sorted(lanes)
        ]
        parts = "\n".join(filter(None, map("".join, self.parts.values())))
        text = _first_with_words(answers) or parts or self.final_reply.text
        return _reply(text, [*self.names.values(), *self.final_reply.calls])

    def _add_choice(self, choice: dict[str, Any]) -> None:
        index = _number(choice.get("index"))
        delta = _members(choice.get("delta")) or _members(choice.get("message"))
        content = delta.get("content", choice.get("text"))
        texts = self.choices.setdefault(index, [])
        texts += (content,) if isinstance(content, str) else _texts(content)
        if "refusal" in delta:
            self.refusals.setdefault(index, []).append(_string(delta["refusal"]))
        for call in _items(delta.get("tool_calls")):
            self._name_call(index, _members(call))
        if "function_call" in delta:
            name = _string(_members(delta["function_call"]).get("name"))
            self._add_name((index, "function_call"), name)

    def _name_call(self, choice: int, call: dict[str, Any]) -> None:
        """Some providers number every call of a choice alike; then the ids tell them apart."""
        position = (choice, _number(call.get("index")))
        call_id = _string(call.get("id"))
        if call_id:
            self.latest_calls[position] = call_id
        self._add_name((*position, self.latest_calls.get(position, "")), _tool_name(call))

    def _add_name(self, call: Hashable, name: str) -> None:
        """Append to a name that came in pieces; some providers say all of it each time."""
        known = self.names.get(call, "")
        if name and name != known and len(known) < _MAX_TOOL_NAME_CHARS:
            self.names[call] = known + name

    def _add_block(self, event: dict[str, Any]) -> None:
        index = _number(event.get("index"))
        block = _members(event.get("content_block"))
        self._add_name(index, _call_name(block))
        block_parts = self.parts.setdefault(index, [])
        if _string(block.get("type")) in _TEXT_PART_TYPES:
            block_parts.append(_string(block.get("text")))
        block_parts.append(_string(_members(event.get("delta")).get("text")))

    def _add_item(self, kind: str, event: dict[str, Any]) -> None:
        position = (_number(event.get("output_index")), _number(event.get("content_index")))
        if kind in {"response.output_text.delta", "response.refusal.delta"}:
            self.parts.setdefault(position, []).append(_string(event.get("delta")))
        elif kind == "response.output_text.done":
            self.parts[position] = [
                _string(event.get("text")) or "".join(self.parts.get(position, []))
            ]
        elif kind.startswith("response.output_item."):
            self._add_name(position, _call_name(event.get("item")))


def _parse_streamed_reply(text: str) -> ParsedReply:
    """Put the deltas of a stream together, in the order they came."""
    assembly = _StreamAssembler()
    for event in _events(text):
        assembly.add(event)
    return assembly.reply()


def _events(text: str) -> Iterator[dict[str, Any]]:
    """Yield the events of a stream whose data is a JSON object; others say nothing."""
    data: list[str] = []
    # Only these end a line; `splitlines` would cut text at characters that JSON may contain.
    lines = text.removeprefix(_BYTE_ORDER_MARK).replace("\r\n", "\n").replace("\r", "\n")
    for line in (*lines.split("\n"), ""):
        if line.startswith("data:"):
            data.append(line[5:])
        elif not line and data:
            yield _decode_object("\n".join(data))
            data = []


def _decode_object(data: str | bytes) -> dict[str, Any]:
    """Read a request, or an event's data; empty when it is no object, or was cut."""
    if isinstance(data, bytes):
        data = data.decode("utf-8", "replace")
    data = data.strip()
    if not (data.startswith("{") and data.endswith("}")):
        return {}
    for decode in (msgspec.json.decode, json.loads):
        try:
            return _members(decode(data))
        except (msgspec.DecodeError, ValueError, RecursionError):
            continue  # the second one also reads half a surrogate pair
    return {}


def _encodable(text: str) -> str:
    """Join surrogate pairs that came in two deltas; half a pair becomes U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _members(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _items(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
