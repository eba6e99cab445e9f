"""`memplane retain`: give an agent something to remember."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memplane.memory.contract import RetainReceipt
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
    parser.add_argument("--agent", help="whose memory; by default MEMPLANE_AGENT")
    parser.add_argument("--json", action="store_true", help="for machines: one receipt a line")


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Retain each entry, and print what became of it."""
    from memplane.assemble.plane import open_plane
    from memplane.cli import OK
    from memplane.cli.agents import agent_of
    from memplane.clock import system_clock

    agent = agent_of(arguments, settings)
    if arguments.entries:
        entries = _lines(arguments.entries)
    else:
        from memplane.memory.notes import note_entry

        entries = iter([note_entry(agent, _note(arguments.text), system_clock())])
    receipts: list[RetainReceipt] = []
    async with open_plane(settings) as plane:
        for entry in entries:
            receipt = await plane.retain(agent, entry)
            receipts.append(receipt)
            if arguments.json:
                _print_json(receipt)
    if not arguments.json:
        _print(agent, receipts)
    return OK


def _note(words: list[str]) -> str:
    """Take what to remember from the command line, or from standard input."""
    import sys

    if words == ["-"]:
        return sys.stdin.buffer.read().decode("utf-8", "replace").strip()
    return " ".join(words)


def _lines(name: str) -> Iterator[bytes]:
    import sys
    from pathlib import Path

    from memplane.errors import InvalidRequest

    try:
        with sys.stdin.buffer if name == "-" else Path(name).open("rb") as file:
            yield from (line.strip() for line in file if line.strip())
    except OSError as error:
        raise InvalidRequest(f"{name} cannot be read: {error.strerror}") from error


def _print_json(receipt: RetainReceipt) -> None:
    import msgspec

    print(msgspec.json.encode(receipt).decode())


def _print(agent: str, receipts: list[RetainReceipt]) -> None:
    from collections import Counter

    from memplane.cli.show import harmless

    counted = Counter(one.status for one in receipts)
    words = {"retained": "retained", "known": "known already", "forgotten": "forgotten before"}
    told = ", ".join(f"{counted[name]} {words[name]}" for name in words if counted[name])
    print(f"{agent}: {told or 'nothing to retain'}")
    if len(receipts) == 1:
        print(f"  id {harmless(receipts[0].id)}")
    if redacted := sum(one.redacted for one in receipts):
        print(f"  {redacted} secrets were taken out")
