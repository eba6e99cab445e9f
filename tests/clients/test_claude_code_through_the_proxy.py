"""The real Claude Code works through memplane as it works directly."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from memplane.episodes.api_types import MemoryBlock
from memplane.episodes.episode import Episode, build_episode
from memplane.proxy.memory_blocks import FilteredBlocks, format_fenced_blocks
from tests.clients.talks import FACT, LONG, QUESTION
from tests.clients.wire import AGENT, Run, differences, replayed, telling, watched
from tests.proxy.proxied import Proxied
from tests.support.answers import (
    ANTHROPIC,
    Call,
    Said,
    anthropic_error,
    anthropic_json,
    anthropic_stream,
    cut,
    whole,
)
from tests.support.claude_code import MODEL, NEWEST, ClaudeCode, Ran
from tests.support.upstream import Answer, Received

ClaudeAt: TypeAlias = Callable[[str], ClaudeCode]

MESSAGES = ANTHROPIC.path
OPUS = "claude-opus-4-8"
MODELS = pytest.mark.parametrize("model", [MODEL, OPUS])
SESSION = "11111111-1111-4111-8111-111111111111"
MADE_UP = re.compile(r"\A[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\Z")
ECHO = "--allowedTools=Bash(echo:*)"
LOOK, LOOK_AGAIN = (
    Call("Bash", {"command": f"echo {word}", "description": "Say it"}, f"toolu_{word}")
    for word in ("hello", "again")
)
CUT = cut(anthropic_stream(Said(LONG)), 6)
OVERLOADED = anthropic_error(529, "overloaded_error", "Overloaded")
WRONG = anthropic_error(400, "invalid_request_error", "no such thing")
TOO_LONG = anthropic_error(
    400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"
)
HOOK_BLOCK = format_fenced_blocks(
    FilteredBlocks((MemoryBlock(text="Ada hates pistachios.", kind="observation"),)),
    service="memplane",
    nonce="0a1b0a1b",
)
BACKGROUND_PROMPT = "Look around."
BACKGROUND = Call(
    "Task",
    {"description": "look", "prompt": BACKGROUND_PROMPT, "subagent_type": "general-purpose"},
    "toolu_task",
)
SUMMARY = Said("<summary>They spoke about a pistachio farm in Sicily.</summary>", id="summary")


@MODELS
async def test_a_run_with_tools_is_the_same_to_the_last_byte(
    door: Proxied, any_claude_at: ClaudeAt, model: str
) -> None:
    replies = (
        Said("First this.", (LOOK,), id="1", read=40),
        Said(calls=(LOOK_AGAIN,), id="2"),
        Said("Hello, “again” ☃.", id="3"),
    )
    ran, runs = await both(door, any_claude_at, *replies, model=model)
    assert [one.result["result"] for one in ran] == ["Hello, “again” ☃."] * 2
    assert lasting(ran[1].events) == lasting(ran[0].events)
    assert differences(runs[1], runs[0]) == []
    entries = await door.recorded(AGENT)
    assert [one["request_original"] for one in entries] == [one.json() for one in runs[1].sent]
    assert [door.note(one).session for one in entries] == [SESSION] * 3
    assert [door.note(one).left_out for one in entries] == [""] * 3


@pytest.mark.parametrize("answer", [WRONG, OVERLOADED, CUT], ids=["refused", "overloaded", "cut"])
async def test_trouble_is_the_same_to_the_last_byte_and_a_turn_is_recorded_once(
    door: Proxied, any_claude_at: ClaudeAt, answer: Answer
) -> None:
    """After a cut the client asks for the same again, the older one without a stream.

    What was refused the newest one asks for again as well, with one beta less.
    """
    is_newest = any_claude_at("").is_newest
    turns = 1 if is_newest or answer is not WRONG else 0
    ran, runs = await both(door, any_claude_at, answer, Said("Now."))
    assert [one.code for one in ran] == [1 - turns] * 2
    if is_newest and answer is CUT:
        # How much of a stream that is cut it still shows and counts is a matter of moments.
        assert [one.result["result"] for one in ran] == ["Now."] * 2
    else:
        assert lasting(ran[1].events) == lasting(ran[0].events)
    assert differences(runs[1], runs[0]) == []
    entries = await door.recorded(AGENT)
    assert [one["stream"] for one in entries] == [is_newest or answer is not CUT] * turns
    assert [one["request_original"] for one in entries] == [
        one.json() for one in runs[1].sent[len(runs[1].sent) - turns :]
    ]


# Memory


async def test_what_was_said_is_in_the_next_session_and_stays_where_it_stood(
    door: Proxied, any_claude_at: ClaudeAt
) -> None:
    claude = any_claude_at(f"{door.address}/agent/{AGENT}")
    await asked(door, claude, FACT, Said("Noted."))
    assert await door.remembered(AGENT, QUESTION)
    answers = Said("Let me see.", (LOOK,), id="1"), Said("Peanuts.", id="2")
    ran = await asked(door, claude, QUESTION, *answers)
    again = "Thank you, good night."
    await asked(door, claude, again, Said("Good night."), "--resume", ran.session)
    told, first, looped, resumed = door.upstream.asked(MESSAGES)
    assert b"BEGIN MEMORY" not in told.body
    *_, question, block = texts(first, 0)
    assert question == QUESTION
    assert "allergic to peanuts and loves mango lassi" in block
    assert [texts(one, 0)[-1] for one in (looped, resumed)] == [block] * 2
    entries = await door.recorded(AGENT)
    assert entries[0]["request_effective"] == entries[0]["request_original"] == told.json()
    for entry, sent in zip(entries[1:], (first, looped, resumed), strict=True):
        assert entry["request_effective"] == sent.json()
        assert without_memory(sent.json()) == entry["request_original"]
    assert [replayed(door, one) for one in entries[:3]] == [[], [False], [True]]
    assert replayed(door, entries[3])[0] is True
    recalls = door.recalls()
    assert len(recalls) == 3  # one for each prompt


async def test_memory_stands_in_the_users_message_also_when_another_one_follows_it(
    door: Proxied, any_claude_at: ClaudeAt
) -> None:
    await telling(door, FACT)
    claude = any_claude_at(f"{door.address}/agent/{AGENT}")
    await asked(door, claude, QUESTION, Said("Peanuts."), model=OPUS)
    (sent,) = door.upstream.asked(MESSAGES)
    assert [one["role"] for one in sent.json()["messages"]] == ["user", "system"]
    assert "mango lassi" in texts(sent, 0)[-1]
    assert b"BEGIN MEMORY" not in str(sent.json()["messages"][1]).encode()
    *_, entry = await door.recorded(AGENT)
    # So no mark for a cache was added or moved either; the newest client has its last one there.
    assert without_memory(sent.json()) == entry["request_original"]
    assert ("cache_control" in str(sent.json()["messages"][1])) == claude.is_newest


async def test_a_prompt_sent_again_after_a_cut_has_the_same_memory(
    door: Proxied, any_claude_at: ClaudeAt
) -> None:
    await telling(door, FACT)
    claude = any_claude_at(f"{door.address}/agent/{AGENT}")
    ran = await asked(door, claude, QUESTION, CUT, Said("Peanuts."))
    assert ran.result["result"] == "Peanuts."
    first, second = (one.json() for one in door.upstream.asked(MESSAGES))
    assert "mango lassi" in str(first["messages"])
    assert (first.pop("stream"), second.pop("stream", False)) == (True, claude.is_newest)
    assert first == second
    assert len(await door.recorded(AGENT)) == 2
    assert len(door.recalls()) == 2


# Requests of the client's own


@pytest.mark.parametrize("way", ["the window is full", "the provider says so"])
async def test_a_compaction_has_the_memories_that_stood_there_and_no_new_ones(
    door: Proxied, any_claude_at: ClaudeAt, way: str
) -> None:
    await telling(door, FACT)
    full = way == "the window is full"
    first, done = Said("One.", (LOOK,), id="1"), Said("Done.", id="3")
    second = Said("Two.", (LOOK_AGAIN,), id="2", read=95_000 if full else 12)
    refused = () if full else (TOO_LONG,)
    claude = replace(
        any_claude_at(f"{door.address}/agent/{AGENT}"),
        environment={"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "100000"} if full else {},
    )
    ran = await asked(door, claude, QUESTION, first, second, *refused, SUMMARY, done)
    assert ran.result["result"] == "Done."
    assert len(ran.of_type("system", "compact_boundary")) == 1
    *before, compaction, after = door.upstream.asked(MESSAGES)
    assert "create a detailed summary" in texts(compaction, -1)[-1]
    block = texts(before[0], 0)[-1]
    assert block.startswith("--- BEGIN MEMORY")
    assert texts(compaction, 0)[-1] == block
    assert compaction.body.count(b"BEGIN MEMORY") == 1
    assert b"pistachio farm" in after.body
    _, *entries = await door.recorded(AGENT)
    notes = [door.note(one) for one in entries]
    assert [one.left_out for one in notes] == ["", "", "compaction", ""]
    assert [one.replayed for one in notes[2].injected] == [True]
    assert entries[2]["request_effective"] == compaction.json()
    assert entries[2]["request_original"] == without_memory(compaction.json())
    # Nor are the client's own words, in a user's name, in which the summary comes back.
    assert not await remembers(door, "pistachio farm")


@pytest.mark.long
async def test_the_providers_cache_knows_as_much_of_a_compaction_as_without_memplane(
    door: Proxied, any_claude_at: ClaudeAt
) -> None:
    """What it knows is what a request has in common with the one before it, from its beginning."""
    await telling(door, FACT)
    replies = (
        Said("One.", (LOOK,), id="1"),
        Said("Two.", (LOOK_AGAIN,), id="2", read=95_000),
        SUMMARY,
        Said("Done.", id="3"),
    )
    shared: list[int] = []
    texts_before = ""
    for direct in (True, False):
        async with watched(door, MESSAGES, direct=direct) as run:
            claude = replace(
                any_claude_at(run.address),
                environment={"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "100000"},
            )
            await asked(door, claude, QUESTION, *replies, "--session-id", SESSION)
            claude.leave()
        *_, before, compaction, _after = (one.json() for one in run.sent)
        assert before["tools"] == compaction["tools"]
        texts_before = cached_text(before)
        shared.append(count_shared_prefix(texts_before, cached_text(compaction)))
        print(f"{shared[-1]:,} of {len(texts_before):,} characters of messages, {direct=}")
    assert texts_before.count("BEGIN MEMORY") == 1
    directly, through = shared
    assert through > directly
    assert through >= len(texts_before) - len("]}]")


# Hooks and sub-agents


@pytest.mark.parametrize(
    ("event", "as_json", "model"),
    [("UserPromptSubmit", True, OPUS), ("SessionStart", False, MODEL)],
)
async def test_a_block_of_memplanes_own_hook_is_the_only_one(
    door: Proxied, any_claude_at: ClaudeAt, event: str, model: str, *, as_json: bool
) -> None:
    """Opus has it in the message of the system's behind the prompt, Sonnet in the user's own."""
    await telling(door, FACT)
    claude = any_claude_at(f"{door.address}/agent/{AGENT}")
    add_hook(claude.project, event, HOOK_BLOCK, as_json=as_json)
    await asked(door, claude, QUESTION, Said("Peanuts."), model=model)
    (sent,) = door.upstream.asked(MESSAGES)
    assert sent.body.count(b"BEGIN MEMORY") == 1
    assert b"0a1b0a1b" in sent.body
    *_, entry = await door.recorded(AGENT)
    assert entry["request_effective"] == entry["request_original"] == sent.json()
    assert door.note(entry).injected == ()


async def test_other_words_of_a_hook_leave_memory_to_the_proxy(
    door: Proxied, claude_at: ClaudeAt
) -> None:
    await telling(door, FACT)
    claude = claude_at(f"{door.address}/agent/{AGENT}")
    add_hook(claude.project, "UserPromptSubmit", "BEGIN MEMORY is how a block begins.")
    await asked(door, claude, QUESTION, Said("Peanuts."))
    (sent,) = door.upstream.asked(MESSAGES)
    assert "mango lassi" in texts(sent, 0)[-1]


@pytest.mark.long
async def test_the_end_of_a_background_agent_is_no_word_of_the_users(
    door: Proxied, claude_at: ClaudeAt
) -> None:
    """Only the newest version runs them in the background and tells of their end by itself."""
    await telling(door, FACT)
    main = iter((Said("I look.", (BACKGROUND,), id="1"), Said("Soon.", id="2"), Said("Done.")))

    def reply(request: Received) -> Answer:
        is_agent = request.header("x-claude-code-agent-id") is not None
        return anthropic_stream(Said("A pistachio farm.", id="0") if is_agent else next(main))

    door.upstream.scripts[MESSAGES] = reply
    claude = replace(claude_at(f"{door.address}/agent/{AGENT}"), version=NEWEST)
    ran = await claude.ask(QUESTION)
    assert ran.result["result"] == "Done."
    own = [
        one
        for one in door.upstream.asked(MESSAGES)
        if one.header("x-claude-code-agent-id") is None
    ]
    first, _, told = own
    assert "<task-notification>" in str(told.json()["messages"][-1])
    assert told.body.count(b"BEGIN MEMORY") == 1
    assert texts(told, 0)[-1] == texts(first, 0)[-1], "the memory stands where it stood"
    # One for what was told at first, one for the question, one for what the agent was asked.
    assert len(door.recalls()) == 3
    turns = await list_turns(door)
    assert {one.question for one in turns} <= {FACT, QUESTION, BACKGROUND_PROMPT}
    assert not await remembers(door, "task-notification")


# Other requests of the client's own


async def test_an_empty_answer_is_asked_for_again_without_memory(
    door: Proxied, any_claude_at: ClaudeAt
) -> None:
    await telling(door, FACT)
    claude = any_claude_at(f"{door.address}/agent/{AGENT}")
    ran = await asked(door, claude, QUESTION, Said(""), Said("Of a pistachio farm."))
    assert ran.result["result"] == "Of a pistachio farm."
    first, again = door.upstream.asked(MESSAGES)
    assert "mango lassi" in texts(first, 0)[-1]
    assert texts(again, 0)[-1].startswith("[Your previous response had no visible output")
    assert b"BEGIN MEMORY" not in again.body
    _, *entries = await door.recorded(AGENT)
    assert [door.note(one).left_out for one in entries] == ["", "empty-answer retry"]
    assert not await remembers(door, "pistachio farm")


async def test_a_title_is_asked_for_without_memory(door: Proxied, claude_at: ClaudeAt) -> None:
    await telling(door, FACT)

    def reply(request: Received) -> Answer:
        is_turn = bool(request.json().get("tools"))
        said = Said("Peanuts." if is_turn else '{"title": "A pistachio farm"}')
        return anthropic_stream(said) if request.json().get("stream") else anthropic_json(said)

    door.upstream.scripts[MESSAGES] = reply
    async with (
        watched(door, MESSAGES) as run,
        claude_at(run.address).at_a_terminal(QUESTION),
    ):
        await run.until_heard(2)
    title, turn = sorted(run.sent, key=lambda one: len(one.json()["tools"]))
    assert b"title" in title.body
    assert b"BEGIN MEMORY" not in title.body
    assert "mango lassi" in texts(turn, 0)[-1]
    _, *entries = await door.recorded(AGENT)
    left_out = {door.note(one).left_out: one["request_effective"] for one in entries}
    assert left_out == {"title": title.json(), "": turn.json()}
    assert not await remembers(door, "pistachio farm")


async def test_tokens_are_counted_without_memory_and_without_a_turn(
    door: Proxied, any_claude_at: ClaudeAt
) -> None:
    await telling(door, FACT)
    counting = f"{MESSAGES}/count_tokens"
    door.upstream.at(counting, whole(b'{"input_tokens": 10}'))
    claude = any_claude_at(f"{door.address}/agent/{AGENT}")
    ran = await asked(door, claude, "/context", Said("nothing"))
    assert "Context Usage" in ran.result["result"]
    counted = door.upstream.asked(counting)
    assert counted
    assert not any(b"BEGIN MEMORY" in one.body for one in counted)
    assert door.upstream.asked(MESSAGES) == []
    assert len(await door.recorded(AGENT)) == 1
    assert len(door.recalls()) == 1


# How it is asked, and what its requests hold


def add_hook(project: Path, event: str, text: str, *, as_json: bool = False) -> None:
    """Let a hook of the project say something, as plain text or in the client's own form."""
    folder = project / ".claude"
    folder.mkdir(parents=True)
    told = {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}
    (folder / "said").write_text(json.dumps(told) if as_json else text)
    hook = {"type": "command", "command": f"cat '{folder / 'said'}'"}
    (folder / "settings.json").write_text(json.dumps({"hooks": {event: [{"hooks": [hook]}]}}))


