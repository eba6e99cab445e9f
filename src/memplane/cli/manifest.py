"""`memplane manifest`: the index of the container, checked or made anew."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memplane.settings import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("verify", help="compare it with a complete listing; exit 1 if they differ")
    actions.add_parser("rebuild", help="make it anew from a complete listing")


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Verify or rebuild."""
    from memplane.cli import EXIT_FAILED, EXIT_OK
    from memplane.service.composition.storage import configured_container, open_container

    async with open_container(configured_container(settings)) as container:
        if arguments.action == "rebuild":
            entries = await container.rebuild()
            print(f"the manifest lists {len(entries)} objects")
            return EXIT_OK
        found = await container.verify()
    for word, keys in (("missing", found.missing), ("extra", found.extra), ("stale", found.stale)):
        for key in keys:
            print(f"{word:<8} {key}")
    print("run `memplane manifest rebuild`" if found else "the manifest agrees with the listing")
    return EXIT_FAILED if found else EXIT_OK
