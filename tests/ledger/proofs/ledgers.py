"""Ledgers for the proofs: turns that can be told apart, and what must be true of what is read.

A turn is made from a token and nothing else, so whoever reads a line knows the bytes it must have.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from memplane.ledger.anchors import read_anchors
from memplane.ledger.chain_verification import LedgerReport, verify_ledger
from memplane.ledger.entry import Entry, JsonReply, Turn, make_entry, recompute_entry_id
from memplane.ledger.folder import AgentFolder
from memplane.ledger.reader import read_entries
from memplane.ledger.writer import Ledger, LedgerOptions

AGENT: Final = "analyst"
NOON: Final = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
_MEMORY: Final = Path("/dev/shm")


def noon() -> datetime:
    """A clock that stands still, at the time of every turn."""
    return NOON


def always_the_same() -> random.Random:
    return random.Random(0)  # noqa: S311 - a test


def same(turn: Turn) -> Turn:
    return turn


def turn_of(token: str, agent: str = AGENT, *, ts: datetime = NOON) -> Turn:
    body = b'{"token":"%s"}' % token.encode()
    return Turn(
        ts=ts,
        agent=agent,
        path="/v1",
        requested_model="m",
        effective_provider="p",
        effective_model="m",
        status_code=200,
        stream=False,
        request_original=body,
        request_effective=b"{}",
        reply=JsonReply(b""),
    )


@cache
def line_of(token: str, agent: str = AGENT) -> bytes:
    return make_entry(turn_of(token, agent)).line


def token_of(line: bytes) -> str:
    try:
        return str(json.loads(line)["request_original"]["token"])
    except (ValueError, KeyError, TypeError):
        return f"?{line[:40]!r}"


def a_ledger(root: Path, options: LedgerOptions | None = None) -> Ledger:
    return Ledger(root, scrub=same, clock=noon, options=options)


async def append_all(
    root: Path, turns: Collection[Turn], options: LedgerOptions | None = None
) -> list[Entry]:
    """Append turns one after the other, and close in order."""
    ledger = a_ledger(root, options)
    try:
        return [await ledger.append(turn) for turn in turns]
    finally:
        await ledger.close()


def record(root: Path, *turns: Turn, options: LedgerOptions | None = None) -> list[Entry]:
    return asyncio.run(append_all(root, turns, options))


def record_tokens(root: Path, *tokens: str, options: LedgerOptions | None = None) -> None:
    record(root, *map(turn_of, tokens), options=options)


def lines_in(root: Path, agent: str = AGENT) -> list[bytes]:
    return [line for _, line in read_entries(AgentFolder(root, agent))]


def tokens_in(root: Path, agent: str = AGENT) -> list[str]:
    return [token_of(line) for line in lines_in(root, agent)]


def checked(root: Path, agent: str = AGENT) -> LedgerReport:
    return verify_ledger(AgentFolder(root, agent), read_anchors(root).get(agent))


def quarantined(root: Path, agent: str = AGENT) -> list[bytes]:
    folder = AgentFolder(root, agent).quarantine
    return [path.read_bytes() for path in sorted(folder.glob("*"))] if folder.is_dir() else []


def problems_of(
    root: Path, agent: str = AGENT, *, acked: Collection[str], attempted: Collection[str]
) -> list[str]:
    """Say what is wrong with what is read: acknowledged turns once each, and nothing invented."""
    found: list[str] = []
    times: Counter[str] = Counter()
    for identifier, line in read_entries(AgentFolder(root, agent)):
        token = token_of(line)
        times[token] += 1
        if recompute_entry_id(line) != identifier:
            found.append(f"{token} has the id of other bytes")
        if line != line_of(token, agent):
            found.append(f"{token} was altered")
    found += [f"{token} is there {count} times" for token, count in times.items() if count > 1]
    found += [f"{token} was acknowledged and is lost" for token in acked if not times[token]]
    found += [f"{token} was invented" for token in times.keys() - set(attempted)]
    return sorted(found)


def verdicts(root: Path, agent: str = AGENT) -> list[str]:
    """Say what a check of the whole ledger finds."""
    report = checked(root, agent)
    return [f"{one.file} at {one.offset}: {one.problem} {one.found}" for one in report.findings]


def image_of(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder, by its relative path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def write_image(image: dict[str, bytes], folder: Path) -> None:
    for name, data in image.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def kept_aside(root: Path) -> list[Path]:
    """Return files that were begun beside their names and never renamed."""
    return [path for path in root.rglob("*") if "-new-" in path.name]


@contextmanager
def fast_folder() -> Iterator[Path]:
    """A folder in memory where there is one: proofs with thousands of ledgers need no disk."""
    with TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as name:
        yield Path(name)
