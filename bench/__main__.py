"""Run every bench, or those that are named: `python -m bench [--short] [NAME …]`."""

from __future__ import annotations

import sys
from functools import partial

from bench import (
    appends,
    ledger,
    manifest,
    memories,
    memory,
    persona,
    proxy,
    pull,
    recall,
    redaction,
    start,
)

BENCHES = {
    "start": start.run,
    "ledger": ledger.run,
    "redaction": redaction.run,
    "memory": memory.run,
    "recall": recall.run,
    "memories": memories.run,
    "proxy": proxy.run,
    "pull": pull.run,
    "appends": appends.run,
    "manifest": manifest.run,
    "persona": persona.run,
}
SHORTER = {"proxy": partial(proxy.run, short=True)}


def main() -> int:
    given = sys.argv[1:]
    wanted = [name for name in given if name != "--short"] or list(BENCHES)
    benches = BENCHES | SHORTER if "--short" in given else BENCHES
    missed = 0
    for name in wanted:
        for row in benches[name]():
            missed += row.reached is False
            verdict = {True: "reached", False: "MISSED", None: ""}[row.reached]
            print(f"{verdict:<8} {row.what:<58} {row.measured:<40} goal {row.goal}", flush=True)
    return 1 if missed else 0


raise SystemExit(main())
