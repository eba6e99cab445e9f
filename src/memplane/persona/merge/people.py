"""Relationships: what is known about a person, and what happened when (pure).

Single values and lists are in the frontmatter, which is merged alike for all families. In the body
every line counts, and lines that begin with a day keep the order of the days.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import Final

from msgspec.structs import replace

from memplane.persona.merge.contest import Contest, Versions
from memplane.persona.merge.order import sorted_in_place
from memplane.persona.merge.outline import (
    Block,
    Section,
    is_bullet,
    mapped,
    normalised,
    read_outline,
)
from memplane.persona.merge.sections import body_of, merge_outlines, outlines_of

_DATE: Final = re.compile(r"[*_(\[]{0,3}(\d{4}-\d{2}-\d{2})")


def merge_people(versions: Versions, contest: Contest) -> str:
    """Merge all lines. Dated ones stand in order when both sides keep one, and the same."""
    outlines = outlines_of(versions, read_outline)
    ours, theirs = dict(_orders(outlines.newer)), dict(_orders(outlines.older))

    def in_order(section: Section) -> Section:
        orders = {ours.get(section.key), theirs.get(section.key)} - {None}
        if orders not in ({_Order.RISING}, {_Order.FALLING}):
            return section
        blocks = sorted_in_place(section.blocks, _day, reverse=orders == {_Order.FALLING})
        return replace(section, blocks=tuple(blocks))

    merged = merge_outlines(outlines, contest)
    return body_of(mapped(merged, in_order), versions, contest)


class _Order(Enum):
    """Which day stands first in a list."""

    RISING = "the earliest"
    FALLING = "the latest"
    NONE = "any"


def _orders(section: Section) -> Iterator[tuple[str, _Order]]:
    """Yield the order of each section that has lines of different days."""
    days = [day for block in section.blocks if (day := _day(block))]
    if len(set(days)) > 1:
        rising, falling = days == sorted(days), days == sorted(days, reverse=True)
        order = _Order.RISING if rising else _Order.FALLING if falling else _Order.NONE
        yield section.key, order
    for child in section.children:
        yield from _orders(child)


def _day(block: Block) -> str:
    found = _DATE.match(normalised(block.text)) if is_bullet(block.text) else None
    return found[1] if found else ""
