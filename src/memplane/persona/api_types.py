"""What operations on documents take and return: the shapes that every interface shares (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

import msgspec

FolderId: TypeAlias = Annotated[
    str, msgspec.Meta(description="A folder's id; without one, the usual folder.")
]
DocumentKey: TypeAlias = Annotated[
    str, msgspec.Meta(description="The document's name in its folder, such as `user_role.md`.")
]
DocumentVersion: TypeAlias = Annotated[
    str, msgspec.Meta(description="The version that was read; empty where no document was.")
]


class DocumentCondition(StrEnum):
    """How a document is, as far as this machine knows."""

    IN_STEP = "in step"
    NEW = "new here"
    CHANGED = "changed here"
    DELETED = "deleted here"
    UNFINISHED = "unfinished"
    WAITING = "waiting"
    HELD = "held"
    UNREADABLE = "unreadable"


class InspectedDocument(msgspec.Struct, frozen=True):
    """A document as it is on disk; `reason` explains its condition."""

    key: str
    kind: str
    name: str
    description: str
    size: int | None
    copies: int = 0
    condition: DocumentCondition = DocumentCondition.IN_STEP
    reason: str = ""
    changed: str = ""
    next_try: str = ""


class ConflictCopyView(msgspec.Struct, frozen=True):
    """A conflict copy: its name for a form, whose text it was, when it was kept, and why."""

    id: str
    key: str
    at: str
    label: str


class FolderInspection(msgspec.Struct, frozen=True):
    """All that there is to see of a folder."""

    documents: tuple[InspectedDocument, ...] = ()
    copies: tuple[ConflictCopyView, ...] = ()
    refused: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    ignored: int = 0
    missing: bool = False

    def count(self, *conditions: str) -> int:
        """Count the documents that are so."""
        return sum(one.condition in conditions for one in self.documents)


class SnapshotView(msgspec.Struct, frozen=True):
    """An earlier text of a document, by name, and when it was replaced."""

    name: str
    at: str
    size: int


class SyncRun(msgspec.Struct, frozen=True):
    """A sync that was asked for here: since when, whether it ended, and how."""

    at: str
    state: Literal["running", "done", "failed"]
    words: str = ""


class FolderView(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of documents, where it is synced to and when that was; "" when it never was.

    `objection` says why it cannot be synced from here. `sync` is the last sync that was asked for.
    """

    id: str
    root: str
    address: str
    prefix: str
    project: str = ""
    name: str = ""
    last: str = ""
    objection: str = ""
    sync: SyncRun | None = None


class FolderList(msgspec.Struct, frozen=True, kw_only=True):
    """The folders, the usual one first; `objection` says why none of them can be synced."""

    folders: tuple[FolderView, ...]
    objection: str = ""


class FolderQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which folder."""

    folder: FolderId = ""


class DocumentQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which document."""

    key: DocumentKey
    folder: FolderId = ""


class SnapshotQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which earlier text of a document."""

    key: DocumentKey
    name: Annotated[str, msgspec.Meta(description="The snapshot's name.")]
    folder: FolderId = ""


class DocumentList(msgspec.Struct, frozen=True, kw_only=True):
    """All that a folder holds."""

    folder: FolderView
    contents: FolderInspection


class ConflictCopyText(msgspec.Struct, frozen=True, kw_only=True):
    """A conflict copy and its text."""

    copy: ConflictCopyView
    text: str


class DocumentView(msgspec.Struct, frozen=True, kw_only=True):
    """One document; `text` is None when the file is not there.

    `version` is what a write has to name. Bytes that are not UTF-8 are replaced in a text, which
    `is_exact` tells. `fields` are the frontmatter, a row for each value, and `flaw` says what is
    wrong with it.
    """

    folder: FolderView
    document: InspectedDocument
    text: str | None
    version: str
    is_exact: bool = True
    fields: tuple[tuple[str, str], ...] = ()
    flaw: str = ""
    copies: tuple[ConflictCopyText, ...] = ()
    snapshots: tuple[SnapshotView, ...] = ()


class SnapshotText(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier text of a document."""

    text: str


class DocumentWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A text for a document; with the version that it replaces, or as a new document."""

    key: DocumentKey
    text: str
    expected_version: DocumentVersion = ""
    folder: FolderId = ""


class WrittenDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document that was written.

    `linked` says whether the index has a line for it; another writer may have kept it from that.
    """

    key: str
    version: str
    created: bool
    linked: bool


class ConflictCopyChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Which conflict copy, and the version of the document that it is to replace."""

    copy: Annotated[str, msgspec.Meta(description="The id of the conflict copy.")]
    expected_version: DocumentVersion = ""
    folder: FolderId = ""


class ConflictCopyReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The document that a conflict copy belonged to."""

    key: str


class SyncRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which folder is to be synced."""

    folder: FolderId = ""
