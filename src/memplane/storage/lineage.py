"""Which writes are already in an object: the highest number of each writer (pure).

A write whose answer was lost may have landed. Its stamp in the object's lineage tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

LINEAGE_METADATA: Final = "memplane_lineage"
"""The metadata name the lineage is kept under."""

_MAX_WRITERS: Final = 64
_MAX_SEQ_DIGITS: Final = 20
_MAX_SEQ: Final = 2**64 - 1
"""Larger numbers are not ours, and could not be stored."""


class Stamp(msgspec.Struct, frozen=True):
    """Names one write: its writer, and a number that only grows for that writer."""

    writer: str
    seq: int


class Lineage(msgspec.Struct, frozen=True):
    """The writers known to have written, newest first, each with its highest number."""

    writers: tuple[Stamp, ...] = ()

    @classmethod
    def parse(cls, metadata: Mapping[str, str]) -> Lineage:
        """Read the lineage from an object's metadata; what is not ours is left out."""
        pairs = (pair.partition(":") for pair in metadata.get(LINEAGE_METADATA, "").split(","))
        return cls(tuple(Stamp(name, int(seq)) for name, _, seq in pairs if _is_number(seq)))

    def includes(self, stamp: Stamp) -> bool:
        """Say whether that write is already in the object."""
        return any(
            other.writer == stamp.writer and other.seq >= stamp.seq for other in self.writers
        )

    def plus(self, stamp: Stamp) -> Lineage:
        """Return the lineage after that write. The writers longest unseen are let go."""
        if self.includes(stamp):
            return self
        others = (other for other in self.writers if other.writer != stamp.writer)
        return Lineage((stamp, *others)[:_MAX_WRITERS])

    def metadata(self) -> dict[str, str]:
        """Write the lineage as metadata."""
        return {
            LINEAGE_METADATA: ",".join(f"{stamp.writer}:{stamp.seq}" for stamp in self.writers)
        }


def _is_number(text: str) -> bool:
    is_number = text.isdecimal() and text.isascii() and len(text) <= _MAX_SEQ_DIGITS
    return is_number and int(text) <= _MAX_SEQ
