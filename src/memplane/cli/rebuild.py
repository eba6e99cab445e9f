"""`memplane rebuild`: derive all memory again, and compare."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memplane.episodes.api_types import RebuildResult
    from memplane.settings import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--json", action="store_true", help="for machines")


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Derive everything again from the ledgers; exit 1 when something differed."""
    from memplane.cli import EXIT_FAILED, EXIT_OK
    from memplane.cli.output import print_json
    from memplane.service.client import Client
    from memplane.service.operations import memory

    async with Client(settings) as client:
        outcome = await client.call(memory.rebuild)
    if arguments.json:
        print_json({"same": outcome.same, "tables": outcome.tables})
    else:
        _print(outcome)
    return EXIT_OK if outcome.same else EXIT_FAILED


def _print(outcome: RebuildResult) -> None:
    from memplane.cli.output import colour_text

    for one in outcome.tables:
        verdict = "same" if one.same else f"differed ({one.before:,} rows before)"
        shown = colour_text(verdict, "green" if one.same else "red")
        print(f"  {one.name:<12} {one.rows:>9,} rows  {one.digest[:16]}  {shown}")
    if outcome.same:
        print("memory is what the ledgers say")
    else:
        print("memory was not what the ledgers say; it was replaced by what they say")
