"""Sections and blocks as sets: what one side removed goes, what one side added stays (pure).

This is all there is to self observations, and the ground on which the other families stand: they
settle by their own rules what both sides changed, and leave the rest to `merge_outlines`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from memplane.persona.merge.conflict_resolver import ConflictResolver, MergeInput
from memplane.persona.merge.merge_order import merge_orders
from memplane.persona.merge.outline import (
    OutlineBlock,
    OutlineSection,
    normalise_text,
    read_outline,
    write_outline,
)


class BaseItem(msgspec.Struct, frozen=True):
    """What the base says about a section or block, and in which section."""

    text: str
    at: str


BaseItems: TypeAlias = Mapping[str, BaseItem]


class MergeOutlines(msgspec.Struct, frozen=True):
    """Three versions of a body, taken apart."""

    base: BaseItems
    newer: OutlineSection
    older: OutlineSection


def merge_sections(versions: MergeInput, resolver: ConflictResolver) -> str:
    """Merge bodies whose sections hold bullets that count by their words."""
    merged = merge_outlines(read_outlines(versions, read_outline), resolver)
    return write_body(merged, versions, resolver)


def read_outlines(versions: MergeInput, read: Callable[[str], OutlineSection]) -> MergeOutlines:
    """Take three bodies apart."""
    base = read(versions.base.body if versions.base else "")
    return MergeOutlines(
        collect_base_items(base), read(versions.newer.body), read(versions.older.body)
    )


def write_body(section: OutlineSection, versions: MergeInput, resolver: ConflictResolver) -> str:
    """Put a merged body together, as far below the frontmatter as it was."""
    bodies = [
        document.body if document else None
        for document in (versions.base, versions.newer, versions.older)
    ]
    base, newer, older = (None if body is None else _blank_lines(body) for body in bodies)
    return resolver.three_way(base, newer or "", older or "", losing=False) + write_outline(
        section
    )


def collect_base_items(section: OutlineSection, at: str = "") -> dict[str, BaseItem]:
    """Return all that the base holds, by key."""
    items = {section.key: BaseItem(section.heading, at)}
    items |= {block.key: BaseItem(block.text, section.key) for block in section.blocks}
    for child in section.children:
        items |= collect_base_items(child, section.key)
    return items


def merge_outlines(outlines: MergeOutlines, resolver: ConflictResolver) -> OutlineSection:
    """Merge two outlines. What is edited on one side and removed on the other stays."""
    return _section(outlines.base, outlines.newer, outlines.older, resolver)


def _section(
    base: BaseItems, newer: OutlineSection, older: OutlineSection, resolver: ConflictResolver
) -> OutlineSection:
    return OutlineSection(
        newer.key,
        newer.level,
        _text(base, newer.key, (newer.heading, older.heading), resolver),
        _blocks(base, newer, older, resolver),
        _children(base, newer, older, resolver),
        is_whole=newer.is_whole,
    )


def _blocks(
    base: BaseItems, newer: OutlineSection, older: OutlineSection, resolver: ConflictResolver
) -> tuple[OutlineBlock, ...]:
    ours = {block.key: block for block in newer.blocks}
    theirs = {block.key: block for block in older.blocks}
    surviving: dict[str, OutlineBlock] = {}
    for key in ours.keys() | theirs.keys():
        our_block, their_block = ours.get(key), theirs.get(key)
        if our_block and their_block:
            surviving[key] = OutlineBlock(
                key, _text(base, key, (our_block.text, their_block.text), resolver)
            )
        elif (survivor := our_block or their_block) and _is_new(
            base, key, survivor.text, newer.key
        ):
            surviving[key] = survivor
    order = merge_orders(list(ours), list(theirs), surviving, tied=resolver.tied)
    return tuple(surviving[key] for key in order)


def _children(
    base: BaseItems, newer: OutlineSection, older: OutlineSection, resolver: ConflictResolver
) -> tuple[OutlineSection, ...]:
    ours = {child.key: child for child in newer.children}
    theirs = {child.key: child for child in older.children}
    surviving: dict[str, OutlineSection] = {}
    for key in ours.keys() | theirs.keys():
        our_child, their_child = ours.get(key), theirs.get(key)
        if our_child and their_child:
            surviving[key] = _section(base, our_child, their_child, resolver)
        elif (survivor := our_child or their_child) and (
            remainder := _keep_new_items(base, survivor, newer.key)
        ):
            surviving[key] = remainder
    order = merge_orders(list(ours), list(theirs), surviving, tied=resolver.tied)
    # A deeper heading that came after a higher one would be read as a part of that.
    return tuple(sorted((surviving[key] for key in order), key=lambda child: -child.level))


def _keep_new_items(base: BaseItems, section: OutlineSection, at: str) -> OutlineSection | None:
    """Return what stays of a section that the other side does not have."""
    if section.key not in base:
        return section
    blocks = tuple(
        block for block in section.blocks if _is_new(base, block.key, block.text, section.key)
    )
    kept_children = (_keep_new_items(base, child, section.key) for child in section.children)
    children = tuple(child for child in kept_children if child)
    if blocks or children or _is_new(base, section.key, section.heading, at):
        return replace(section, blocks=blocks, children=children)
    return None


def _text(base: BaseItems, key: str, texts: tuple[str, str], resolver: ConflictResolver) -> str:
    """Choose between two texts of one thing. To set the same words differently loses nothing."""
    newer, older = texts
    if newer == older:
        return newer
    known = base.get(key)
    losing = normalise_text(newer) != normalise_text(older)
    return resolver.three_way(known.text if known else None, newer, older, losing=losing)


def _is_new(base: BaseItems, key: str, text: str, at: str) -> bool:
    """Say whether a thing was added, edited or moved since the base."""
    known = base.get(key)
    if known is None or known.at != at:
        return True
    return known.text != text and normalise_text(known.text) != normalise_text(text)


def _blank_lines(body: str) -> str:
    """Return the blank lines that a body begins with."""
    first = body[: len(body) - len(body.lstrip())]
    return first[: first.rfind("\n") + 1]
