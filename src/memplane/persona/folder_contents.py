"""All documents of a folder at once, for whoever looks at them without syncing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from memplane.errors import StorageError
from memplane.persona.folder import DocumentFolder

_MAX_EPOCH_S: Final = 253_402_300_799
"""The end of the year 9999: a file may claim to be of later, a date cannot be."""


class FolderContents(msgspec.Struct, frozen=True):
    """The documents by key, when each was changed, and what could not be read and why."""

    files: Mapping[str, bytes]
    changed: Mapping[str, datetime]
    refused: Mapping[str, str]
    missing: bool


def read_documents(folder: DocumentFolder) -> FolderContents:
    """Read every document. A folder that is missing has none, and says so."""
    scan = folder.scan()
    files: dict[str, bytes] = {}
    refused = dict(scan.refused)
    for key in sorted(scan.documents):
        try:
            text = folder.read(key)
        except StorageError as error:
            refused[key] = str(error)
        else:
            if text is not None:
                files[key] = text
    changed = {key: _to_datetime(scan.documents[key].mtime_ns) for key in files}
    return FolderContents(files, changed, refused, scan.missing)


def _to_datetime(nanoseconds: int) -> datetime:
    return datetime.fromtimestamp(min(max(nanoseconds / 1e9, 0.0), _MAX_EPOCH_S), UTC)
