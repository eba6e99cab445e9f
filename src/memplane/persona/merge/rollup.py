"""Weekly, monthly and yearly digests: what they were made from decides (pure).

They are synthesised, so two texts about the same sources say the same twice. Only texts about
different sources are joined.
"""

from __future__ import annotations

from memplane.persona.document import Document
from memplane.persona.merge.conflict_resolver import ConflictResolver, MergeInput
from memplane.persona.merge.sections import merge_sections


def merge_rollup(versions: MergeInput, resolver: ConflictResolver) -> str:
    """Take the text that was made from more; join texts that were made from different things."""
    newer, older = versions.newer, versions.older
    base = versions.base.body if versions.base else None
    ours, theirs = _sources(newer), _sources(older)
    if ours == theirs or base in {newer.body, older.body}:
        return resolver.three_way(base, newer.body, older.body)
    if not (ours <= theirs or theirs <= ours):
        return merge_sections(versions, resolver)
    lead, other = (newer, older) if theirs < ours else (older, newer)
    if other.body != lead.body:
        resolver.lose(newer=other is newer)
    return lead.body


def _sources(document: Document) -> frozenset[str]:
    sources = document.value("sources")
    return (
        frozenset(str(source) for source in sources) if isinstance(sources, tuple) else frozenset()
    )
