"""Run every bench, or those that are named: `python -m bench [NAME …]`."""

from __future__ import annotations

import sys

from bench import appends, ledger, manifest, memory, pull, recall, redaction, start

BENCHES = {
    "start": start.run,
    "ledger": ledger.run,
    "redaction": redaction.run,
    "memory": memory.run,
    "recall": recall.run,
    "pull": pull.run,
    "appends": appends.run,
    "manifest": manifest.run,
}


def main() -> int:
    wanted = sys.argv[1:] or list(BENCHES)
    missed = 0
    for name in wanted:
        for row in BENCHES[name]():
            missed += row.reached is False
            verdict = {True: "reached", False: "MISSED", None: ""}[row.reached]
            print(f"{verdict:<8} {row.what:<58} {row.measured:<40} goal {row.goal}", flush=True)
    return 1 if missed else 0


raise SystemExit(main())
