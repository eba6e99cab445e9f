"""Turns and ledgers for tests."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memplane.kit.clock import system_clock
from memplane.ledger.entry import Entry, JsonReply, Turn, Usage
from memplane.ledger.writer import LedgerOptions, open_ledger

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def turn(said: str, *, agent: str = "analyst", ts: datetime = NOON, **more: Any) -> Turn:
    """A turn in which a user says something."""
    body = json.dumps(
        {"model": "openai/gpt-4o", "messages": [{"role": "user", "content": said}]}
    ).encode()
    made = Turn(
        ts=ts,
        agent=agent,
        path="/v1/chat/completions",
        requested_model="openai/gpt-4o",
        effective_provider="openai",
        effective_model="gpt-4o",
        status_code=200,
        stream=False,
        request_original=body,
        request_effective=body,
        reply=JsonReply(b'{"choices":[{"message":{"content":"Noted."}}]}'),
        usage=Usage(12, 3),
    )
    return replace(made, **more)


async def record(
    root: Path, turns: Iterable[Turn], options: LedgerOptions | None = None
) -> list[Entry]:
    """Record turns one after the other, as they come."""
    async with open_ledger(
        root, scrub=lambda one: one, clock=system_clock, options=options
    ) as ledger:
        return [await ledger.append(one) for one in turns]