async def list_turns(door: Proxied) -> list[Episode]:
    """What memory would make of each turn that was recorded."""
    return [build_episode(one) for one in await door.recorded(AGENT)]


async def asked(
    door: Proxied, claude: ClaudeCode, prompt: str, *rest: Said | Answer | str, model: str = MODEL
) -> Ran:
    """Ask with these replies, and with these options."""
    options = [one for one in rest if isinstance(one, str)]
    replies = [one for one in rest if not isinstance(one, str)]
    door.upstream.scripts[MESSAGES] = ANTHROPIC.replies(*replies)
    return await claude.ask(prompt, ECHO, *options, model=model)


async def both(
    door: Proxied, any_claude_at: ClaudeAt, *replies: Said | Answer, model: str = MODEL
) -> tuple[list[Ran], list[Run]]:
    """The same run, directly and through memplane."""
    ran: list[Ran] = []
    runs: list[Run] = []
    options = ("--session-id", SESSION, "--include-partial-messages")
    for direct in (True, False):
        async with watched(door, MESSAGES, direct=direct) as run:
            claude = any_claude_at(run.address)
            ran.append(await asked(door, claude, QUESTION, *replies, *options, model=model))
            claude.leave()
        runs.append(run)
    return ran, runs


def lasting(found: Any) -> Any:
    """What is printed without what differs from run to run: times, and numbers made up."""
    if isinstance(found, list):
        return [lasting(one) for one in found]
    if isinstance(found, str) and found != SESSION:
        return MADE_UP.sub("a number", found)
    if not isinstance(found, dict):
        return found
    named = found.items()
    return {
        name: lasting(value)
        for name, value in named
        if name not in {"timestamp", "messaging_socket_path"} and not name.endswith("_ms")
    }


def texts(request: Received, at: int) -> list[str]:
    """The texts of a message."""
    parts = request.json()["messages"][at]["content"]
    return [part["text"] for part in parts if part["type"] == "text"]


def cached_text(body: dict[str, Any]) -> str:
    """The messages as a provider's cache looks at them: in their order, without its marks."""

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(one) for one in value]
        if not isinstance(value, dict):
            return value
        return {name: plain(one) for name, one in value.items() if name != "cache_control"}

    messages = [
        {**one, "content": [{"type": "text", "text": one["content"]}]}
        if isinstance(one["content"], str)
        else one
        for one in body["messages"]
    ]
    return json.dumps(plain(messages), ensure_ascii=False)


def count_shared_prefix(before: str, after: str) -> int:
    pairs = zip(before, after, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def without_memory(body: dict[str, Any]) -> dict[str, Any]:
    """Take out the parts of messages that are memories; each is the last of its message."""
    for message in body["messages"]:
        parts = message["content"]
        if isinstance(parts, list) and parts[-1].get("text", "").startswith("--- BEGIN MEMORY"):
            parts.pop()
    return body


async def remembers(door: Proxied, what: str) -> bool:
    return any(what in one.text for one in await door.remembered(AGENT, what))
