"""Run every bench, or those that are named: `python -m bench [--short] [NAME …]`."""

from __future__ import annotations

import platform
import statistics
import sys
import time
from functools import partial

from bench import (
    appends,
    hooks,
    ledger,
    manifest,
    matching,
    memories,
    memory,
    persona,
    proxy,
    pull,
    recall,
    redaction,
    start,
    users,
)

BENCHES = {
    "start": start.run,
    "hooks": hooks.run,
    "ledger": ledger.run,
    "redaction": redaction.run,
    "memory": memory.run,
    "recall": recall.run,
    "memories": memories.run,
    "users": users.run,
    "matching": matching.run,
    "proxy": proxy.run,
    "pull": pull.run,
    "appends": appends.run,
    "manifest": manifest.run,
    "persona": persona.run,
}
SHORTER = {"proxy": partial(proxy.run, short=True)}
_LOOPS = 15


def pace() -> str:
    """Say how fast Python is at this moment: a shared machine is twice as fast in other hours."""
    took: list[float] = []
    for _ in range(_LOOPS):
        began = time.perf_counter()
        sum(len(str(number)) for number in range(50_000))
        took.append(time.perf_counter() - began)
    middle = statistics.median(took) * 1000
    return f"Python {platform.python_version()}, a loop of 50,000 steps takes {middle:.1f} ms now"


def main() -> int:
    given = sys.argv[1:]
    wanted = [name for name in given if name != "--short"] or list(BENCHES)
    benches = BENCHES | SHORTER if "--short" in given else BENCHES
    missed = 0
    for name in wanted:
        print(f"{name}: {pace()}", flush=True)
        for row in benches[name]():
            missed += row.reached is False
            verdict = {True: "reached", False: "MISSED", None: ""}[row.reached]
            print(f"{verdict:<8} {row.what:<58} {row.measured:<40} goal {row.goal}", flush=True)
    return 1 if missed else 0


raise SystemExit(main())
