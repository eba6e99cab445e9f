"""Which turns stand in a conversation (pure).

A prompt's place is over what users said, so that nothing a client changes of the model's messages
moves the memory that stands there; conversations that begin alike share it. Whether a turn stands
in this one, its answer tells: the place of an answer is over all that users and the model said
before it, and over itself. Blanks do not count in it, nor how it was cut into messages and parts.

Some providers keep what was said, and a request only names it. Such a name is a place too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

import msgspec

from memplane.exchange.conversation import (
    INSTRUCTION_ROLES,
    MODEL_ROLE,
    answer_texts,
    is_user_message,
)
from memplane.exchange.conversation_parser import extract_answer
from memplane.exchange.dialect import STORED_ANSWER, STORED_THREAD, Conversation, Dialect
from memplane.exchange.request_body import RequestBody
from memplane.exchange.sse import SseParser
from memplane.kit.json_values import as_object, as_string, decode_json_or_none
from memplane.ledger.entry import Reply, StreamReply

_PLACE_BYTES: Final = 16
_FIRST_EVENT_BYTES: Final = 64 << 10
"""Bytes of a stream in which its answer is named; it is in the first event."""
_STORE_OFF: Final = b"false"


class ConversationPosition(msgspec.Struct, frozen=True):
    """Where a turn stands, now that it is answered.

    Args:
        place: Of its answer.
        names: Under which the provider keeps the answer.
        after: Under which it kept what was said before; that stands under the new names too.
    """

    place: str
    names: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class _PositionDigest:
    """What was said so far, as far as its place needs it."""

    def __init__(self) -> None:
        self._said = _digest(b"")

    def ask(self, prompt: str) -> None:
        """Go on with a prompt, by its own place."""
        self._said = _digest(self._said.digest() + prompt.encode())

    def answer(self, text: str) -> None:
        """Go on with what the model said."""
        self._said.update("".join(text.split()).encode("utf-8", "surrogatepass"))

    def __str__(self) -> str:
        return self._said.hexdigest()


def find_answer_places(conversation: Conversation) -> tuple[str, ...]:
    """Return the places of what the model said so far.

    Where the client has the model go on with an answer, that answer is one of them.
    """
    return (*conversation.after, *_walk_conversation(conversation)[1])


def find_position(dialect: Dialect, body: RequestBody, reply: Reply) -> ConversationPosition:
    """Return where a turn stands in the conversation that asked for it."""
    conversation = dialect.conversation(body)
    place, _ = _walk_conversation(conversation)
    place.answer(_reply_text(reply))
    names = _find_names(conversation, body, reply) if dialect.stores_answers else ()
    return ConversationPosition(str(place), tuple(names), conversation.after)


def _find_names(conversation: Conversation, body: RequestBody, reply: Reply) -> Iterator[str]:
    yield from (one for one in conversation.after if one.startswith(STORED_THREAD))
    if bytes(body.members.get("store", b"")) != _STORE_OFF and (name := _find_reply_id(reply)):
        yield f"{STORED_ANSWER} {name}"


def _find_reply_id(reply: Reply) -> str:
    if not isinstance(reply, StreamReply):
        return as_string(as_object(decode_json_or_none(reply.body)).get("id"))
    for event in SseParser().feed(reply.body[:_FIRST_EVENT_BYTES]):
        named = as_object(as_object(decode_json_or_none(event.data)).get("response")).get("id")
        if named:
            return as_string(named)
    return ""


def _walk_conversation(conversation: Conversation) -> tuple[_PositionDigest, list[str]]:
    """Read a conversation; returns where it is at its end, and where answers were."""
    place, answers = _PositionDigest(), dict[str, None]()
    prompts = {one.index: one.place for one in conversation.prompts}
    body = conversation.body
    messages = body.messages(conversation.messages_member) if body is not None else ()
    if not messages:  # then the whole input is one text
        for prompt in prompts.values():
            place.ask(prompt)
    for index, message in enumerate(messages):
        if index in prompts:
            place.ask(prompts[index])
        elif message.role == MODEL_ROLE:
            place.answer("".join(answer_texts(message)))
            answers[str(place)] = None
        elif not is_user_message(message) and message.role not in INSTRUCTION_ROLES:
            # A call: a turn that said nothing else stands where its prompt does.
            answers[str(place)] = None
    return place, list(answers)


def _reply_text(reply: Reply) -> str:
    if isinstance(reply, StreamReply):
        return extract_answer({"format": "sse", "text": reply.body.decode("utf-8", "replace")})
    return extract_answer({"format": "json", "json": decode_json_or_none(reply.body)})


def _digest(before: bytes) -> hashlib.blake2b:
    return hashlib.blake2b(before, digest_size=_PLACE_BYTES)
