"""`memplane retain`: give an agent something to remember."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from memplane.cli.user_argument import add_user_argument

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memplane.episodes.api_types import RetainReceipt
    from memplane.settings import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "text", nargs="*", default=[], help="what to remember, as a note; - is stdin"
    )
    what.add_argument(
        "--entries", metavar="F", help="recorded turns instead, one JSON object a line; - is stdin"
    )
    parser.add_argument(
        "--source",
        default="",
        metavar="NAME",
        help="where it was imported from, such as mail; it is recalled as untrusted import:NAME "
        "unless memory.trusted_sources has that",
    )
    parser.add_argument("--agent", help="whose memory; by default MEMPLANE_AGENT")
    add_user_argument(parser, every=False)
    parser.add_argument("--json", action="store_true", help="for machines: one receipt a line")


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Retain each entry, and print what became of it."""
    from memplane.cli import EXIT_OK
    from memplane.cli.agent_argument import resolve_agent
    from memplane.episodes.entry_input import declare_source
    from memplane.errors import EntryTooLarge, InvalidEntry, InvalidRequest
    from memplane.kit.clock import system_clock
    from memplane.service.client import Client

    agent = resolve_agent(arguments, settings)
    if arguments.entries:
        entries = _lines(arguments.entries)
    else:
        from memplane.episodes.entry_input import build_note_entry

        entries = iter([("", build_note_entry(agent, _note(arguments.text), system_clock()))])
    receipts: list[RetainReceipt] = []
    async with Client(settings) as client:
        for place, entry in entries:
            try:
                sourced = declare_source(entry, arguments.source.strip())
                receipt = await client.retain(sourced, agent=agent, user=arguments.user)
            except (InvalidRequest, InvalidEntry, EntryTooLarge) as error:
                if not place:
                    raise
                raise InvalidRequest(
                    f"{place}: {error}{_describe_retained_lines(len(receipts))}"
                ) from error
            receipts.append(receipt)
            if arguments.json:
                _print_json(receipt)
    if not arguments.json:
        _print(agent, receipts)
    return EXIT_OK


def _describe_retained_lines(count: int) -> str:
    """Say what became of the lines before one that cannot be kept."""
    if not count:
        return ". Nothing was retained"
    were = "The entry before it was" if count == 1 else f"The {count} entries before it were"
    return f". {were} retained, and none behind it"


def _note(words: list[str]) -> str:
    """Take what to remember from the command line, or from standard input."""
    import sys

    if words == ["-"]:
        return sys.stdin.buffer.read().decode("utf-8", "replace").strip()
    return " ".join(words)


def _lines(name: str) -> Iterator[tuple[str, bytes]]:
    """Yield each line that is not empty, and where it stands."""
    import sys
    from pathlib import Path

    from memplane.errors import InvalidRequest

    shown = "standard input" if name == "-" else name
    try:
        with sys.stdin.buffer if name == "-" else Path(name).open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield f"{shown}, line {number}", line.strip()
    except OSError as error:
        raise InvalidRequest(f"{name} cannot be read: {error.strerror}") from error


def _print_json(receipt: RetainReceipt) -> None:
    import msgspec

    print(msgspec.json.encode(receipt).decode())


def _print(agent: str, receipts: list[RetainReceipt]) -> None:
    from collections import Counter

    from memplane.cli.output import escape_text

    counted = Counter(one.status for one in receipts)
    words = {"retained": "retained", "known": "known already", "forgotten": "forgotten before"}
    told = ", ".join(f"{counted[name]} {words[name]}" for name in words if counted[name])
    print(f"{agent}: {told or 'nothing to retain'}")
    if len(receipts) == 1:
        print(f"  id {escape_text(receipts[0].id)}")
    if redacted := sum(one.redacted for one in receipts):
        print(f"  {redacted} secrets were taken out")
