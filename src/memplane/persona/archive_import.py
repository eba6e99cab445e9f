"""Documents from an archive, taken into a folder that may have others of the same names."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from memplane.errors import StorageError
from memplane.kit.clock import format_milli_timestamp
from memplane.persona.document_merge import merge_document
from memplane.persona.document_writer import write_document
from memplane.persona.folder import DocumentFolder
from memplane.persona.folder_contents import read_documents
from memplane.persona.model import MergedDocument, RemoteDocument


class ImportedDocument(msgspec.Struct, frozen=True):
    """What became of one document: new, same, replaced, merged or failed; and more to tell."""

    key: str
    outcome: str
    detail: str = ""


def import_documents(
    folder: DocumentFolder, archived: Mapping[str, bytes], *, now: datetime, replace: bool
) -> list[ImportedDocument]:
    """Take documents in, merged with those here, or in their place.

    Nothing is removed. What a document said before is kept as a snapshot, and a text that a merge
    leaves out as a conflict copy.
    """
    times = read_documents(folder).changed
    imported: list[ImportedDocument] = []
    for key, text in sorted(archived.items()):
        changed = format_milli_timestamp(times[key]) if key in times else ""
        try:
            local = folder.read(key)
            target = _choose_text(key, local, text, changed, replace=replace)
            result = _put(folder, key, local, target, now=now)
            changes = "replaced" if replace else "merged"
            imported.append(msgspec.structs.replace(result, outcome=result.outcome or changes))
        except StorageError as error:
            imported.append(ImportedDocument(key, "failed", str(error)))
    return imported


def _choose_text(
    key: str, local: bytes | None, text: bytes, changed: str, *, replace: bool
) -> MergedDocument:
    if local is None or replace:
        return MergedDocument(text)
    return merge_document(key, None, local, RemoteDocument(text, ""), changed=changed)


def _put(
    folder: DocumentFolder, key: str, local: bytes | None, target: MergedDocument, *, now: datetime
) -> ImportedDocument:
    text = target.text or b""
    lost = ""
    if target.lost is not None:
        copy = folder.keep_copy(key, target.lost, label="import", now=now)
        lost = f"a text that did not fit is kept as {copy}"
    if text == local:
        return ImportedDocument(key, "" if lost else "same", lost)
    if not write_document(folder, key, text, expected=local):
        return ImportedDocument(key, "failed", "it is being written by somebody else")
    return ImportedDocument(key, "new" if local is None else "", lost)
