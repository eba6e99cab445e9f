"""Which end user of an agent a command is about."""

from __future__ import annotations

import argparse


def parse_user(text: str) -> str:
    """Read an end user's name.

    Raises:
        ArgumentTypeError: Nobody can have that name.
    """
    from memplane.auth.memory_scope import check_user
    from memplane.errors import InvalidRequest

    try:
        return check_user(text)
    except InvalidRequest as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_user_argument(parser: argparse.ArgumentParser, *, every: bool = True) -> None:
    """Declare `--user` and, for commands that read, `--all-users`."""
    whose = parser.add_mutually_exclusive_group()
    whose.add_argument(
        "--user",
        type=parse_user,
        metavar="U",
        help="an end user of the agent; left out, what all of them share",
    )
    if every:
        whose.add_argument(
            "--all-users", action="store_true", help="all end users, and what they share"
        )
