"""The real Claude Code in `memplane run`, against a scripted model: it is told, and it tells."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from memplane.observations.agent_guide import build_guide
from tests.clients.test_claude_code_through_the_proxy import ECHO, LOOK, lasting
from tests.support.answers import ANTHROPIC, Call, Said, anthropic_error
from tests.support.claude_code import ClaudeCode
from tests.support.running import memplane, running_memplane
from tests.support.upstream import Answer, Received, Upstream

ClaudeAt: TypeAlias = Callable[[str], ClaudeCode]

MESSAGES = ANTHROPIC.path
AGENT = "watch"
SESSION = "11111111-1111-4111-8111-111111111111"
STARTS = "Takes 60s to start after a restart"
MARKER = f"[MEMORY:timing:jellyfin] {STARTS}"
WRONG = anthropic_error(400, "invalid_request_error", "no such thing")


@pytest.fixture
def ops(tmp_path: Path) -> Path:
    """The home of what was learned."""
    return tmp_path / "ops"


def within(claude: ClaudeCode, ops: Path, *options: str) -> ClaudeCode:
    words = (sys.executable, "-m", "memplane", "run", "--agent", AGENT, *options, "--")
    return replace(claude, within=words, environment={"MEMPLANE_HOME": str(ops)})


def scripted(upstream: Upstream, *replies: Said | Answer) -> None:
    upstream.scripts[MESSAGES] = ANTHROPIC.replies(*replies)


def system(request: Received) -> str:
    """All that a model is told before anybody says anything."""
    return "\n".join(part["text"] for part in request.json()["system"])


def listed(ops: Path, *words: str) -> list[dict[str, Any]]:
    done = memplane(ops, "memories", "list", "--agent", AGENT, "--json", *words)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["memories"]
    return found


def sessions(ops: Path) -> list[dict[str, Any]]:
    done = memplane(ops, "memories", "sessions", "--agent", AGENT, "--json")
    found: list[dict[str, Any]] = json.loads(done.stdout)["sessions"]
    return found


async def test_what_one_run_learns_the_next_one_is_told_and_saying_it_again_earns_nothing(
    upstream: Upstream, claude_at: ClaudeAt, ops: Path
) -> None:
    claude = within(claude_at(upstream.address), ops, "--tier", "2")
    scripted(upstream, Said(f"Seen.\n\n{MARKER}\n", id="1"))
    first = await claude.ask("How is jellyfin?")
    assert (first.code, first.stderr) == (0, "memplane: learned 1\n")
    (learned,) = listed(ops)
    assert (learned["service"], learned["category"]) == ("jellyfin", "timing")
    assert (learned["observation"], learned["confidence"]) == (STARTS, 0.7)
    assert (learned["tier"], learned["origin"]) == (2, "agent")

    scripted(upstream, Said(f"As I knew.\n\n{MARKER}", id="2"))
    second = await claude.ask("And now?")
    assert (second.code, second.stderr) == (0, "")
    (still,) = listed(ops)
    assert (still["id"], still["confidence"]) == (learned["id"], 0.7)
    history = memplane(ops, "memories", "history", str(learned["id"]), "--json")
    kinds = [one["kind"] for one in json.loads(history.stdout)["events"]]
    assert [one for one in kinds if one in {"asserted", "echoed"}] == ["asserted", "echoed"]

    before, after = (system(one) for one in upstream.asked(MESSAGES))
    assert "Operational Memory" not in before
    assert build_guide(2, "markers").strip() in before
    assert "## Operational Memory (1 memory" in after
    assert f"### jellyfin\n- [timing] {STARTS} (confidence: 0.7)" in after
    assert after.index("## Operational Memory") < after.index("## Recording operational memory")
    newest, oldest = sessions(ops)
    assert [newest["told"], oldest["told"], oldest["learned"]] == [1, 0, 1]
    assert oldest["cli_session_id"] == first.session
    assert oldest["model"]
    assert (oldest["exit_code"], oldest["is_error"]) == (0, False)
    assert oldest["num_turns"] == first.result["num_turns"]


async def test_a_run_prints_what_it_prints_without_memplane(
    upstream: Upstream, claude_at: ClaudeAt, ops: Path
) -> None:
    claude = claude_at(upstream.address)
    options = ("--session-id", SESSION, "--include-partial-messages", ECHO)
    ran = []
    for one in (claude, within(claude, ops)):
        scripted(
            upstream, Said("First this.", (LOOK,), id="1"), Said(f"Hello ☃.\n{MARKER}", id="2")
        )
        ran.append(await one.ask("Say hello", *options))
        claude.leave()
    direct, wrapped = ran
    assert wrapped.code == direct.code == 0
    assert lasting(wrapped.events) == lasting(direct.events)
    shapes = [re.sub(rb"[0-9a-f-]{36}|\d+", b"#", one.stdout) for one in ran]
    assert shapes[0] == shapes[1]
    # The one thing that the model was sent differently is what it was told.
    plain, _, told, _ = upstream.asked(MESSAGES)
    assert plain.json()["messages"] == told.json()["messages"]
    assert len(listed(ops)) == 1


async def test_plain_text_is_printed_as_it_is_and_learned_from(
    upstream: Upstream, claude_at: ClaudeAt, ops: Path
) -> None:
    claude = claude_at(upstream.address)
    printed = []
    for one in (claude, within(claude, ops)):
        scripted(upstream, Said(f"All done ☃.\n\n- **{MARKER}**", id="1"))
        printed.append((await one.print("--", "Say hello"))[:2])
    assert printed[0] == printed[1]
    assert [one["observation"] for one in listed(ops)] == [STARTS]


@pytest.mark.parametrize("way", ["argument", "file"])
async def test_a_users_own_prompt_is_kept_before_ours(
    upstream: Upstream, claude_at: ClaudeAt, ops: Path, way: str
) -> None:
    """Claude Code takes a prompt in a file or in an argument, and not both."""
    scripted(upstream, Said("Yes."))
    words = "You look after the attic."
    file = ops.parent / "prompt.txt"
    file.write_text(f"{words}\n")
    options = {
        "argument": ("--append-system-prompt", words),
        "file": ("--append-system-prompt-file", str(file)),
    }
    ran = await within(claude_at(upstream.address), ops).ask("Hello", *options[way])
    assert ran.code == 0, ran.stderr
    (sent,) = upstream.asked(MESSAGES)
    assert f"{words}\n\n{build_guide(1, 'markers').strip()}" in system(sent)


async def test_a_run_that_fails_is_a_failed_session_whose_memories_stay(
    upstream: Upstream, claude_at: ClaudeAt, ops: Path
) -> None:
    scripted(upstream, Said(MARKER, (LOOK,), id="1"), WRONG)
    ran = await within(claude_at(upstream.address), ops).ask("Hello", ECHO)
    assert ran.code == 1
    assert ran.result["subtype"] == "success"
    (session,) = sessions(ops)
    assert (session["is_error"], session["exit_code"]) == (True, 1)
    assert [one["observation"] for one in listed(ops)] == [STARTS]


async def test_evidence_is_found_in_the_sessions_log(
    upstream: Upstream, claude_at: ClaudeAt, ops: Path
) -> None:
    scripted(upstream, Said("First this.", (LOOK,), id="1"), Said(MARKER, id="2"))
    await within(claude_at(upstream.address), ops).ask("Hello", ECHO)
    (session,) = sessions(ops)
    (learned,) = listed(ops)
    done = memplane(ops, "memories", "evidence", str(learned["id"]), "--json")
    (evidence,) = json.loads(done.stdout)["evidence"]
    log = Path(session["log_path"]).read_bytes()
    line = log[evidence["raw_offset"] :].split(b"\n")[0]
    assert log.split(b"\n")[evidence["raw_line"] - 1] == line
    assert hashlib.sha256(line[25:]).hexdigest() == evidence["raw_sha256"]
    said = json.loads(line[25:])
    assert said["uuid"] == evidence["message_uuid"]
    assert MARKER in said["message"]["content"][0]["text"]


async def test_memory_may_be_in_another_process(
    upstream: Upstream, claude_at: ClaudeAt, ops: Path
) -> None:
    scripted(upstream, Said(MARKER))
    with running_memplane(ops):
        ran = await within(claude_at(upstream.address), ops).ask("Hello")
        assert (ran.code, ran.stderr) == (0, "memplane: learned 1\n")
        assert [one["observation"] for one in listed(ops)] == [STARTS]


async def test_structured_output_is_learned_and_markers_are_not(
    upstream: Upstream, claude_at: ClaudeAt, ops: Path
) -> None:
    memories = [{"category": "timing", "service": "jellyfin", "observation": STARTS}]
    document = Call("StructuredOutput", {"memories": memories}, "toolu_document")
    other = "[MEMORY:dependency:caddy] Must be started after WireGuard"
    scripted(upstream, Said(other, (document,), id="1"), Said("Done.", id="2"))
    claude = within(claude_at(upstream.address), ops, "--mode", "structured")
    ran = await claude.ask("Hello")
    assert ran.result["structured_output"] == {"memories": memories}
    assert [one["observation"] for one in listed(ops)] == [STARTS]
    assert build_guide(1, "structured").strip() in system(upstream.asked(MESSAGES)[0])
