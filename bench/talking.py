"""Turns that sound like work, quickly made: words by their frequency, and facts with names."""

from __future__ import annotations

import hashlib
import json
import random
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any

_START = datetime(2026, 1, 1, tzinfo=UTC)
_SYLLABLES = [a + b for a in "krlmtsnvdp" for b in "aeo"]


class Talk:
    """Makes turns; the same seed makes the same ones."""

    def __init__(self, seed: int, words: int = 20_000) -> None:
        self._random = random.Random(seed)
        some = random.Random(1)
        made = {"".join(some.choices(_SYLLABLES, k=some.randint(2, 4))) for _ in range(3 * words)}
        self._words = sorted(made)[:words]
        some.shuffle(self._words)
        self._weights = list(accumulate(1 / (rank + 3) for rank in range(len(self._words))))

    def said(self, words: int) -> str:
        """Say so many words."""
        return " ".join(self._random.choices(self._words, cum_weights=self._weights, k=words))

    def question(self) -> str:
        """Ask something of a dozen words."""
        return f"What did we say about {self.said(12)}?"

    def entry(self, agent: str, number: int) -> dict[str, Any]:
        """Make a turn of about 800 bytes of text, as another recorder sends it."""
        ts = _START + timedelta(minutes=3 * number + (number // 12) * 45)
        question = f"{self.said(18).capitalize()}?"
        answer = f"{self.said(30).capitalize()}. {self.said(25).capitalize()}."
        body: dict[str, Any] = {
            "version": 1,
            "ts": ts.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "claw_id": agent,
            "path": "/v1/chat/completions",
            "requested_model": "openai/gpt-4o",
            "effective_provider": "openai",
            "effective_model": "gpt-4o",
            "status_code": 200,
            "stream": False,
            "request_original": {"messages": [{"role": "user", "content": question}]},
            "response": {
                "format": "json",
                "json": {"choices": [{"message": {"role": "assistant", "content": answer}}]},
            },
            "usage": {"prompt_tokens": 60, "completion_tokens": 80},
        }
        digest = hashlib.sha256(f"{agent} {number} {question}".encode()).hexdigest()
        return {"id": f"hist1_{digest}", **body}

    def line(self, agent: str, number: int) -> bytes:
        """Make a turn as a line of a ledger."""
        return json.dumps(self.entry(agent, number), separators=(",", ":")).encode() + b"\n"
