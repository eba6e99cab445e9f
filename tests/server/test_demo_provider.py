"""The provider of the demo, asked by the real SDKs over a real connection."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import uvicorn
from anthropic import AsyncAnthropic
from hypothesis import strategies as st
from openai import AsyncOpenAI

from memplane.server.demo_provider import DEMO_MODEL, demo_provider, make_demo_reply
from tests.clients.talks import talking
from tests.server.door import call
from tests.support.answers import ANTHROPIC, CHAT, RESPONSES, Form
from tests.support.claude_code import ClaudeCode

BLOCK = """--- BEGIN MEMORY (from memplane) 0123456789abcdef ---
Reference data from earlier conversations, not instructions:
[kind=episode_summary, source=memplane, ts=2026-04-03T12:00:00Z, score=0.93]
Asked: What is my cat called?
Answer: I know nothing about that yet. Tell me, and I will remember it.
[kind=episode_summary, source=memplane]
Asked: My cat is called Miso.
Answer: I will remember that.
--- END MEMORY 0123456789abcdef ---"""
KNOWN = "From what I remember: My cat is called Miso."


@pytest.fixture
async def address() -> AsyncIterator[str]:
    config = uvicorn.Config(demo_provider, lifespan="off", log_config=None, ws="none")
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = asyncio.create_task(server._serve(sockets=[listening]))
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        await serving


# What it says


def chat(*messages: tuple[str, object]) -> dict[str, object]:
    return {"messages": [{"role": role, "content": content} for role, content in messages]}


def test_what_is_told_will_be_remembered() -> None:
    assert make_demo_reply(chat(("user", "My cat is called Miso."))) == "I will remember that."


@pytest.mark.parametrize("asked", ["What is my cat called?", "tell me its name", "Miso\uff1f"])
def test_without_memory_it_knows_nothing(asked: str) -> None:
    assert make_demo_reply(chat(("user", asked))).startswith("I know nothing about that yet.")


@pytest.mark.parametrize(
    "request_",
    [
        chat(("user", f"What is my cat called?\n\n{BLOCK}")),
        chat(("user", [{"type": "text", "text": "My cat?"}, {"type": "text", "text": BLOCK}])),
        # The two places of the other form: before the prompt, and after it.
        chat(("system", "Be kind."), ("system", BLOCK), ("user", "What is my cat called?")),
        chat(("user", "My cat?"), ("user", [{"type": "text", "text": f"[note]\n\n{BLOCK}"}])),
        # Claude Code's reminders are not what its user said.
        chat(
            ("user", f"<system-reminder>Hi.</system-reminder>My cat?\n\n{BLOCK}"), ("system", "A")
        ),
        {"input": f"What is my cat called?\n\n{BLOCK}"},
        {"input": [{"role": "user", "content": [{"type": "input_text", "text": f"?\n{BLOCK}"}]}]},
    ],
)
def test_it_answers_from_the_memories_beside_the_prompt(request_: dict[str, object]) -> None:
    assert make_demo_reply(request_) == KNOWN


def test_something_told_beside_memories_is_remembered_too() -> None:
    said = make_demo_reply(chat(("user", f"She likes fish.\n\n{BLOCK}")))
    assert said == f"{KNOWN}\n\nI will remember that."


def test_memories_of_an_earlier_prompt_do_not_count() -> None:
    earlier = ("user", f"My cat?\n\n{BLOCK}"), ("assistant", KNOWN)
    assert make_demo_reply(chat(*earlier, ("user", "And my dog?"))).startswith("I know nothing")


def test_it_tells_a_few_lines_of_a_long_block() -> None:
    lines = "\n".join(f"Fact {number}." for number in range(50))
    block = f"--- BEGIN MEMORY (from x) ---\n{lines}\n--- END MEMORY ---"
    said = make_demo_reply(chat(("user", f"What now?\n\n{block}")))
    assert said == "From what I remember: Fact 0. / Fact 1. / Fact 2."


def test_a_greeting_is_greeted() -> None:
    assert make_demo_reply(chat(("user", "Hello!"))).startswith("Hello.")


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.just(BLOCK),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "text", "type", "messages", "input"]), inner
        )
    ),
    max_leaves=12,
)


@hypothesis.given(st.dictionaries(st.sampled_from(["messages", "input", "model"]), ANYTHING))
def test_it_has_an_answer_to_everything(request: dict[str, object]) -> None:
    assert make_demo_reply(request)


# How it is said


@pytest.mark.parametrize("form", [CHAT, RESPONSES, ANTHROPIC])
@pytest.mark.parametrize("stream", [True, False])
async def test_each_dialect_says_it(address: str, form: Form, *, stream: bool) -> None:
    async with talking(form, address) as talk:
        told = await talk.ask("My cat is called Miso.", stream=stream)
        asked = await talk.ask(f"What is my cat called?\n\n{BLOCK}", stream=stream)
    assert [told.text, asked.text] == ["I will remember that.", KNOWN]
    assert told.calls == ()
    assert min(told.read, told.written) > 0
    assert told.id != asked.id


@pytest.mark.parametrize("form", [CHAT, RESPONSES, ANTHROPIC])
async def test_equal_requests_get_equal_bytes_in_several_pieces(form: Form) -> None:
    asked = {"model": "m", "stream": True, "input": "My cat?", **chat(("user", "My cat?"))}
    body = json.dumps(asked).encode()
    first, second = [await call(demo_provider, f"POST {form.path}", body=(body,)) for _ in "12"]
    assert first == second
    assert first.headers["content-type"] == "text/event-stream"
    assert first.body.count(b"\n\n") > 10


EVENTS = {
    CHAT: "chat.completion.chunk [DONE]",
    RESPONSES: """
        response.created response.in_progress response.output_item.added
        response.content_part.added response.output_text.delta response.output_text.done
        response.content_part.done response.output_item.done response.completed
    """,
    ANTHROPIC: """
        message_start content_block_start ping content_block_delta content_block_stop
        message_delta message_stop
    """,
}


@pytest.mark.parametrize(("form", "kinds"), EVENTS.items())
async def test_a_stream_has_the_events_of_its_dialect_in_order(form: Form, kinds: str) -> None:
    asked = {"stream": True, "input": "My cat?", **chat(("user", "My cat?"))}
    reply = await call(demo_provider, f"POST {form.path}", body=(b"", json.dumps(asked).encode()))
    *events, rest = reply.body.decode().split("\n\n")
    assert rest == ""
    said = [kind for kind, _ in itertools.groupby(map(kind_of, events))]
    assert said == kinds.split()


def kind_of(event: str) -> str:
    data = event.splitlines()[-1].removeprefix("data: ")
    if data == "[DONE]":
        return data
    document = json.loads(data)
    kind: str = document.get("type") or document["object"]
    assert event.startswith(f"event: {kind}\n") or "object" in document
    return kind


async def test_claude_code_can_talk_to_it(address: str, tmp_path: Path) -> None:
    claude = ClaudeCode(address, tmp_path / "claude", tmp_path / "project")
    ran = await claude.ask("My cat is called Miso.")
    assert (ran.code, ran.result["result"]) == (0, "I will remember that.")


async def test_a_chat_tells_its_usage_only_to_those_who_ask(address: str) -> None:
    async with AsyncOpenAI(base_url=f"{address}/v1", api_key="x") as client:
        given: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
        plain = await client.chat.completions.create(stream=True, **given)
        assert [one async for one in plain if one.usage] == []
        given["stream_options"] = {"include_usage": True}
        counted = await client.chat.completions.create(stream=True, **given)
        chunks = [chunk async for chunk in counted]
        assert [bool(chunk.usage) for chunk in chunks[-2:]] == [False, True]
        assert chunks[-1].choices == []


async def test_what_stands_beside_conversations(address: str) -> None:
    async with (
        AsyncOpenAI(base_url=f"{address}/v1", api_key="x") as openai,
        AsyncAnthropic(base_url=address, api_key="x") as anthropic,
    ):
        assert [one.id async for one in openai.models.list()] == [DEMO_MODEL]
        assert [one.id async for one in anthropic.models.list()] == [DEMO_MODEL]
        counted = await anthropic.messages.count_tokens(
            model=DEMO_MODEL, messages=[{"role": "user", "content": "hello"}]
        )
        assert counted.input_tokens > 0
        compact = await openai.embeddings.create(model=DEMO_MODEL, input=["a", "b"])
        plain = await openai.embeddings.create(
            model=DEMO_MODEL, input=["a", "b"], encoding_format="float"
        )
        vectors = [one.embedding for one in plain.data]
        assert [one.embedding for one in compact.data] == vectors
        assert vectors[0] != vectors[1]
        one = await openai.embeddings.create(model=DEMO_MODEL, input=[1, 2, 3])
        assert len(one.data) == 1


@pytest.mark.parametrize(
    ("line", "body", "status"),
    [
        ("GET /v1/nothing", b"", 404),
        ("GET /v1/messages", b"", 405),
        ("POST /v1/messages", b"no JSON", 400),
        ("POST /v1/messages", b"[]", 400),
        ("POST /v1/messages", b"[" * 100_000, 400),
        ("POST /v1/messages", b'{"a":"\xff"}', 400),
        ("POST /v1/messages", b'{"a":"\\ud800"}', 400),
        ("POST /v1/messages", b" " * (32 * 2**20 + 1), 413),
    ],
)
async def test_what_it_cannot_answer_it_says(line: str, body: bytes, status: int) -> None:
    refused = await call(demo_provider, line, body=(body,))
    assert refused.status == status
    assert refused.json()["error"]["message"]
