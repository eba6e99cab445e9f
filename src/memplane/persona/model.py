"""What sync remembers of one document (pure).

A text is the document's bytes, or None for a document that was deleted. That a document was never
there is said by the absence of a `Base` or of a `Remote`, not by None.
"""

from __future__ import annotations

import hashlib
from typing import Final, TypeAlias

import msgspec

from memplane.storage.lineage import Lineage

OptionalText: TypeAlias = bytes | None

NO_LINEAGE: Final = Lineage()


def sha256_of(text: bytes) -> str:
    """Return what tells this text from all others."""
    return hashlib.sha256(text).hexdigest()


class MergeBase(msgspec.Struct, frozen=True):
    """What this machine and the container last had in common.

    `etag` is the version of the container's object when that object holds just this text; None
    when it holds more than this text, or when that is not known.
    """

    text: OptionalText
    etag: str | None = None
    lineage: Lineage = NO_LINEAGE
    changed: str = ""


class PutIntent(msgspec.Struct, frozen=True):
    """A put that may have landed: its number, the local text it told, and what it expected."""

    seq: int
    text: OptionalText
    expected: str | None


class LocalChange(msgspec.Struct, frozen=True):
    """A change of the local file that may have happened; `name` is the evidence.

    While a new text is staged under that name the file has not been replaced; once the file lies
    there discarded, it has been deleted.
    """

    name: str
    text: OptionalText
    etag: str
    lineage: Lineage
    changed: str


class DocumentState(msgspec.Struct, frozen=True):
    """All that is remembered of one document.

    `adopted` is the local text that was found when this machine's memory of earlier syncs was
    gone: what of it the container lacks may have been deleted elsewhere.
    """

    base: MergeBase | None = None
    pending: tuple[PutIntent, ...] = ()
    apply: LocalChange | None = None
    adopted: bytes | None = None


NEW_STATE: Final = DocumentState()


class RemoteDocument(msgspec.Struct, frozen=True):
    """The container's object: a text or a tombstone, its version, and whose writes are in it."""

    text: OptionalText
    etag: str
    lineage: Lineage = NO_LINEAGE
    changed: str = ""
    covers: str = ""
    """Of a tombstone: the SHA-256 of the text that was deleted."""
    flaw: str = ""
    """Why its bytes may not become a document here; empty when they may."""


class MergedDocument(msgspec.Struct, frozen=True):
    """One text made of two, and a text that could not go into it and must be kept aside."""

    text: OptionalText
    lost: bytes | None = None
    changed: str = ""
