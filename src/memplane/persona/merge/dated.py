"""Logs by day: tone feedback and unsent drafts, the newest day on top (pure)."""

from __future__ import annotations

import re
from typing import Final

from msgspec.structs import replace

from memplane.persona.merge.contest import Contest, Versions
from memplane.persona.merge.order import sorted_in_place
from memplane.persona.merge.outline import (
    PLAIN,
    Grammar,
    Section,
    mapped,
    normalised,
    read_outline,
)
from memplane.persona.merge.sections import body_of, merge_outlines, outlines_of

_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_CONTEXT: Final = 3
"""The level of the headings below which a draft is kept."""


def merge_calibration(versions: Versions, contest: Contest) -> str:
    """Merge feedback by day, then by bullet. The rules learned have no day and stay in place."""
    return _merge(versions, contest, PLAIN)


def merge_drafts(versions: Versions, contest: Contest) -> str:
    """Merge drafts by day and context. A draft is one thing: it is not mixed from two."""
    return _merge(versions, contest, Grammar(name_whole=_draft))


def _merge(versions: Versions, contest: Contest, grammar: Grammar) -> str:
    outlines = outlines_of(versions, lambda body: read_outline(body, grammar))
    merged = merge_outlines(outlines, contest)
    return body_of(mapped(merged, _newest_first), versions, contest)


def _draft(section: Section) -> str | None:
    return f"draft {normalised(section.heading)}" if section.level == _CONTEXT else None


def _newest_first(section: Section) -> Section:
    days = sorted_in_place(section.children, _day, reverse=True)
    return replace(section, children=tuple(days))


def _day(section: Section) -> str:
    found = _DATE.match(normalised(section.heading))
    return found[0] if found else ""
