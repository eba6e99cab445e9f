"""What the proxy asks of a provider's API, whatever that calls things (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from memplane.exchange.request_body import RequestBody
from memplane.exchange.sse import SseEvent

ApiFamily: TypeAlias = Literal["openai", "anthropic"]
"""Whose API is spoken."""


class ConversationPrompt(msgspec.Struct, frozen=True):
    """What a user said in one message.

    Args:
        index: The message's index in its list; -1 where the whole input is one text.
        place: Stands for all that users said up to and with this message, in 32 hex digits. What
            clients change from request to request does not change it.
        text: The user's words, without what programs put around them.
    """

    index: int
    place: str
    text: str


STORED_ANSWER: Final = "response"
STORED_THREAD: Final = "conversation"
"""What providers keep: an answer with all before it, and a conversation that grows."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a request says of the conversation so far.

    Args:
        prompts: What users said, oldest first.
        awaits: The last prompt is what this request asks: nothing of the model's or of tools
            follows it, but for the beginning of an answer that the client gives the model.
        injected: Memory is beside the newest prompt already, put there by a hook of the client.
        after: The names under which the provider keeps what was said before; the request need
            not repeat that.
    """

    prompts: tuple[ConversationPrompt, ...] = ()
    awaits: bool = False
    injected: bool = False
    after: tuple[str, ...] = ()
    body: RequestBody | None = field(default=None, repr=False, compare=False)
    system_member: str = field(default="", repr=False, compare=False)
    messages_member: str = field(default="messages", repr=False, compare=False)

    @property
    def system(self) -> object:
        """What the client tells the model beside the messages, decoded when it is asked for."""
        return (
            self.body.value(self.system_member)
            if self.body is not None and self.system_member
            else None
        )

    @property
    def messages(self) -> object:
        """The messages, decoded when they are asked for: that costs more than all else here."""
        return None if self.body is None else self.body.value(self.messages_member)


class Dialect(Protocol):
    """A provider's API."""

    @property
    def path(self) -> str:
        """Where its requests go."""
        ...

    @property
    def family(self) -> ApiFamily:
        """The family of providers that speak it."""
        ...

    @property
    def needs_usage_option(self) -> bool:
        """Whether a stream tells what was used only to those who ask for it."""
        ...

    @property
    def stores_answers(self) -> bool:
        """Whether a provider keeps answers, for requests that go on with them by their ids."""
        ...

    @property
    def system_member(self) -> str:
        """The member in which clients tell the model what to do; empty when there is none."""
        ...

    @property
    def messages_member(self) -> str:
        """The member that lists the conversation."""
        ...

    @property
    def last(self) -> tuple[str, ...]:
        """What the event has in it, in its name or its data, after which no other comes."""
        ...

    def conversation(self, body: RequestBody) -> Conversation:
        """Read what users said; nothing when the body is of another shape."""
        ...

    def with_blocks(self, body: RequestBody, blocks: Mapping[int, str]) -> bytes:
        """Put a text at the end of each message whose index is named.

        Every byte of the body stays, in its order; the same bytes come back when nothing is put
        in. The same body and blocks always give the same bytes.
        """
        ...

    def with_context(self, body: RequestBody, text: str) -> bytes | None:
        """Put a text beside the last message of a user's, as a message of its own.

        None when there is no conversation to put it into.
        """
        ...

    def is_end(self, event: SseEvent) -> bool:
        """Tell whether this is the event after which nothing of a reply comes."""
        ...

    def failure_in(self, document: object) -> str:
        """Say which error a decoded body or an event's data reports; empty when it has none.

        The words are the provider's.
        """
        ...
