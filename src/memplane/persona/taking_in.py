"""Documents from an archive, taken into a folder that may have others of the same names."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from memplane.clock import milli_stamp
from memplane.errors import StorageError
from memplane.persona.combining import combine
from memplane.persona.folder import Folder
from memplane.persona.model import Combined, Remote
from memplane.persona.reading import documents_in
from memplane.persona.writing import write_document


class Taken(msgspec.Struct, frozen=True):
    """What became of one document: new, same, replaced, merged or failed; and more to tell."""

    key: str
    what: str
    more: str = ""


def take_in(
    folder: Folder, archived: Mapping[str, bytes], *, now: datetime, replace: bool
) -> list[Taken]:
    """Take documents in, merged with those here, or in their place.

    Nothing is removed. What a document said before is kept as a snapshot, and a text that a merge
    leaves out as a conflict copy.
    """
    times = documents_in(folder).changed
    taken: list[Taken] = []
    for key, text in sorted(archived.items()):
        changed = milli_stamp(times[key]) if key in times else ""
        try:
            here = folder.read(key)
            wanted = _wanted(key, here, text, changed, replace=replace)
            done = _put(folder, key, here, wanted, now=now)
            changes = "replaced" if replace else "merged"
            taken.append(msgspec.structs.replace(done, what=done.what or changes))
        except StorageError as error:
            taken.append(Taken(key, "failed", str(error)))
    return taken


def _wanted(key: str, here: bytes | None, text: bytes, changed: str, *, replace: bool) -> Combined:
    if here is None or replace:
        return Combined(text)
    return combine(key, None, here, Remote(text, ""), changed=changed)


def _put(
    folder: Folder, key: str, here: bytes | None, wanted: Combined, *, now: datetime
) -> Taken:
    text = wanted.text or b""
    lost = ""
    if wanted.lost is not None:
        kept = folder.keep_copy(key, wanted.lost, label="import", now=now)
        lost = f"a text that did not fit is kept as {kept}"
    if text == here:
        return Taken(key, "" if lost else "same", lost)
    if not write_document(folder, key, text, expected=here):
        return Taken(key, "failed", "it is being written by somebody else")
    return Taken(key, "new" if here is None else "", lost)
