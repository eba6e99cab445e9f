"""`memplane dashboard`: let a browser of this machine into the dashboard."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memplane.settings import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--open", action="store_true", help="open it in the browser right away")
    parser.add_argument("--json", action="store_true", help="for machines")


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Ask whoever runs `memplane up` for a code, and print where it is good."""
    import asyncio
    import webbrowser

    from memplane.cli import EXIT_OK
    from memplane.cli.output import print_json
    from memplane.service.composition.home import dashboard_address

    address = await dashboard_address(settings)
    if arguments.json:
        print_json({"address": address})
    else:
        print(address)
        print("It lets one browser in, once, within a minute", file=sys.stderr)
    if arguments.open and not await asyncio.to_thread(webbrowser.open, address):
        print("memplane dashboard: there is no browser to open it in", file=sys.stderr)
    return EXIT_OK
