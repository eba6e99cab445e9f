"""What users said in a list of messages, and the places of their prompts (pure)."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from memplane.exchange.dialect import Conversation, ConversationPrompt
from memplane.exchange.prompt_cleanup import strip_client_text, strip_injected_memory
from memplane.exchange.request_body import Message, RequestBody
from memplane.kit.json_values import as_list, as_object, as_string, decode_json_or_none

USER_ROLE: Final = "user"
MODEL_ROLE: Final = "assistant"
INSTRUCTION_ROLES: Final = frozenset({"system", "developer"})

_TEXT_TYPES: Final = frozenset({"", "text", "input_text"})
_ANSWER_TYPES: Final = _TEXT_TYPES | {"output_text"}
_TOOL_RESULT: Final = "tool_result"
_UNKNOWN_TYPE: Final = "unknown"
_CACHE_MARKS: Final = frozenset({"cache_control", "prompt_cache_breakpoint"})
"""Marks for a provider's cache, which clients move from message to message."""
_POSITION_HASH_BYTES: Final = 16
_MEMORY_MARK: Final = b"BEGIN MEMORY"
_WHOLE_INPUT_INDEX: Final = -1


class _MessagePart(msgspec.Struct, frozen=True, gc=False):
    type: str = ""
    text: str = ""


class _UserMessage(msgspec.Struct, frozen=True):
    """What a user's message holds.

    Args:
        texts: The user's words, text by text.
        has_results: Tools answered in it.
        has_other_parts: There is something beside words and tools' answers, such as an image.
    """

    texts: tuple[str, ...]
    has_results: bool = False
    has_other_parts: bool = False


def read_conversation(
    body: RequestBody, *, messages_member: str, system_member: str
) -> Conversation:
    """Read the conversation that a member lists; it may be one text instead of a list."""
    raw_messages = body.members.get(messages_member)
    if raw_messages is not None and bytes(raw_messages)[:1] == b'"':
        return _read_single_text(body, messages_member, system_member)
    messages = body.messages(messages_member)
    prompts: list[ConversationPrompt] = []
    position_hash = ""
    awaits = False
    latest = 0  # where what the newest prompt stands beside begins
    for index, message in enumerate(messages):
        if is_user_message(message):
            user_message = _read_user_message(message)
            if user_message.texts:
                position_hash = _hash_position(
                    position_hash,
                    user_message.texts,
                    _find_other_parts(message) if user_message.has_other_parts else (),
                )
                prompts.append(
                    ConversationPrompt(index, position_hash, "\n".join(user_message.texts))
                )
                awaits = True
                latest = index if user_message.has_results else latest
            elif user_message.has_results:
                awaits, latest = False, index + 1
        elif message.role not in INSTRUCTION_ROLES:
            awaits = awaits and index == len(messages) - 1 and _is_answer_prefix(message)
            latest = latest if awaits else index + 1
    injected = awaits and any(map(_has_memory, messages[latest:]))
    return Conversation(
        tuple(prompts),
        awaits,
        injected=injected,
        body=body,
        system_member=system_member,
        messages_member=messages_member,
    )


def is_user_message(message: Message) -> bool:
    """Tell whether a message comes under the user's role; tools' answers may too."""
    return message.role == USER_ROLE


def find_last_user_message(messages: Sequence[Message]) -> int | None:
    """Return the index of the last message under the user's role."""
    for index in range(len(messages) - 1, -1, -1):
        if is_user_message(messages[index]):
            return index
    return None


def message_texts(message: Message) -> list[str]:
    """Return the texts of a message as they stand there."""
    return content_texts(bytes(message.content))


def answer_texts(message: Message) -> list[str]:
    """Return what the model said in a message of its own, text by text."""
    return content_texts(bytes(message.content), _ANSWER_TYPES)


def content_texts(content: bytes, kinds: Collection[str] = _TEXT_TYPES) -> list[str]:
    """Return the texts of a content or of instructions: a string, or a list of parts."""
    if content[:1] == b'"':
        return [as_string(decode_json_or_none(content))]
    return [part.text for part in _parts(content) if part.type in kinds]


