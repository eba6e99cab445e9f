"""`memplane doctor`: check this machine, with a verdict and a remedy for each finding."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memplane.settings import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--json", action="store_true", help="for machines")


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Run every check; exit 1 when one failed."""
    import asyncio

    from memplane.checks import Verdict, examine, examine_documents
    from memplane.cli import FAILED, OK
    from memplane.cli.persona_asking import folder_here
    from memplane.cli.show import coloured, harmless, print_json

    root = folder_here(settings).root
    documents = await asyncio.to_thread(examine_documents, settings, root)
    findings = [*await examine(settings), *documents]
    if arguments.json:
        print_json(findings)
    else:
        colours = {Verdict.OK: "green", Verdict.WARNING: "yellow", Verdict.FAILED: "red"}
        for one in findings:
            print(
                f"{coloured(one.verdict.ljust(7), colours[one.verdict])} {one.name}: "
                f"{harmless(one.found)}"
            )
            if one.remedy:
                print(f"        → {one.remedy}")
    return FAILED if any(one.verdict is Verdict.FAILED for one in findings) else OK
