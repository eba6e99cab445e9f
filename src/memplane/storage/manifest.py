"""`manifest.json`: what is in the container, without listing it. A cache, never the authority."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import msgspec

from memplane.errors import ConcurrencyError, InvalidKey, MemplaneError
from memplane.kit.clock import Clock
from memplane.kit.clock import format_timestamp as time_stamp
from memplane.kit.concurrency import run_for_each
from memplane.kit.debouncer import Debouncer
from memplane.kit.retry_clock import RetryClock
from memplane.storage.conditional_append import append_by_rewriting
from memplane.storage.keys import is_valid
from memplane.storage.lineage import Stamp
from memplane.storage.store import (
    NO_METADATA,
    Absent,
    Anything,
    Expect,
    Matches,
    ObjectInfo,
    ObjectListing,
    ObjectStore,
    StoredObject,
    Version,
)

MANIFEST_KEY: Final = "manifest.json"
SCHEMA_VERSION: Final = 1
_COALESCE_DELAY_S: Final = 5.0
_MAX_CONCURRENT_READS: Final = 16

_log = logging.getLogger(__name__)


class ManifestEntry(msgspec.Struct, frozen=True):
    """What the manifest says of one key."""

    size: int
    mtime: str
    etag: str
    sha256: str


ManifestEntries = dict[str, ManifestEntry]
ManifestChanges = Mapping[str, ManifestEntry | None]


class ManifestDifference(msgspec.Struct, frozen=True):
    """Where a manifest and a complete listing disagree."""

    missing: tuple[str, ...]
    extra: tuple[str, ...]
    stale: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.extra or self.stale)


def parse_manifest(data: bytes) -> ManifestEntries | None:
    """Read a manifest; None when it is damaged or of a schema we do not know."""
    try:
        body = json.loads(data)
        if body["schema_version"] != SCHEMA_VERSION:
            return None
        entries = cast("dict[str, dict[str, Any]]", body["entries"])
        return {
            key: ManifestEntry(
                int(entry["size"]), str(entry["mtime"]), str(entry["etag"]), str(entry["sha256"])
            )
            for key, entry in entries.items()
            if is_valid(key)
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def render_manifest(entries: ManifestEntries, updated_at: str) -> bytes:
    """Write a manifest."""
    body = {
        "schema_version": SCHEMA_VERSION,
        "updated_at": updated_at,
        "entries": {
            key: {
                "size": entry.size,
                "mtime": entry.mtime,
                "etag": entry.etag,
                "sha256": entry.sha256,
            }
            for key, entry in sorted(entries.items())
        },
    }
    return json.dumps(body, ensure_ascii=False, indent=1).encode()


def apply_changes(entries: ManifestEntries, changes: ManifestChanges) -> ManifestEntries:
    """Return the entries after the changes; of two writes to one key the later one stays."""
    after = dict(entries)
    for key, change in changes.items():
        known = after.get(key)
        if change is None:
            after.pop(key, None)
        elif known is None or known.mtime <= change.mtime:
            after[key] = change
    return after


def compare_manifest(entries: ManifestEntries, listed: Iterable[ObjectInfo]) -> ManifestDifference:
    """Compare a manifest with a complete listing."""
    actual = {info.key: info for info in listed}
    return ManifestDifference(
        missing=tuple(sorted(actual.keys() - entries.keys())),
        extra=tuple(sorted(entries.keys() - actual.keys())),
        stale=tuple(
            sorted(
                key
                for key in entries.keys() & actual.keys()
                if entries[key].etag != actual[key].version
            )
        ),
    )


class ManifestStore:
    """Keeps the manifest current with the writes that pass through, many of them at a time.

    Two stores that write at once each bring their own few changes; the loser of a race reads
    again and applies only those. The manifest itself is not among the objects.
    """

    def __init__(self, inner: ObjectStore, *, clock: Clock, pacing: RetryClock) -> None:
        self._inner = inner
        self._clock = clock
        self._pacing = pacing
        self._changes: dict[str, ManifestEntry | None] = {}
        self._debouncer = Debouncer(
            self.flush, delay=_COALESCE_DELAY_S, failure="the manifest waits"
        )

    async def read(self, key: str) -> StoredObject | None:
        return await self._inner.read(key)

    async def stat(self, key: str) -> ObjectInfo | None:
        return await self._inner.stat(key)

    async def listing(self, prefix: str = "") -> ObjectListing:
        listing = await self._inner.listing(prefix)
        entries = tuple(info for info in listing.entries if info.key != MANIFEST_KEY)
        return ObjectListing(entries, listing.refused)

    async def write(
        self, key: str, data: bytes, *, expect: Expect, metadata: Mapping[str, str] = NO_METADATA
    ) -> Version:
        _refuse_manifest_key(key)
        version = await self._inner.write(key, data, expect=expect, metadata=metadata)
        self._changes[key] = _entry(data, version, time_stamp(self._clock()))
        self._debouncer.schedule()
        return version

    async def append(self, key: str, data: bytes, *, stamp: Stamp) -> None:
        # Through our own write, which then knows the whole content.
        await append_by_rewriting(self, key, data, stamp=stamp, pacing=self._pacing)

    async def delete(self, key: str, *, expect: Matches | Anything) -> bool:
        was_deleted = await self._inner.delete(_refuse_manifest_key(key), expect=expect)
        self._changes[key] = None
        self._debouncer.schedule()
        return was_deleted

    async def flush(self) -> None:
        """Bring the manifest up to date with the writes so far."""
        changes, self._changes = self._changes, {}
        if not changes:
            return
        try:
            await self._update(changes)
        except BaseException:
            self._changes = {**changes, **self._changes}
            raise

    async def close(self) -> None:
        """Write what is outstanding, if that is possible: the objects themselves are safe."""
        await self._debouncer.close()
        try:
            await self.flush()
        except MemplaneError as error:
            _log.warning("the manifest is behind; `memplane manifest rebuild` mends it: %s", error)

    async def verify(self) -> ManifestDifference:
        """Compare the manifest with a complete listing."""
        stored = await self._inner.read(MANIFEST_KEY)
        known = parse_manifest(stored.data) if stored else None
        return compare_manifest(known or {}, (await self.listing()).entries)

    async def settle(self) -> None:
        """Make the manifest list exactly what is there."""
        await self.flush()
        if await self.verify():
            await self.rebuild()

    async def rebuild(self) -> ManifestEntries:
        """Make the manifest anew from a complete listing; unchanged objects are not read again."""
        attempts = self._pacing.for_contention()
        while True:
            stored = await self._inner.read(MANIFEST_KEY)
            known = (parse_manifest(stored.data) if stored else None) or {}
            entries = await self._describe_all((await self.listing()).entries, known)
            try:
                await self._put(entries, stored)
            except ConcurrencyError:
                if not await attempts.wait_for_next():
                    raise
            else:
                return entries

    async def _describe_all(
        self, listed: Iterable[ObjectInfo], known: ManifestEntries
    ) -> ManifestEntries:
        entries: ManifestEntries = {}

        async def describe(info: ObjectInfo) -> None:
            before = known.get(info.key)
            if before is not None and before.etag == info.version:
                entries[info.key] = before
            elif (stored := await self._inner.read(info.key)) is not None:
                entries[info.key] = _entry(
                    stored.data, stored.version, time_stamp(stored.modified)
                )

        await run_for_each(listed, describe, max_concurrent=_MAX_CONCURRENT_READS)
        return entries

    async def _update(self, changes: ManifestChanges) -> None:
        attempts = self._pacing.for_contention()
        while True:
            stored = await self._inner.read(MANIFEST_KEY)
            known = parse_manifest(stored.data) if stored else {}
            if known is None:
                _log.warning("the manifest cannot be read and is made anew")
                await self.rebuild()
                return
            try:
                await self._put(apply_changes(known, changes), stored)
            except ConcurrencyError:
                if not await attempts.wait_for_next():
                    raise
            else:
                return

    async def _put(self, entries: ManifestEntries, replaces: StoredObject | None) -> None:
        await self._inner.write(
            MANIFEST_KEY,
            render_manifest(entries, time_stamp(self._clock())),
            expect=Matches(replaces.version) if replaces else Absent(),
        )


def _refuse_manifest_key(key: str) -> str:
    if key == MANIFEST_KEY:
        raise InvalidKey("memplane keeps this object itself", key=key)
    return key


def _entry(data: bytes, version: Version, mtime: str) -> ManifestEntry:
    return ManifestEntry(len(data), mtime, version, hashlib.sha256(data).hexdigest())