def _read_single_text(body: RequestBody, messages_member: str, system_member: str) -> Conversation:
    text = as_string(body.value(messages_member))
    texts = _clean_texts([text])
    if not texts:
        return Conversation(
            body=body, system_member=system_member, messages_member=messages_member
        )
    prompt = ConversationPrompt(
        _WHOLE_INPUT_INDEX, _hash_position("", texts, ()), "\n".join(texts)
    )
    injected = strip_injected_memory(text) != text
    return Conversation(
        (prompt,),
        awaits=True,
        injected=injected,
        body=body,
        system_member=system_member,
        messages_member=messages_member,
    )


def _read_user_message(message: Message) -> _UserMessage:
    content = bytes(message.content)
    if content[:1] == b'"':
        return _UserMessage(_clean_texts(content_texts(content)))
    texts: list[str] = []
    has_results = has_others = False
    for part in _parts(content):
        if part.type in _TEXT_TYPES:
            texts.append(part.text)
        elif _TOOL_RESULT in part.type:
            has_results = True
        else:
            has_others = True
    return _UserMessage(_clean_texts(texts), has_results, has_others)


def _clean_texts(texts: Iterable[str]) -> tuple[str, ...]:
    """Clean each text by itself, as it was put there by itself; what a program wrote goes."""
    return tuple(filter(None, map(strip_client_text, texts)))


def _is_answer_prefix(message: Message) -> bool:
    """Tell whether the model says something in a message, and calls no tool.

    As the last message it is how the client wants the answer to begin.
    """
    content = bytes(message.content)
    if message.role != MODEL_ROLE or content[:1] == b'"':
        return message.role == MODEL_ROLE
    parts = _parts(content)
    return bool(parts) and all(part.type in _ANSWER_TYPES for part in parts)


def _parts(content: bytes) -> list[_MessagePart]:
    if content[:1] != b"[":
        return []
    try:
        return _PARTS.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return [_part(item) for item in as_list(decode_json_or_none(content))]


def _part(item: object) -> _MessagePart:
    """Read a part of an unusual shape; a string among parts is a text."""
    if isinstance(item, str):
        return _MessagePart(text=item)
    part = as_object(item)
    kind = part.get("type", "")
    return _MessagePart(
        kind if isinstance(kind, str) else _UNKNOWN_TYPE, as_string(part.get("text"))
    )


def _find_other_parts(message: Message) -> list[Mapping[str, msgspec.Raw]]:
    """Return the parts that are neither words nor tools' answers, with their own bytes."""
    try:
        parts = _RAW_PARTS.decode(message.content)
    except (msgspec.DecodeError, RecursionError):
        return []
    heads = _parts(bytes(message.content))
    return [
        part
        for part, head in zip(parts, heads, strict=True)
        if head.type not in _TEXT_TYPES and _TOOL_RESULT not in head.type
    ]


def _hash_position(
    before: str, texts: Iterable[str], other_parts: Iterable[Mapping[str, msgspec.Raw]]
) -> str:
    """Return the place after another one; lengths are hashed too, so that no two texts run on."""
    digest = hashlib.blake2b(before.encode(), digest_size=_POSITION_HASH_BYTES)
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(b"t%d:" % len(data) + data)
    for part in other_parts:
        for name in sorted(part.keys() - _CACHE_MARKS):
            key, value = name.encode("utf-8", "surrogatepass"), bytes(part[name])
            digest.update(b"m%d:%d:" % (len(key), len(value)) + key + value)
    return digest.hexdigest()


def _has_memory(message: Message) -> bool:
    """Tell whether a block of memory stands in a message; only a mark is not one."""
    content = bytes(message.content)
    return _MEMORY_MARK in content and any(
        strip_injected_memory(text) != text for text in content_texts(content)
    )


_PARTS: Final = msgspec.json.Decoder(list[_MessagePart])
_RAW_PARTS: Final = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
