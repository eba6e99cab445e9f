"""Turns in which an agent reads something and says it again."""

from __future__ import annotations

from typing import Any

from tests.episodes.remembering import entry


def reading(
    question: str,
    answer: str,
    read: str,
    *,
    url: str = "https://evil.example/page",
    tool: str = "WebFetch",
    minutes: float = 0,
) -> dict[str, Any]:
    """A turn of a loop: the user asked, a tool returned something, and the agent answers."""
    made = entry(question, answer, minutes=minutes)
    call = {"name": tool, "arguments": f'{{"url": "{url}"}}' if url else "{}"}
    made["request_original"]["messages"] += [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": call}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": read},
    ]
    return made
