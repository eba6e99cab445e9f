"""Two versions meet, as a reader of a test would tell it."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent

from memplane.persona.document_kinds import MergeFamily
from memplane.persona.merge import MergeSide, merge

EARLIER = "2026-07-30T10:00:00Z"
LATER = "2026-07-30T11:00:00Z"


@dataclass(frozen=True)
class Met:
    """What became of the bodies, and whether a conflict copy is kept of one."""

    text: str
    kept: str | None


def meet(
    family: MergeFamily,
    *,
    base: str | None,
    newer: str,
    older: str,
    gone: frozenset[str] = frozenset(),
) -> Met:
    """Merge three bodies, both ways round; they may be indented."""
    known = None if base is None else dedent(base).encode()
    sides = MergeSide(dedent(newer).encode(), LATER), MergeSide(dedent(older).encode(), EARLIER)
    merged = merge(family, known, *sides, gone=gone)
    assert merged == merge(family, known, *reversed(sides), gone=gone)
    kept = {None: None, sides[0].data: "newer", sides[1].data: "older"}[merged.lost]
    return Met(merged.data.decode(), kept)


def text(body: str) -> str:
    return dedent(body)
