"""`memplane memory backfill|forget`: the names that operators of pods know."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memplane.settings import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    from memplane.cli import COMMANDS, backfill, forget

    actions = parser.add_subparsers(dest="action", required=True)
    backfill.configure(actions.add_parser("backfill", help=COMMANDS["backfill"]))
    forget.configure(actions.add_parser("forget", help=COMMANDS["forget"]))


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Do what the command of that name does."""
    from memplane.cli import backfill, forget

    action = {"backfill": backfill.run, "forget": forget.run}[arguments.action]
    return await action(arguments, settings)
