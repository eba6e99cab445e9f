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
        found = known or await store.read(key)
        metadata = found.metadata if found else NO_METADATA
        lineage = Lineage.parse(metadata)
        if found and lineage.includes(stamp):
            return None
        whole = found.data + data if found else data
        marked = {**metadata, **lineage.plus(stamp).metadata()}
        expect = Matches(found.version) if found else Absent()
        try:
            version = await store.write(key, whole, expect=expect, metadata=marked)
        except ConcurrencyError:
            if not await attempts.another():
                raise
            known = None
        else:
            return AppendResult(whole, version, marked)
