"""Turns as an agent sends them to the proxy, each with a question of its own."""

from __future__ import annotations

import json

from bench.talking import Talk

AGENT = "agent"
COMPLETIONS = "/v1/chat/completions"
THROUGH = f"/agent/{AGENT}{COMPLETIONS}"


class Turns:
    """Makes requests; what they tell the model is the same in all of them."""

    def __init__(self, seed: int) -> None:
        self._talk = Talk(seed)
        self._before = [
            {"role": "system", "content": f"You are a helpful assistant. {self._talk.said(200)}."},
            {"role": "user", "content": f"{self._talk.said(20)}?"},
            {"role": "assistant", "content": f"{self._talk.said(60)}."},
        ]

    def made(self, count: int, *, model: str, stream: bool) -> list[bytes]:
        """Make so many requests."""
        return [self._request(model, stream=stream) for _ in range(count)]

    def _request(self, model: str, *, stream: bool) -> bytes:
        question = {"role": "user", "content": self._talk.question()}
        asked = {"model": model, "messages": [*self._before, question], "stream": stream}
        return json.dumps(asked, separators=(",", ":")).encode()
