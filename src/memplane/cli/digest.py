"""`memplane digest`: what happened in a session or on a day, without a model."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import date
    from pathlib import Path

    from memplane.persona.session_digest import SessionRecord
    from memplane.settings import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--session", metavar="ID", help="a session of Claude Code; its transcript")
    what.add_argument(
        "--day", type=_day, metavar="D", help="all sessions that began on a day; by default today"
    )
    parser.add_argument(
        "--agent", help="read the ledger of this agent, and not the project's transcripts"
    )
    parser.add_argument(
        "--write", action="store_true", help="put the blocks into the folder of documents"
    )


def _day(text: str) -> date:
    from datetime import date

    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a day: YYYY-MM-DD") from None


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print the digest, or write it."""
    from memplane.cli import EXIT_FAILED, EXIT_OK
    from memplane.service.composition.files import find_persona_folder

    records = _find_records(arguments, settings)
    if not records:
        if arguments.agent:
            await _expect_agent(arguments, settings)
        print(f"memplane digest: {_explain_nothing(arguments)}", file=sys.stderr)
        return EXIT_FAILED
    if not arguments.write:
        print(_render(records, settings), end="")
        return EXIT_OK
    return await _write(records, settings, find_persona_folder(settings).root)


async def _expect_agent(arguments: argparse.Namespace, settings: Settings) -> None:
    from memplane.cli.agent_argument import expect_agent, resolve_agent
    from memplane.service.client import Client

    async with Client(settings) as client:
        await expect_agent(resolve_agent(arguments, settings), client, settings)


def _find_records(arguments: argparse.Namespace, settings: Settings) -> list[SessionRecord]:
    from memplane.kit.clock import system_clock
    from memplane.service.session_digests import find_zone, read_ledger_day

    zone = find_zone(settings)
    day = arguments.day or system_clock().astimezone(zone).date()
    if arguments.agent:
        from memplane.cli.agent_argument import resolve_agent

        found = read_ledger_day(settings, resolve_agent(arguments, settings), day)
        wanted = arguments.session
        return [record for record in found if not wanted or record.session == wanted]
    found = _read_transcripts(arguments, settings)
    if not arguments.session:
        found = [record for record in found if record.started_at.astimezone(zone).date() == day]
    return sorted(found, key=lambda record: record.started_at)


def _read_transcripts(arguments: argparse.Namespace, settings: Settings) -> list[SessionRecord]:
    from memplane.cli.claude_import import find_transcript_folder, find_transcripts
    from memplane.service.session_digests import list_transcripts, make_scrub, read_transcript

    scrub = make_scrub(settings)
    if arguments.session:
        paths = [path for path in find_transcripts() if path.stem == arguments.session]
    else:
        paths = list_transcripts(find_transcript_folder())
    read = (read_transcript(path, scrub) for path in paths)
    return [record for record in read if record is not None]


def _explain_nothing(arguments: argparse.Namespace) -> str:
    if arguments.session:
        return f"there is no transcript of a session {arguments.session} with a prompt in it"
    place = f"the ledger of {arguments.agent}" if arguments.agent else "this project's transcripts"
    return f"there is no session of {arguments.day or 'today'} in {place}"


def _render(records: list[SessionRecord], settings: Settings) -> str:
    """Return the digests of the records' days, one after the other."""
    from memplane.persona.session_digest import digest_key, put_block, synthesize_block
    from memplane.service.session_digests import find_zone

    zone = find_zone(settings)
    digests: dict[str, bytes] = {}
    for record in records:
        block = synthesize_block(record)
        key = digest_key(block, zone)
        digests[key] = put_block(digests.get(key), block, zone)
    return "\n".join(digests[key].decode() for key in sorted(digests))


async def _write(records: list[SessionRecord], settings: Settings, folder: Path) -> int:
    from memplane.cli import EXIT_OK
    from memplane.service.session_digests import draft_digest

    for record in records:
        key = await draft_digest(settings, folder, record)
        if key:
            print(folder / key)
        else:
            print(f"{record.session} has a block that is no draft: it stays", file=sys.stderr)
    return EXIT_OK
