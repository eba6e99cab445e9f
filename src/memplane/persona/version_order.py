"""Which of two versions of a document is the newer one (pure).

Every merge asks this, on every machine, and all must get the same answer. So each version has one
instant of its own, and instants are compared: to compare `modified` here and the recorded change
there, depending on what the other side has, would let three versions beat each other in a ring.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Final

import msgspec

from memplane.persona.document import Document, parse, render_semantics, with_plain_lines

EARLIEST_INSTANT: Final = datetime.min.replace(tzinfo=UTC)
"""The instant of what nobody knows the time of."""


class MergeSide(msgspec.Struct, frozen=True):
    """One of the two versions that are merged.

    `changed` is when memplane first saw this content (RFC 3339); empty when that is not known.
    """

    data: bytes
    changed: str = ""


class DocumentVersion(msgspec.Struct, frozen=True):
    """A side that was read.

    The instant is when it was written, as far as anybody knows. The document has plain line
    endings; `meaning` is what counts when it is compared, `setting` how the text is set: its byte
    order mark and its line ending.
    """

    side: MergeSide
    instant: datetime
    document: Document
    meaning: bytes
    setting: str

    @property
    def rank(self) -> tuple[datetime, str]:
        """What decides which version is newer: at the same instant, the greater SHA-256."""
        return self.instant, hashlib.sha256(self.side.data).hexdigest()


def read_version(side: MergeSide) -> DocumentVersion:
    """Read a side. Its instant is what its frontmatter says, else when it was first seen."""
    original = parse(side.data)
    instant = read_instant(original.modified) or read_instant(side.changed) or EARLIEST_INSTANT
    document = with_plain_lines(original)
    setting = f"{original.bom} {original.eol}"
    return DocumentVersion(side, instant, document, render_semantics(document), setting)


def read_instant(text: str | None) -> datetime | None:
    """Read an instant; without an offset it is in UTC."""
    try:
        read = datetime.fromisoformat((text or "").strip())
        return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def sort_newest_first(
    first: DocumentVersion, second: DocumentVersion
) -> tuple[DocumentVersion, DocumentVersion]:
    """Put the newer version first, whichever way round they come."""
    return (first, second) if first.rank >= second.rank else (second, first)


def tie_break_digest(*texts: str) -> str:
    """Return what decides between texts of the same instant, in whatever order they come."""
    return hashlib.sha256("\0".join(sorted(texts)).encode()).hexdigest()
