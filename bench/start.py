"""How long `memplane --help` takes, against a Python that does nothing."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.row import Row

ROUNDS = 25
MOST = 6.0


def run() -> Iterator[Row]:
    program = str(Path(sys.executable).with_name("memplane"))
    nothing: list[float] = []
    helped: list[float] = []
    for _ in range(ROUNDS):  # in turns, so that a busy moment hits both
        nothing.append(seconds([sys.executable, "-c", "pass"]))
        helped.append(seconds([program, "--help"]))
    base, ours = statistics.median(nothing), statistics.median(helped)
    ratio = ours / base
    yield Row(
        "memplane --help against python -c pass, median",
        f"{ratio:.1f} x ({ours * 1000:.0f} ms / {base * 1000:.0f} ms)",
        f"<= {MOST:.0f} x",
        ratio <= MOST,
    )


def seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began
