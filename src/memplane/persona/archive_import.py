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
    what: str
    more: str = ""


def import_documents(
    folder: DocumentFolder, archived: Mapping[str, bytes], *, now: datetime, replace: bool
) -> list[ImportedDocument]:
    """Take documents in, merged with those here, or in their place.

    Nothing is removed. What a document said before is kept as a snapshot, and a text that a merge
    leaves out as a conflict copy.
    """
    times = read_documents(folder).changed
    taken: list[ImportedDocument] = []
    for key, text in sorted(archived.items()):
        changed = format_milli_timestamp(times[key]) if key in times else ""
        try:
            here = folder.read(key)
            wanted = _wanted(key, here, text, changed, replace=replace)
            done = _put(folder, key, here, wanted, now=now)
            changes = "replaced" if replace else "merged"
            taken.append(msgspec.structs.replace(done, what=done.what or changes))
        except StorageError as error:
            taken.append(ImportedDocument(key, "failed", str(error)))
    return taken


def _wanted(
    key: str, here: bytes | None, text: bytes, changed: str, *, replace: bool
) -> MergedDocument:
    if here is None or replace:
        return MergedDocument(text)
    return merge_document(key, None, here, RemoteDocument(text, ""), changed=changed)


def _put(
    folder: DocumentFolder, key: str, here: bytes | None, wanted: MergedDocument, *, now: datetime
) -> ImportedDocument:
    text = wanted.text or b""
    lost = ""
    if wanted.lost is not None:
        kept = folder.keep_copy(key, wanted.lost, label="import", now=now)
        lost = f"a text that did not fit is kept as {kept}"
    if text == here:
        return ImportedDocument(key, "" if lost else "same", lost)
    if not write_document(folder, key, text, expected=here):
        return ImportedDocument(key, "failed", "it is being written by somebody else")
    return ImportedDocument(key, "new" if here is None else "", lost)
