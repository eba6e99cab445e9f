"""Transcripts as Claude Code writes them, read into what the user asked and what was answered."""

from __future__ import annotations

import json
from typing import Any

from memplane.integrations.claude_code.session_transcript import TranscriptTurn, read_turns


def line(kind: str, content: Any, minute: int = 30, **fields: Any) -> bytes:
    message = {"role": kind, "content": content, "model": "claude-x"}
    common = {"uuid": f"u-{minute}", "timestamp": f"2026-03-01T09:{minute}:00.000Z"}
    body = {"type": kind, "message": message, "isSidechain": False, **common, **fields}
    return json.dumps(body).encode()


def text(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": one} for one in texts]


def read(*lines: bytes) -> list[TranscriptTurn]:
    return list(read_turns(lines))


def test_a_turn_is_what_was_asked_and_all_that_was_said_and_written() -> None:
    write = {"type": "tool_use", "name": "Write", "input": {"file_path": "/p/a.py"}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "ok"}
    (first, second) = read(
        line("user", "Fix it.", 30),
        line("assistant", [*text("Let me see."), write], 31),
        line("user", [result], 32),
        line("assistant", text("Done."), 33),
        line("user", text("Thanks."), 34),
    )
    assert (first.uuid, first.prompt, first.replies) == (
        "u-30",
        "Fix it.",
        ["Let me see.", "Done."],
    )
    assert (first.files, first.model) == (["/p/a.py"], "claude-x")
    assert (first.asked_at.minute, first.ended_at.minute) == (30, 33)
    assert (second.prompt, second.replies) == ("Thanks.", [])


def test_what_is_not_the_users_is_no_turn() -> None:
    notification = "<task-notification><task-id>b</task-id></task-notification>"
    continued = "This session is being continued from a previous conversation that ran out."
    assert (
        read(
            line("user", "of a sub-agent", isSidechain=True),
            line("user", "of the client", isMeta=True),
            line("user", "a summary", isCompactSummary=True),
            line("user", notification),
            line("user", continued),
            line("user", "<system-reminder>x</system-reminder>"),
            line("assistant", text("Nobody asked.")),
            b'{"type":"attachment","uuid":"x","attachment":{}}',
            b'{"type":"user","message":{"content":"no time"}}',
            b"not json",
            b"\xff\xfe",
            b"[]",
            b"",
        )
        == []
    )


def test_a_reminder_beside_a_prompt_goes_and_the_prompt_stays() -> None:
    (turn,) = read(line("user", text("<system-reminder>x</system-reminder>", "Fix it.")))
    assert turn.prompt == "Fix it."
