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

    from memplane.cli import EXIT_FAILED, EXIT_OK
    from memplane.cli.claude_install import find_claude_places
    from memplane.cli.output import colour_text, escape_text, print_json
    from memplane.service.checks import CheckVerdict, run_checks, run_document_checks
    from memplane.service.claude_status import check_claude_hooks
    from memplane.service.composition.files import find_persona_folder
    from memplane.service.identity_checks import run_identity_checks

    root = find_persona_folder(settings).root
    documents = await asyncio.to_thread(run_document_checks, settings, root)
    identity = await run_identity_checks(settings)
    hooks = await asyncio.to_thread(check_claude_hooks, find_claude_places(settings))
    findings = [*await run_checks(settings), *identity, *documents, *hooks]
    if arguments.json:
        print_json(findings)
    else:
        colours = {
            CheckVerdict.OK: "green",
            CheckVerdict.WARNING: "yellow",
            CheckVerdict.FAILED: "red",
        }
        for one in findings:
            print(
                f"{colour_text(one.verdict.ljust(7), colours[one.verdict])} {one.name}: "
                f"{escape_text(one.found)}"
            )
            if one.remedy:
                print(f"        → {one.remedy}")
    return EXIT_FAILED if any(one.verdict is CheckVerdict.FAILED for one in findings) else EXIT_OK
