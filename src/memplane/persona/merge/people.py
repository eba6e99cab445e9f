"""Relationships: what is known about a person, and what happened when (pure).

Single values and lists are in the frontmatter, which is merged alike for all families. In the body
every line counts, and lines that begin with a day stand in the order of the days.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import Final

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
    """Merge all lines; dated ones by day, the way round that the documents have it."""
    outlines = outlines_of(versions, read_outline)
    falling = _fall(outlines.newer) + _fall(outlines.older) >= 0
    merged = merge_outlines(outlines, contest)

    def by_day(section: Section) -> Section:
        blocks = sorted_in_place(section.blocks, _day, reverse=falling)
        return replace(section, blocks=tuple(blocks))

    return body_of(mapped(merged, by_day), versions, contest)


def _fall(section: Section) -> int:
    """Count how often a later day stands above an earlier one, less the opposite."""
    days = [day for block in section.blocks if (day := _day(block))]
    own = sum((above > below) - (above < below) for above, below in pairwise(days))
    return own + sum(_fall(child) for child in section.children)


def _day(block: Block) -> str:
    found = _DATE.match(normalised(block.text)) if is_bullet(block.text) else None
    return found[1] if found else ""
