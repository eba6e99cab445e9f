"""The reference service as a real process, and the pod that uses it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memplane.auth.pod_files import read_pod_context
from memplane.integrations.clawdapus.pod.compiler import compile_pod
from memplane.integrations.clawdapus.pod.descriptor import read_descriptor
from tests.clawdapus.service_contract import MemoryService, Restart, ServiceContract, entry

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAM = EXAMPLES / "reference-memory" / "service.py"
TOKEN = "s3cret"


class Processes:
    """Starts the service, one at a time, always with the same folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: subprocess.Popen[str] | None = None

    def start(self) -> MemoryService:
        self.stop()
        self.running = subprocess.Popen(
            [sys.executable, str(PROGRAM)],
            env={
                "PATH": os.environ["PATH"],
                "PORT": "0",
                "MEMORY_REF_DIR": str(self.folder),
                "MEMORY_REF_TOKEN": TOKEN,
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.running.stdout is not None
        line = self.running.stdout.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert address is not None, f"it did not start: {line}"
        return MemoryService(address[0], TOKEN)

    def stop(self, *, hard: bool = False) -> None:
        if self.running is None:
            return
        if hard:
            self.running.kill()
        else:
            self.running.terminate()
        self.running.wait(timeout=30)
        assert self.running.stdout is not None
        self.running.stdout.close()
        self.running = None


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    made = Processes(tmp_path / "kept")
    yield made
    made.stop()


@pytest.fixture
def service(processes: Processes) -> MemoryService:
    return processes.start()


@pytest.fixture
def restarted(processes: Processes) -> Restart:
    return processes.start


class TestReferenceMemory(ServiceContract):
    """It keeps the contract."""


def test_a_duplicate_is_one_file_and_forgetting_leaves_no_text(
    service: MemoryService, processes: Processes
) -> None:
    one = entry()
    service.retain("a", one)
    service.retain("a", one)
    (file,) = processes.folder.rglob("*.json")
    assert "Thursday" in file.read_text()
    service.forget("a", one["id"])
    (file,) = processes.folder.rglob("*.json")
    assert "Thursday" not in file.read_text()


def test_what_was_acknowledged_survives_a_hard_end(
    service: MemoryService, processes: Processes
) -> None:
    kept, gone = entry(), entry("Where?", "The kestrel rollout is in Oslo.")
    service.retain("a", kept)
    service.retain("a", gone)
    service.forget("a", gone["id"])
    processes.stop(hard=True)
    again = processes.start()
    assert "Thursday" in again.recalled("a")
    assert "Oslo" not in again.recalled("a")


def streamed(*events: object) -> dict[str, str]:
    text = "".join(f"data: {json.dumps(one, ensure_ascii=False)}\r\n\r\n" for one in events)
    return {"format": "sse", "text": text + "data: [DONE]\n\n"}


def delta(text: str) -> dict[str, object]:
    return {"choices": [{"delta": {"content": text}}]}


def test_a_streams_lines_end_where_lines_of_streams_do(service: MemoryService) -> None:
    one = {**entry(), "response": streamed(delta("The kestrel\u2028rollout "), delta("is red."))}
    service.retain("a", one)
    assert "The kestrel rollout is red." in service.recalled("a")


TOLD = "The kestrel rollout is on Thursday."
WHOLE = {"output": [{"type": "reasoning"}, {"type": "message", "content": [{"text": TOLD}]}]}
PIECES = streamed(
    {"type": "response.created", "response": {"output": []}},
    {"type": "response.reasoning_text.delta", "delta": "hm"},
    {"type": "response.output_text.delta", "delta": TOLD[:9]},
    {"type": "response.output_text.delta", "delta": TOLD[9:]},
    {"type": "response.output_text.done", "text": TOLD},
    {"type": "response.completed", "response": WHOLE},
)
USER = {"role": "user", "content": [{"type": "input_text", "text": "When is the kestrel?"}]}


@pytest.mark.parametrize("asked", ["When is the kestrel?", [USER, {"type": "function_call"}]])
@pytest.mark.parametrize("response", [{"format": "json", "json": WHOLE}, PIECES])
def test_a_turn_of_the_responses_api_is_kept(
    service: MemoryService, asked: object, response: dict[str, object]
) -> None:
    one = {**entry(), "path": "/v1/responses", "request_original": {"input": asked}}
    service.retain("a", {**one, "response": response})
    assert f"When is the kestrel? / {TOLD}" in service.recalled("a")


def test_what_memplane_itself_put_into_a_prompt_is_not_kept(service: MemoryService) -> None:
    block = f"--- BEGIN MEMORY (from memplane) ---\nOslo\n--- END MEMORY {'0a' * 8} ---"
    service.retain("a", entry(f"{block}\nWhen is the kestrel rollout?"))
    assert "When is the kestrel rollout?" in service.recalled("a")
    assert "Oslo" not in service.recalled("a")


@pytest.mark.parametrize("agent", ["../../b", "/etc", "a/b", "é", "\ud83d", "x" * 5000, "A"])
def test_no_agent_reaches_anothers_records(
    agent: str, service: MemoryService, processes: Processes
) -> None:
    service.retain("a", entry())
    service.retain(agent, entry("Where?", "The kestrel rollout is in Oslo."))
    assert "Oslo" not in service.recalled("a")
    assert "Thursday" not in service.recalled(agent)
    outside = list(processes.folder.parent.rglob("*.json"))
    assert len(outside) == len(list(processes.folder.glob("*/*.json"))) == 2


def test_strange_texts_are_taken(service: MemoryService) -> None:
    strange = entry("\ud83d kestrel \x00", "rollout \udc00 Thursday", ts="\ud800")
    assert service.retain("a", strange) == 202
    assert "Thursday" in service.recalled("a")


def test_its_descriptor_is_what_it_does() -> None:
    data = (PROGRAM.parent / ".claw-describe.json").read_bytes()
    found = read_descriptor(data)
    assert found.memory is not None
    assert (found.memory.recall, found.memory.retain, found.memory.forget) == (
        "/recall",
        "/retain",
        "/forget",
    )
    assert found.auth is not None
    assert found.auth.env in PROGRAM.read_text()


def test_the_rollcall_compiles(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    folder = tmp_path / "examples" / "rollcall"
    (folder / ".env").write_text(
        (folder / ".env.example").read_text().replace("TOKEN=", f"TOKEN={TOKEN}")
    )
    plan = compile_pod(folder / "claw-pod.yml", environ={}, image_files=lambda _name: None)
    assert plan.warnings == ()
    assert [(one.id, one.memory) for one in plan.agents] == [
        ("evening", "memory"),
        ("morning", "memory"),
    ]
    context = folder / ".claw-runtime" / "context"
    manifest = json.loads((context / "morning" / "memory.json").read_text())
    assert manifest["base_url"] == "http://memory:8080"
    assert manifest["auth"] == {"type": "bearer", "token": TOKEN}
    assert read_pod_context(context, "evening") is not None


def test_a_turn_of_the_rollcall_in_its_manifests_words(
    service: MemoryService, tmp_path: Path
) -> None:
    """What the compiled file says is enough to use the service."""
    test_the_rollcall_compiles(tmp_path)
    context = tmp_path / "examples" / "rollcall" / ".claw-runtime" / "context"
    for agent in ("morning", "evening"):
        manifest = json.loads((context / agent / "memory.json").read_text())
        known = MemoryService(service.base_url, manifest["auth"]["token"])
        assert known.retain(agent, entry("Rollcall", f"{agent} is present")) == 202
        assert known.recalled(agent, "rollcall?").count("is present") == 1
