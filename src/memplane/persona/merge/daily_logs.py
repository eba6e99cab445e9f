"""Logs by day: tone feedback and unsent drafts, the newest day on top (pure)."""

from __future__ import annotations

import re
from typing import Final

from msgspec.structs import replace

from memplane.persona.merge.conflict_resolver import ConflictResolver, MergeInput
from memplane.persona.merge.merge_order import sort_in_place
from memplane.persona.merge.outline import (
    PLAIN_GRAMMAR,
    OutlineGrammar,
    OutlineSection,
    map_sections,
    normalise_text,
    read_outline,
)
from memplane.persona.merge.sections import merge_outlines, read_outlines, write_body

_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_CONTEXT_LEVEL: Final = 3
"""The level of the headings below which a draft is kept."""


def merge_calibration(versions: MergeInput, resolver: ConflictResolver) -> str:
    """Merge feedback by day, then by bullet. The rules learned have no day and stay in place."""
    return _merge(versions, resolver, PLAIN_GRAMMAR)


def merge_drafts(versions: MergeInput, resolver: ConflictResolver) -> str:
    """Merge drafts by day and context. A draft is one thing: it is not mixed from two."""
    return _merge(versions, resolver, OutlineGrammar(name_whole=_draft))


def _merge(versions: MergeInput, resolver: ConflictResolver, grammar: OutlineGrammar) -> str:
    outlines = read_outlines(versions, lambda body: read_outline(body, grammar))
    merged = merge_outlines(outlines, resolver)
    return write_body(map_sections(merged, _newest_first), versions, resolver)


def _draft(section: OutlineSection) -> str | None:
    return f"draft {normalise_text(section.heading)}" if section.level == _CONTEXT_LEVEL else None


def _newest_first(section: OutlineSection) -> OutlineSection:
    days = sort_in_place(section.children, _day, reverse=True)
    return replace(section, children=tuple(days))


def _day(section: OutlineSection) -> str:
    match = _DATE.match(normalise_text(section.heading))
    return match[0] if match else ""
