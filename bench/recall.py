"""Recall in process: small and large memories, long questions, and what a turn costs."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.memory import write_ledger
from bench.row import Row
from bench.talking import Talk
from memplane.episodes.api_types import RecallRequest
from memplane.episodes.entry_parser import parse_entry
from memplane.redaction.redactor import Redactor
from memplane.service.client import Client
from memplane.service.operations.memory import recall
from memplane.settings import Settings

SIZES = {10_000: 0.005, 1_000_000: 0.015}
GROWS = 3.0
QUESTIONS = 500
WORDS = 30
RETAIN_CPU = 0.0004
RETAINED = 4_000

# A process of its own for each size, so that its memory is that size's.
_MEASURE = """
import asyncio, json, sys
from pathlib import Path
from bench.recall import measured
print(json.dumps(asyncio.run(measured(Path(sys.argv[1]), int(sys.argv[2])))))
"""


def run() -> Iterator[Row]:
    yield from _cost_of_a_turn()
    medians: list[float] = []
    for episodes, goal in SIZES.items():
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
            write_ledger(Path(folder), Talk(2), "agent", episodes)
            found = _in_a_process(Path(folder), episodes)
        medians.append(found["p50"])
        yield Row(
            f"recall in process, {episodes:,} episodes, {WORDS}-word questions, p99",
            f"{found['p99'] * 1000:.1f} ms (p50 {found['p50'] * 1000:.1f} ms)",
            f"<= {goal * 1000:.0f} ms",
            found["p99"] <= goal,
        )
        yield Row(
            f"database and index of {episodes:,} episodes, and memory of the process",
            f"{found['disk'] / episodes:,.0f} bytes each, {found['memory'] / (1 << 20):,.0f} MiB",
            "-",
            None,
        )
    growth = medians[-1] / medians[0]
    yield Row(
        f"cost of a recall from {min(SIZES):,} to {max(SIZES):,} episodes",
        f"{growth:.1f} x",
        f"<= {GROWS:.0f} x",
        growth <= GROWS,
    )


def _cost_of_a_turn() -> Iterator[Row]:
    """Make what is kept of a turn: redaction, the episode, its terms and signs."""
    talk, redactor = Talk(4), Redactor(key=b"bench")
    turns = [json.dumps(talk.entry("a", number)).encode() for number in range(RETAINED)]
    started = time.process_time()
    for turn in turns:
        parse_entry(turn, redactor.json)
    each = (time.process_time() - started) / RETAINED
    yield Row(
        "CPU for what is kept of a turn: secrets, episode, terms, signs",
        f"{each * 1000:.2f} ms",
        f"<= {RETAIN_CPU * 1000:.1f} ms",
        each <= RETAIN_CPU,
    )


def _in_a_process(home: Path, episodes: int) -> dict[str, float]:
    asked = subprocess.run(
        [sys.executable, "-c", _MEASURE, str(home), str(episodes)],
        env={"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(Path.cwd())},
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, float] = json.loads(asked.stdout)
    return found


async def measured(home: Path, episodes: int) -> dict[str, float]:
    """Take a ledger in, ask, and return the figures."""
    home.chmod(0o700)
    talk = Talk(3)
    async with Client(Settings(home=home, keep_memory_local=True)) as plane:
        await _settled(plane, episodes)
        took: list[float] = []
        for _ in range(QUESTIONS + 50):
            ask = RecallRequest(
                agent="agent", text=f"What did we say about {talk.said(WORDS - 5)}?"
            )
            started = time.perf_counter()
            await plane.call(recall, ask)
            took.append(time.perf_counter() - started)
        memory = _resident()
    files = [home / "memplane.db", *(home / "index").rglob("*")]
    disk = sum(file.stat().st_size for file in files if file.is_file())
    del took[:50]
    took.sort()
    p50, p99 = took[len(took) // 2], took[int(len(took) * 0.99)]
    return {"p50": p50, "p99": p99, "disk": disk, "memory": memory}


async def _settled(plane: Client, episodes: int) -> None:
    await plane.call(recall, RecallRequest(agent="agent", text="the first question opens memory"))
    while True:
        memory = (await plane.status()).memory
        assert memory is not None
        left = memory.busy or memory.underived or memory.unindexed
        if not left and memory.episodes >= episodes // 2:
            return
        await asyncio.sleep(0.2)


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
