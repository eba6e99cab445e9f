"""Items that move from section to section, and must not end up in both (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from memplane.persona.merge.conflict_resolver import ConflictResolver
from memplane.persona.merge.outline import (
    ITEM_PREFIX,
    OutlineBlock,
    OutlineSection,
    map_sections,
    normalise_text,
    walk_blocks,
)
from memplane.persona.merge.sections import BaseItem, MergeOutlines


class PlacedItem(msgspec.Struct, frozen=True):
    """An item in one of the versions: its text, the key of its section and what that is called."""

    text: str
    at: str
    section: str


ItemMerge: TypeAlias = Callable[
    [BaseItem | None, PlacedItem, PlacedItem, ConflictResolver], PlacedItem
]
"""What becomes of an item that both sides have: base, newer, older, contest."""


def settle_moves(
    outlines: MergeOutlines, resolver: ConflictResolver, agree: ItemMerge
) -> MergeOutlines:
    """Let both sides agree on every item that both have: what it says, and where it stands."""
    ours, theirs = dict(_items(outlines.newer)), dict(_items(outlines.older))
    agreed: dict[str, PlacedItem] = {}
    for key in sorted(ours.keys() & theirs.keys()):
        if ours[key] != theirs[key]:
            agreed[key] = agree(outlines.base.get(key), ours[key], theirs[key], resolver)
    # Where only one side is left with an item, it counts as added there.
    apart = {key for key in agreed if ours[key].at != theirs[key].at}
    return MergeOutlines(
        {key: known for key, known in outlines.base.items() if key not in apart},
        _with_agreed_items(outlines.newer, agreed),
        _with_agreed_items(outlines.older, agreed),
    )


def choose_place(
    known: BaseItem | None, newer: PlacedItem, older: PlacedItem, resolver: ConflictResolver
) -> str:
    """Return where an item stands: where it was moved to, or where the newer side has it."""
    return resolver.three_way(known.at if known else None, newer.at, older.at, losing=False)


def choose_text(
    known: BaseItem | None, newer: PlacedItem, older: PlacedItem, resolver: ConflictResolver
) -> str:
    """Return what an item says: what it was changed to, or what the newer side says."""
    losing = normalise_text(newer.text) != normalise_text(older.text)
    base = known.text if known else None
    return resolver.three_way(base, newer.text, older.text, losing=losing)


def _items(section: OutlineSection) -> Iterator[tuple[str, PlacedItem]]:
    for holder, block in walk_blocks(section):
        if block.key.startswith(ITEM_PREFIX):
            yield block.key, PlacedItem(block.text, holder.key, normalise_text(holder.heading))


def _with_agreed_items(
    section: OutlineSection, agreed: Mapping[str, PlacedItem]
) -> OutlineSection:
    def change(changed_section: OutlineSection) -> OutlineSection:
        blocks = (
            OutlineBlock(block.key, agreed[block.key].text) if block.key in agreed else block
            for block in changed_section.blocks
            if block.key not in agreed or agreed[block.key].at == changed_section.key
        )
        return replace(changed_section, blocks=tuple(blocks))

    return map_sections(section, change)
