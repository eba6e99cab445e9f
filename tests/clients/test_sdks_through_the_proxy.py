"""The real SDKs hold their conversations through memplane as they hold them directly."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import anthropic
import openai
import pytest

from tests.clients.talks import (
    AT_ONCE,
    CLOSED,
    FACT,
    FORMS,
    LONG,
    QUESTION,
    STREAMS,
    TOOL,
    Talk,
    talking,
)
from tests.clients.wire import AGENT, Run, differences, replayed, telling, watched
from tests.proxy.proxied import Proxied
from tests.support.answers import ANTHROPIC, CHAT, RESPONSES, Call, Form, Said, cut, whole
from tests.support.upstream import Answer, End, Received

HERE, THERE = Call(TOOL, {"place": "Zürich"}, "call_1"), Call(TOOL, {"place": "Bern"}, "call_2")
TOOLED = (
    Said("Let me see.", (HERE,), id="1", read=40, written=9),
    Said(calls=(THERE,), id="2"),
    Said("Sun here, rain “there” 🌧.", id="3"),
)
GREETED = Said("Good day.", id="4"), Said("Until then.", id="5")
OFF = {"X-Memplane-Memory": "off"}
Converse: TypeAlias = Callable[[Talk], Awaitable[tuple[Said, ...]]]


@FORMS
@STREAMS
async def test_a_conversation_with_tools_is_the_same_to_the_last_byte(
    form: Form, door: Proxied, *, stream: bool
) -> None:
    async def converse(talk: Talk) -> tuple[Said, ...]:
        asked = await talk.ask("How is the weather in Zürich and Bern?", stream=stream)
        given = await talk.give(HERE, "sun", stream=stream)
        return asked, given, await talk.give(THERE, "rain", stream=stream)

    direct, through = await both(door, form, converse, *TOOLED)
    assert (direct.said, through.said) == (TOOLED, TOOLED)
    assert differences(through.run, direct.run) == []
    entries = await door.recorded(AGENT)
    sent = [one.json() for one in through.run.sent]
    assert [one["request_original"] for one in entries] == sent
    assert [one["request_effective"] for one in entries] == sent
    assert [one["stream"] for one in entries] == [stream] * len(TOOLED)
    assert [one["usage"]["prompt_tokens"] for one in entries] == [one.read for one in TOOLED]


async def test_one_byte_more_is_a_difference(door: Proxied) -> None:
    runs: list[Run] = []
    for mark in ("", "!"):
        door.upstream.scripts[CHAT.path] = CHAT.replies(Said(f"Now{mark}", id=f"1{mark}"))
        async with (
            watched(door, CHAT.path, direct=True) as run,
            talking(CHAT, run.address) as talk,
        ):
            await talk.ask(f"Good morning{mark}", stream=True)
        runs.append(run)
    found = [one.split(": ")[:2] for one in differences(runs[1], runs[0])]
    wrong = {"request 0": ["headers", "body"], "answer 0": ["headers", "body"]}
    assert found == [[where, what] for where, parts in wrong.items() for what in parts]


@FORMS
@pytest.mark.parametrize(("headers", "noted"), [({}, ""), (OFF, "memory off")])
async def test_many_prompts_of_one_conversation_are_the_same_to_the_last_byte(
    form: Form, door: Proxied, headers: dict[str, str], noted: str
) -> None:
    async def converse(talk: Talk) -> tuple[Said, ...]:
        first = await talk.ask(FACT, stream=True)
        # It is remembered by now, and stands in the conversation anyway.
        await door.remembered(AGENT, QUESTION)
        return first, await talk.ask(QUESTION, stream=False)

    direct, through = await both(door, form, converse, *GREETED, headers=headers)
    assert (direct.said, through.said) == (GREETED, GREETED)
    assert differences(through.run, direct.run) == []
    notes = [door.note(entry).left_out for entry in await door.recorded(AGENT)]
    assert notes == [noted] * 2


@FORMS
@pytest.mark.parametrize(("status", "stream"), [(429, True), (500, False), (529, True)])
async def test_a_turn_for_which_a_client_comes_again_is_one_turn(
    form: Form, door: Proxied, status: int, *, stream: bool
) -> None:
    refusal = form.error(status, "overloaded_error", headers=AT_ONCE)
    direct, through = await both(door, form, asking(stream=stream), refusal, Said("Now."))
    assert (direct.said, through.said) == ((Said("Now."),),) * 2
    assert differences(through.run, direct.run) == []
    assert [one.status for one in through.run.heard] == [status, 200]
    (entry,) = await door.recorded(AGENT)
    assert (entry["status_code"], entry["stream"]) == (200, stream)


@FORMS
@pytest.mark.parametrize(("status", "stream"), [(400, True), (401, False)])
async def test_an_error_reaches_the_client_as_it_is_and_is_no_turn(
    form: Form, door: Proxied, status: int, *, stream: bool
) -> None:
    refusal = form.error(status, "some_error", "no such thing")
    direct, through = await both(door, form, asking(stream=stream), refusal)
    assert isinstance(through.failed, openai.APIStatusError | anthropic.APIStatusError)
    assert through.failed.status_code == status
    assert described(through.failed) == described(direct.failed)
    assert differences(through.run, direct.run) == []
    assert await door.recorded(AGENT) == []


@FORMS
async def test_a_cut_stream_is_cut_at_the_same_byte_and_is_no_turn(
    form: Form, door: Proxied
) -> None:
    answer = cut(form.stream(Said(LONG)), 6)
    direct, through = await both(door, form, asking(stream=True), answer)
    assert isinstance(through.failed, CLOSED)
    assert described(through.failed) == described(direct.failed)
    assert differences(through.run, direct.run) == []
    assert [one.is_whole for one in through.run.heard] == [False]
    assert await door.recorded(AGENT) == []


@FORMS
async def test_a_provider_that_resets_its_connection_leaves_no_turn(
    form: Form, door: Proxied
) -> None:
    """A reset may overtake what was sent before it, so that only the end is the same."""
    answer = cut(form.stream(Said(LONG)), 6, End.RESET)
    direct, through = await both(door, form, asking(stream=True), answer)
    assert isinstance(direct.failed, CLOSED)
    assert isinstance(through.failed, CLOSED)
    assert await door.recorded(AGENT) == []


@pytest.mark.parametrize(
    ("path", "answer", "understood"),
    [
        ("/v1/messages/count_tokens", b'{"input_tokens": 7}', 7),
        ("/v1/models", b'{"object": "list", "data": [{"id": "gpt-1"}]}', "gpt-1"),
        ("/v1/embeddings", b'{"data": [{"index": 0, "embedding": "AACAPwAAAEA="}]}', [1.0, 2.0]),
    ],
)
async def test_what_is_no_turn_passes_as_it_is(
    path: str, answer: bytes, understood: object, door: Proxied
) -> None:
    await telling(door, FACT)
    told = len(door.events())
    door.upstream.at(path, whole(answer, headers={"x-request-id": "req_1"}))
    runs: list[Run] = []
    for direct in (True, False):
        async with watched(door, path, direct=direct) as run:
            assert await asked_at(path, run.address) == understood
        runs.append(run)
    assert differences(runs[1], runs[0]) == []
    assert [one.body for one in runs[1].heard] == [answer]
    assert len(await door.recorded(AGENT)) == 1
    assert len(door.events()) == told


async def asked_at(path: str, address: str) -> object:
    form = ANTHROPIC if path.startswith(ANTHROPIC.path) else CHAT
    async with talking(form, address) as talk:
        if form is ANTHROPIC:
            messages = [{"role": "user", "content": QUESTION}]
            counted = await talk.client.messages.count_tokens(model="m", messages=messages)
            return counted.input_tokens
        if path == "/v1/models":
            return (await talk.client.models.list()).data[0].id
        embedded = await talk.client.embeddings.create(model="m", input=QUESTION)
        return embedded.data[0].embedding


# Memory


@FORMS
@STREAMS
async def test_what_was_said_is_in_the_next_session_and_stays_where_it_stood(
    form: Form, door: Proxied, *, stream: bool
) -> None:
    await said_in_a_session(door, form, stream=stream)

    async def converse(talk: Talk) -> tuple[Said, ...]:
        asked = await talk.ask(QUESTION, stream=stream)
        return asked, await talk.give(HERE, "sun", stream=stream)

    direct, through = await both(door, form, converse, TOOLED[0], TOOLED[2])
    assert through.said == direct.said == (TOOLED[0], TOOLED[2])
    assert [one.body for one in through.run.heard] == [one.body for one in direct.run.heard]
    asked, looped = through.run.sent
    question, block = texts(asked)
    assert question == QUESTION
    assert "allergic to peanuts and loves mango lassi" in block
    assert looped.body.startswith(up_to_the_memory(asked.body))
    assert texts(looped) == [question, block]
    for sent, wanted in zip(through.run.sent, direct.run.sent, strict=True):
        assert but_the_first_message(sent) == but_the_first_message(wanted)
    _, *entries = await door.recorded(AGENT)
    sent_directly = [one.json() for one in direct.run.sent]
    assert [one["request_original"] for one in entries] == sent_directly
    assert [one["request_effective"] for one in entries] == [asked.json(), looped.json()]
    assert [replayed(door, one) for one in entries] == [[False], [True]]
    assert len(door.recalls()) == 2  # for what was told and for the question


@FORMS
async def test_a_client_that_comes_again_sends_the_same_memory(form: Form, door: Proxied) -> None:
    await said_in_a_session(door, form, stream=True)
    refusal = form.error(529, "overloaded_error", headers=AT_ONCE)
    door.upstream.scripts[form.path] = form.replies(refusal, Said("Peanuts."))
    async with watched(door, form.path) as run, talking(form, run.address) as talk:
        assert (await talk.ask(QUESTION, stream=True)).text == "Peanuts."
    first, second = run.sent
    assert len(texts(first)) == 2
    assert first.body == second.body
    assert len(await door.recorded(AGENT)) == 2
    assert len(door.recalls()) == 2


async def test_what_was_said_in_one_dialect_is_there_in_the_others(door: Proxied) -> None:
    await said_in_a_session(door, CHAT, stream=True)
    for form in (RESPONSES, ANTHROPIC):
        door.upstream.scripts[form.path] = form.replies(Said("Peanuts."))
        async with watched(door, form.path) as run, talking(form, run.address) as talk:
            await talk.ask(QUESTION, stream=True)
        assert "mango lassi" in texts(run.sent[0])[1]


async def said_in_a_session(door: Proxied, form: Form, *, stream: bool) -> None:
    """A session in which something is said that can be asked for later."""
    door.upstream.scripts[form.path] = form.replies(Said("Noted."))
    async with watched(door, form.path) as run, talking(form, run.address) as talk:
        await talk.ask(FACT, stream=stream)
    assert b"BEGIN MEMORY" not in run.sent[0].body
    assert await door.remembered(AGENT, QUESTION)


def messages_of(request: Received) -> list[Any]:
    body = request.json()
    listed: list[Any] = body.get("messages", body.get("input"))
    return listed


def but_the_first_message(request: Received) -> tuple[dict[str, Any], list[Any]]:
    body = request.json()
    rest = {name: value for name, value in body.items() if name not in {"messages", "input"}}
    return rest, messages_of(request)[1:]


def texts(request: Received) -> list[str]:
    """What the user said in the first message, and the memory at its end."""
    content = messages_of(request)[0]["content"]
    if not isinstance(content, str):
        return [part["text"] for part in content]
    said, mark, memory = content.partition("\n\n--- BEGIN MEMORY")
    return [said, mark.strip() + memory] if mark else [said]


def up_to_the_memory(body: bytes) -> bytes:
    """The bytes of a body up to the end of its only memory."""
    assert body.count(b"--- END MEMORY") == 1
    return body[: body.index(b"---", body.index(b"--- END MEMORY") + 3) + 3]


# The same conversation, directly and through memplane


@dataclass(slots=True)
class Held:
    """What came of a conversation: replies or an error, and what went over the wire."""

    run: Run
    said: tuple[Said, ...] = ()
    failed: Exception | None = None


async def both(
    door: Proxied,
    form: Form,
    converse: Converse,
    *replies: Said | Answer,
    headers: Mapping[str, str] | None = None,
) -> tuple[Held, Held]:
    """Converse directly, and then through memplane with some more headers."""
    held: list[Held] = []
    for direct in (True, False):
        door.upstream.scripts[form.path] = form.replies(*replies)
        more = None if direct else headers
        async with (
            watched(door, form.path, direct=direct) as run,
            talking(form, run.address, headers=more) as talk,
        ):
            one = Held(run)
            try:
                one.said = await converse(talk)
            except (openai.APIError, anthropic.APIError, *CLOSED) as error:
                one.failed = error
        held.append(one)
    return held[0], held[1]


def asking(*, stream: bool) -> Converse:
    async def converse(talk: Talk) -> tuple[Said, ...]:
        return (await talk.ask("Good morning!", stream=stream),)

    return converse


def described(error: Any) -> tuple[object, ...]:
    """All that an error tells whoever catches it."""
    told = (getattr(error, name, None) for name in ("status_code", "body", "request_id"))
    return type(error), str(error), *told
