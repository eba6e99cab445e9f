"""`memplane recall`: ask an agent's memory."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from memplane.cli.number_argument import NumberRange
from memplane.cli.user_argument import add_user_argument

if TYPE_CHECKING:
    from memplane.episodes.api_types import MemoryBlock, RecallResponse
    from memplane.settings import Settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("question", nargs="+", help="in your own words")
    parser.add_argument("--agent", help="whose memory; by default MEMPLANE_AGENT")
    add_user_argument(parser)
    parser.add_argument(
        "--limit",
        type=NumberRange(1, 50),
        metavar="N",
        help="only what matches, so many turns (at most 50)",
    )
    parser.add_argument(
        "--max-bytes",
        type=NumberRange(1, 65536),
        metavar="N",
        help="how much text (8192, at most 65536)",
    )
    parser.add_argument(
        "--source",
        default="",
        metavar="S",
        help="only turns that repeat a source, such as web:HOST, or a kind of sources, such as "
        "tool; as many of them as match",
    )
    parser.add_argument("--explain", action="store_true", help="say why each was chosen")
    parser.add_argument("--json", action="store_true", help="for machines")


async def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Ask, and print what is remembered; exit 1 when nothing is."""
    import msgspec

    from memplane.cli import EXIT_FAILED, EXIT_OK
    from memplane.cli.agent_argument import expect_agent, resolve_agent
    from memplane.cli.output import print_json
    from memplane.episodes.api_types import DEFAULT_RECALL_BYTES, RecallRequest
    from memplane.errors import InvalidRequest
    from memplane.service.client import Client
    from memplane.service.operations import memory

    asked = {
        "agent": resolve_agent(arguments, settings),
        "user": arguments.user,
        "all_users": arguments.all_users,
        "text": " ".join(arguments.question),
        "limit": arguments.limit,
        "max_bytes": arguments.max_bytes
        if arguments.max_bytes is not None
        else DEFAULT_RECALL_BYTES,
        "explain": arguments.explain,
        "source": arguments.source.strip(),
    }
    try:
        ask = msgspec.convert(asked, RecallRequest)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"that cannot be asked: {error}") from error
    async with Client(settings) as client:
        found = await client.call(memory.recall, ask)
        if not found.memories:
            await expect_agent(ask.agent, client, settings)
    if arguments.json:
        print_json({"memories": found.told})
    else:
        _print(found)
    return EXIT_OK if found.memories else EXIT_FAILED


def _print(found: RecallResponse) -> None:
    import sys

    if not found.memories:
        print("nothing is remembered about that", file=sys.stderr)
    for number, block in enumerate(found.memories):
        print(*[""] * (number > 0), sep="\n", end="")
        _print_block(block)


def _print_block(block: MemoryBlock) -> None:
    from memplane.cli.output import colour_text, escape_text, format_origin

    score = f"{block.score:.2f}" if block.score is not None else ""
    user = f"user {escape_text(block.user)}" if block.user else ""
    view = f"view {escape_text(block.view)}" if block.view else ""
    parts = (block.kind, score, block.ts, block.id[:18], user, view, format_origin(block))
    head = "  ".join(part for part in parts if part)
    print(colour_text(head, "dim"))
    for line in escape_text(block.text).split("\n"):
        print(f"  {line}")
    if block.why is not None:
        terms = sorted(block.why.terms.items(), key=lambda one: -one[1])
        words = ", ".join(f"{escape_text(term)} {value:.2f}" for term, value in terms)
        covered = f"covers {block.why.coverage:.0%} of the question" if terms else ""
        why = "; ".join(part for part in (block.why.part, words, covered) if part)
        print(colour_text(f"  why: {why}", "dim"))
        signals = sorted(block.why.signals.items(), key=lambda one: -abs(one[1].added))
        added = ", ".join(f"{name} {one.added:+.2f} (#{one.place})" for name, one in signals)
        if added:
            print(colour_text(f"       {added}", "dim"))
        if block.why.withheld:
            sources = escape_text(", ".join(block.why.withheld))
            print(colour_text(f"       not told: what it repeats of {sources}", "dim"))
