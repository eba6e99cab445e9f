"""One user tells an address, another asks for it, the first asks again, the first is deleted."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from memplane.episodes.user_deletion import UserForgetReceipt
from memplane.observations.requests import AcceptAsked, ActAsked, MemoryQuery, PromptQuery
from memplane.service.client import local_client
from memplane.service.operations.memory import rebuild
from memplane.service.operations.observations import list_memories
from memplane.service.operations.users import UserForgetRequest, forget_user
from tests.proxy.proxied import Proxied, proxied
from tests.support.answers import Said, chat_json

CHAT = "/v1/chat/completions"
TELLS = "Please note that my delivery address is 12 Kestrel Lane."
NOTED = (
    "Noted: your delivery address is 12 Kestrel Lane. "
    "[MEMORY:behavior:courier] Rings twice at Kestrel Lane"
)
ASKS = "What is my delivery address? What does the courier do?"


def prompt_sent(door: Proxied) -> str:
    """Return the last request that the provider was sent, memory and all."""
    return door.upstream.received[-1].body.decode()


async def say(door: Proxied, text: str, answer: str = "Fine.", **more: Any) -> str:
    door.upstream.at(CHAT, chat_json(Said(answer)))
    assert (await door.chat(text, **more)).status == 200
    await door.remembered("ada", "anything")  # once the turn is recorded and taken in
    return prompt_sent(door)


async def erase(door: Proxied, user: str) -> UserForgetReceipt:
    asked = UserForgetRequest(agent="ada", user=user, confirm=user)
    return await local_client(door.services).call(forget_user, asked)


async def test_the_walk_through_the_proxy(tmp_path: Path) -> None:
    def named(user: str) -> dict[str, Any]:
        return {"headers": {"x-memplane-user": user}}

    async with proxied(tmp_path) as door:
        await say(door, TELLS, NOTED, **named("u-1"))
        assert "x-memplane-user" not in door.upstream.received[-1].head.decode().lower()
        assert "Kestrel" not in await say(door, ASKS, **named("u-2"))
        assert "Kestrel" not in await say(door, ASKS)
        assert "Kestrel Lane" in await say(door, ASKS, **named("u-1"))
        (told, *_) = await door.recorded()
        assert door.note(told).user == "u-1"
        assert b"Kestrel Lane" in json.dumps(told).encode()
        receipt = await erase(door, "u-1")
        assert receipt.clean, receipt.checked
        assert len(receipt.ids) == 2
        assert "Kestrel" not in await say(door, ASKS, **named("u-1"))
        assert (await local_client(door.services).call(rebuild)).same
    left = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    holding = [path for path in left if b"Kestrel Lane" in path.read_bytes()]
    assert holding == []


async def test_what_is_learned_from_a_users_turn_is_that_users(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        await say(door, TELLS, NOTED, user="u-1")
        memories = await door.services.memories()
        client = local_client(door.services)
        async with asyncio.timeout(30):
            while not (page := await client.call(list_memories, "ada")).memories:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.05)
        assert [(one.user, one.observation) for one in page.memories] == [
            ("u-1", "Rings twice at Kestrel Lane")
        ]
        for user, seen in (("u-1", True), ("u-2", False), (None, True)):
            listed = await client.call(list_memories, "ada", MemoryQuery(user=user))
            assert bool(listed.memories) is seen
            prompt = await memories.preview("ada", PromptQuery(user=user))
            assert ("Rings twice" in prompt.block) is (user == "u-1")
        shared = await memories.act("ada", page.memories[0].id, ActAsked(act="share"), by="me")
        assert shared.user == ""
        prompt = await memories.preview("ada", PromptQuery(user="u-2"))
        assert "Rings twice" in prompt.block
        assert (await client.call(rebuild)).same


async def test_what_was_refused_of_a_users_turn_is_accepted_for_that_user(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        refused = "[MEMORY:misc:courier] The courier of Kestrel Lane never rings"
        await say(door, TELLS, refused, user="u-1")
        memories = await door.services.memories()
        async with asyncio.timeout(30):
            while not (rejects := await memories.rejects("ada")):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.05)
        assert [one.user for one in rejects] == ["u-1"]
        asked = AcceptAsked(category="behavior")
        assert (await memories.accept("ada", rejects[0].id, asked, by="me")).user == "u-1"


async def test_two_conversations_that_begin_alike_keep_what_each_was_told(tmp_path: Path) -> None:
    """The place of a prompt is over what was said, which is the same for both."""
    async with proxied(tmp_path) as door:
        await say(door, TELLS, NOTED, user="u-1")
        assert "Kestrel Lane" in await say(door, ASKS, user="u-1")
        for user in ("u-2", "u-3"):
            assert "Kestrel" not in await say(door, ASKS, user=user)
        assert "Kestrel Lane" in await say(door, ASKS, user="u-1")


async def test_a_user_that_cannot_be_one_fails_no_turn_and_is_counted(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        await say(door, TELLS, NOTED, user="a\nb")
        (told,) = await door.recorded()
        assert door.note(told).user == ""
        assert [one["type"] for one in door.events("ignored_user")] == ["ignored_user"]


CLAUDE = {"metadata": {"user_id": "user_d_account_acc-1_session_s"}}


async def test_a_claude_account_is_noted_and_is_a_scope_only_where_it_is_wanted(
    tmp_path: Path,
) -> None:
    async with proxied(tmp_path / "one") as door:
        await say(door, TELLS, NOTED, **CLAUDE)
        (told,) = await door.recorded()
        assert (door.note(told).user, door.note(told).account) == ("", "acc-1")
        assert "Kestrel Lane" in await say(door, ASKS)
    async with proxied(tmp_path / "two", users__claude_account="ada") as door:
        await say(door, TELLS, NOTED, **CLAUDE)
        (told,) = await door.recorded()
        assert (door.note(told).user, door.note(told).account) == ("acc-1", "")
        assert "Kestrel" not in await say(door, ASKS)


async def test_an_agent_whose_users_are_ignored_has_one_memory(tmp_path: Path) -> None:
    async with proxied(tmp_path, users__ignore="true") as door:
        await say(door, TELLS, NOTED, user="u-1")
        assert "Kestrel Lane" in await say(door, ASKS, user="u-2")
