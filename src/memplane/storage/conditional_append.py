"""Appending where a store can only replace: read, extend, write if nobody else did."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from memplane.errors import ConcurrencyError
from memplane.kit.retry_clock import RetryClock
from memplane.storage.lineage import Lineage, Stamp
from memplane.storage.store import NO_METADATA, Absent, Matches, ObjectStore, StoredObject, Version


class AppendResult(msgspec.Struct, frozen=True):
    """What an append left at the key."""

    data: bytes
    version: Version
    metadata: Mapping[str, str]


async def append_by_rewriting(
    store: ObjectStore,
    key: str,
    data: bytes,
    *,
    stamp: Stamp,
    pacing: RetryClock,
    known: StoredObject | None = None,
) -> AppendResult | None:
    """Append with conditional writes alone; a stamp that already landed adds nothing.

    `known` is the object as last seen; while nobody else wrote, it saves reading it. Returns what
    is at the key now, or None when the stamp had landed before.

    Raises:
        ConcurrencyError: Others kept winning the race for half a minute. Nothing was added.
    """
    attempts = pacing.for_contention()
    while True:
        stored = known or await store.read(key)
        metadata = stored.metadata if stored else NO_METADATA
        lineage = Lineage.parse(metadata)
        if stored and lineage.includes(stamp):
            return None
        content = stored.data + data if stored else data
        full_metadata = {**metadata, **lineage.plus(stamp).metadata()}
        expect = Matches(stored.version) if stored else Absent()
        try:
            version = await store.write(key, content, expect=expect, metadata=full_metadata)
        except ConcurrencyError:
            if not await attempts.wait_for_next():
                raise
            known = None
        else:
            return AppendResult(content, version, full_metadata)
