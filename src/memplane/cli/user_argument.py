"""Which end user of an agent a command is about."""

from __future__ import annotations

import argparse


def add_user_argument(parser: argparse.ArgumentParser, *, every: bool = True) -> None:
    """Declare `--user` and, for commands that read, `--all-users`."""
    whose = parser.add_mutually_exclusive_group()
    whose.add_argument(
        "--user",
        metavar="U",
        help="an end user of the agent; left out, what all of them share",
    )
    if every:
        whose.add_argument(
            "--all-users", action="store_true", help="all end users, and what they share"
        )
