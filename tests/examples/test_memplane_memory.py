"""memplane in the place of the reference service: one name changed, and it fills itself."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from memplane.integrations.clawdapus.pod.compiler import compile_pod
from memplane.integrations.clawdapus.pod.descriptor import own_descriptor, read_descriptor
from tests.clawdapus.service_contract import MemoryService
from tests.support.running import running_memplane
from tests.support.turns import record, turn

EXAMPLES = Path(__file__).parents[2] / "examples"
IMAGE = EXAMPLES / "memplane-memory"


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    """The rollcall pod, with its memory service swapped as the README says."""
    for name in ("rollcall", "memplane-memory"):
        shutil.copytree(EXAMPLES / name, tmp_path / name)
    file = tmp_path / "rollcall" / "claw-pod.yml"
    text = file.read_text().replace("../reference-memory", "../memplane-memory")
    file.write_text(text.replace("MEMORY_REF_TOKEN", "MEMPLANE_SERVICE_TOKEN"))
    (file.parent / ".env").write_text("MEMPLANE_SERVICE_TOKEN=tok-123\nOPENAI_API_KEY=k\n")
    return file


def test_the_images_descriptor_is_memplanes_own() -> None:
    assert read_descriptor((IMAGE / ".claw-describe.json").read_bytes()) == own_descriptor()


async def test_the_swapped_pod_compiles_and_the_service_fills_itself(
    pod: Path, tmp_path: Path
) -> None:
    compile_pod(pod, environ={}, image_files=lambda _name: None)
    context = pod.parent / ".claw-runtime" / "context"
    manifest = json.loads((context / "morning" / "memory.json").read_text())
    assert manifest["base_url"] == "http://memory:8080"
    assert manifest["auth"] == {"type": "bearer", "token": "tok-123"}
    composed = (pod.parent / "compose.generated.yml").read_text()
    given = dict(re.findall(r"(CLAW_HISTORY_\w+): ?['\"]?([^'\"\n]+)", composed))
    assert given["CLAW_HISTORY_AGENT_IDS"] == "evening,morning"

    ledgers = tmp_path / "ledgers"
    ours = [turn(f"The falcon has egg number {n}", agent="morning") for n in range(120)]
    entries = await record(ledgers, ours)
    await record(ledgers, [turn("The heron sleeps", agent="evening")])
    settings = dict(re.findall(r"(MEMPLANE_\w+)=(\S+)", (IMAGE / "Dockerfile").read_text()))
    assert settings["MEMPLANE_HTTP_TRUSTED_NETWORK"] == "true"
    with running_memplane(
        tmp_path / "proxy",
        env={"MEMPLANE_LEDGER_DIR": str(ledgers), "MEMPLANE_CONTEXT_ROOT": str(context)},
    ) as proxy:
        here = {
            "MEMPLANE_SERVICE_TOKEN": "tok-123",
            "CLAW_HISTORY_URL": f"{proxy.address}/history",
            "CLAW_HISTORY_TOKEN": given["CLAW_HISTORY_TOKEN"],
            "CLAW_HISTORY_AGENT_IDS": given["CLAW_HISTORY_AGENT_IDS"],
        }
        with running_memplane(tmp_path / "service", env=here) as running:
            service = MemoryService(running.address, "tok-123")
            asked = {"agent_id": "morning", "limit": 5}
            messages = [{"role": "user", "content": "falcon egg number 119"}]
            found: dict[str, Any] = {}
            for _ in range(600):
                found = service.post("/recall", {**asked, "messages": messages}).json()
                if entries[119].id in json.dumps(found):
                    break
                await asyncio.sleep(0.05)
            assert found["memories"][0]["id"] == entries[119].id
            heron = [{"role": "user", "content": "heron"}]
            assert service.post("/recall", {**asked, "messages": heron}).json()["memories"] == []
