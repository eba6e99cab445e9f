"""`memplane worker`: started by hooks and commands, not by people."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memplane.settings import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--quiet-seconds", type=float, default=None, help="leave after so long")


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Work until all is quiet."""
    import logging

    from memplane.cli import OK
    from memplane.objects.pacing import Pacing
    from memplane.worker import QUIET_SECONDS, work

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    quiet = QUIET_SECONDS if arguments.quiet_seconds is None else arguments.quiet_seconds
    await work(settings, pacing=Pacing(), quiet_seconds=quiet)
    return OK
