"""A pod's proxy as the compile step sets it up: agents reach it, and it tells of them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp

from memplane.integrations.clawdapus.pod.compiler import compile_pod
from memplane.kit.bounded_yaml import read_yaml
from tests.proxy.test_governed import ASKED, CHAT, KEY
from tests.support.answers import Said, chat_json
from tests.support.running import Running, running_memplane
from tests.support.upstream import Upstream, running_upstream

POD = """
x-claw: {pod: desk}
services:
  analyst:
    image: desk:1
    x-claw: {agent: ./AGENTS.md, cllama: passthrough}
"""
ELSEWHERE = "127.0.0.2"
"""Whoever listens for this machine's own programs only is not found at this address."""


def compiled(folder: Path, upstream: Upstream) -> dict[str, str]:
    """Compile a pod; returns its proxy's variables, with the folders of this machine in them."""
    (folder / "claw-pod.yml").write_text(POD)
    (folder / "AGENTS.md").write_text("Be kind.")
    compile_pod(folder / "claw-pod.yml", environ={}, image_files=lambda _name: None)
    composed: Any = read_yaml((folder / "compose.generated.yml").read_bytes(), "compose")
    proxy = composed["services"]["cllama"]
    assert proxy["command"] == ["memplane", "up", "--port", "8080"]
    here = {there: str(folder / own) for own, there, _ in (v.split(":") for v in proxy["volumes"])}
    provider = {"base_url": f"{upstream.address}/v1", "api_key": KEY}
    keys = Path(here["/claw/auth"]) / "providers.json"
    keys.parent.mkdir(exist_ok=True)
    keys.write_text(json.dumps({"providers": {"openai": provider}}))
    return {name: _moved(value, here) for name, value in proxy["environment"].items()}


def _moved(value: str, here: dict[str, str]) -> str:
    for there, own in here.items():
        value = value.replace(there, own)
    return value


async def test_agents_of_a_compiled_pod_reach_their_proxy_and_it_tells_of_them(
    tmp_path: Path,
) -> None:
    async with running_upstream() as upstream:
        upstream.at(CHAT, chat_json(Said("Noted.")))
        env = compiled(tmp_path, upstream)
        manager = running_memplane(tmp_path / "home", env=env)
        running = await asyncio.to_thread(manager.__enter__)
        try:
            metadata = tmp_path / ".claw-runtime/context/analyst/metadata.json"
            token = json.loads(metadata.read_bytes())["token"]
            headers = {"Host": "cllama:8080", "Authorization": f"Bearer {token}"}
            body = {"model": "openai/m", "messages": ASKED}
            async with (
                aiohttp.ClientSession(headers=headers) as client,
                client.post(f"http://{ELSEWHERE}:{running.port}{CHAT}", json=body) as reply,
            ):
                assert reply.status == 200
            told = await asyncio.to_thread(_told, running)
        finally:
            await asyncio.to_thread(manager.__exit__, None, None, None)
    # Where `memplane audit` looks for it: on the container's standard output.
    assert (told["claw_id"], told["outcome"]) == ("analyst", "recorded")


def _told(running: Running) -> dict[str, Any]:
    assert running.process.stdout is not None
    for line in running.process.stdout:
        if line.startswith("{") and (event := json.loads(line))["type"] == "response":
            return dict(event)
    raise AssertionError("it told nothing")
