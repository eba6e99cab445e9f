"""`memplane cloud migrate`: local state, to the container."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, NamedTuple, TextIO

if TYPE_CHECKING:
    from pathlib import Path

    from memplane.service.backends import BlobBackend
    from memplane.settings import Settings
    from memplane.storage.migration import MigrationReport


def add_migration_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `cloud migrate`."""
    parser.add_argument(
        "--from",
        dest="folders",
        action="append",
        metavar="FOLDER[=PREFIX]",
        help="a folder to copy, and the prefix of its keys; by default the data folder, an "
        "existing ~/.entraclaw/data, and the folder of documents",
    )
    parser.add_argument("--source", action="append", help="only this subtree; may be repeated")
    parser.add_argument(
        "--join",
        default="",
        metavar="NAME",
        help="its persona documents belong to that project of the container",
    )
    parser.add_argument(
        "--allow-secrets",
        action="append",
        metavar="KEY",
        help="what is at or below this key may go, however it looks; may be repeated",
    )
    parser.add_argument("--yes", action="store_true", help="upload without asking")
    parser.add_argument("--json", action="store_true", help="for machines")


async def migrate(arguments: argparse.Namespace, settings: Settings) -> int:
    """Copy local state into the container, after asking on a terminal."""
    from memplane.cli import EXIT_OK

    if sys.stdin.isatty() and not arguments.yes and not await confirm_upload(arguments, settings):
        print("nothing was uploaded", file=sys.stderr)
        return EXIT_OK
    report = await run_migration(arguments, settings)
    return print_report(report, as_json=arguments.json)


async def confirm_upload(arguments: argparse.Namespace, settings: Settings) -> bool:
    """Say how much would be uploaded, and ask; nothing to upload needs no question."""
    import asyncio

    from memplane.cli.cloud_console import ask

    files, size = await asyncio.to_thread(_measure, await _places(arguments, settings))
    if not files:
        return True
    counted = "1 file" if files == 1 else f"{files} files"
    return await ask(
        f"This will upload about {-(-size // 1000)} KB of local memory and data, persona "
        f"included ({counted}). Continue? [y/N]"
    )


async def run_migration(arguments: argparse.Namespace, settings: Settings) -> MigrationReport:
    """Copy, in a thread: it uses the synchronous backend."""
    import asyncio

    return await asyncio.to_thread(
        _copy, arguments, await _places(arguments, settings, claim=True)
    )


class _Places(NamedTuple):
    """What is copied from where, and to where."""

    settings: Settings
    folders: list[tuple[Path | str, str]]
    sources: list[str] | None
    persona_prefix: str


async def _places(
    arguments: argparse.Namespace, settings: Settings, *, claim: bool = False
) -> _Places:
    folders = _usual_folders(settings)
    if arguments.folders:
        folders = [
            (folder, prefix)
            for folder, _, prefix in (given.partition("=") for given in arguments.folders)
        ]
    placed, persona_prefix = await _with_own_prefix(arguments, settings, folders, claim=claim)
    return _Places(settings, placed, arguments.source, persona_prefix)


def _usual_folders(settings: Settings) -> list[tuple[Path | str, str]]:
    """List the folders that an agent's state is in: data, an older system's, documents."""
    from pathlib import Path

    from memplane.service.composition.files import find_persona_folder

    folders = (
        (settings.data_dir, ""),
        (Path("~/.entraclaw/data").expanduser(), ""),
        (find_persona_folder(settings).root, settings.persona.prefix),
    )
    return [(folder, prefix) for folder, prefix in folders if folder.is_dir()]


def _measure(places: _Places) -> tuple[int, int]:
    """Count the files that are missing in the container, and their bytes."""
    from memplane.storage.migration import plan_migration

    with _open_backend(places.settings) as backend:
        plan = plan_migration(
            places.folders,
            backend,
            sources=places.sources,
            persona_prefix=places.persona_prefix,
        )
        return len(plan.missing), plan.count_bytes()


def _copy(arguments: argparse.Namespace, places: _Places) -> MigrationReport:
    from memplane.service.composition.persona import upload_refusal
    from memplane.storage.migration import copy_tree

    refuse = upload_refusal(
        places.settings, prefix=places.persona_prefix, allowed=arguments.allow_secrets or ()
    )
    with _open_backend(places.settings) as backend:
        return copy_tree(
            places.folders,
            backend,
            refuse=refuse,
            sources=places.sources,
            persona_prefix=places.persona_prefix,
            progress=_progress,
        )


def _open_backend(settings: Settings) -> BlobBackend:
    """Open the container without a cache, so that it is the container that is read."""
    from memplane.service.backends import BlobBackend
    from memplane.service.composition.storage import S3Storage, configured_container

    storage = configured_container(settings)
    if isinstance(storage, S3Storage):
        return BlobBackend(storage.s3, cache=storage.cache)
    return BlobBackend(storage.blob, cache=storage.cache, identity=storage.identity)


async def _with_own_prefix(
    arguments: argparse.Namespace,
    settings: Settings,
    folders: list[tuple[Path | str, str]],
    *,
    claim: bool,
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
            own = await _prefix_of(arguments, settings, Path(folder), claim=claim)
            placed.append((folder, own + prefix.removeprefix(prefix.partition("/")[0])))
            continue
        placed.append((folder, given))
        if not prefix and any((Path(folder) / name).is_dir() for name in below):
            persona_prefix = await _prefix_of(arguments, settings, None, claim=claim)
    return placed, persona_prefix


async def _prefix_of(
    arguments: argparse.Namespace, settings: Settings, folder: Path | None, *, claim: bool
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
    return await persona_prefix(
        settings, asking.root, asking.project(), join=arguments.join, claim=claim
    )


def _progress(done: int, total: int, key: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{done}/{total} {key[:60]}", end="", file=sys.stderr, flush=True)
    elif done == total or done % 100 == 0:
        print(f"{done}/{total}", file=sys.stderr)


def print_report(
    report: MigrationReport, *, as_json: bool = False, file: TextIO | None = None
) -> int:
    """Print what was done, and return the exit code."""
    from memplane.cli import EXIT_FAILED, EXIT_OK, EXIT_USAGE
    from memplane.cli.output import colour_text, print_json

    if sys.stderr.isatty():
        print(file=sys.stderr)
    if as_json:
        print_json(report)
    else:
        print(f"copied {report.copied} objects ({report.bytes_copied} bytes)", file=file)
        print(f"verified {report.verified}, skipped {report.skipped} that were there", file=file)
        for path, reason in report.errors:
            print(colour_text(f"  {path}: {reason}", "red"), file=file)
        for path, reason in report.held:
            print(colour_text(f"  held back: {path}: {reason}", "yellow"), file=file)
        if report.held:
            print(
                f"held back {len(report.held)}, which only this machine has; see `--help`",
                file=file,
            )
        print("the local files are as they were", file=file)
    if report.errors:
        return EXIT_USAGE
    return EXIT_FAILED if report.held else EXIT_OK
