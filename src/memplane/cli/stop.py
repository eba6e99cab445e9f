"""`memplane stop`: stop the memplane that serves this home."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from memplane.cli.number_argument import NumberRange

if TYPE_CHECKING:
    from memplane.settings import Settings

_TIMEOUT_S: Final = 60


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--timeout",
        type=NumberRange(0, whole=False),
        default=_TIMEOUT_S,
        metavar="SECONDS",
        help="wait so long for turns under way and for what is still to be written",
    )
    parser.epilog = "Exit codes: 0 it is stopped, or was not running; 3 it still works."


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Stop it, and wait until it has finished its work."""
    from memplane.cli import EXIT_OK
    from memplane.home import Home
    from memplane.service.server_process import stop_server

    stopped = await stop_server(Home(settings.home), arguments.timeout)
    if stopped is None:
        print(f"memplane is not running with {settings.home} as its home")
    else:
        print(f"memplane at {stopped.address} is stopped")
    return EXIT_OK
