"""The real SDKs behind one form: each holds a conversation, and says what it heard.

The same talk can be held with a provider directly and through something in between.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx2
import openai
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from tests.support.answers import ANTHROPIC, CHAT, RESPONSES, Call, Form, Said

FORMS = pytest.mark.parametrize(
    "form", [CHAT, RESPONSES, ANTHROPIC], ids=["chat", "responses", "anthropic"]
)
STREAMS = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
AT_ONCE = {"retry-after-ms": "1", "x-should-retry": "true"}
LONG = "A longer answer, of which some pieces are sent and some are not."
FACT = "My sister Ada is allergic to peanuts and loves mango lassi."
QUESTION = "What is my sister Ada allergic to?"
CLOSED = (openai.APIConnectionError, httpx2.TransportError)
"""What the SDKs raise when their connection is lost."""

KEY = "sk-dummy"
TOOL = "weather"
_SCHEMA = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}


class Talk(Protocol):
    """A conversation of a client with a model."""

    client: Any

    async def ask(self, words: str, *, stream: bool) -> Said:
        """Say something; returns what the client's library made of the answer."""
        ...

    async def give(self, call: Call, result: str, *, stream: bool) -> Said:
        """Give the result of a tool that the model called."""
        ...


@dataclass(slots=True)
class ChatTalk:
    """Chat Completions with the openai SDK."""

    client: Any
    messages: list[Any] = field(default_factory=list[Any])

    async def ask(self, words: str, *, stream: bool) -> Said:
        self.messages.append({"role": "user", "content": words})
        return await self._answer(stream=stream)

    async def give(self, call: Call, result: str, *, stream: bool) -> Said:
        self.messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        return await self._answer(stream=stream)

    async def _answer(self, *, stream: bool) -> Said:
        function = {"name": TOOL, "parameters": _SCHEMA}
        given = {
            "model": "gpt-test",
            "messages": self.messages,
            "tools": [{"type": "function", "function": function}],
        }
        if stream:
            options = {"include_usage": True}
            async with self.client.chat.completions.stream(
                **given, stream_options=options
            ) as events:
                completion = await events.get_final_completion()
        else:
            completion = await self.client.chat.completions.create(**given)
        message = completion.choices[0].message
        self.messages.append(message.model_dump(exclude_none=True, exclude={"parsed"}))
        calls = tuple(
            _call(one.function.name, one.function.arguments, one.id)
            for one in message.tool_calls or ()
        )
        usage = completion.usage
        return Said(
            message.content or "",
            calls,
            completion.id.removeprefix("chatcmpl-"),
            completion.model,
            usage.prompt_tokens,
            usage.completion_tokens,
        )


@dataclass(slots=True)
class ResponsesTalk:
    """Responses with the openai SDK."""

    client: Any
    items: list[Any] = field(default_factory=list[Any])

    async def ask(self, words: str, *, stream: bool) -> Said:
        self.items.append({"role": "user", "content": words})
        return await self._answer(stream=stream)

    async def give(self, call: Call, result: str, *, stream: bool) -> Said:
        self.items.append({"type": "function_call_output", "call_id": call.id, "output": result})
        return await self._answer(stream=stream)

    async def _answer(self, *, stream: bool) -> Said:
        given = {
            "model": "gpt-test",
            "input": self.items,
            "tools": [{"type": "function", "name": TOOL, "parameters": _SCHEMA, "strict": False}],
        }
        if stream:
            async with self.client.responses.stream(**given) as events:
                response = await events.get_final_response()
        else:
            response = await self.client.responses.create(**given)
        self.items += [item.to_dict(exclude_none=True) for item in response.output]
        calls = tuple(
            _call(item.name, item.arguments, item.call_id)
            for item in response.output
            if item.type == "function_call"
        )
        usage = response.usage
        return Said(
            response.output_text,
            calls,
            response.id.removeprefix("resp_"),
            response.model,
            usage.input_tokens,
            usage.output_tokens,
        )


@dataclass(slots=True)
class AnthropicTalk:
    """Messages with the anthropic SDK."""

    client: Any
    messages: list[Any] = field(default_factory=list[Any])

    async def ask(self, words: str, *, stream: bool) -> Said:
        self.messages.append({"role": "user", "content": words})
        return await self._answer(stream=stream)

    async def give(self, call: Call, result: str, *, stream: bool) -> Said:
        given = {"type": "tool_result", "tool_use_id": call.id, "content": result}
        self.messages.append({"role": "user", "content": [given]})
        return await self._answer(stream=stream)

    async def _answer(self, *, stream: bool) -> Said:
        given = {
            "model": "claude-test",
            "max_tokens": 100,
            "messages": self.messages,
            "tools": [{"name": TOOL, "input_schema": _SCHEMA}],
        }
        if stream:
            async with self.client.messages.stream(**given) as events:
                message = await events.get_final_message()
        else:
            message = await self.client.messages.create(**given)
        blocks = [block.to_dict(exclude_none=True) for block in message.content]
        self.messages.append({"role": "assistant", "content": blocks})
        return Said(
            "".join(block.text for block in message.content if block.type == "text"),
            tuple(
                Call(block.name, block.input, block.id)
                for block in message.content
                if block.type == "tool_use"
            ),
            message.id.removeprefix("msg_"),
            message.model,
            message.usage.input_tokens,
            message.usage.output_tokens,
        )


@asynccontextmanager
async def talking(
    form: Form, address: str, *, headers: Mapping[str, str] | None = None
) -> AsyncIterator[Talk]:
    """Begin a conversation in a dialect with whoever listens at an address."""
    if form is ANTHROPIC:
        async with AsyncAnthropic(
            base_url=address, api_key=KEY, default_headers=headers
        ) as client:
            yield AnthropicTalk(client)
        return
    async with AsyncOpenAI(
        base_url=f"{address}/v1", api_key=KEY, default_headers=headers
    ) as other:
        yield ChatTalk(other) if form is CHAT else ResponsesTalk(other)


def _call(name: str, arguments: str, number: str) -> Call:
    return Call(name, json.loads(arguments), number)
