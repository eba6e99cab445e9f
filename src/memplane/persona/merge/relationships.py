"""Relationships: what is known about a person, and what happened when (pure).

Single values and lists are in the frontmatter, which is merged alike for all families. In the body
every line counts, and lines that begin with a day keep the order of the days.

A section begins with a heading, `## Known-for`, or with an inline label, `Known-for: chess`. Both
are the same section. Labels are written again only where both versions had them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import Final

from msgspec.structs import replace

from memplane.persona.document_kinds import find_kind
from memplane.persona.merge.conflict_resolver import ConflictResolver, MergeInput
from memplane.persona.merge.merge_order import sort_in_place
from memplane.persona.merge.outline import (
    OutlineBlock,
    OutlineGrammar,
    OutlineSection,
    is_bullet,
    map_sections,
    normalise_text,
    read_outline,
)
from memplane.persona.merge.sections import merge_outlines, read_outlines, write_body

_KIND: Final = find_kind("relationship")
_SECTIONS: Final = {normalise_text(name): name for name in (_KIND.sections if _KIND else ())}
_NAMES: Final = "|".join(map(re.escape, _SECTIONS))
_LABEL: Final = re.compile(rf"\*{{0,2}}({_NAMES})(?::\*\*|\*\*:|:)(?:[ \t]+(.*)|)", re.IGNORECASE)
_ABOVE: Final = re.compile(rf"#(?=\s)|##\s+(?:{_NAMES})\s*$", re.IGNORECASE)
"""A heading below which labels count: the title, or a section that could have a label."""
_SECTION_HEADING: Final = re.compile(rf"#{{1,6}}\s+(?:{_NAMES})\s*$", re.IGNORECASE)
_DATE: Final = re.compile(r"[*_(\[]{0,3}(\d{4}-\d{2}-\d{2})")


def merge_relationships(versions: MergeInput, resolver: ConflictResolver) -> str:
    """Merge all lines. Dated ones stand in order when both sides keep one, and the same."""
    outlines = read_outlines(versions, lambda body: read_outline(body, _GRAMMAR))
    ours, theirs = dict(_orders(outlines.newer)), dict(_orders(outlines.older))

    def in_order(section: OutlineSection) -> OutlineSection:
        orders = {ours.get(section.key), theirs.get(section.key)} - {None}
        if orders not in ({_DayOrder.RISING}, {_DayOrder.FALLING}):
            return section
        blocks = sort_in_place(section.blocks, _day, reverse=orders == {_DayOrder.FALLING})
        return replace(section, blocks=tuple(blocks))

    merged = map_sections(merge_outlines(outlines, resolver), in_order)
    if _has_only_labels(versions.newer.body) and _has_only_labels(versions.older.body):
        merged = replace(merged, children=tuple(map(_with_label, merged.children)))
    return write_body(merged, versions, resolver)


def read_section_label(line: str, heading: str = "") -> tuple[str, str] | None:
    """Read an inline label: the section that it begins, and the rest of the line.

    A label counts above all headings, below the title, and below the heading of such a section;
    elsewhere it is a part of the text. `heading` is the one above it.
    """
    match = _LABEL.fullmatch(line)
    if match is None or not (_ABOVE.match(heading) or not heading):
        return None
    return _SECTIONS[normalise_text(match[1])], (match[2] or "").strip()


def _read_label(line: str, heading: str) -> tuple[str, str] | None:
    label = read_section_label(line, heading)
    return None if label is None else (f"## {label[0]}", label[1])


def _has_only_labels(body: str) -> bool:
    """Say whether the sections of a body begin with labels and not with headings."""
    lines = body.split("\n")
    return any(map(read_section_label, lines)) and not any(map(_SECTION_HEADING.match, lines))


def _with_label(section: OutlineSection) -> OutlineSection:
    """Write the heading of a section as a label, before the text of its first paragraph."""
    name = section.heading.removeprefix("## ")
    if section.level != 2 or name not in _SECTIONS.values():  # noqa: PLR2004 - `##`
        return section
    first, *others = section.blocks or (OutlineBlock("", ""),)
    if not first.text or is_bullet(first.text):
        return replace(section, heading=f"{name}:")
    return replace(section, heading=f"{name}: {first.text}", blocks=tuple(others))


_GRAMMAR: Final = OutlineGrammar(read_label=_read_label)


class _DayOrder(Enum):
    """Which day stands first in a list."""

    RISING = "the earliest"
    FALLING = "the latest"
    NONE = "any"


def _orders(section: OutlineSection) -> Iterator[tuple[str, _DayOrder]]:
    """Yield the order of each section that has lines of different days."""
    days = [day for block in section.blocks if (day := _day(block))]
    if len(set(days)) > 1:
        rising, falling = days == sorted(days), days == sorted(days, reverse=True)
        order = _DayOrder.RISING if rising else _DayOrder.FALLING if falling else _DayOrder.NONE
        yield section.key, order
    for child in section.children:
        yield from _orders(child)


def _day(block: OutlineBlock) -> str:
    match = _DATE.match(normalise_text(block.text)) if is_bullet(block.text) else None
    return match[1] if match else ""
