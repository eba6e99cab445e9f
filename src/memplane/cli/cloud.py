"""`memplane cloud`: moving state to a container."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memplane.objects.migration import MigrationReport
    from memplane.settings import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True)
    migrate = actions.add_parser(
        "migrate", help="copy local state into the container; what is there already is skipped"
    )
    migrate.add_argument(
        "--from",
        dest="folders",
        action="append",
        metavar="FOLDER[=PREFIX]",
        help="a folder to copy, and the prefix of its keys; by default the data folder",
    )
    migrate.add_argument("--source", action="append", help="only this subtree; may be repeated")
    migrate.add_argument("--json", action="store_true", help="for machines")


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Migrate, in a thread: it uses the synchronous backend."""
    import asyncio
    from pathlib import Path

    from memplane.assemble.storage import configured_container
    from memplane.backends import BlobBackend

    storage = configured_container(settings)
    folders: list[tuple[Path | str, str]] = [(settings.data_dir, "")]
    if arguments.folders:
        folders = [
            (folder, prefix)
            for folder, _, prefix in (one.partition("=") for one in arguments.folders)
        ]

    def migrate() -> MigrationReport:
        from memplane.objects.migration import migrate_local_to_backend

        with BlobBackend(storage.blob, cache=storage.cache) as backend:
            return migrate_local_to_backend(
                folders, backend, sources=arguments.source, progress=_progress
            )

    report = await asyncio.to_thread(migrate)
    return _tell(report, as_json=arguments.json)


def _progress(done: int, total: int, key: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{done}/{total} {key[:60]}", end="", file=sys.stderr, flush=True)
    elif done == total or done % 100 == 0:
        print(f"{done}/{total}", file=sys.stderr)


def _tell(report: MigrationReport, *, as_json: bool) -> int:
    from memplane.cli import MISUSED, OK
    from memplane.cli.show import coloured, print_json

    if sys.stderr.isatty():
        print(file=sys.stderr)
    if as_json:
        print_json(report)
    else:
        print(f"copied {report.copied} objects ({report.bytes_copied} bytes)")
        print(f"verified {report.verified}, skipped {report.skipped} that were there")
        for path, reason in report.errors:
            print(coloured(f"  {path}: {reason}", "red"))
        print("the local files are as they were")
    return MISUSED if report.errors else OK
