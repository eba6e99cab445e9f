"""What stood in the newest prompt, for an admin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memplane.auth.grants import Scope
from memplane.home import Home
from tests.proxy.proxied import Proxied, proxied
from tests.proxy.test_governed import token_of
from tests.support.answers import Said, chat_json

CHAT = "/v1/chat/completions"
ASKED = "What is my sister Ada allergic to?"


async def asked(door: Proxied, headers: dict[str, str], agent: str = "ada") -> tuple[int, Any]:
    address = f"{door.address}/internal/context/{agent}/snapshot"
    async with door.http.get(address, headers=headers) as reply:
        return reply.status, await reply.json()


@pytest.mark.parametrize("injection", ["sticky", "clawdapus"])
async def test_an_admin_sees_the_text_and_its_place(tmp_path: Path, injection: str) -> None:
    async with proxied(tmp_path, proxy__injection=injection) as door:
        admin = {"Authorization": f"Bearer {Home(door.settings.home).token().reveal()}"}
        door.upstream.at(CHAT, chat_json(Said("Noted.")))
        await door.chat("My sister Ada is allergic to peanuts.")
        assert (await asked(door, admin))[0] == 404
        assert await door.remembered("ada", ASKED)
        await door.chat(ASKED)
        _, entry = await door.recorded()
        status, shown = await asked(door, admin)
        assert (status, shown["agent"], shown["entry_id"]) == (200, "ada", entry["id"])
        (placed,) = shown["injected"]
        assert placed["message"] == (0 if injection == "sticky" else -1)
        assert placed["bytes"] == len(placed["text"].encode())
        assert placed["text"].startswith("--- BEGIN MEMORY (from memplane)")
        assert placed["text"].endswith("---")
        assert "allergic to peanuts" in placed["text"]
        # It is what was sent.
        assert "peanuts" in door.upstream.asked(CHAT)[-1].body.decode()


async def test_nobody_else_does(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        assert (await asked(door, {}))[0] == 401
        own = await token_of(door, "ada", Scope.READ, Scope.PROXY, Scope.WRITE)
        assert (await asked(door, own))[0] == 403
        admin = {"Authorization": f"Bearer {Home(door.settings.home).token().reveal()}"}
        assert (await asked(door, admin, agent="..%2f"))[0] == 404
