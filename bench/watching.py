"""What a process has used with those that it started, as the system counts it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_RESIDENT = re.compile(r"VmRSS:\s+(\d+) kB")


def resident(pid: int) -> int:
    """Return the bytes of memory that a process and its children have now."""
    found = _RESIDENT.search(Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return (int(found[1]) << 10) + sum(map(resident, _children(pid)))


def cpu_seconds(pid: int) -> float:
    """Return how long a process and its children have computed, in all of their threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(map(cpu_seconds, _children(pid)))


def _children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """Start processes on one core: they inherit what this thread may use."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def two_cores() -> tuple[int, int]:
    """Return a core for what is measured, and another for all that is around it."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[0], cores[-1]
