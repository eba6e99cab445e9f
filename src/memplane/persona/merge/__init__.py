"""Two versions of a document become one, by the rules of its family (pure).

All machines must come to the same text, in whatever order they meet. So a merge does not ask which
side is ours, a merged text is not changed when it meets a side that it was made from, and where
something has to give way it is handed back to be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from memplane.persona.document import Document, parse, render, with_value
from memplane.persona.document_kinds import MergeFamily
from memplane.persona.merge.conflict_resolver import ConflictResolver, MergeInput
from memplane.persona.merge.daily_logs import merge_calibration, merge_drafts
from memplane.persona.merge.facts import merge_facts
from memplane.persona.merge.frontmatter import merge_frontmatter
from memplane.persona.merge.index import merge_index, without_links
from memplane.persona.merge.item_states import (
    merge_callbacks,
    merge_carry_forward,
    merge_commitments,
)
from memplane.persona.merge.relationships import merge_relationships
from memplane.persona.merge.rollup import merge_rollup
from memplane.persona.merge.sections import merge_sections
from memplane.persona.merge.sessions import merge_sessions
from memplane.persona.merge.thought_threads import merge_threads
from memplane.persona.version_order import (
    EARLIEST_INSTANT,
    DocumentVersion,
    MergeSide,
    read_instant,
    read_version,
    sort_newest_first,
)

__all__ = ["MergeResult", "MergeSide", "merge"]

BodyMerge: TypeAlias = Callable[[MergeInput, ConflictResolver], str]

BODY_MERGES: Final[Mapping[MergeFamily, BodyMerge]] = {
    MergeFamily.INDEX: merge_index,
    MergeFamily.FACT: merge_facts,
    MergeFamily.SESSIONS: merge_sessions,
    MergeFamily.CALIBRATION: merge_calibration,
    MergeFamily.DRAFTS: merge_drafts,
    MergeFamily.SECTIONS: merge_sections,
    MergeFamily.COMMITMENTS: merge_commitments,
    MergeFamily.CALLBACKS: merge_callbacks,
    MergeFamily.CARRY_FORWARD: merge_carry_forward,
    MergeFamily.PEOPLE: merge_relationships,
    MergeFamily.THREADS: merge_threads,
    MergeFamily.ROLLUP: merge_rollup,
}
"""How bodies are merged. What is opaque has none."""


class MergeResult(msgspec.Struct, frozen=True):
    """What two versions became. `lost` is a version that is not all in it, to be kept aside."""

    data: bytes
    lost: bytes | None = None


def merge(
    family: MergeFamily,
    base: bytes | None,
    ours: MergeSide,
    theirs: MergeSide,
    *,
    gone: frozenset[str] = frozenset(),
) -> MergeResult:
    """Merge two versions of a document over the last one that both knew.

    Without a base they never met. Links of the index to documents that are `gone` are dropped.
    """
    if family is MergeFamily.INDEX and gone:
        base = without_links(base, gone) if base is not None else None
        ours, theirs = (
            replace(side, data=without_links(side.data, gone)) for side in (ours, theirs)
        )
    if ours.data in {theirs.data, base}:
        return MergeResult(theirs.data)
    if theirs.data == base:
        return MergeResult(ours.data)
    known = None if base is None else read_version(MergeSide(base))
    sides = read_version(ours), read_version(theirs)
    unchanged = _without_conflict(known, *sides)
    if unchanged is not None:
        return MergeResult(unchanged.side.data)
    merged = _merge(family, known, *sides)
    changed = max(
        ours.changed, theirs.changed, key=lambda text: read_instant(text) or EARLIEST_INSTANT
    )
    reread = read_version(MergeSide(merged.data, changed))
    if all(_merge(family, known, reread, side).data == merged.data for side in sides):
        return merged
    # Two machines would pass such a text to and fro. It takes odd Markdown to get here.
    return _keep_newer(known, *sides)


def _merge(
    family: MergeFamily,
    base: DocumentVersion | None,
    ours: DocumentVersion,
    theirs: DocumentVersion,
) -> MergeResult:
    unchanged = _without_conflict(base, ours, theirs)
    if unchanged is not None:
        return MergeResult(unchanged.side.data)
    body_merge = BODY_MERGES.get(family)
    if body_merge is None or _cannot_join(family, base, ours, theirs):
        return _keep_newer(base, ours, theirs)
    newer, older = sort_newest_first(ours, theirs)
    merged, resolver = _join(body_merge, base, newer, older)
    if resolver.must_swap_sides():
        newer, older = older, newer
        merged, resolver = _join(body_merge, base, newer, older)
    loser = older if resolver.older_lost else newer if resolver.newer_lost else None
    return MergeResult(merged, loser.side.data if loser else None)


def _without_conflict(
    base: DocumentVersion | None, ours: DocumentVersion, theirs: DocumentVersion
) -> DocumentVersion | None:
    """Return the version that holds all there is; None when neither does."""
    before = base and base.side.data
    if ours.side.data in {theirs.side.data, before}:
        return theirs
    if theirs.side.data == before:
        return ours
    base_meaning = base and base.meaning
    if ours.meaning == theirs.meaning:
        return sort_newest_first(ours, theirs)[0]
    if ours.meaning == base_meaning:
        return theirs
    return ours if theirs.meaning == base_meaning else None


def _cannot_join(
    family: MergeFamily,
    base: DocumentVersion | None,
    ours: DocumentVersion,
    theirs: DocumentVersion,
) -> bool:
    """Say whether one of the two has to be taken as it is."""
    documents = ours.document, theirs.document
    if any(document.opaque is not None for document in documents):
        return True
    is_one_empty = len({_is_empty(document) for document in documents}) > 1
    return base is None and (family is MergeFamily.FACT or is_one_empty)


def _keep_newer(
    base: DocumentVersion | None, ours: DocumentVersion, theirs: DocumentVersion
) -> MergeResult:
    """Keep the newer version whole. Of two that never met, an empty one is never the newer."""
    newer, older = sort_newest_first(ours, theirs)
    if base is None and _is_empty(newer.document) and not _is_empty(older.document):
        newer, older = older, newer
    lost = older.document
    is_in = _is_empty(lost) and set(lost.fields) <= set(newer.document.fields)
    return MergeResult(newer.side.data, None if is_in else older.side.data)


def _join(
    body_merge: BodyMerge,
    base: DocumentVersion | None,
    newer: DocumentVersion,
    older: DocumentVersion,
) -> tuple[bytes, ConflictResolver]:
    """Merge frontmatter and body with plain line endings, then set the text as it was set."""
    known = base if base and base.document.opaque is None else None
    versions = MergeInput(known.document if known else None, newer.document, older.document)
    resolver = ConflictResolver(tied=newer.instant == older.instant)
    fields = merge_frontmatter(versions, resolver)
    fence = "---\n" if fields or (versions.newer.opening and versions.older.opening) else ""
    body = body_merge(versions, resolver)
    document = Document(opening=fence, fields=fields, closing=fence, body=body)
    text = render(_with_newest_stamp(document, newer, older)).decode()
    setting = resolver.three_way(
        known.setting if known else None, newer.setting, older.setting, losing=False
    )
    bom, eol = setting.split(" ")
    return (bom + text.replace("\n", eol)).encode(), resolver


def _with_newest_stamp(
    document: Document, newer: DocumentVersion, older: DocumentVersion
) -> Document:
    """Return the document with the later of both `modified`, when there is any."""
    if newer.document.modified is None and older.document.modified is None:
        return document
    document = parse(render(document))
    written_at = read_instant(document.modified)
    if document.modified is None or (written_at and written_at >= newer.instant):
        return document
    newer_stamp = newer.document.modified or ""
    stamp = newer_stamp if read_instant(newer_stamp) else newer.side.changed
    return with_value(document, "modified", stamp)


def _is_empty(document: Document) -> bool:
    return not (document.opaque or document.body.strip())
