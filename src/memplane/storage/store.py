"""The contract every object store keeps; `memplane.testing.object_conformance` checks it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final, NewType, Protocol, TypeAlias, runtime_checkable

import msgspec

from memplane.errors import ConcurrencyError
from memplane.storage.lineage import Stamp

Version = NewType("Version", str)
"""Opaque: an ETag in a container, a content hash in a folder. Equal versions, equal bytes."""

DELETED_METADATA: Final = "memplane_deleted"
"""The metadata name of an object that only records a deletion; readers of text do not see it."""

NO_METADATA: Final[Mapping[str, str]] = MappingProxyType({})


class StoredObject(msgspec.Struct, frozen=True):
    """Bytes, and the version they were read at."""

    data: bytes
    version: Version
    modified: datetime
    metadata: Mapping[str, str] = msgspec.field(default_factory=lambda: NO_METADATA)


class ObjectInfo(msgspec.Struct, frozen=True):
    """All that is known of an object without reading it."""

    key: str
    version: Version
    size: int
    modified: datetime
    metadata: Mapping[str, str] = msgspec.field(default_factory=lambda: NO_METADATA)


def describe_object(key: str, stored: StoredObject) -> ObjectInfo:
    """Describe an object that was read."""
    return ObjectInfo(key, stored.version, len(stored.data), stored.modified, stored.metadata)


class ObjectListing(msgspec.Struct, frozen=True):
    """A complete listing: what is there, sorted by key, and names there that cannot be keys."""

    entries: tuple[ObjectInfo, ...]
    refused: tuple[str, ...] = ()


class Absent(msgspec.Struct, frozen=True):
    """Write only if there is nothing at the key."""


class Matches(msgspec.Struct, frozen=True):
    """Write only if the key is still at this version."""

    version: Version


class Anything(msgspec.Struct, frozen=True):
    """Write whatever is there: the last writer wins.

    `seen` is what the writer last knew to be there: a version, `NOTHING`, or None when it does
    not know or care. Where it is given, `memplane.storage.conflict_copies` keeps a copy of what
    the write replaces instead.
    """

    seen: Version | None = None


NO_VERSION: Final = Version("")
"""What a writer has seen who knows that there is nothing."""


Expect: TypeAlias = Absent | Matches | Anything


def check_expectation(expect: Expect, actual: Version | None, *, key: str) -> None:
    """Compare what is at the key with what the caller believes is there.

    Raises:
        ConcurrencyError: They differ.
    """
    match expect:
        case Absent() if actual is not None:
            raise ConcurrencyError("exists already", key=key)
        case Matches(version) if actual != version:
            state = "is gone" if actual is None else "was changed by someone else"
            raise ConcurrencyError(state, key=key)
        case Absent() | Matches() | Anything():
            return


@runtime_checkable
class IndexedStore(Protocol):
    """A store with an index of its own, which can be made to agree with what is there."""

    async def settle(self) -> None:
        """Finish what is outstanding, and bring the index up to date."""
        ...


class ObjectStore(Protocol):
    """Reads and conditionally writes whole objects.

    Every method checks its key first (InvalidKey). Every method may raise BackendUnavailable: no
    answer, or one that cannot be trusted, so after a write the outcome is unknown; and
    PermissionDenied, ContainerMissing or AuthError where the store has such notions.
    """

    async def read(self, key: str) -> StoredObject | None:
        """Return the object, or None only when it is known that there is none."""
        ...

    async def stat(self, key: str) -> ObjectInfo | None:
        """Return what is known of the object, or None only when it is known that there is none."""
        ...

    async def write(
        self, key: str, data: bytes, *, expect: Expect, metadata: Mapping[str, str] = NO_METADATA
    ) -> Version:
        """Replace the object and its metadata atomically and durably; return its new version.

        Metadata is a few short ASCII strings. A folder keeps none.

        Raises:
            ConcurrencyError: The key is not in the expected state. Nothing was written.
            InvalidKey: A new key differs from an existing one only by case.
            TooLarge: The store does not take that many bytes.
        """
        ...

    async def append(self, key: str, data: bytes, *, stamp: Stamp) -> None:
        """Add to the end of the object, creating it; lossless against every other writer.

        Where an append can end in doubt (a container), one whose stamp already landed adds
        nothing, so that it can be repeated; so a writer must append to a key one at a time, with
        growing numbers. Where it cannot (a folder), the stamp is not needed.
        """
        ...

    async def delete(self, key: str, *, expect: Matches | Anything) -> bool:
        """Remove the object; return whether it was there.

        Raises:
            ConcurrencyError: It is there in another version. Nothing was removed.
        """
        ...

    async def listing(self, prefix: str = "") -> ObjectListing:
        """List every object whose key starts with the prefix. Complete, or it raises."""
        ...
