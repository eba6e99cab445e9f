"""`memplane rebuild`: derive all memory again, and compare."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memplane.memory.contract import Rebuilt
    from memplane.settings import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--json", action="store_true", help="for machines")


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Derive everything again from the ledgers; exit 1 when something differed."""
    from memplane.assemble.plane import open_plane
    from memplane.cli import FAILED, OK
    from memplane.cli.show import print_json

    async with open_plane(settings) as plane:
        outcome = await plane.rebuild()
    if arguments.json:
        print_json({"same": outcome.same, "tables": outcome.tables})
    else:
        _print(outcome)
    return OK if outcome.same else FAILED


def _print(outcome: Rebuilt) -> None:
    from memplane.cli.show import coloured

    for one in outcome.tables:
        verdict = "same" if one.same else f"differed ({one.before:,} rows before)"
        shown = coloured(verdict, "green" if one.same else "red")
        print(f"  {one.name:<12} {one.rows:>9,} rows  {one.digest[:16]}  {shown}")
    if outcome.same:
        print("memory is what the ledgers say")
    else:
        print("memory was not what the ledgers say; it was replaced by what they say")
