"""Turns that memplane's own memory takes in, told like those that a service is sent."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from memplane.ledger.tombstones import Tombstone, append_tombstones
from tests.proxy.proxied import Proxied, proxied
from tests.proxy.test_governed import CHAT, SAID, manifest, write_context, write_providers
from tests.support.answers import chat_json, whole


def retains(door: Proxied) -> list[dict[str, Any]]:
    return [one for one in door.events("memory_op") if one["memory_op"] == "retain"]


async def test_each_turn_that_memory_takes_in_is_told_once(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        door.upstream.at(CHAT, chat_json(SAID))
        for question in ("The osprey nests on the roof.", "The heron fishes at the mill."):
            assert (await door.chat(question)).status == 200
        assert await door.remembered("ada", "osprey")
        assert await door.remembered("ada", "heron")
        told = [{name: one[name] for name in one if name != "ts"} for one in retains(door)]
    assert (
        told
        == [
            {
                "claw_id": "ada",
                "type": "memory_op",
                "intervention": None,
                "memory_service": "memplane",
                "memory_op": "retain",
                "memory_status": "succeeded",
            }
        ]
        * 2
    )


async def test_an_agent_with_another_service_is_told_of_by_that_alone(tmp_path: Path) -> None:
    context = tmp_path / "context"
    async with proxied(tmp_path, context_root=str(context)) as door:
        write_providers(door.settings.home, door)
        own = write_context(context, memory=manifest(door))
        door.upstream.at(CHAT, chat_json(SAID))
        door.upstream.at("/retain", whole(b"", 202))
        body = {"model": "openai/gpt-4o", "messages": [{"role": "user", "content": "Osprey?"}]}
        assert (await door.post(CHAT, body, agent="", headers=own)).status == 200
        await door.upstream.until_asked("/retain")
        await door.remembered("ada", "osprey")
    assert {one["memory_service"] for one in retains(door)} == {"mem-svc"}


async def test_a_forgotten_memory_leaves_in_no_later_turn(tmp_path: Path) -> None:
    context = tmp_path / "context"
    canary = "The osprey nests on the roof of the harbour office."
    async with proxied(tmp_path, context_root=str(context)) as door:
        write_providers(door.settings.home, door)
        own = write_context(context, memory=manifest(door))
        block = b'{"memories":[{"text":"%s","entry_ids":["old"]}]}' % canary.encode()
        door.upstream.at("/recall", whole(block))
        door.upstream.at(CHAT, chat_json(SAID))
        down, taken = whole(b"", 503), whole(b"", 202)
        door.upstream.at("/retain", down, taken)
        body = {"model": "openai/gpt-4o", "messages": [{"role": "user", "content": "Where?"}]}
        assert (await door.post(CHAT, body, agent="", headers=own)).status == 200
        await door.upstream.until_asked("/retain")
        stone = Tombstone("2026-03-01T12:00:00Z", "ada", "mem-svc", "old")
        root = door.settings.home / "tombstones"
        await asyncio.to_thread(append_tombstones, root, "ada", [stone])
        await door.upstream.until_asked("/retain", 2)
        (recorded,) = await door.recorded("ada")
    first, second = (one.json()["entry"] for one in door.upstream.asked("/retain"))
    assert canary in str(recorded["request_effective"]), "the ledger keeps its bytes"
    assert canary in str(first), "it was not forgotten yet"
    assert canary not in str(second)
    assert second["id"] == recorded["id"]
    assert second["request_effective"]["messages"] == body["messages"]
