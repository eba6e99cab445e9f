"""Requests as real clients send them, made small; what they have is in their order of keys."""

from __future__ import annotations

import json
from typing import Any

from memplane.exchange.request_body import RequestBody, parse_body

Json = dict[str, Any]

REMINDER = (
    "<system-reminder>\nAs you answer, you can use this: # claudeMd\nBe brief.\n</system-reminder>"
)
MARK = {"cache_control": {"type": "ephemeral"}}
TOOLS: list[Json] = [
    {"name": "Bash", "description": "Runs a command", "input_schema": {"type": "object"}}
]
BLOCK = (
    "--- BEGIN MEMORY (from memplane) 0a1b ---\nReference data.\nThe deploy day is Friday.\n"
    "--- END MEMORY 0a1b ---"
)


def written(document: object) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def body(document: object) -> RequestBody:
    return parse_body(written(document))


def text(words: str, **more: object) -> Json:
    return {"type": "text", "text": words, **more}


def tool_use(name: str = "Bash") -> Json:
    return {"type": "tool_use", "id": "toolu_1", "name": name, "input": {"command": "ls"}}


def tool_result(*more: Json) -> Json:
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a\nb", **MARK}
    return {"role": "user", "content": [result, *more]}


def user(*parts: Json) -> Json:
    return {"role": "user", "content": list(parts)}


def assistant(*parts: Json) -> Json:
    return {"role": "assistant", "content": list(parts)}


def claude_code(messages: list[Json], *, version: str = "2.1.197.a1b", **more: object) -> Json:
    """The Opus-like form keeps reminders in `system` messages, the Sonnet-like in the user's."""
    return {
        "model": "claude-opus-4-8",
        "messages": messages,
        "system": [
            text(f"x-anthropic-billing-header: cc_version={version}; cc_entrypoint=sdk-cli;"),
            text("You are Claude Code.", **MARK),
            text("You help with software. Give each commit a title.", **MARK),
        ],
        "tools": TOOLS,
        "metadata": {"user_id": json.dumps({"device_id": "d", "session_id": "s"})},
        "max_tokens": 32000,
        "thinking": {"type": "adaptive"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"effort": "high"},
        "stream": True,
        **more,
    }


def opus_like(*prompts: str) -> list[Json]:
    """A `system` message follows the first prompt, and another one is last."""
    messages: list[Json] = []
    for at, prompt in enumerate(prompts):
        is_last = at == len(prompts) - 1
        messages.append(user(text(prompt, **(MARK if is_last else {}))))
        if at == 0:
            messages.append({"role": "system", "content": REMINDER})
        if not is_last:
            messages.append(assistant(text(f"Answer {at}.")))
    messages.append({"role": "system", "content": "The date is 2026-11-16."})
    return messages


def sonnet_like(*prompts: str) -> list[Json]:
    """Reminders are texts of the user's messages."""
    messages: list[Json] = []
    for at, prompt in enumerate(prompts):
        parts = [text(REMINDER)] if at == 0 else []
        is_last = at == len(prompts) - 1
        parts.append(text(prompt, **(MARK if is_last else {})))
        messages.append(user(*parts))
        if not is_last:
            messages.append(assistant(text(f"Answer {at}.")))
    return messages


def message(role: str, kind: str, words: str) -> Json:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": words}]}


def codex(items: list[Json], **more: object) -> Json:
    told = message(
        "developer", "input_text", "<permissions instructions>…</permissions instructions>"
    )
    about = message(
        "user", "input_text", "<environment_context>\n<cwd>/w</cwd>\n</environment_context>"
    )
    return {
        "model": "gpt-5.6",
        "input": [told, about, *items],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "reasoning": {"effort": "medium"},
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "019a-session",
        **more,
    }


def codex_user(words: str) -> Json:
    return message("user", "input_text", words)


def codex_assistant(words: str) -> Json:
    return message("assistant", "output_text", words)


def chat(messages: list[Json], **more: object) -> Json:
    return {"model": "gpt-4o", "messages": messages, **more}
