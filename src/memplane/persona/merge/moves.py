"""Items that move from section to section, and must not end up in both (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from memplane.persona.merge.contest import Contest
from memplane.persona.merge.outline import ITEM, Block, Section, all_blocks, mapped, normalised
from memplane.persona.merge.sections import Known, Outlines


class Placed(msgspec.Struct, frozen=True):
    """An item in one of the versions: its text, the key of its section and what that is called."""

    text: str
    at: str
    section: str


Agreement: TypeAlias = Callable[[Known | None, Placed, Placed, Contest], Placed]
"""What becomes of an item that both sides have: base, newer, older, contest."""


def settle(outlines: Outlines, contest: Contest, agree: Agreement) -> Outlines:
    """Let both sides agree on every item that both have: what it says, and where it stands."""
    ours, theirs = dict(_items(outlines.newer)), dict(_items(outlines.older))
    agreed: dict[str, Placed] = {}
    for key in sorted(ours.keys() & theirs.keys()):
        if ours[key] != theirs[key]:
            agreed[key] = agree(outlines.base.get(key), ours[key], theirs[key], contest)
    # Where only one side is left with an item, it counts as added there.
    apart = {key for key in agreed if ours[key].at != theirs[key].at}
    return Outlines(
        {key: known for key, known in outlines.base.items() if key not in apart},
        _agreeing(outlines.newer, agreed),
        _agreeing(outlines.older, agreed),
    )


def place_of(known: Known | None, newer: Placed, older: Placed, contest: Contest) -> str:
    """Return where an item stands: where it was moved to, or where the newer side has it."""
    return contest.three_way(known.at if known else None, newer.at, older.at, losing=False)


def text_of(known: Known | None, newer: Placed, older: Placed, contest: Contest) -> str:
    """Return what an item says: what it was changed to, or what the newer side says."""
    losing = normalised(newer.text) != normalised(older.text)
    base = known.text if known else None
    return contest.three_way(base, newer.text, older.text, losing=losing)


def _items(section: Section) -> Iterator[tuple[str, Placed]]:
    for holder, block in all_blocks(section):
        if block.key.startswith(ITEM):
            yield block.key, Placed(block.text, holder.key, normalised(holder.heading))


def _agreeing(section: Section, agreed: Mapping[str, Placed]) -> Section:
    def change(one: Section) -> Section:
        blocks = (
            Block(block.key, agreed[block.key].text) if block.key in agreed else block
            for block in one.blocks
            if block.key not in agreed or agreed[block.key].at == one.key
        )
        return replace(one, blocks=tuple(blocks))

    return mapped(section, change)
