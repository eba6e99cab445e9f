"""A proxy in a process of its own, killed with turns that its memory service has not taken."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.proxy.test_governed import ASKED, CHAT, KEY, write_context
from tests.support.answers import Said, chat_json, whole
from tests.support.running import Running, memplane, running_memplane
from tests.support.upstream import Upstream, running_upstream

RETAIN = "/retain"
TURNS = 200


@asynccontextmanager
async def memplane_up(folder: Path, upstream: Upstream) -> AsyncIterator[Running]:
    """`memplane up` for a pod's agent, started beside the loop that its services run on."""
    manager = running_memplane(folder / "home", env=pod_of(folder))
    running = await asyncio.to_thread(manager.__enter__)
    try:
        yield running
    finally:
        await asyncio.to_thread(manager.__exit__, None, None, None)


def pod_of(folder: Path) -> dict[str, str]:
    return {"MEMPLANE_CONTEXT_ROOT": str(folder / "context"), "MEMPLANE_DRAIN_TIMEOUT_MS": "0"}


def prepare(folder: Path, upstream: Upstream) -> dict[str, str]:
    """Write what a compile leaves; returns the agent's headers."""
    home = folder / "home"
    home.mkdir(mode=0o700)
    base = f"{upstream.address}/v1"
    providers = {"providers": {"openai": {"base_url": base, "api_key": KEY}}}
    (home / "providers.json").write_text(json.dumps(providers))
    memory = {
        "version": 1,
        "service": "mem",
        "base_url": upstream.address,
        "retain": {"path": RETAIN},
    }
    return write_context(folder / "context", memory=memory)


async def ask(address: str, headers: dict[str, str], *, times: int) -> None:
    body = {"model": "openai/gpt-4o", "messages": ASKED}
    async with aiohttp.ClientSession(headers=headers) as client:
        for number in range(times):
            said = [{"role": "user", "content": f"turn {number}"}]
            async with client.post(address + CHAT, json={**body, "messages": said}) as reply:
                assert reply.status == 200
                await reply.read()


def retained(upstream: Upstream) -> list[str]:
    return [one.json()["entry"]["id"] for one in upstream.asked(RETAIN)]


@pytest.mark.timeout(120)
async def test_a_killed_proxy_delivers_every_turn_after_its_restart(tmp_path: Path) -> None:
    async with running_upstream() as upstream:
        own = prepare(tmp_path, upstream)
        upstream.at(CHAT, chat_json(Said("Noted.")))
        upstream.at(RETAIN, whole(b"", 503))
        async with memplane_up(tmp_path, upstream) as running:
            await ask(running.address, own, times=TURNS)
            await upstream.until_asked(RETAIN)
            listed = await asyncio.to_thread(
                memplane, tmp_path / "home", "history", "show", "--limit", "500", "--json"
            )
            lines = [json.loads(line) for line in listed.stdout.splitlines()]
            running.process.kill()
            running.process.wait()
        ledger = tmp_path / "home/ledger/ada/history.jsonl"
        recorded = [json.loads(line)["id"] for line in ledger.read_bytes().splitlines()]
        assert len(recorded) == len(lines) == TURNS
        failed = len(upstream.asked(RETAIN))
        upstream.at(RETAIN, whole(b"", 202))
        async with memplane_up(tmp_path, upstream):
            await upstream.until_asked(RETAIN, failed + TURNS)
        assert retained(upstream)[failed:] == recorded


async def test_what_a_service_refuses_is_listed_and_can_be_sent_again(tmp_path: Path) -> None:
    async with running_upstream() as upstream:
        own = prepare(tmp_path, upstream)
        upstream.at(CHAT, chat_json(Said("Noted.")))
        upstream.at(RETAIN, whole(b"no", 400), whole(b"no", 400), whole(b"", 202))
        home, env = tmp_path / "home", pod_of(tmp_path)

        async def queue(*words: str) -> tuple[int, str]:
            ran = await asyncio.to_thread(memplane, home, "queue", *words, env=env)
            return ran.returncode, ran.stdout

        async with memplane_up(tmp_path, upstream) as running:
            await ask(running.address, own, times=3)
            await upstream.until_asked(RETAIN, 3)
        first, second, _ = retained(upstream)
        code, listed = await queue("list")
        assert code == 0
        assert f"rejected turn   of ada for mem: retain returned status 400  {first}" in listed
        assert listed.endswith("2 in all\n")
        assert (await queue("drop", second)) == (0, f"dropped {second}\n")
        assert (await queue("drop", second))[0] == 1
        assert (await queue("retry")) == (0, "1 turns were taken, 0 were not\n")
        assert retained(upstream)[3:] == [first]
        assert json.loads((await queue("list", "--json"))[1]) == []
