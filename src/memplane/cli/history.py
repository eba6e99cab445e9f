"""`memplane history`: the ledger of what happened."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memplane.settings import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True)
    verify = actions.add_parser(
        "verify", help="check a ledger file: ids, damage, repeated lines; exit 1 on any finding"
    )
    verify.add_argument("--file", required=True, metavar="F", help="any history.jsonl")
    verify.add_argument("--json", action="store_true", help="for machines")


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Check the file."""
    del settings
    import asyncio
    from pathlib import Path

    from memplane.cli import FAILED, OK
    from memplane.cli.show import coloured, print_json
    from memplane.errors import LedgerError
    from memplane.ledger.lines import lines_of
    from memplane.ledger.verify import FileReport, verify_lines

    def check() -> FileReport:
        try:
            with Path(arguments.file).open("rb") as file:
                return verify_lines(lines_of(file))
        except OSError as error:
            raise LedgerError(f"{arguments.file} cannot be read: {error.strerror}") from error

    report = await asyncio.to_thread(check)
    if arguments.json:
        print_json(report)
    else:
        for one in report.findings:
            place = f"line {one.line} at byte {one.offset}"
            print(f"{coloured(one.problem, 'red')}: {place}: {one.found}")
        legacy = f", {report.legacy} of them without an id" if report.legacy else ""
        print(f"{report.entries} entries as recorded{legacy}; {len(report.findings)} findings")
    return FAILED if report.findings else OK
