"""Writing a document into the folder on somebody's behalf, beside whoever else writes there."""

from __future__ import annotations

import hashlib

from memplane.errors import ConcurrencyError, InvalidRequest
from memplane.kit.ids import new_id
from memplane.persona.api_types import WrittenDocument
from memplane.persona.document import parse
from memplane.persona.document_kinds import INDEX_KEY
from memplane.persona.folder import DocumentFolder
from memplane.persona.index_file import with_link
from memplane.persona.publish_gate import PublishGate


def version_of(text: bytes | None) -> str:
    """Return the version of a document with this text; empty when there is no document."""
    return hashlib.sha256(text).hexdigest() if text is not None else ""


def put_document(
    folder: DocumentFolder, key: str, text: bytes, *, expected: str, gate: PublishGate
) -> WrittenDocument:
    """Write a document that may be published, if it still has the version that is expected.

    What it replaces is kept as a snapshot. A new document gets a line in the index.

    Raises:
        InvalidRequest: It could not be published as it is. Nothing was written.
        ConcurrencyError: The document has another version by now. Nothing was written.
        InvalidKey: No document can have that key.
    """
    before = folder.read(key)
    if version_of(before) != expected:
        raise ConcurrencyError(_describe_conflict(version_of(before), expected), key=key)
    if refusal := gate.refusal(key, text):
        raise InvalidRequest(f"{key}: {refusal.reason}", fields={"text": refusal.reason})
    if before != text and not write_document(folder, key, text, expected=before):
        raise ConcurrencyError("is being changed: read it again, then write", key=key)
    is_linked = before is not None or link_document(folder, key, text)
    return WrittenDocument(
        key=key, version=version_of(text), created=before is None, linked=is_linked
    )


def _describe_conflict(version: str, expected: str) -> str:
    if not version:
        return "does not exist any more: write it without a version to create it"
    if not expected:
        return f"exists already, with version {version}: read it, and write it with that version"
    return f"was changed since it was read, and has version {version}: read it again"


def link_document(folder: DocumentFolder, key: str, text: bytes) -> bool:
    """Give a document a line in the index; False when another writer is at the index."""
    if key == INDEX_KEY:
        return True
    document, index = parse(text), folder.read(INDEX_KEY)
    linked = with_link(index or b"", key, document.name or key, document.description or "")
    return linked == index or write_document(folder, INDEX_KEY, linked, expected=index)


def write_document(
    folder: DocumentFolder, key: str, text: bytes, *, expected: bytes | None
) -> bool:
    """Put a text in a document's place, unless the document is no longer as expected.

    What it replaces is kept as a snapshot. None is expected where no document is.
    """
    with folder.writing():
        name = folder.stage(key, text, over=expected, noted=False)
        if folder.swap(key, name, expected) is not None:
            return True
        folder.unstage(key, name)
        return False


def remove_document(folder: DocumentFolder, key: str, *, expected: bytes) -> bool:
    """Move a document to the trash, unless it is no longer as expected."""
    away = new_id()
    if not folder.discard(key, away, expected):
        return False
    folder.purge_discarded(key, away)
    return True
