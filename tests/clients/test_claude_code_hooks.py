"""The real Claude Code with nothing but `memplane claude install`: memory is simply there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.answers import ANTHROPIC, Call, Said
from tests.support.azurite import Azurite
from tests.support.claude_code import ClaudeCode, Ran
from tests.support.claude_hooks import Workstation, make_workstations, read_container
from tests.support.running import running_memplane
from tests.support.upstream import Answer, Received, Upstream

MESSAGES = ANTHROPIC.path
TOOLS = "--allowedTools=Write,Bash"
FACT = "The staging database listens on port 5433."
NOBODY = "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=YQ==;BlobEndpoint=http://127.0.0.1:9/a;"


@pytest.fixture
def machines(tmp_path: Path, any_version: Path) -> Iterator[list[Workstation]]:
    names = "laptop", "desktop"
    made = [replace(place, version=any_version) for place in make_workstations(tmp_path, *names)]
    yield made
    for machine in made:
        machine.end_worker()


def scripted(upstream: Upstream, *replies: Said | Answer) -> None:
    upstream.scripts[MESSAGES] = ANTHROPIC.replies(*replies)


def write(machine: Workstation, name: str, text: str) -> Call:
    """The model writes a document, as Claude Code's own instructions tell it to."""
    kind = name.partition("_")[0]
    document = f"---\nname: {name}\ndescription: what it says\ntype: {kind}\n---\n\n{text}\n"
    path = str(machine.folder / f"{name}.md")
    return Call("Write", {"file_path": path, "content": document}, f"toolu_{name}")


def said(request: Received) -> str:
    """All that a model is told by messages."""
    return json.dumps(request.json()["messages"])


async def ask(claude: ClaudeCode, prompt: str, *options: str) -> Ran:
    ran = await claude.ask(prompt, TOOLS, *options)
    assert (ran.code, ran.stderr) == (0, "")
    return ran


async def test_what_one_machine_writes_the_other_starts_with(
    machines: list[Workstation],
    upstream: Upstream,
    azurite: Azurite,
    container: str,
    tmp_path: Path,
) -> None:
    laptop, desktop = machines
    for machine in machines:
        machine.use_container(azurite, container)
        machine.install()
    document = write(laptop, "reference_staging", FACT)
    by_shell = (
        f"printf -- '- [Staging](reference_staging.md) — ports\\n' >> {laptop.folder}/MEMORY.md"
    )
    shell = Call("Bash", {"command": by_shell, "description": "index"}, "toolu_shell")
    scripted(upstream, Said("", (document,), id="1"), Said("", (shell,), id="2"), Said("Kept."))
    await ask(laptop.claude(upstream.address), "Remember the port.")
    # The folder is watched as well; when that is noticed is up to the client.
    assert [event for event in laptop.events if event != "FileChanged"] == [
        *("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd")
    ]
    laptop.wait_for_worker()
    there = read_container(azurite, container, tmp_path / "cache")
    assert FACT in there["reference_staging.md"]
    assert "reference_staging.md" in there["MEMORY.md"]

    scripted(upstream, Said("Port 5433."))
    await ask(desktop.claude(upstream.address), "Which port?")
    request = upstream.asked(MESSAGES)[-1]
    assert "SessionStart hook additional context: Memory of earlier sessions" in said(request)
    assert "[Staging](reference_staging.md)" in said(request)
    assert "reference_staging.md: updated (what it says)" in said(request)
    assert FACT in (desktop.folder / "reference_staging.md").read_text()


async def test_a_compaction_keeps_what_is_open_and_gives_the_documents_again(
    machines: list[Workstation], upstream: Upstream
) -> None:
    laptop, _ = machines
    laptop.install()
    laptop.folder.mkdir(parents=True)
    (laptop.folder / "carry_forward.md").write_text("## Pending\n\n- Rotate the key.\n")
    first, second = (
        Call("Bash", {"command": f"echo {word}", "description": "look"}, f"toolu_{word}")
        for word in ("one", "two")
    )
    summary = Said("<summary>They looked.</summary>", id="summary")
    replies = Said("", (first,), id="1"), Said("", (second,), id="2", read=95_000)
    scripted(upstream, *replies, summary, Said("Done."))
    claude = laptop.claude(upstream.address, CLAUDE_CODE_AUTO_COMPACT_WINDOW="100000")
    ran = await ask(claude, "Look around.")
    assert len(ran.of_type("system", "compact_boundary")) == 1
    assert laptop.events.count("SessionStart") == 2
    assert "PreCompact" in laptop.events
    begun, _, compaction, after = upstream.asked(MESSAGES)
    assert "Keep what is still open" in said(compaction)
    for request in (begun, after):
        assert said(request).count("Rotate the key.") == 1


@pytest.mark.long
async def test_a_prompt_gets_its_memories_and_a_dead_memplane_holds_nobody_up(
    machines: list[Workstation], upstream: Upstream
) -> None:
    laptop, _ = machines
    laptop.install()
    with running_memplane(laptop.home, env={"HOME": str(laptop.user)}):
        assert laptop.memplane("retain", "--agent", "default", FACT).returncode == 0
        scripted(upstream, Said("5433."))
        ran = await ask(laptop.claude(upstream.address), "Which port has the staging database?")
    (request,) = upstream.asked(MESSAGES)
    assert "BEGIN MEMORY (from memplane)" in said(request)
    assert FACT in said(request)

    scripted(upstream, Said("I said so."))
    prompt = "Which port has the staging database, again?"
    await ask(laptop.claude(upstream.address), prompt, "--resume", ran.session)
    assert said(upstream.asked(MESSAGES)[-1]).count("BEGIN MEMORY") == 1
    assert "no recall: memplane does not run" in laptop.log


async def test_a_container_that_does_not_answer_delays_a_start_by_its_deadline_only(
    machines: list[Workstation], upstream: Upstream
) -> None:
    laptop, _ = machines
    own = {"connection_string": NOBODY, "container": "c"}
    laptop.configure(blob=own, claude={"start_ms": 100})
    laptop.install()
    laptop.folder.mkdir(parents=True)
    (laptop.folder / "MEMORY.md").write_text("- [Ports](reference_ports.md) — where\n")
    scripted(upstream, Said("", (write(laptop, "reference_ports", FACT),), id="1"), Said("Kept."))
    await ask(laptop.claude(upstream.address), "Remember the port.")
    request = upstream.asked(MESSAGES)[0]
    assert "[Ports](reference_ports.md)" in said(request)
    assert "did not answer in time" in said(request)
    assert "the worker did not reply in time" in laptop.log
    assert len(list((laptop.home / "spool").glob("*.job"))) >= 1
