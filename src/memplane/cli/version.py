"""`memplane version`: which memplane this is, and what it runs on."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memplane.settings import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--json", action="store_true", help="for machines")


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print the versions."""
    import platform

    from memplane.cli import EXIT_OK
    from memplane.cli.output import print_json
    from memplane.version import VERSION

    del settings
    python, system = platform.python_version(), f"{platform.system()} {platform.machine()}"
    if arguments.json:
        print_json({"memplane": VERSION, "python": python, "system": system})
    else:
        print(f"memplane {VERSION} (Python {python}, {system})")
    return EXIT_OK
