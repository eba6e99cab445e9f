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

from memplane.ledger.entry import Reply, StreamReply
from memplane.memory.conversation import answer_of
from memplane.proxy.body import Body
from memplane.proxy.dialects.contract import ANSWER, THREAD, Conversation, Dialect
from memplane.proxy.dialects.conversing import INSTRUCTING, MODEL, answers_of, is_users
from memplane.proxy.json_values import decoded_or_none, members, string
from memplane.proxy.sse import Events

_PLACE_BYTES: Final = 16
_FIRST_EVENTS: Final = 64 << 10
"""Bytes of a stream in which its answer is named; it is in the first event."""
_NOT_KEPT: Final = b"false"


class Stood(msgspec.Struct, frozen=True):
    """Where a turn stands, now that it is answered.

    Args:
        place: Of its answer.
        names: Under which the provider keeps the answer.
        after: Under which it kept what was said before; that stands under the new names too.
    """

    place: str
    names: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


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
    return (*conversation.after, *_walked(conversation)[1])


def stood_of(dialect: Dialect, body: Body, reply: Reply) -> Stood:
    """Return where a turn stands in the conversation that asked for it."""
    conversation = dialect.conversation(body)
    place, _ = _walked(conversation)
    place.answer(_words(reply))
    names = _names(conversation, body, reply) if dialect.keeps_answers else ()
    return Stood(str(place), tuple(names), conversation.after)


def _names(conversation: Conversation, body: Body, reply: Reply) -> Iterator[str]:
    yield from (one for one in conversation.after if one.startswith(THREAD))
    if bytes(body.members.get("store", b"")) != _NOT_KEPT and (name := _id_of(reply)):
        yield f"{ANSWER} {name}"


def _id_of(reply: Reply) -> str:
    if not isinstance(reply, StreamReply):
        return string(members(decoded_or_none(reply.body)).get("id"))
    for event in Events().feed(reply.body[:_FIRST_EVENTS]):
        named = members(members(decoded_or_none(event.data)).get("response")).get("id")
        if named:
            return string(named)
    return ""


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
