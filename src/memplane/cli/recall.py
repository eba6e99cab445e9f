"""`memplane recall`: ask an agent's memory."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memplane.memory.contract import Block, Recalled
    from memplane.settings import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("question", nargs="+", help="in your own words")
    parser.add_argument("--agent", help="whose memory; by default MEMPLANE_AGENT")
    parser.add_argument(
        "--limit", type=int, metavar="N", help="only what matches, so many turns (at most 50)"
    )
    parser.add_argument(
        "--max-bytes", type=int, metavar="N", help="how much text (8192, at most 65536)"
    )
    parser.add_argument("--explain", action="store_true", help="say why each was chosen")
    parser.add_argument("--json", action="store_true", help="for machines")


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Ask, and print what is remembered; exit 1 when nothing is."""
    import msgspec

    from memplane.assemble.plane import open_plane
    from memplane.cli import FAILED, OK
    from memplane.cli.agents import agent_of
    from memplane.cli.show import print_json
    from memplane.errors import InvalidRequest
    from memplane.memory.contract import MOST_BYTES, Ask

    asked = {
        "agent": agent_of(arguments, settings),
        "text": " ".join(arguments.question),
        "limit": arguments.limit,
        "max_bytes": arguments.max_bytes if arguments.max_bytes is not None else MOST_BYTES,
        "explain": arguments.explain,
    }
    try:
        ask = msgspec.convert(asked, Ask)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"that cannot be asked: {error}") from error
    async with open_plane(settings) as plane:
        found = await plane.recall(ask)
    if arguments.json:
        print_json({"memories": found.told})
    else:
        _print(found)
    return OK if found.memories else FAILED


def _print(found: Recalled) -> None:
    import sys

    if not found.memories:
        print("nothing is remembered about that", file=sys.stderr)
    for number, block in enumerate(found.memories):
        print(*[""] * (number > 0), sep="\n", end="")
        _print_block(block)


def _print_block(block: Block) -> None:
    from memplane.cli.show import coloured, harmless

    score = f"{block.score:.2f}" if block.score is not None else ""
    head = "  ".join(part for part in (block.kind, score, block.ts, block.id[:18]) if part)
    print(coloured(head, "dim"))
    for line in harmless(block.text).split("\n"):
        print(f"  {line}")
    if block.why is not None:
        terms = sorted(block.why.terms.items(), key=lambda one: -one[1])
        words = ", ".join(f"{harmless(term)} {value:.2f}" for term, value in terms)
        covered = f"covers {block.why.coverage:.0%} of the question" if terms else ""
        why = "; ".join(part for part in (block.why.part, words, covered) if part)
        print(coloured(f"  why: {why}", "dim"))
        signals = sorted(block.why.signals.items(), key=lambda one: -abs(one[1].added))
        added = ", ".join(f"{name} {one.added:+.2f} (#{one.place})" for name, one in signals)
        if added:
            print(coloured(f"       {added}", "dim"))
