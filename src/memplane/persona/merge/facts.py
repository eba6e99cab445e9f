"""Facts: prose, merged line by line (pure)."""

from __future__ import annotations

from memplane.persona.merge.conflict_resolver import ConflictResolver, MergeInput
from memplane.persona.merge.line_merge import merge_lines


def merge_facts(versions: MergeInput, resolver: ConflictResolver) -> str:
    """Merge prose. Where both sides changed the same lines, those of the newer one stay."""
    base = versions.base.body if versions.base else ""
    return merge_lines(base, versions.newer.body, versions.older.body, resolver)
