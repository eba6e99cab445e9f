"""`memplane cloud`: moving state to a container."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from memplane.settings import Settings
    from memplane.storage.migration import MigrationReport


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True)
    migrate = actions.add_parser(
        "migrate",
        help="copy local state into the container; what is there already is skipped",
        description="Copy local state into the container. What is there already is skipped. What "
        "seems to hold a secret, and a persona document that sync would not publish, is held back "
        "and stays on this machine. Exit code: 0 all copied, 1 something was held back, 2 "
        "something could not be copied.",
    )
    migrate.add_argument(
        "--from",
        dest="folders",
        action="append",
        metavar="FOLDER[=PREFIX]",
        help="a folder to copy, and the prefix of its keys; by default the data folder",
    )
    migrate.add_argument("--source", action="append", help="only this subtree; may be repeated")
    migrate.add_argument(
        "--join",
        default="",
        metavar="NAME",
        help="its persona documents belong to that project of the container",
    )
    migrate.add_argument(
        "--allow-secrets",
        action="append",
        metavar="KEY",
        help="what is at or below this key may go, however it looks; may be repeated",
    )
    migrate.add_argument("--json", action="store_true", help="for machines")


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Migrate, in a thread: it uses the synchronous backend."""
    import asyncio

    from memplane.service.backends import BlobBackend
    from memplane.service.composition.storage import configured_container

    storage = configured_container(settings)
    folders: list[tuple[Path | str, str]] = [(settings.data_dir, "")]
    if arguments.folders:
        folders = [
            (folder, prefix)
            for folder, _, prefix in (one.partition("=") for one in arguments.folders)
        ]
    folders, persona_prefix = await _with_own_prefix(arguments, settings, folders)

    def migrate() -> MigrationReport:
        from memplane.service.composition.persona import upload_refusal
        from memplane.storage.migration import copy_tree

        refuse = upload_refusal(
            settings, prefix=persona_prefix, allowed=arguments.allow_secrets or ()
        )
        with BlobBackend(storage.blob, cache=storage.cache, identity=storage.identity) as backend:
            return copy_tree(
                folders,
                backend,
                refuse=refuse,
                sources=arguments.source,
                persona_prefix=persona_prefix,
                progress=_progress,
            )

    report = await asyncio.to_thread(migrate)
    return _print_result(report, as_json=arguments.json)


async def _with_own_prefix(
    arguments: argparse.Namespace, settings: Settings, folders: list[tuple[Path | str, str]]
) -> tuple[list[tuple[Path | str, str]], str]:
    """Send persona documents where `persona sync` has them: to the prefix of their project.

    Returns the folders with that prefix in place of the plain one, and the prefix for documents
    in a tree that has none.
    """
    from pathlib import Path

    from memplane.storage.migration import PERSONA_FOLDERS, PERSONA_PREFIX

    plain, persona_prefix = settings.persona.prefix, PERSONA_PREFIX
    wanted = {
        source.strip("/").partition("/")[0] for source in arguments.source or PERSONA_FOLDERS
    }
    below = wanted.intersection(PERSONA_FOLDERS)
    placed: list[tuple[Path | str, str]] = []
    for folder, given in folders:
        prefix = given.strip("/")
        if prefix.partition("/")[0] in {plain, PERSONA_PREFIX}:
            own = await _prefix_of(arguments, settings, Path(folder))
            placed.append((folder, own + prefix.removeprefix(prefix.partition("/")[0])))
            continue
        placed.append((folder, given))
        if not prefix and any((Path(folder) / name).is_dir() for name in below):
            persona_prefix = await _prefix_of(arguments, settings, None)
    return placed, persona_prefix


async def _prefix_of(
    arguments: argparse.Namespace, settings: Settings, folder: Path | None
) -> str:
    """Return the prefix of the project of a folder of documents, by default the usual folder."""
    from dataclasses import replace

    from memplane.cli.persona_request import PersonaRequest
    from memplane.service.composition.files import find_persona_folder
    from memplane.service.composition.persona import persona_prefix

    if folder is not None:
        chosen = replace(settings.persona, dir=folder)
        settings = replace(settings, persona=chosen)
    asking = PersonaRequest(arguments, settings, find_persona_folder(settings))
    return await persona_prefix(settings, asking.root, asking.project(), join=arguments.join)


def _progress(done: int, total: int, key: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{done}/{total} {key[:60]}", end="", file=sys.stderr, flush=True)
    elif done == total or done % 100 == 0:
        print(f"{done}/{total}", file=sys.stderr)


def _print_result(report: MigrationReport, *, as_json: bool) -> int:
    from memplane.cli import EXIT_FAILED, EXIT_OK, EXIT_USAGE
    from memplane.cli.output import colour_text, print_json

    if sys.stderr.isatty():
        print(file=sys.stderr)
    if as_json:
        print_json(report)
    else:
        print(f"copied {report.copied} objects ({report.bytes_copied} bytes)")
        print(f"verified {report.verified}, skipped {report.skipped} that were there")
        for path, reason in report.errors:
            print(colour_text(f"  {path}: {reason}", "red"))
        for path, reason in report.held:
            print(colour_text(f"  held back: {path}: {reason}", "yellow"))
        if report.held:
            print(f"held back {len(report.held)}, which only this machine has; see `--help`")
        print("the local files are as they were")
    if report.errors:
        return EXIT_USAGE
    return EXIT_FAILED if report.held else EXIT_OK
