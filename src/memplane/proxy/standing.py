"""Which turns stand in a conversation (pure).

A prompt's place is over what users said, so that nothing a client changes of the model's messages
moves the memory that stands there; conversations that begin alike share it. Whether a turn stands
in this one, its answer tells: the place of an answer is over all that users and the model said
before it, and over itself. Blanks do not count in it, nor how it was cut into messages and parts.
"""

from __future__ import annotations

import hashlib
from typing import Final

from memplane.ledger.entry import Reply, StreamReply
from memplane.memory.conversation import answer_of
from memplane.proxy.body import Body
from memplane.proxy.dialects.contract import Conversation, Dialect
from memplane.proxy.dialects.conversing import (
    INSTRUCTING,
    MODEL,
    answers_of,
    is_users,
)
from memplane.proxy.json_values import decoded_or_none

_PLACE_BYTES: Final = 16


class _Place:
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


def answers_before(conversation: Conversation) -> tuple[str, ...]:
    """Return the places of what the model said so far.

    Where the client has the model go on with an answer, that answer is one of them.
    """
    return tuple(_walked(conversation)[1])


def place_of_answer(dialect: Dialect, body: Body, reply: Reply) -> str:
    """Return the place of an answer in the conversation that asked for it."""
    place, _ = _walked(dialect.conversation(body))
    place.answer(_words(reply))
    return str(place)


def _walked(conversation: Conversation) -> tuple[_Place, list[str]]:
    """Read a conversation; returns where it is at its end, and where answers were."""
    place, answers = _Place(), dict[str, None]()
    prompts = {one.index: one.place for one in conversation.prompts}
    body = conversation.body
    messages = body.messages(conversation.listed) if body is not None else ()
    if not messages:  # then the whole input is one text
        for prompt in prompts.values():
            place.ask(prompt)
    for index, message in enumerate(messages):
        if index in prompts:
            place.ask(prompts[index])
        elif message.role == MODEL:
            place.answer("".join(answers_of(message)))
            answers[str(place)] = None
        elif not is_users(message) and message.role not in INSTRUCTING:
            # A call: a turn that said nothing else stands where its prompt does.
            answers[str(place)] = None
    return place, list(answers)


def _words(reply: Reply) -> str:
    if isinstance(reply, StreamReply):
        return answer_of({"format": "sse", "text": reply.body.decode("utf-8", "replace")})
    return answer_of({"format": "json", "json": decoded_or_none(reply.body)})


def _digest(before: bytes) -> hashlib.blake2b:
    return hashlib.blake2b(before, digest_size=_PLACE_BYTES)
