"""Writing a document into the folder on somebody's behalf, beside whoever else writes there."""

from __future__ import annotations

from memplane.kit.ids import new_id
from memplane.persona.folder import DocumentFolder


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
    folder.bury(key, away)
    return True
