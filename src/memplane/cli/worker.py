"""`memplane worker`: started by hooks and commands, not by people."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from memplane.cli.number_argument import NumberRange

if TYPE_CHECKING:
    from memplane.settings import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--quiet-seconds", type=NumberRange(0, whole=False), help="leave after so long"
    )


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Work until all is quiet."""
    import logging

    from memplane.cli import EXIT_OK
    from memplane.kit.retry_clock import RetryClock
    from memplane.service.worker import IDLE_TIMEOUT_S, run_worker

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    quiet = IDLE_TIMEOUT_S if arguments.quiet_seconds is None else arguments.quiet_seconds
    await run_worker(settings, pacing=RetryClock(), quiet_seconds=quiet)
    return EXIT_OK
