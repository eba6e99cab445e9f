"""One text out of what is here and what is there (pure)."""

from __future__ import annotations

from memplane.persona.document import parse
from memplane.persona.document_kinds import detect_kind
from memplane.persona.merge import MergeSide, merge
from memplane.persona.model import (
    MergeBase,
    MergedDocument,
    OptionalText,
    RemoteDocument,
    sha256_of,
)


def merge_document(
    key: str,
    base: MergeBase | None,
    local: OptionalText,
    remote: RemoteDocument,
    *,
    changed: str,
    gone: frozenset[str] = frozenset(),
) -> MergedDocument:
    """Merge two versions of a document. An edit beats a deletion, and a deletion beats no change.

    `changed` is when the local text was last changed, `gone` names documents that were deleted.
    """
    theirs = MergedDocument(remote.text, changed=remote.changed)
    ours = MergedDocument(local, changed=changed)
    if local == remote.text or (base is not None and local == base.text):
        return theirs
    if base is not None and remote.text == base.text:
        return ours
    if local is None:
        return theirs
    if remote.text is None:
        return theirs if base is None and _covered(local, remote) else ours
    family = detect_kind(key, _common_type(local, remote.text)).family
    before = base.text if base is not None else None
    sides = MergeSide(local, changed), MergeSide(remote.text, remote.changed)
    merged = merge(family, before, *sides, gone=gone)
    return MergedDocument(merged.data, merged.lost, max(changed, remote.changed))


def _common_type(first: bytes, second: bytes) -> str | None:
    """Return the type that both say; when they differ, only the file's name can tell."""
    type_name = parse(first).type
    return type_name if type_name == parse(second).type else None


def _covered(local: bytes, remote: RemoteDocument) -> bool:
    """Say whether this is the very text that was deleted, come back by a copy or a backup."""
    return sha256_of(local) == remote.covers
