"""Memory with real parts in a folder, and entries to give it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memplane.database.sqlite import open_sqlite
from memplane.episodes.api_types import MemoryBlock, RecallRequest
from memplane.episodes.ledger_follower import MemorySources
from memplane.episodes.recall_worker_pool import RecallWorkerPool
from memplane.episodes.retain_queue import EntryOrigin
from memplane.episodes.service import EpisodeService, open_episode_service
from memplane.kit.clock import system_clock
from memplane.ledger.turn_redaction import redact_entry_line
from memplane.ledger.writer import open_ledger
from memplane.redaction.redactor import Redactor
from memplane.search.embeddings.embedder import Embedder
from tests.support.turns import NOON

REDACTOR = Redactor(key=b"tests")


def places_in(folder: Path) -> MemorySources:
    return MemorySources(
        ledger=folder / "ledger", received=folder / "received", tombstones=folder / "tombstones"
    )


@asynccontextmanager
async def memory_in(
    folder: Path, embedder: Embedder | None = None, readers: RecallWorkerPool | None = None
) -> AsyncIterator[EpisodeService]:
    """Open the memory that lies in a folder."""
    async with (
        open_sqlite(folder / "memplane.db") as records,
        open_ledger(folder / "received", scrub=lambda turn: turn, clock=system_clock) as received,
        open_episode_service(
            EpisodeService(
                records,
                folder / "index",
                received,
                places_in(folder),
                scrub=lambda line: redact_entry_line(REDACTOR, line),
                clock=system_clock,
                embedder=embedder,
                readers=readers,
            )
        ) as memory,
    ):
        await memory.follow()
        yield memory


def entry(
    question: str,
    answer: str = "Noted.",
    *,
    minutes: float = 0,
    id: str = "",  # noqa: A002 - what it is called there
    agent: str = "analyst",
    **more: Any,
) -> dict[str, Any]:
    """A turn as another recorder sends it, some minutes after noon."""
    ts = (NOON + timedelta(minutes=minutes)).astimezone(UTC)
    made: dict[str, Any] = {
        "version": 1,
        "ts": ts.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "claw_id": agent,
        "path": "/v1/chat/completions",
        "requested_model": "m",
        "effective_provider": "p",
        "effective_model": "m",
        "status_code": 200,
        "stream": False,
        "request_original": {"messages": [{"role": "user", "content": question}]},
        "response": {
            "format": "json",
            "json": {"choices": [{"message": {"role": "assistant", "content": answer}}]},
        },
        "usage": {},
        **more,
    }
    said = json.dumps(made, sort_keys=True).encode()
    return {"id": id or "hist1_" + hashlib.sha256(said).hexdigest(), **made}


def raw(one: dict[str, Any]) -> bytes:
    return json.dumps(one).encode()


async def give(
    memory: EpisodeService, *entries: dict[str, Any], agent: str = "analyst"
) -> list[str]:
    """Retain entries one after the other; says what became of each."""
    return [(await memory.retain(EntryOrigin(agent), raw(one))).status for one in entries]


async def recall(
    memory: EpisodeService, question: str, *, agent: str = "analyst", **more: Any
) -> tuple[MemoryBlock, ...]:
    return (await memory.recall(RecallRequest(agent=agent, text=question, **more))).memories


def texts(blocks: tuple[MemoryBlock, ...]) -> str:
    return "\n".join(one.text for one in blocks)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
