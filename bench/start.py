"""How long `memplane --help` takes, and how much work `memplane mcp` is until it answers."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.row import Row

ROUNDS = 25
MOST = 6.0
MCP_ROUNDS = 15
MOST_MCP_CPU_S = 0.4
FIRST_REQUEST = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    b'"capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}\n'
)


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

    yield _mcp_row(program)


def _mcp_row(program: str) -> Row:
    """Measure the CPU that a client waits for, with the end of the process."""
    spent: list[float] = []
    with tempfile.TemporaryDirectory() as home:
        command = [program, "--home", f"{home}/home", "mcp", "--agent", "me"]
        for _ in range(MCP_ROUNDS):
            before = cpu_of_children()
            subprocess.run(command, check=True, capture_output=True, input=FIRST_REQUEST)
            spent.append(cpu_of_children() - before)
    middle = statistics.median(spent)
    return Row(
        "memplane mcp, CPU from start to its first answer and its end, median",
        f"{middle * 1000:.0f} ms",
        f"<= {MOST_MCP_CPU_S * 1000:.0f} ms",
        middle <= MOST_MCP_CPU_S,
    )


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began
