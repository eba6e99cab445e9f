"""A ledger on a disk of 64 KiB of its own: `unshare -m python -m ... FOLDER SCENARIO MAX_BYTES`.

It prints as JSON what was acknowledged, what was refused, and what was wrong afterwards.
"""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

from memplane.ledger.writer import Ledger, LedgerOptions
from tests.ledger.proofs.ledgers import (
    a_ledger,
    append_all,
    kept_aside,
    problems_of,
    record_tokens,
    turn_of,
    verdicts,
)

ENOUGH = 1000


@dataclass(slots=True)
class Outcome:
    """What a ledger on a small disk answered, by what the disk was like at the time."""

    acked: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    refused: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    problems: list[str] = field(default_factory=list[str])


async def append(ledger: Ledger, outcome: Outcome, when: str, turns: int, refusals: int) -> None:
    """Append turns until so many were refused."""
    acked, refused = outcome.acked.setdefault(when, []), outcome.refused.setdefault(when, {})
    for number in range(turns):
        token = f"{when}-{number}"
        try:
            await ledger.append(turn_of(token))
        except Exception as error:  # noqa: BLE001 - the test judges it
            refused[token] = f"{type(error).__name__}: {error}"
            if len(refused) == refusals:
                return
        else:
            acked.append(token)


async def filled(folder: Path, options: LedgerOptions, outcome: Outcome) -> None:
    """The disk fills up, and then there is room again."""
    filler = folder / "filler"
    filler.write_bytes(bytes(16 << 10))
    ledger = a_ledger(folder / "ledger", options)
    await append(ledger, outcome, "full", ENOUGH, 10)
    filler.unlink()
    await append(ledger, outcome, "free", 5, 5)
    await ledger.close()


async def filled_and_left(folder: Path, options: LedgerOptions, outcome: Outcome) -> None:
    """The disk fills up and the process ends; the next one finds room."""
    filler = folder / "filler"
    filler.write_bytes(bytes(16 << 10))
    ledger = a_ledger(folder / "ledger", options)
    await append(ledger, outcome, "full", ENOUGH, 3)
    await ledger.close()
    filler.unlink()


async def read_only(folder: Path, options: LedgerOptions, outcome: Outcome) -> None:
    """The disk cannot be written to when the ledger opens its files, and later it can."""
    await append_all(folder / "ledger", [turn_of("before")], options)
    outcome.acked["before"] = ["before"]
    _mount("-o", "remount,ro", str(folder))
    ledger = a_ledger(folder / "ledger", options)
    await append(ledger, outcome, "full", 3, 3)
    outcome.problems += problems_of(folder / "ledger", acked=["before"], attempted=["before"])
    outcome.problems += verdicts(folder / "ledger")
    _mount("-o", "remount,rw", str(folder))
    await append(ledger, outcome, "free", 5, 5)
    await ledger.close()


SCENARIOS = {one.__name__: one for one in (filled, filled_and_left, read_only)}


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def main() -> None:
    logging.disable()
    folder, scenario, max_bytes = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    _mount("-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder))
    outcome, root = Outcome(), folder / "ledger"
    options = LedgerOptions(max_bytes=max_bytes)
    asyncio.run(SCENARIOS[scenario](folder, options, outcome))
    record_tokens(root, "after", options=options)
    acked = [*(token for tokens in outcome.acked.values() for token in tokens), "after"]
    tried = [*acked, *(token for tokens in outcome.refused.values() for token in tokens)]
    outcome.problems += problems_of(root, acked=acked, attempted=tried)
    outcome.problems += verdicts(root)
    outcome.problems += [f"{path.name} was left behind" for path in kept_aside(root)]
    print(json.dumps(asdict(outcome)))


if __name__ == "__main__":
    main()
