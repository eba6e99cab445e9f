"""Sections and blocks as sets: what one side removed goes, what one side added stays (pure).

This is all there is to self observations, and the ground on which the other families stand: they
settle by their own rules what both sides changed, and leave the rest to `merge_outlines`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from memplane.persona.merge.contest import Contest, Versions
from memplane.persona.merge.order import in_order
from memplane.persona.merge.outline import (
    Block,
    Section,
    normalised,
    read_outline,
    write_outline,
)


class Known(msgspec.Struct, frozen=True):
    """What the base says about a section or block, and in which section."""

    text: str
    at: str


Base: TypeAlias = Mapping[str, Known]


class Outlines(msgspec.Struct, frozen=True):
    """Three versions of a body, taken apart."""

    base: Base
    newer: Section
    older: Section


def merge_sections(versions: Versions, contest: Contest) -> str:
    """Merge bodies whose sections hold bullets that count by their words."""
    merged = merge_outlines(outlines_of(versions, read_outline), contest)
    return body_of(merged, versions, contest)


def outlines_of(versions: Versions, read: Callable[[str], Section]) -> Outlines:
    """Take three bodies apart."""
    base = read(versions.base.body if versions.base else "")
    return Outlines(known_in(base), read(versions.newer.body), read(versions.older.body))


def body_of(section: Section, versions: Versions, contest: Contest) -> str:
    """Put a merged body together, as far below the frontmatter as it was."""
    bodies = [one.body if one else None for one in (versions.base, versions.newer, versions.older)]
    base, newer, older = (None if body is None else _blank_lines(body) for body in bodies)
    return contest.three_way(base, newer or "", older or "", losing=False) + write_outline(section)


def known_in(section: Section, at: str = "") -> dict[str, Known]:
    """Return all that the base holds, by key."""
    found = {section.key: Known(section.heading, at)}
    found |= {block.key: Known(block.text, section.key) for block in section.blocks}
    for child in section.children:
        found |= known_in(child, section.key)
    return found


def merge_outlines(outlines: Outlines, contest: Contest) -> Section:
    """Merge two outlines. What is edited on one side and removed on the other stays."""
    return _section(outlines.base, outlines.newer, outlines.older, contest)


def _section(base: Base, newer: Section, older: Section, contest: Contest) -> Section:
    return Section(
        newer.key,
        newer.level,
        _text(base, newer.key, (newer.heading, older.heading), contest),
        _blocks(base, newer, older, contest),
        _children(base, newer, older, contest),
        is_whole=newer.is_whole,
    )


def _blocks(base: Base, newer: Section, older: Section, contest: Contest) -> tuple[Block, ...]:
    ours = {block.key: block for block in newer.blocks}
    theirs = {block.key: block for block in older.blocks}
    alive: dict[str, Block] = {}
    for key in ours.keys() | theirs.keys():
        mine, other = ours.get(key), theirs.get(key)
        if mine and other:
            alive[key] = Block(key, _text(base, key, (mine.text, other.text), contest))
        elif (one := mine or other) and _is_new(base, key, one.text, newer.key):
            alive[key] = one
    order = in_order(list(ours), list(theirs), alive, tied=contest.tied)
    return tuple(alive[key] for key in order)


def _children(base: Base, newer: Section, older: Section, contest: Contest) -> tuple[Section, ...]:
    ours = {child.key: child for child in newer.children}
    theirs = {child.key: child for child in older.children}
    alive: dict[str, Section] = {}
    for key in ours.keys() | theirs.keys():
        mine, other = ours.get(key), theirs.get(key)
        if mine and other:
            alive[key] = _section(base, mine, other, contest)
        elif (one := mine or other) and (left := _left(base, one, newer.key)):
            alive[key] = left
    order = in_order(list(ours), list(theirs), alive, tied=contest.tied)
    # A deeper heading that came after a higher one would be read as a part of that.
    return tuple(sorted((alive[key] for key in order), key=lambda child: -child.level))


def _left(base: Base, section: Section, at: str) -> Section | None:
    """Return what stays of a section that the other side does not have."""
    if section.key not in base:
        return section
    blocks = tuple(one for one in section.blocks if _is_new(base, one.key, one.text, section.key))
    found = (_left(base, child, section.key) for child in section.children)
    children = tuple(child for child in found if child)
    if blocks or children or _is_new(base, section.key, section.heading, at):
        return replace(section, blocks=blocks, children=children)
    return None


def _text(base: Base, key: str, texts: tuple[str, str], contest: Contest) -> str:
    """Choose between two texts of one thing. To set the same words differently loses nothing."""
    newer, older = texts
    if newer == older:
        return newer
    known = base.get(key)
    losing = normalised(newer) != normalised(older)
    return contest.three_way(known.text if known else None, newer, older, losing=losing)


def _is_new(base: Base, key: str, text: str, at: str) -> bool:
    """Say whether a thing was added, edited or moved since the base."""
    known = base.get(key)
    if known is None or known.at != at:
        return True
    return known.text != text and normalised(known.text) != normalised(text)


def _blank_lines(body: str) -> str:
    """Return the blank lines that a body begins with."""
    first = body[: len(body) - len(body.lstrip())]
    return first[: first.rfind("\n") + 1]
