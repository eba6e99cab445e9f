"""Session digests: one block for each session, ordered by their start (pure).

A block is a section that names its session, in a comment or in its heading:
`## 09:15 <!-- session: 7f3a…, start: 2026-07-30T09:15:00Z -->`, or `## Session 7f3a… 09:15`.
Digests that keep arcs, notes and threads on top have such sections one level deeper. Sections that
name no session are merged bullet by bullet.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec.structs import replace

from memplane.persona.merge.conflict_resolver import ConflictResolver, MergeInput
from memplane.persona.merge.merge_order import sort_in_place
from memplane.persona.merge.outline import (
    OutlineGrammar,
    OutlineSection,
    map_sections,
    read_outline,
)
from memplane.persona.merge.sections import merge_outlines, read_outlines, write_body

_NOTED: Final = re.compile(r"<!--\s*session:\s*([\w.-]+)")
_HEADED: Final = re.compile(r"\W*session:?\s+[`(\[]?(?=[\w-]*\d)([\w-]{4,64})\b", re.IGNORECASE)
_UUID: Final = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)
_START: Final = re.compile(r"start:\s*([\w:.+-]+)")
_TIME: Final = re.compile(r"(\d{4}-\d{2}-\d{2}(?=[T ]))?[T ]?(\d{2}:\d{2})")
_TIME_OF_DAY: Final = len("09:15")
_HEAD_CHARS: Final = 500
"""How much of a block is looked at for its start."""


def merge_sessions(versions: MergeInput, resolver: ConflictResolver) -> str:
    """Merge digests of one day. Of two texts about one session the newer stays."""
    merged = merge_outlines(read_outlines(versions, _read), resolver)
    return write_body(map_sections(merged, _in_time), versions, resolver)


def _read(body: str) -> OutlineSection:
    return read_outline(body, OutlineGrammar(name_whole=_name))


def _name(section: OutlineSection) -> str | None:
    first = section.blocks[0].text if section.blocks else ""
    heading = section.heading
    match = (
        _NOTED.search(heading)
        or (_NOTED.match(first) if first.startswith("<!--") else None)
        or _HEADED.match(heading)
    )
    if match:
        return f"session {match[1].casefold()}"
    named = _UUID.search(heading)
    return f"session {named[0].casefold()}" if named else None


def _in_time(section: OutlineSection) -> OutlineSection:
    # A time of day compares with nothing but a time of day.
    starts = [_start(child) for child in section.children]
    is_full = all(len(start) > _TIME_OF_DAY for start in starts if start)

    def rank(child: OutlineSection) -> str:
        return _start(child) if is_full else _start(child)[-_TIME_OF_DAY:]

    return replace(section, children=tuple(sort_in_place(section.children, rank)))


def _start(section: OutlineSection) -> str:
    """Return when a session began, to the minute; empty when its block does not say."""
    if not section.is_whole:
        return ""
    match = _START.search(section.heading[:_HEAD_CHARS])
    stamp_text = match[1] if match else section.heading[:_HEAD_CHARS].partition("\n")[0]
    time_match = _TIME.search(stamp_text)
    return f"{time_match[1] or ''}{time_match[2]}" if time_match else ""
