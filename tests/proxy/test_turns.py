"""Turns through the proxy: what the client gets, what goes upstream, what is kept."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import itertools
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from yarl import URL

from memplane.auth.grants import Scope, TokenRequest
from memplane.episodes.api_types import ForgetRequest, RecallRequest, RecallResponse
from memplane.episodes.retain_queue import EntryOrigin
from memplane.exchange.request_body import MAX_BODY_BYTES
from memplane.home import Home
from memplane.ledger.entry import recompute_entry_id
from memplane.ledger.folder import AgentFolder
from memplane.ledger.line_reader import MAX_LINE_BYTES
from memplane.ledger.reader import read_entries
from memplane.server.protocol import StrictProtocol
from memplane.service.client import local_client
from memplane.service.operations.memory import forget
from memplane.service.operations.tokens import issue_token
from tests.episodes.remembering import entry
from tests.proxy.proxied import proxied
from tests.support.answers import (
    Said,
    anthropic_events,
    anthropic_json,
    anthropic_stream,
    chat_events,
    chat_json,
    chat_stream,
    cut,
    openai_error,
    responses_events,
    responses_json,
    responses_stream,
    streamed,
    whole,
)
from tests.support.turns import NOON
from tests.support.upstream import Answer, End

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
SAID = Said("Peanuts, of all things. ☃ <b> & more.")
ASKED = {"role": "user", "content": "What is Ada allergic to?"}
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"model": "gpt-4o", "temperature": 0.70, "messages": [ASKED]},
    RESPONSES: {"model": "gpt-4o", "input": [ASKED]},
    MESSAGES: {"model": "claude", "max_tokens": 64, "messages": [ASKED]},
}
IN_ONE_PIECE = {CHAT: chat_json, RESPONSES: responses_json, MESSAGES: anthropic_json}
STREAMED = {CHAT: chat_stream, RESPONSES: responses_stream, MESSAGES: anthropic_stream}
EVENTS = {CHAT: chat_events, RESPONSES: responses_events, MESSAGES: anthropic_events}


def body_of(answer: Answer) -> bytes:
    """The body of an answer in one piece."""
    (sent,) = answer
    assert isinstance(sent, bytes)
    return sent.partition(b"\r\n\r\n")[2]


def prompts_in(messages: list[dict[str, Any]]) -> list[str]:
    return [str(one["content"]) for one in messages if one["role"] == "user"]


@pytest.mark.parametrize("path", BODIES)
async def test_an_answer_in_one_piece_is_passed_on_and_recorded(path: str, tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        answer = IN_ONE_PIECE[path](SAID)
        door.upstream.at(path, answer)
        # Spelled as no library would: the bytes must go on as they are.
        sent = json.dumps(BODIES[path], indent=1).replace("0.7", "0.70").encode()
        answered = await door.post(path, sent)
        assert (answered.status, answered.body) == (200, body_of(answer))
        (received,) = door.upstream.asked(path)
        assert received.body == sent
        assert received.header("authorization") == "Bearer sk-own"
        (entry,) = await door.recorded()
        assert (entry["path"], entry["claw_id"], entry["stream"]) == (path, "ada", False)
        assert entry["response"] == {"format": "json", "json": json.loads(answered.body)}
        assert entry["usage"]["prompt_tokens"] == SAID.read
        assert "status" not in entry


@pytest.mark.parametrize("path", BODIES)
async def test_a_stream_is_passed_on_and_recorded(path: str, tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(path, STREAMED[path](SAID))
        answered = await door.post(path, {**BODIES[path], "stream": True})
        whole_stream = b"".join(EVENTS[path](SAID))
        assert (answered.status, answered.body) == (200, whole_stream)
        assert answered.headers["content-type"] == "text/event-stream"
        (entry,) = await door.recorded()
        assert entry["response"] == {"format": "sse", "text": whole_stream.decode()}
        assert entry["stream"] is True
        assert entry["usage"]["completion_tokens"] == SAID.written


async def test_chunks_arrive_before_the_stream_goes_on(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        head, *chunks = chat_stream(SAID)
        go_on = asyncio.Event()
        door.upstream.at(CHAT, (head, chunks[0], go_on, *chunks[1:]))
        async with door.http.post(
            f"{door.address}/agent/ada{CHAT}", json={**BODIES[CHAT], "stream": True}
        ) as reply:
            first = await reply.content.readany()
            assert first == chat_events(SAID)[0]
            go_on.set()
            rest = await reply.content.read()
        assert first + rest == b"".join(chat_events(SAID))


async def test_the_ids_of_recorded_turns_can_be_computed_again(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, chat_json(SAID))
        await asyncio.gather(*(door.chat("the same words") for _ in range(20)))
        await door.proxy.recorder.drain()
        lines = dict(read_entries(AgentFolder(door.settings.ledger.dir, "ada")))
        assert len(lines) == 20
        assert all(recompute_entry_id(line) == entry_id for entry_id, line in lines.items())


@pytest.mark.parametrize(
    ("headers", "member"),
    [
        ({"X-Claude-Code-Session-Id": "s-1"}, {}),
        ({"session-id": "s-1"}, {}),
        ({"x-session-id": "s-1"}, {}),
        ({}, {"prompt_cache_key": "s-1"}),
    ],
    ids=["Claude Code", "Codex", "opencode", "prompt_cache_key"],
)
async def test_a_turn_knows_its_session(
    headers: dict[str, str], member: dict[str, str], tmp_path: Path
) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, chat_json(SAID))
        await door.post(CHAT, {**BODIES[CHAT], **member}, headers=headers)
        (entry,) = await door.recorded()
        assert door.note(entry).session == "s-1"


SECRET = "sk-ant-api03-" + "Zm9vYmFyYmF6cXV4MDEyMzQ1Njc4OWFiY2RlZg" * 2


@pytest.mark.parametrize(
    ("headers", "member"),
    [
        ({"X-Claude-Code-Session-Id": SECRET}, {}),
        ({"session-id": SECRET}, {}),
        ({"x-session-id": f"session of {SECRET}"}, {}),
        ({}, {"prompt_cache_key": SECRET}),
        ({}, {"model": SECRET}),
        ({}, {"model": SECRET, "stream": "what is no turn"}),
    ],
    ids=["Claude Code", "Codex", "opencode", "prompt_cache_key", "model", "refused"],
)
async def test_a_secret_in_a_model_or_a_session_is_in_no_file_of_the_home(
    headers: dict[str, str], member: dict[str, str], tmp_path: Path
) -> None:
    async with proxied(tmp_path) as door:
        answer = openai_error(400, SECRET) if "stream" in member else chat_json(SAID)
        door.upstream.at(CHAT, answer, answer)
        for said in ("What is Ada allergic to?", "Which tea does Ada like?"):
            body = {"model": "m", "messages": [{"role": "user", "content": said}], **member}
            await door.post(CHAT, body, headers=headers)
            await door.recorded()
        assert len(door.events("request")) == 2
        assert SECRET.encode() in door.upstream.received[0].body + door.upstream.received[0].head
        sessions = [door.note(entry).session for entry in await door.recorded()]
        assert len(set(sessions)) <= 1, "it is still the same session"
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


async def test_an_entry_tells_when_its_request_came(tmp_path: Path) -> None:
    hours = (NOON + timedelta(hours=hour) for hour in itertools.count())
    async with proxied(tmp_path) as door:
        msgspec.structs.force_setattr(door.proxy.telling, "clock", lambda: next(hours))
        door.upstream.at(CHAT, chat_json(SAID))
        await door.chat("hello")
        (entry,) = await door.recorded()
        assert entry["ts"] == "2026-03-01T12:00:00Z"


async def test_what_was_said_is_remembered_in_the_next_conversation(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, chat_json(Said("Noted.")))
        await door.chat("My sister Ada is allergic to peanuts and loves mango lassi.")
        assert await door.remembered("ada", "What is my sister Ada allergic to?")
        await door.chat("What is my sister Ada allergic to?")
        asked = door.upstream.asked(CHAT)[-1].json()["messages"][-1]["content"]
        assert asked.startswith("What is my sister Ada allergic to?\n\n--- BEGIN MEMORY")
        assert "allergic to peanuts and loves mango lassi" in asked
        first, second = await door.recorded()
        assert second["request_original"]["messages"][-1]["content"] == (
            "What is my sister Ada allergic to?"
        )
        assert second["request_effective"]["messages"][-1]["content"] == asked
        (injected,) = door.note(second).injected
        assert [block.entry_ids for block in injected.blocks] == [(first["id"],)]
        assert injected.bytes == len(asked.split("\n\n", 1)[1].encode())
        # Another agent has no part in it.
        await door.chat("What is my sister Ada allergic to?", agent="bob")
        assert "MEMORY" not in door.upstream.asked(CHAT)[-1].body.decode()


async def test_a_block_stays_where_it_stood_and_only_new_prompts_are_recalled_for(
    tmp_path: Path,
) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, chat_json(Said("Noted.")))
        await door.chat("My sister Ada is allergic to peanuts.")
        await door.chat("The cellar key hangs behind the green door.")
        assert await door.remembered("ada", "Where is the cellar key?")
        asked = "What is my sister Ada allergic to?"
        await door.chat(asked)
        first = door.upstream.asked(CHAT)[-1].json()["messages"]
        # A tool loop: the same prompt, with what the model did since.
        tools = [
            {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "look"}}]},
            {"role": "tool", "tool_call_id": "1", "content": "the cellar key"},
        ]
        messages = [{"role": "user", "content": asked}, *tools]
        await door.post(CHAT, {"model": "gpt-4o", "messages": messages})
        looped = door.upstream.asked(CHAT)[-1].json()["messages"]
        assert looped == [*first, *tools]
        messages += [{"role": "assistant", "content": "Peanuts."}]
        messages += [{"role": "user", "content": "And where is the cellar key?"}]
        await door.post(CHAT, {"model": "gpt-4o", "messages": messages})
        third = door.upstream.asked(CHAT)[-1].json()["messages"]
        assert third[:3] == looped
        nonces = [content.rpartition("--- END MEMORY ")[2] for content in prompts_in(third)]
        assert nonces[0] != nonces[1]
        assert "green door" in third[-1]["content"]
        recalls = door.recalls()
        assert len(recalls) == 4  # two notes, two questions; none for the tool loop
        notes = [door.note(entry) for entry in await door.recorded()]
        assert [[one.replayed for one in note.injected] for note in notes[-3:]] == [
            [False],
            [True],
            [True, False],
        ]


async def test_a_block_is_the_same_after_a_restart(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, chat_json(Said("Noted.")))
        await door.chat("My sister Ada is allergic to peanuts.")
        assert await door.remembered("ada", "What is my sister Ada allergic to?")
        await door.chat("What is my sister Ada allergic to?")
        before = door.upstream.asked(CHAT)[-1].json()["messages"][0]
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, chat_json(Said("Noted.")))
        await door.chat("What is my sister Ada allergic to?", "Peanuts.", "Thank you!")
        assert door.upstream.asked(CHAT)[-1].json()["messages"][0] == before


class Forgetful:
    """A memory that finds nothing."""

    async def recall(self, _ask: RecallRequest) -> RecallResponse:
        await asyncio.sleep(0)
        return RecallResponse()


async def test_what_another_session_was_told_does_not_come_in_the_middle_of_a_turn(
    tmp_path: Path,
) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, chat_json(Said("Noted.")))
        await door.chat("My sister Ada is allergic to peanuts.")
        asked = "What is my sister Ada allergic to?"
        assert await door.remembered("ada", asked)
        tools = [
            {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "look"}}]},
            {"role": "tool", "tool_call_id": "1", "content": "nothing"},
        ]
        loop = {"model": "gpt-4o", "messages": [{"role": "user", "content": asked}, *tools]}

        async def said(session: str) -> tuple[bool, bool]:
            """Ask, and go on with a tool; says where there was memory."""
            headers = {"x-session-id": session}
            await door.chat(asked, headers=headers)
            await door.post(CHAT, loop, headers=headers)
            first, then = door.upstream.asked(CHAT)[-2:]
            return b"MEMORY" in first.body, b"MEMORY" in then.body

        assert await said("one") == (True, True)
        recall_client = door.proxy.injector._recaller
        memories, recall_client._memories = recall_client._memories, Forgetful()
        assert await said("two") == (False, False)
        # Nothing is not kept for good: who asks again may be told.
        recall_client._memories = memories
        assert await said("two") == (True, True)
        assert await said("three") == (True, True)


async def test_a_hooks_memory_stands_alone_and_earlier_blocks_stay(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, chat_json(Said("Noted.")))
        await door.chat("My sister Ada is allergic to peanuts.")
        asked = "What is my sister Ada allergic to?"
        assert await door.remembered("ada", asked)
        await door.chat(asked)
        first = door.upstream.asked(CHAT)[-1].json()["messages"]
        hooked = f"{asked}\n--- BEGIN MEMORY (from a hook) ---\nnuts\n--- END MEMORY ---"
        messages = [
            {"role": "user", "content": asked},
            {"role": "assistant", "content": "Peanuts."},
            {"role": "user", "content": hooked},
        ]
        tools = [
            {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "look"}}]},
            {"role": "tool", "tool_call_id": "1", "content": "nothing"},
        ]
        for more in ([], tools):
            await door.post(CHAT, {"model": "gpt-4o", "messages": [*messages, *more]})
            sent = door.upstream.asked(CHAT)[-1].json()["messages"]
            assert sent == [*first, *messages[1:], *more]


async def test_a_forgotten_memory_leaves_the_conversation_too(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, chat_json(Said("Noted.")))
        await door.chat("My sister Ada is allergic to peanuts.")
        assert await door.remembered("ada", "What is my sister Ada allergic to?")
        await door.chat("What is my sister Ada allergic to?")
        first, _ = await door.recorded()
        memory = await door.services.lazy_memory.memory()
        await memory.forget("ada", [first["id"]])
        await door.chat("What is my sister Ada allergic to?", "To nuts.", "Thank you!")
        assert b"peanuts" not in door.upstream.asked(CHAT)[-1].body


async def test_a_line_about_several_turns_leaves_with_any_of_them(tmp_path: Path) -> None:
    asked = "When is the kestrel release?"
    turns = [
        entry(asked, "The kestrel release is on Friday.", minutes=-300),
        entry("How is the heron billing going?", "It is fine.", minutes=-200),
        entry("How is the osprey divorce going?", "It goes on.", minutes=-195),
        *(entry(f"What about topic {number}?", "Done.", minutes=number) for number in range(3)),
    ]
    async with proxied(tmp_path, recall__blocks="all") as door:
        memory = await door.services.lazy_memory.memory()
        for one in turns:
            await memory.retain(EntryOrigin("ada"), json.dumps(one).encode())
        await memory.settle()
        door.upstream.at(CHAT, chat_json(Said("On Friday.")))
        await door.chat(asked)
        assert b"osprey" in door.upstream.asked(CHAT)[-1].body
        await memory.forget("ada", [turns[2]["id"]])
        await door.chat(asked, "On Friday.", "Thank you!")
        assert b"osprey" not in door.upstream.asked(CHAT)[-1].body


async def test_a_prompt_that_has_no_place_for_memory_is_not_said_to_have_any(
    tmp_path: Path,
) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, chat_json(Said("Noted.")))
        await door.chat("My sister Ada is allergic to peanuts.")
        asked = "What is my sister Ada allergic to?"
        assert await door.remembered("ada", asked)
        body = b'{"model":"m","messages":[{"role":"user","content":"x","content":"%b"}]}'
        await door.post(CHAT, body % asked.encode())
        assert door.upstream.asked(CHAT)[-1].body == body % asked.encode()
        assert [one["memory_bytes"] for one in door.recalls()] == [0, 0]
        assert door.note((await door.recorded())[-1]).injected == ()


async def test_a_conversation_is_not_told_what_stands_in_it(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        key, asked = "The cellar key hangs behind the green door.", "Where is the cellar key?"
        door.upstream.at(CHAT, chat_json(Said("Noted.")))
        await door.chat(key)
        assert await door.remembered("ada", asked)
        await door.chat(key, "Noted.", asked)
        assert b"MEMORY" not in door.upstream.asked(CHAT)[-1].body
        # What was said elsewhere is told, also where the same was said here.
        await door.chat("The cellar key was moved: it hangs by the oven now.")
        assert len(await door.remembered("ada", asked)) > 1
        await door.chat(key, "Noted.", "So, where is the cellar key?")
        told = door.upstream.asked(CHAT)[-1].json()["messages"][-1]["content"]
        assert "by the oven" in told
        assert "behind the green door" not in told
        # Another conversation is told both.
        await door.chat(asked)
        told = door.upstream.asked(CHAT)[-1].json()["messages"][-1]["content"]
        assert "by the oven" in told
        assert "behind the green door" in told


async def test_a_conversation_that_its_provider_keeps_is_not_told_what_stands_in_it(
    tmp_path: Path,
) -> None:
    async with proxied(tmp_path) as door:
        before = ""
        for number, said in enumerate(
            ("My zebra Otto eats hay.", "Otto is four years old.", "What does my zebra Otto eat?")
        ):
            answer = Said(f"Noted {number}.", id=f"answer{number}")
            door.upstream.at(RESPONSES, responses_json(answer))
            body = {"model": "gpt-4o", "input": said, "previous_response_id": before or None}
            answered = await door.post(RESPONSES, body)
            before = json.loads(answered.body)["id"]
            assert b"MEMORY" not in door.upstream.asked(RESPONSES)[-1].body
            assert await door.remembered("ada", "What about the zebra Otto?")
        # Who begins anew is told.
        await door.post(RESPONSES, {"model": "gpt-4o", "input": "What does my zebra Otto eat?"})
        assert b"eats hay" in door.upstream.asked(RESPONSES)[-1].body
        (injected,) = door.note((await door.recorded())[-1]).injected
        assert injected.message == 0  # the whole input is one text, and not beside one


async def test_a_prompt_whose_answer_is_begun_by_the_client_has_its_memories(
    tmp_path: Path,
) -> None:
    key, asked = "The cellar key hangs behind the green door.", "Where is the cellar key?"
    async with proxied(tmp_path) as door:
        door.upstream.at(MESSAGES, anthropic_json(Said(" hangs behind the green")))
        door.upstream.at(CHAT, chat_json(Said("Noted.")))
        await door.chat(key)
        assert await door.remembered("ada", asked)
        messages = [{"role": "user", "content": asked}, {"role": "assistant", "content": "It"}]
        await door.post(MESSAGES, {**BODIES[MESSAGES], "messages": messages})
        prompt, begun = door.upstream.asked(MESSAGES)[-1].json()["messages"]
        assert "behind the green door" in prompt["content"][1]["text"]
        assert begun == messages[1]
        # The answer was cut short and goes on; it is not told to itself.
        assert len(await door.remembered("ada", asked)) > 1
        messages[1] = {"role": "assistant", "content": "It hangs behind the green"}
        await door.post(MESSAGES, {**BODIES[MESSAGES], "messages": messages})
        prompt, begun = door.upstream.asked(MESSAGES)[-1].json()["messages"]
        assert prompt["content"][1]["text"].count("behind the green") == 1
        assert begun == messages[1]


async def test_who_always_begins_alike_remembers_what_was_said_before(tmp_path: Path) -> None:
    opening = "Do the daily check."
    async with proxied(tmp_path) as door:
        for hall, who in enumerate(("Kim", "Bo", "Ira", "Ada", "Lou")):
            door.upstream.at(CHAT, chat_json(Said(f"{who} repaired the router in hall {hall}.")))
            await door.chat(opening, headers={"x-session-id": f"run {hall}"})
        asked = "Who repaired the router in hall 0?"
        assert await door.remembered("ada", asked)
        door.upstream.at(CHAT, chat_json(Said("All is quiet.")))
        now = {"x-session-id": "now"}
        await door.chat(opening, headers=now)
        await door.chat(opening, "All is quiet.", asked, headers=now)
        told = door.upstream.asked(CHAT)[-1].json()["messages"][-1]["content"]
        assert "Kim repaired the router in hall 0" in told
        assert "All is quiet" not in told


async def test_the_same_question_in_a_new_conversation_is_told_what_was_said_since(
    tmp_path: Path,
) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, chat_json(Said("Noted.")))
        asked = "What is the gate code?"
        for session in ({}, {"x-session-id": "the same for all"}):
            agent = "bob" if session else "ada"

            async def said(text: str, agent: str = agent, **headers: str) -> str:
                await door.chat(text, agent=agent, headers=headers)
                assert await door.remembered(agent, asked)
                return str(door.upstream.asked(CHAT)[-1].json()["messages"][-1]["content"])

            await said("The gate code is 1111.", **session)
            assert "1111" in await said(asked, **session)
            await said("The gate code has changed, it is 2222.", **session)
            assert "2222" in await said(asked, **session)


async def test_what_a_model_says_again_from_memory_is_not_remembered_twice(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        told, asked = "My sister Ada is allergic to peanuts.", "What is my sister Ada allergic to?"
        door.upstream.at(CHAT, chat_json(Said("Noted.")))
        await door.chat(told)
        assert await door.remembered("ada", asked)
        door.upstream.at(CHAT, chat_json(Said(f"As you said: {told}")))
        for _ in range(3):
            await door.chat(asked)
        blocks = await door.remembered("ada", "Who is allergic to peanuts?")
        first = (await door.recorded())[0]["id"]
        assert [one.entry_ids for one in blocks if "peanuts" in one.text] == [(first,)]
        await local_client(door.services).call(forget, ForgetRequest(agent="ada", ids=(first,)))
        left = await door.remembered("ada", "Who is allergic to peanuts?")
        assert not any("peanuts" in one.text for one in left)


@pytest.mark.parametrize("status", [400, 401, 429, 500, 529])
async def test_an_error_is_relayed_as_it_is_and_not_recorded(status: int, tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        answer = openai_error(
            status, "some_error", headers={"retry-after": "7", "x-request-id": "r1"}
        )
        door.upstream.at(CHAT, answer)
        answered = await door.chat("hello")
        assert (answered.status, answered.body) == (status, body_of(answer))
        assert answered.headers["retry-after"] == "7"
        assert answered.headers["x-request-id"] == "r1"
        assert await door.recorded() == []
        (told,) = door.events("response")
        assert (told["status_code"], told["outcome"]) == (status, "refused")


@pytest.mark.parametrize("how", [End.CLOSE, End.RESET])
@pytest.mark.parametrize("path", BODIES)
async def test_a_cut_stream_is_cut_and_leaves_a_trace_but_no_entry(
    path: str, how: End, tmp_path: Path
) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(path, cut(STREAMED[path](SAID), 3, how))
        with pytest.raises(aiohttp.ClientPayloadError):
            await door.post(path, {**BODIES[path], "stream": True})
        assert await door.recorded() == []
        (told,) = door.events("error")
        assert told["outcome"] == "cut"


def until_closed(events: list[bytes], kind: str = "text/event-stream") -> list[bytes]:
    """An answer as HTTP/1.0 servers send it: nothing but the end of the connection ends it."""
    return [f"HTTP/1.0 200 OK\r\nContent-Type: {kind}\r\n\r\n".encode(), *events]


@pytest.mark.parametrize("where", ["inside an event", "between two events"])
@pytest.mark.parametrize("path", BODIES)
async def test_a_stream_without_a_length_that_is_cut_is_cut_for_the_client_too(
    path: str, where: str, tmp_path: Path
) -> None:
    async with proxied(tmp_path) as door:
        came = EVENTS[path](SAID)[:3]
        if where == "inside an event":
            came[-1] = came[-1][:-9]
        door.upstream.at(path, [*until_closed(came), End.CLOSE])
        with pytest.raises(aiohttp.ClientPayloadError):
            await door.post(path, {**BODIES[path], "stream": True})
        assert await door.recorded() == []
        (told,) = door.events("error")
        assert told["outcome"] == "cut"


@pytest.mark.parametrize("end", [b"", b"\n"], ids=["whole", "without its last line's end"])
@pytest.mark.parametrize("path", BODIES)
async def test_a_stream_without_a_length_that_is_whole_is_a_turn(
    path: str, end: bytes, tmp_path: Path
) -> None:
    async with proxied(tmp_path) as door:
        sent = b"".join(EVENTS[path](SAID))
        sent = sent.rstrip(b"\n") + end if end else sent
        door.upstream.at(path, [*until_closed([sent]), End.CLOSE])
        answered = await door.post(path, {**BODIES[path], "stream": True})
        assert (answered.status, answered.body) == (200, sent)
        assert len(await door.recorded()) == 1


async def test_a_document_without_a_length_that_is_cut_is_cut_for_the_client_too(
    tmp_path: Path,
) -> None:
    async with proxied(tmp_path) as door:
        body = body_of(chat_json(SAID))
        json_kind = "application/json"
        door.upstream.at(
            CHAT,
            [*until_closed([body[:-5]], json_kind), End.CLOSE],
            [*until_closed([body], json_kind), End.CLOSE],
        )
        with pytest.raises(aiohttp.ClientPayloadError):
            await door.chat("hello")
        assert (await door.chat("hello")).body == body
        assert len(await door.recorded()) == 1


@pytest.mark.parametrize(
    ("sent", "is_cut"),
    [
        (b'data: {"a":1}\n\n', False),
        (b'data: {"a":1}\n\ndata: [DONE]', False),
        (b'data: {"a":1}\n\n: wait', False),
        (b"", False),
        (b'data: {"a":1}\n\ndata: {"a"', True),
        (b'data: {"a":1}\n\nevent: mess', True),
        (b'data: {"a":1}\n\nda', True),
    ],
)
async def test_a_stream_that_is_no_turn_is_not_ended_inside_an_event_either(
    sent: bytes, tmp_path: Path, *, is_cut: bool
) -> None:
    path = "/v1/threads/runs"
    async with proxied(tmp_path) as door:
        door.upstream.at(path, [*until_closed([sent]), End.CLOSE])
        if is_cut:
            with pytest.raises(aiohttp.ClientPayloadError):
                await door.post(path, {})
        else:
            assert (await door.post(path, {})).body == sent


async def test_a_turn_sent_again_after_a_cut_is_one_turn(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(MESSAGES, cut(anthropic_stream(SAID), 3), anthropic_json(SAID))
        with pytest.raises(aiohttp.ClientPayloadError):
            await door.post(MESSAGES, {**BODIES[MESSAGES], "stream": True})
        answered = await door.post(MESSAGES, BODIES[MESSAGES])
        assert answered.status == 200
        assert len(await door.recorded()) == 1


async def test_twenty_turns_that_are_alike_are_twenty_entries(tmp_path: Path) -> None:
    """Also in one session: only what was cut is sent again by a client."""
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, chat_json(SAID))
        headers = {"x-session-id": "s"}
        await asyncio.gather(*(door.chat("Hello.", headers=headers) for _ in range(20)))
        entries = await door.recorded()
        assert len({one["id"] for one in entries}) == len(entries) == 20


@pytest.mark.parametrize("session", [{}, {"x-session-id": "s"}], ids=["no session", "a session"])
async def test_a_turn_sent_again_after_a_cut_has_the_same_memory(
    session: dict[str, str], tmp_path: Path
) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, chat_json(Said("Noted.")))
        await door.chat("My sister Ada is allergic to peanuts.")
        asked = "What is my sister Ada allergic to?"
        assert await door.remembered("ada", asked)
        door.upstream.at(CHAT, cut(chat_stream(SAID), 3), chat_json(SAID))
        with pytest.raises(aiohttp.ClientPayloadError):
            await door.chat(asked, stream=True, headers=session)
        await door.chat(asked, headers=session)
        first, again = (one.json()["messages"] for one in door.upstream.asked(CHAT)[-2:])
        assert first == again
        assert "BEGIN MEMORY" in again[0]["content"]
        assert len(await door.recorded()) == 2


async def test_a_stream_without_its_last_event_is_no_turn(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        *steps, _done, last = chat_stream(SAID)
        door.upstream.at(CHAT, (*steps, last))
        answered = await door.chat("hello", stream=True)
        assert answered.body == b"".join(chat_events(SAID)[:-1])
        assert await door.recorded() == []


@pytest.mark.parametrize(
    ("body", "why"),
    [(b"", "the reply is empty"), (b'{"error":{"message":"no"}}', "no")],
)
async def test_an_error_in_a_good_answer_is_recorded_and_never_remembered(
    body: bytes, why: str, tmp_path: Path
) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, whole(body))
        await door.chat("My sister Ada is allergic to peanuts.")
        (entry,) = await door.recorded()
        assert entry["status"] == "error"
        assert door.events("response")[0]["error"] == why
        assert not await door.remembered("ada", "What is my sister Ada allergic to?")


async def test_a_good_answer_that_is_not_json_is_passed_on_and_not_recorded(
    tmp_path: Path,
) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, whole(b"<html>hello</html>"))
        assert (await door.chat("hello")).body == b"<html>hello</html>"
        assert await door.recorded() == []


M = 1_000_000


@pytest.mark.parametrize(
    ("path", "model", "usage", "dollars"),
    [
        # 3 dollars for a million, 15 for what is said, a tenth from the cache, 5/4 into it.
        (
            MESSAGES,
            "claude-sonnet-4-5-20250929",
            {
                "input_tokens": M,
                "cache_read_input_tokens": M,
                "cache_creation_input_tokens": M,
                "output_tokens": M,
            },
            3 + 0.3 + 3.75 + 15,
        ),
        # 2.50 for a million, half of that from the cache, 10 for what is said.
        (
            CHAT,
            "gpt-4o",
            {
                "prompt_tokens": M,
                "prompt_tokens_details": {"cached_tokens": M // 2},
                "completion_tokens": M,
            },
            1.25 + 0.625 + 10,
        ),
        (
            RESPONSES,
            "gpt-4o",
            {
                "input_tokens": M,
                "input_tokens_details": {"cached_tokens": M},
                "output_tokens": 0,
            },
            1.25,
        ),
        (CHAT, "nobody-knows", {"prompt_tokens": M, "cost": 0.5}, 0.5),
        (CHAT, "nobody-knows", {"prompt_tokens": M}, None),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_an_entry_says_what_it_cost_also_from_a_providers_cache(
    path: str,
    model: str,
    usage: dict[str, Any],
    dollars: float | None,
    tmp_path: Path,
    *,
    stream: bool,
) -> None:
    async with proxied(tmp_path) as door:
        told = {"usage": usage, "choices": [], "type": "message_delta"}
        event = b"data: " + json.dumps(told).encode() + b"\n\n"
        answer = streamed([event, EVENTS[path](SAID)[-1]]) if stream else whole(event[6:])
        door.upstream.at(path, answer)
        await door.post(path, {**BODIES[path], "model": model, "stream": stream})
        (entry,) = await door.recorded()
        cost = entry["usage"].get("reported_cost_usd")
        assert cost == (None if dollars is None else pytest.approx(dollars, rel=0.01))
        told_of = door.events("response")[0].get("cost_usd")
        assert told_of == cost


async def test_a_compressed_answer_goes_on_compressed_and_is_recorded_plain(
    tmp_path: Path,
) -> None:
    async with proxied(tmp_path) as door:
        plain = body_of(chat_json(SAID))
        packed = gzip.compress(plain, mtime=0)
        door.upstream.at(CHAT, whole(packed, headers={"content-encoding": "gzip"}))
        answered = await door.chat("hello")
        assert answered.body == packed
        assert answered.headers["content-encoding"] == "gzip"
        (entry,) = await door.recorded()
        assert entry["response"]["json"] == json.loads(plain)


async def test_a_compressed_request_goes_on_as_it_came_unless_it_is_given_memory(
    tmp_path: Path,
) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, chat_json(Said("Noted.")))

        async def say(text: str) -> bytes:
            body = {"model": "gpt-4o", "messages": [{"role": "user", "content": text}]}
            packed = gzip.compress(json.dumps(body).encode(), mtime=0)
            await door.post(CHAT, packed, headers={"Content-Encoding": "gzip"})
            return packed

        packed = await say("My sister Ada is allergic to peanuts.")
        first = door.upstream.asked(CHAT)[0]
        assert (first.body, first.header("content-encoding")) == (packed, "gzip")
        assert await door.remembered("ada", "What is my sister Ada allergic to?")
        await say("What is my sister Ada allergic to?")
        second = door.upstream.asked(CHAT)[1]
        assert second.header("content-encoding") is None
        assert "BEGIN MEMORY" in second.json()["messages"][0]["content"]


async def test_a_body_that_cannot_be_read_is_the_providers_to_refuse(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        answer = openai_error(400, "invalid_request_error")
        door.upstream.at(CHAT, answer)
        answered = await door.post(CHAT, b"{not json")
        assert (answered.status, answered.body) == (400, body_of(answer))
        assert door.upstream.asked(CHAT)[0].body == b"{not json"
        (told,) = door.events()
        assert (told["type"], told["outcome"], told["error"]) == (
            "error",
            "unread",
            "invalid JSON body",
        )


@pytest.mark.parametrize(
    ("path", "named"), [(MESSAGES, "output_config"), (CHAT, "stream_options")]
)
async def test_a_number_that_nobody_can_read_does_not_fail_a_turn(
    path: str, named: str, tmp_path: Path
) -> None:
    async with proxied(tmp_path, proxy__ask_usage="true") as door:
        answer = IN_ONE_PIECE[path](SAID)
        door.upstream.at(path, answer)
        odd = json.dumps({**BODIES[path], "stream": True, named: {"format": 0}}).encode()
        odd = odd.replace(b'"format": 0', b'"format": ' + b"1" * 5000)
        answered = await door.post(path, odd, headers={"User-Agent": "claude-cli/2.1.197"})
        assert (answered.status, answered.body) == (200, body_of(answer))
        assert door.upstream.received[0].body == odd


async def test_a_turn_in_an_encoding_that_nobody_here_knows_is_told_of(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        answer = chat_json(SAID)
        door.upstream.at(CHAT, answer)
        answered = await door.post(CHAT, b"packed", headers={"Content-Encoding": "odd"})
        assert (answered.status, answered.body) == (200, body_of(answer))
        (received,) = door.upstream.asked(CHAT)
        assert (received.body, received.header("content-encoding")) == (b"packed", "odd")
        assert await door.recorded() == []
        (told,) = door.events()
        assert (told["outcome"], told["error"]) == ("unread", "the encoding 'odd' is not known")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/messages/count_tokens?beta=true"),
        ("GET", "/v1/models"),
        ("GET", "/v1/models/gpt%2F4"),
        ("POST", "/v1/embeddings"),
        ("DELETE", "/v1/files/f1"),
        ("OPTIONS", "/v1/chat/completions"),
        ("HEAD", "/v1/models"),
        ("PUT", "/v1/anything/else"),
    ],
)
async def test_every_other_path_is_passed_on_untouched(
    method: str, path: str, tmp_path: Path
) -> None:
    async with proxied(tmp_path) as door:
        where = path.partition("?")[0]
        body = b"" if method == "HEAD" else b'{"ok": 1}'
        door.upstream.at(where, whole(body, headers={"x-odd": "1", "Content-Length": "9"}))
        sent = b'{"model": "m", "input": "x"}' if method in {"POST", "PUT"} else b""
        async with door.http.request(
            method, f"{door.address}/agent/ada{path}", data=sent, headers={"x-beta": "b1"}
        ) as reply:
            assert (reply.status, await reply.read()) == (200, body)
            assert (reply.headers["x-odd"], reply.headers["content-length"]) == ("1", "9")
        (received,) = door.upstream.received
        assert (received.method, received.target, received.body) == (method, path, sent)
        assert received.header("x-beta") == "b1"
        assert await door.recorded() == []


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
async def test_an_answer_that_has_no_body_may_still_name_a_length(
    status: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with proxied(tmp_path) as door:
        head = f'HTTP/1.1 {status}\r\nETag: "e1"\r\nContent-Length: 9\r\n\r\n'
        door.upstream.at("/v1/models", [head.encode()])
        for _ in range(2):
            async with door.http.get(f"{door.address}/agent/ada/v1/models") as reply:
                assert (f"{reply.status} {reply.reason}", await reply.read()) == (status, b"")
                assert reply.headers["etag"] == '"e1"'
    assert "Content-Length" not in caplog.text


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/v1/%63hat/completions", CHAT),
        ("/v1/chat/completions/", CHAT),
        ("/v1//chat/completions", CHAT),
        ("/v1/Chat/Completions", CHAT),
        ("/v1/%72esponses", RESPONSES),
        ("/v1/%6dessages", MESSAGES),
    ],
)
async def test_a_turn_is_recorded_however_its_path_is_spelled(
    path: str, meant: str, tmp_path: Path
) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(path, IN_ONE_PIECE[meant](SAID))
        url = URL(f"{door.address}/agent/ada{path}?beta=true", encoded=True)
        sent = json.dumps(BODIES[meant]).encode()
        async with door.http.post(url, data=sent, headers=door.headers) as reply:
            assert reply.status == 200
        (received,) = door.upstream.received
        assert (received.target, received.body) == (f"{path}?beta=true", sent)
        (entry,) = await door.recorded()
        provider = "anthropic" if meant == MESSAGES else "openai"
        assert (entry["path"], entry["effective_provider"]) == (meant, provider)


@pytest.mark.parametrize("told", [True, False], ids=["its length is told", "in chunks"])
async def test_an_upload_of_any_length_is_passed_on_as_it_comes(
    tmp_path: Path, *, told: bool
) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at("/v1/files", whole(b"{}"))
        piece, times = bytes(range(256)) * 4096, (MAX_BODY_BYTES >> 20) + 2

        async def pieces() -> object:
            for _ in range(times):
                yield piece

        headers = {"Content-Length": str(len(piece) * times)} if told else {}
        async with door.http.post(
            f"{door.address}/agent/ada/v1/files", data=pieces(), headers=headers
        ) as reply:
            assert reply.status == 200
        (received,) = door.upstream.received
        assert hashlib.sha256(received.body).digest() == hashlib.sha256(piece * times).digest()


async def test_a_provider_that_reads_no_upload_is_left_with_its_client(tmp_path: Path) -> None:
    """It answers at once, and nobody would notice by reading that the client has left."""
    closed = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        try:
            while not writer.is_closing():
                writer.write(b"data: {}\n\n")
                await writer.drain()
                await asyncio.sleep(0.01)
        except ConnectionError:
            pass
        closed.set()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=1 << 16)
    port = server.sockets[0].getsockname()[1]
    async with (
        server,
        proxied(tmp_path, proxy__upstream_openai=f"http://127.0.0.1:{port}") as door,
    ):
        where = URL(door.address)
        reader, writer = await asyncio.open_connection(where.host, where.port)
        head = f"POST /agent/ada/v1/files HTTP/1.1\r\nHost: {where.authority}\r\n"
        writer.write(f"{head}Content-Length: {50 << 20}\r\n\r\n".encode() + bytes(20 << 20))
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        writer.transport.abort()
        async with asyncio.timeout(30):
            await closed.wait()


async def test_an_upload_that_stops_is_given_up_and_its_provider_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StrictProtocol, "BODY_TIMEOUT_S", 0.1)
    async with proxied(tmp_path) as door:
        door.upstream.at("/v1/files", whole(b"{}"))
        where = URL(door.address)
        reader, writer = await asyncio.open_connection(where.host, where.port)
        head = f"POST /agent/ada/v1/files HTTP/1.1\r\nHost: {where.authority}\r\n"
        writer.write(f"{head}Content-Length: 100\r\n\r\nhalf of it".encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 408 ")
        writer.close()
        await door.settled()
        for connection in door.upstream.connections:
            await connection.gone.wait()
        assert door.upstream.received == []


async def test_a_client_that_leaves_before_its_answer_begins_is_no_failure_of_the_server(
    tmp_path: Path,
) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, [End.STALL])
        asking = asyncio.create_task(door.chat("hello"))
        await door.upstream.until_asked(CHAT)
        asking.cancel()
        await asyncio.wait([asking])
        await door.settled()
        token = Home(door.settings.home).token().reveal()
        headers = {"Authorization": f"Bearer {token}"}
        async with door.http.get(f"{door.address}/metrics", headers=headers) as reply:
            counted = await reply.text()
        assert 'status="499"' in counted
        assert 'status="500"' not in counted


async def test_a_client_that_leaves_while_it_sends_its_turn_is_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with proxied(tmp_path) as door:
        where = URL(door.address)
        reader, writer = await asyncio.open_connection(where.host, where.port)
        told = f"Host: {where.authority}\r\nContent-Length: 99\r\nExpect: 100-continue"
        writer.write(f"POST {CHAT} HTTP/1.1\r\n{told}\r\n\r\n".encode())
        assert b" 100 " in await reader.readuntil(b"\r\n\r\n")
        writer.write(b'{"model"')
        writer.close()
        await door.settled()
        assert door.upstream.connections == []
    assert [one for one in caplog.records if one.levelname == "ERROR"] == []


@pytest.mark.parametrize("told", [True, False], ids=["its length is told", "in chunks"])
async def test_a_turn_that_is_too_long_to_be_read_is_refused(
    tmp_path: Path, *, told: bool
) -> None:
    async with proxied(tmp_path) as door:
        piece, times = b" " * (1 << 20), (MAX_BODY_BYTES >> 20) + 1

        async def pieces() -> object:
            for _ in range(times):
                yield piece

        headers = {"Content-Length": str(len(piece) * times)} if told else {}
        async with door.http.post(
            f"{door.address}/agent/ada{CHAT}", data=pieces(), headers=headers
        ) as reply:
            assert reply.status == 413
            assert str(MAX_BODY_BYTES) in (await reply.json())["error"]["message"]
        assert door.upstream.received == []


@pytest.mark.parametrize("longest", [1 << 20, pytest.param(64 << 20, marks=pytest.mark.long)])
async def test_a_body_that_is_too_long_to_record_is_answered_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, longest: int
) -> None:
    assert MAX_LINE_BYTES == 64 << 20
    monkeypatch.setattr("memplane.ledger.writer.MAX_LINE_BYTES", longest)
    async with proxied(tmp_path) as door:
        door.upstream.at(MESSAGES, anthropic_json(SAID))
        size = longest * 5 // 8
        image = {"type": "image", "source": {"type": "base64", "data": "A" * size}}
        content = [image, {"type": "text", "text": "What is this?"}]
        body = {"model": "claude", "messages": [{"role": "user", "content": content}]}
        answered = await door.post(MESSAGES, body)
        assert answered.status == 200
        assert len(door.upstream.asked(MESSAGES)[0].body) > size
        # It stands in an entry twice, as it came and as it went on.
        assert await door.recorded() == []
        (told,) = door.events("response")
        assert told["outcome"] == "not recorded"
        assert "too many" in told["error"]


async def test_a_turn_that_no_entry_can_hold_is_said_to_be_the_only_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, chat_json(SAID))
        asked = json.dumps({**BODIES[CHAT], "temperature": 0}).encode()
        odd = asked.replace(b'"temperature": 0', b'"temperature": 1e400')
        for _ in range(2):
            answered = await door.post(CHAT, odd)
            assert (answered.status, door.upstream.received[-1].body) == (200, odd)
            await door.proxy.recorder.drain()
        assert (await door.post(CHAT, asked)).status == 200
        assert len(await door.recorded()) == 1
        told = [one["outcome"] for one in door.events("response")]
        assert told == ["not recorded", "not recorded", "recorded"]
        said = [(one.levelname, one.getMessage()) for one in caplog.records]
        why = (
            "a turn of ada was not recorded: 1e400 is beyond every float. "
            "It was answered; other turns are recorded"
        )
        assert said.count(("WARNING", why)) == 2
        assert not any(level == "ERROR" for level, _ in said)


async def test_a_long_answer_is_recorded_although_its_client_leaves_when_it_has_it(
    tmp_path: Path,
) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, chat_json(Said("x" * (2 << 20))))
        await door.chat("Tell me everything.", headers={"Connection": "close"})
        await door.settled()
        (entry,) = await door.recorded()
        assert len(entry["response"]["json"]["choices"][0]["message"]["content"]) == 2 << 20


async def test_a_websocket_is_told_to_fall_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with proxied(tmp_path) as door:
        headers = {"Connection": "Upgrade", "Upgrade": "websocket"}
        async with door.http.get(
            f"{door.address}/agent/ada/v1/responses", headers=headers
        ) as reply:
            assert reply.status == 426
        assert door.upstream.received == []
        assert "uvicorn" not in caplog.text
        assert "WebSocket" not in caplog.text


@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/1.0"])
async def test_a_client_that_would_rather_speak_http2_may_say_that_it_leaves(
    version: str, tmp_path: Path
) -> None:
    body = json.dumps(BODIES[CHAT]).encode()
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, chat_json(SAID))
        where = URL(door.address)
        reader, writer = await asyncio.open_connection(where.host, where.port)
        lines = [
            f"POST {CHAT} {version}",
            f"Host: {where.authority}",
            "Connection: Upgrade, close",
            "Upgrade: h2c",
            f"Content-Length: {len(body)}",
        ]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        async with asyncio.timeout(30):
            answered = await reader.read()
        writer.close()
        assert answered.startswith(b"HTTP/1.1 200 ")
        assert answered.endswith(body_of(chat_json(SAID)))


async def test_what_follows_a_wish_for_another_protocol_is_answered(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        where = URL(door.address)
        reader, writer = await asyncio.open_connection(where.host, where.port)
        head = f"GET /health HTTP/1.1\r\nHost: {where.authority}\r\n"
        wish = f"{head}Connection: Upgrade\r\nUpgrade: odd\r\n\r\n"
        writer.write(f"{wish}{head}Connection: close\r\n\r\n".encode())
        async with asyncio.timeout(30):
            answered = await reader.read()
        writer.close()
        assert answered.count(b"HTTP/1.1 200 ") == 2


@pytest.mark.parametrize("cut", [1, 40, 230, 300, 400, 100_000])
@pytest.mark.parametrize("chunked", [True, False], ids=["chunked", "with its length"])
async def test_a_body_is_read_although_its_client_would_rather_speak_http2(
    cut: int, tmp_path: Path, *, chunked: bool
) -> None:
    body = json.dumps(BODIES[CHAT]).encode()
    framed = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if chunked else body
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, chat_json(SAID))
        where = URL(door.address)
        reader, writer = await asyncio.open_connection(where.host, where.port)
        length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}"
        lines = [
            f"POST {CHAT}?x=1 HTTP/1.1",
            f"Host: {where.authority}",
            "Connection: Upgrade, HTTP2-Settings",
            "Proxy-Connection: Upgrade",
            "Upgrade: h2c",
            "HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
            length,
            "X-Odd: 1",
            "X-Memplane-Memory: off",
        ]
        sent = "\r\n".join([*lines, "", ""]).encode() + framed
        for _ in range(2):
            writer.write(sent[:cut])
            await writer.drain()
            await asyncio.sleep(0.02)
            writer.write(sent[cut:])
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 ")
            told = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            assert await reader.readexactly(told) == body_of(chat_json(SAID))
        writer.close()
        for received in door.upstream.received:
            assert (received.target, received.header("x-odd")) == (f"{CHAT}?x=1", "1")
            assert b"http2" not in received.head.lower()
            assert b"h2c" not in received.head
            assert received.body == body
        assert len(door.upstream.received) == 2


async def test_a_client_that_probes_its_base_url_is_answered_without_a_token(
    tmp_path: Path,
) -> None:
    async with proxied(tmp_path) as door:
        # An agent that has a token takes no turn without it, and still answers this.
        wanted = TokenRequest(agent="ada", scopes=(Scope.PROXY,))
        await local_client(door.services).call(issue_token, wanted)
        found: dict[str, int] = {}
        for path in ("/", "/agent/ada", "/agent/ada/", "/agent/ada/v1", "/agent/ada/v2"):
            async with door.http.head(f"{door.address}{path}") as reply:
                found[path] = reply.status
        assert [path for path, status in found.items() if status != 200] == ["/agent/ada/v2"]
        assert (found["/agent/ada/v2"], door.upstream.received) == (404, [])


@pytest.mark.parametrize(
    "path",
    [
        "/agent/ada/chat/completions",
        "/chat/completions",
        "/agent/ada/messages",
        "/agent/ada/v1/v1/messages",
    ],
)
async def test_a_client_with_a_wrong_base_url_is_told_the_right_one(
    path: str, tmp_path: Path
) -> None:
    async with proxied(tmp_path) as door:
        answered = await door.post(path, BODIES[CHAT], agent="")
        assert answered.status == 404
        message = json.loads(answered.body)["error"]["message"]
        assert f"ends with /v1, as in {door.address}/agent/NAME/v1" in message
        assert door.upstream.received == []


async def test_memory_can_be_switched_off_for_a_request(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, chat_json(Said("Noted.")))
        await door.chat("My sister Ada is allergic to peanuts.")
        assert await door.remembered("ada", "What is my sister Ada allergic to?")
        off = {"X-Memplane-Memory": "off"}
        await door.chat("What is my sister Ada allergic to? Think of walnuts.", headers=off)
        received = door.upstream.asked(CHAT)[-1]
        assert b"MEMORY" not in received.body
        assert received.header("x-memplane-memory") is None
        *_, entry = await door.recorded()
        assert door.note(entry).left_out == "memory off"
        assert not any("walnuts" in one.text for one in await door.remembered("ada", "walnuts"))
        *_, told = door.recalls()
        assert (told["memory_status"], told["error"]) == ("skipped", "memory off")


async def test_a_title_request_is_recorded_but_neither_given_nor_made_a_memory(
    tmp_path: Path,
) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, chat_json(Said("Noted.")))
        await door.chat("My sister Ada is allergic to peanuts.")
        assert await door.remembered("ada", "What is my sister Ada allergic to?")
        system = "You are a title generator. You output ONLY a thread title."
        messages = [
            {"role": "system", "content": system},
            {"role": "user", "content": "My sister Ada is allergic to walnuts, too"},
        ]
        await door.post(CHAT, {"model": "gpt-4o", "messages": messages})
        assert b"MEMORY" not in door.upstream.asked(CHAT)[-1].body
        *_, entry = await door.recorded()
        assert door.note(entry).left_out == "title"
        assert not any("walnuts" in one.text for one in await door.remembered("ada", "walnuts"))


@pytest.mark.parametrize("injection", ["sticky", "clawdapus"])
async def test_a_compaction_has_the_memory_that_stood_in_the_conversation_and_no_new_one(
    tmp_path: Path, injection: str
) -> None:
    async with proxied(tmp_path, proxy__injection=injection) as door:
        door.upstream.at(CHAT, chat_json(Said("Noted.")))
        await door.chat("My sister Ada is allergic to peanuts.")
        asked = "What is my sister Ada allergic to?"
        assert await door.remembered("ada", asked)
        await door.chat(asked)
        before = door.upstream.asked(CHAT)[-1].json()["messages"]
        compacting = (
            "CRITICAL: Respond with TEXT ONLY.\nYour task is to create a detailed summary of "
            "what my sister Ada is allergic to."
        )
        recalls = len(door.recalls())
        await door.chat(asked, "Noted.", compacting)
        sent = door.upstream.asked(CHAT)[-1]
        first = before[0]["content"] if injection == "sticky" else asked
        assert [one["content"] for one in sent.json()["messages"]] == [first, "Noted.", compacting]
        assert (sent.body.count(b"BEGIN MEMORY") == 1) == (injection == "sticky")
        *_, entry = await door.recorded()
        note = door.note(entry)
        assert note.left_out == "compaction"
        assert [one.replayed for one in note.injected] == [True] * (injection == "sticky")
        told = door.recalls()
        assert len(told) == recalls + 1
        assert (told[-1]["memory_status"], told[-1]["error"]) == ("skipped", "compaction")


async def test_an_operator_may_list_more_requests_that_are_no_turns(tmp_path: Path) -> None:
    async with proxied(tmp_path, proxy__auxiliary_phrases="rate this chat, Classify the") as door:
        door.upstream.at(CHAT, chat_json(Said("5")))
        for system in ("classify the intent of what follows", "You are kind."):
            messages = [
                {"role": "system", "content": system},
                {"role": "user", "content": "My sister Ada is allergic to walnuts."},
            ]
            await door.post(CHAT, {"model": "gpt-4o", "messages": messages})
        notes = [door.note(entry).left_out for entry in await door.recorded()]
        assert notes == ["listed phrase", ""]
        assert [one.get("auxiliary") for one in door.events("response")] == ["listed phrase", None]


async def test_an_upstream_that_is_not_there_is_said_plainly(tmp_path: Path) -> None:
    async with proxied(tmp_path, proxy__upstream_openai="http://127.0.0.1:9") as door:
        answered = await door.chat("hello")
        assert answered.status == 502
        message = json.loads(answered.body)["error"]["message"]
        assert "openai at 127.0.0.1:9 cannot be asked" in message
        assert await door.recorded() == []


async def test_a_status_that_is_none_is_said_plainly(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, whole(b"{}", 999))
        answered = await door.chat("hello")
        assert answered.status == 502
        assert "answered 999" in json.loads(answered.body)["error"]["message"]


async def test_each_silence_has_its_own_patience(tmp_path: Path) -> None:
    """Were they mixed up, this would wait for two minutes."""
    long, short = "120000", "80"
    first_byte, idle = "proxy__first_byte_timeout_ms", "proxy__idle_timeout_ms"
    async with proxied(tmp_path / "a", **{first_byte: short, idle: long}) as door:
        door.upstream.at(CHAT, (*chat_stream(SAID)[:1], End.STALL))
        async with asyncio.timeout(30):
            with pytest.raises(aiohttp.ClientPayloadError):
                await door.chat("hello", stream=True)
    async with proxied(tmp_path / "b", **{first_byte: long, idle: short}) as door:
        door.upstream.at(CHAT, (*chat_stream(SAID)[:3], End.STALL))
        async with asyncio.timeout(30):
            with pytest.raises(aiohttp.ClientPayloadError):
                await door.chat("hello", stream=True)


async def test_a_silent_upstream_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    async with proxied(
        tmp_path, proxy__first_byte_timeout_ms="80", proxy__idle_timeout_ms="80"
    ) as door:
        door.upstream.at(CHAT, (End.STALL,))
        assert (await door.chat("hello")).status == 504
        door.upstream.at(CHAT, (*chat_stream(SAID)[:3], End.STALL))
        async with door.http.post(
            f"{door.address}/agent/ada{CHAT}", json={**BODIES[CHAT], "stream": True}
        ) as reply:
            got = await reply.content.readuntil(b"event: error\n")
            with pytest.raises(aiohttp.ClientPayloadError):
                await reply.content.read()
        assert got.startswith(chat_events(SAID)[0])
        assert await door.recorded() == []


async def test_a_store_that_hangs_delays_a_turn_by_one_deadline_and_then_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung: list[str] = []

    async def find(*_: object) -> None:
        hung.append("find")
        await asyncio.Event().wait()

    class Memories:
        async def recall(self, _: RecallRequest) -> RecallResponse:
            hung.append("recall")
            await asyncio.Event().wait()
            raise AssertionError

    async with proxied(tmp_path, proxy__recall_ms="50") as door:
        door.upstream.at(CHAT, chat_json(SAID))
        monkeypatch.setattr(door.proxy.injector._sticky, "find", find)
        monkeypatch.setattr(door.proxy.injector._recaller, "_memories", Memories())
        for number in range(8):
            assert (await door.chat(f"Question {number}")).status == 200
        told = [one["memory_status"] for one in door.recalls()]
    # Both at once, so that they have one deadline together.
    assert hung == ["recall", "find"] * 3
    assert told == ["timed_out"] * 3 + ["skipped"] * 5


async def test_usage_is_asked_for_where_that_is_wanted_and_its_chunk_taken_out(
    tmp_path: Path,
) -> None:
    async with proxied(tmp_path, proxy__ask_usage="true") as door:
        door.upstream.at(CHAT, chat_stream(SAID))
        answered = await door.chat("hello", stream=True)
        assert door.upstream.asked(CHAT)[0].json()["stream_options"] == {"include_usage": True}
        told = [event for event in chat_events(SAID) if b'"choices": []' not in event]
        assert len(told) == len(chat_events(SAID)) - 1
        assert answered.body == b"".join(told)
        (entry,) = await door.recorded()
        assert entry["usage"]["prompt_tokens"] == SAID.read
        assert entry["request_effective"] == door.upstream.asked(CHAT)[0].json()
