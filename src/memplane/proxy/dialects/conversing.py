"""What users said in a list of messages, and the places of their prompts (pure)."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from memplane.memory.injected import without_injected, without_wrappers
from memplane.proxy.body import Body, Message
from memplane.proxy.dialects.contract import Conversation, Prompt
from memplane.proxy.json_values import decoded_or_none, items, members, string

USER: Final = "user"
MODEL: Final = "assistant"
INSTRUCTING: Final = frozenset({"system", "developer"})

_SPOKEN: Final = frozenset({"", "text", "input_text"})
_ANSWERED: Final = _SPOKEN | {"output_text"}
_RESULT: Final = "tool_result"
_UNKNOWN: Final = "unknown"
_NOT_CONTENT: Final = frozenset({"cache_control", "prompt_cache_breakpoint"})
"""Marks for a provider's cache, which clients move from message to message."""
_PLACE_BYTES: Final = 16
_MARK: Final = b"BEGIN MEMORY"
_WHOLE_INPUT: Final = -1


class _Part(msgspec.Struct, frozen=True, gc=False):
    type: str = ""
    text: str = ""


class _Said(msgspec.Struct, frozen=True):
    """What a user's message holds.

    Args:
        texts: The user's words, text by text.
        has_results: Tools answered in it.
        has_others: There is something beside words and tools' answers, such as an image.
    """

    texts: tuple[str, ...]
    has_results: bool = False
    has_others: bool = False


def conversation_in(body: Body, *, listed: str, told: str) -> Conversation:
    """Read the conversation that a member lists; it may be one text instead of a list."""
    whole = body.members.get(listed)
    if whole is not None and bytes(whole)[:1] == b'"':
        return _of_one_text(body, listed, told)
    messages = body.messages(listed)
    prompts: list[Prompt] = []
    place = ""
    awaits = False
    latest = 0  # where what the newest prompt stands beside begins
    for index, message in enumerate(messages):
        if is_users(message):
            said = _said(message)
            if said.texts:
                place = _place(place, said.texts, _others(message) if said.has_others else ())
                prompts.append(Prompt(index, place, "\n".join(said.texts)))
                awaits = True
                latest = index if said.has_results else latest
            elif said.has_results:
                awaits, latest = False, index + 1
        elif message.role not in INSTRUCTING:
            awaits = awaits and index == len(messages) - 1 and _only_speaks(message)
            latest = latest if awaits else index + 1
    injected = awaits and any(map(_has_memory, messages[latest:]))
    return Conversation(
        tuple(prompts), awaits, injected=injected, body=body, told=told, listed=listed
    )


def is_users(message: Message) -> bool:
    """Tell whether a message comes under the user's role; tools' answers may too."""
    return message.role == USER


def last_of_user(messages: Sequence[Message]) -> int | None:
    """Return the index of the last message under the user's role."""
    for index in range(len(messages) - 1, -1, -1):
        if is_users(messages[index]):
            return index
    return None


def texts_of(message: Message) -> list[str]:
    """Return the texts of a message as they stand there."""
    return texts_in(bytes(message.content))


def answers_of(message: Message) -> list[str]:
    """Return what the model said in a message of its own, text by text."""
    return texts_in(bytes(message.content), _ANSWERED)


def texts_in(content: bytes, kinds: Collection[str] = _SPOKEN) -> list[str]:
    """Return the texts of a content or of instructions: a string, or a list of parts."""
    if content[:1] == b'"':
        return [string(decoded_or_none(content))]
    return [part.text for part in _parts(content) if part.type in kinds]


def _of_one_text(body: Body, listed: str, told: str) -> Conversation:
    text = string(body.value(listed))
    said = _words([text])
    if not said:
        return Conversation(body=body, told=told, listed=listed)
    prompt = Prompt(_WHOLE_INPUT, _place("", said, ()), "\n".join(said))
    injected = without_injected(text) != text
    return Conversation(
        (prompt,), awaits=True, injected=injected, body=body, told=told, listed=listed
    )


def _said(message: Message) -> _Said:
    content = bytes(message.content)
    if content[:1] == b'"':
        return _Said(_words(texts_in(content)))
    texts: list[str] = []
    has_results = has_others = False
    for part in _parts(content):
        if part.type in _SPOKEN:
            texts.append(part.text)
        elif _RESULT in part.type:
            has_results = True
        else:
            has_others = True
    return _Said(_words(texts), has_results, has_others)


def _words(texts: Iterable[str]) -> tuple[str, ...]:
    """Clean each text by itself, as it was put there by itself; what a program wrote goes."""
    cleaned = (without_wrappers(without_injected(text)).strip() for text in texts)
    return tuple(text for text in cleaned if text)


def _only_speaks(message: Message) -> bool:
    """Tell whether the model says something in a message, and calls no tool.

    As the last message it is how the client wants the answer to begin.
    """
    content = bytes(message.content)
    if message.role != MODEL or content[:1] == b'"':
        return message.role == MODEL
    parts = _parts(content)
    return bool(parts) and all(part.type in _ANSWERED for part in parts)


def _parts(content: bytes) -> list[_Part]:
    if content[:1] != b"[":
        return []
    try:
        return _PARTS.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return [_part(item) for item in items(decoded_or_none(content))]


def _part(item: object) -> _Part:
    """Read a part of an unusual shape; a string among parts is a text."""
    if isinstance(item, str):
        return _Part(text=item)
    part = members(item)
    kind = part.get("type", "")
    return _Part(kind if isinstance(kind, str) else _UNKNOWN, string(part.get("text")))


def _others(message: Message) -> list[Mapping[str, msgspec.Raw]]:
    """Return the parts that are neither words nor tools' answers, with their own bytes."""
    try:
        parts = _RAW_PARTS.decode(message.content)
    except (msgspec.DecodeError, RecursionError):
        return []
    heads = _parts(bytes(message.content))
    return [
        part
        for part, head in zip(parts, heads, strict=True)
        if head.type not in _SPOKEN and _RESULT not in head.type
    ]


def _place(before: str, texts: Iterable[str], others: Iterable[Mapping[str, msgspec.Raw]]) -> str:
    """Return the place after another one; lengths are hashed too, so that no two texts run on."""
    digest = hashlib.blake2b(before.encode(), digest_size=_PLACE_BYTES)
    for text in texts:
        said = text.encode("utf-8", "surrogatepass")
        digest.update(b"t%d:" % len(said) + said)
    for part in others:
        for name in sorted(part.keys() - _NOT_CONTENT):
            key, value = name.encode("utf-8", "surrogatepass"), bytes(part[name])
            digest.update(b"m%d:%d:" % (len(key), len(value)) + key + value)
    return digest.hexdigest()


def _has_memory(message: Message) -> bool:
    """Tell whether a block of memory stands in a message; only a mark is not one."""
    content = bytes(message.content)
    return _MARK in content and any(without_injected(text) != text for text in texts_in(content))


_PARTS: Final = msgspec.json.Decoder(list[_Part])
_RAW_PARTS: Final = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
