"""A look at a folder of documents and at what sync remembers of it. It changes nothing.

Nothing is locked: a sync may run meanwhile, and then one part of what is seen may be a moment
older than another. The container is not asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from memplane.errors import MemplaneError
from memplane.kit.clock import format_milli_timestamp
from memplane.persona.api_types import (
    ConflictCopyView,
    DocumentCondition,
    FolderInspection,
    InspectedDocument,
    SnapshotView,
)
from memplane.persona.baseline import QueuedDocument
from memplane.persona.baseline_reader import BaselineContents, read_baseline
from memplane.persona.document import Document, FrontmatterValue, parse
from memplane.persona.document_kinds import detect_kind
from memplane.persona.document_writer import version_of
from memplane.persona.folder import DocumentFolder
from memplane.persona.folder_scan import FolderScan
from memplane.persona.local_history import ConflictCopy
from memplane.persona.model import NEW_STATE, MergeBase
from memplane.persona.safe_open import open_folder_at, read_optional_file

_MAX_EPOCH_S: Final = 253_402_300_799
"""The end of the year 9999: a file may claim to be of later, a date cannot be."""


class DocumentInspection(msgspec.Struct, frozen=True):
    """One document with all that belongs to it; `text` is None when the file is not there."""

    seen: InspectedDocument
    text: bytes | None
    document: Document
    copies: tuple[tuple[ConflictCopyView, bytes], ...]
    snapshots: tuple[SnapshotView, ...]

    @property
    def version(self) -> str:
        """What tells this text from another; empty when there is none."""
        return version_of(self.text)

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The frontmatter, a row for each value."""
        return [*_rows("", self.document.values)]


def inspect_folder(root: Path, memory: Path) -> FolderInspection:
    """Look at a folder and at what is remembered of it."""
    folder, known = DocumentFolder(root, memory), read_baseline(memory)
    scan = folder.scan()
    if scan.missing:
        return FolderInspection(missing=True)
    copies = tuple(_copy(one, memory) for one in folder.conflicts())
    keys = {*scan.documents, *_not_settled(known)}
    seen = (_seen(key, folder, known, scan, copies=copies) for key in sorted(keys))
    return FolderInspection(
        tuple(one for one in seen if one is not None), copies, scan.refused, scan.ignored
    )


def inspect_document(root: Path, memory: Path, key: str) -> DocumentInspection | None:
    """Look at one document; None when there is nothing of that name, now or before.

    Raises:
        StorageError: It cannot be read, or no document can be called so.
    """
    folder, known = DocumentFolder(root, memory), read_baseline(memory)
    text = folder.read(key)
    copies = tuple(_copy(one, memory) for one in folder.conflicts() if one.key == key)
    kept = tuple(
        SnapshotView(one.name, format_milli_timestamp(one.at), one.size)
        for one in folder.snapshots(key)
    )
    seen = _seen(key, folder, known, folder.scan(), copies=copies)
    if seen is None:
        if not copies and not kept:
            return None
        seen = _about(key, None, len(copies))
    texts = tuple((one, read_conflict_copy(memory, one.id) or b"") for one in copies)
    return DocumentInspection(seen, text, parse(text or b""), texts, kept)


def read_conflict_copy(memory: Path, copy: str) -> bytes | None:
    """Return the text of a conflict copy; None when it is no longer there."""
    *above, leaf = copy.split("/")
    with open_folder_at(memory, ("conflicts", *above)) as folder:
        return None if folder is None else read_optional_file(folder, leaf)


def _copy(one: ConflictCopy, memory: Path) -> ConflictCopyView:
    name = one.path.relative_to(memory / "conflicts").as_posix()
    return ConflictCopyView(name, one.key, format_milli_timestamp(one.at), one.label)


def _not_settled(known: BaselineContents) -> Iterator[str]:
    """Name what is not in the folder and still has something to be told."""
    for key, state in known.states.items():
        was_there = state.base is not None and state.base.text is not None
        if was_there or state.pending or state.apply is not None:
            yield key
    yield from known.waiting


def _seen(
    key: str,
    folder: DocumentFolder,
    known: BaselineContents,
    scan: FolderScan,
    *,
    copies: tuple[ConflictCopyView, ...],
) -> InspectedDocument | None:
    count = sum(one.key == key for one in copies)
    try:
        text = folder.read(key)
    except MemplaneError as error:
        one = _about(key, None, count)
        return replace(one, condition=DocumentCondition.UNREADABLE, reason=str(error))
    condition, reason = _condition(key, text, known)
    if text is None and condition is DocumentCondition.IN_STEP:
        return None  # it is gone on both sides
    row, file = known.waiting.get(key), scan.documents.get(key)
    return replace(
        _about(key, text, count),
        condition=condition,
        reason=reason,
        next_try=row.next_try if row and not row.dead else "",
        changed=_time(file.mtime_ns) if file else "",
    )


def _about(key: str, text: bytes | None, copies: int) -> InspectedDocument:
    document = parse(text or b"")
    return InspectedDocument(
        key=key,
        kind=detect_kind(key, document.type).name,
        name=document.name or "",
        description=document.description or "",
        size=len(text) if text is not None else None,
        copies=copies,
    )


def _condition(
    key: str, text: bytes | None, known: BaselineContents
) -> tuple[DocumentCondition, str]:
    held, row = known.held.get(key), known.waiting.get(key)
    state = known.states.get(key, NEW_STATE)
    if held is not None and text is not None and version_of(text) == held.sha256:
        return DocumentCondition.HELD, held.reason
    if row is not None:
        return DocumentCondition.WAITING, _waits(row)
    if state.apply is not None or state.adopted is not None or state.pending:
        return DocumentCondition.UNFINISHED, "a sync was cut short; the next one settles it"
    return _change(state.base, text), ""


def _waits(row: QueuedDocument) -> str:
    if row.dead:
        return f"it was refused for good: {row.error}"
    times = "once" if row.attempts == 1 else f"{row.attempts} times"
    return f"tried {times}: {row.error}"


def _change(base: MergeBase | None, text: bytes | None) -> DocumentCondition:
    before = base.text if base is not None else None
    if text == before:
        return DocumentCondition.IN_STEP
    if text is None:
        return DocumentCondition.DELETED
    return DocumentCondition.NEW if before is None else DocumentCondition.CHANGED


def _rows(above: str, values: Mapping[str, FrontmatterValue]) -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        name = f"{above}{key}"
        if isinstance(value, str):
            yield name, value
        elif isinstance(value, Mapping):
            yield from _rows(f"{name}.", value)
        else:
            yield name, ", ".join(_flat(one) for one in value)


def _flat(value: FrontmatterValue) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_flat(one)}" for key, one in value.items())
    return ", ".join(_flat(one) for one in value)


def _time(nanoseconds: int) -> str:
    seconds = min(max(nanoseconds / 1e9, 0), _MAX_EPOCH_S)
    return format_milli_timestamp(datetime.fromtimestamp(seconds, UTC))
