"""A container with a mirror on this machine: quick reads, batched appends, work without network.

Reads come from the mirror while its version is the one in a listing of the last few seconds.
Appends are durable in the outbox when they return and are sent together. A write that does not
reach the container waits in the outbox too, when it said `Anything`; a conditional one fails,
because only the container can say whether its condition holds.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from memplane.errors import (
    AuthError,
    BackendUnavailable,
    ConcurrencyError,
    InvalidKey,
    RequestRefused,
    StorageError,
    TooLarge,
)
from memplane.kit.clock import Clock
from memplane.kit.concurrency import run_for_each
from memplane.kit.debouncer import Debouncer
from memplane.kit.retry_clock import RetryClock
from memplane.storage.conditional_append import append_by_rewriting
from memplane.storage.keys import check_key, fold_key, refuse_collision
from memplane.storage.lineage import LINEAGE_METADATA, Lineage, Stamp
from memplane.storage.mirror import ObjectMirror
from memplane.storage.outbox import Outbox, OutboxItem
from memplane.storage.remote_view import RemoteView
from memplane.storage.store import (
    NO_METADATA,
    NO_VERSION,
    Anything,
    Expect,
    IndexedStore,
    Matches,
    ObjectInfo,
    ObjectListing,
    ObjectStore,
    StoredObject,
    Version,
    describe_object,
)

_BATCH_DELAY_S: Final = 5.0
_MAX_BATCH_BYTES: Final = 4096
_FOREGROUND_TIMEOUT_S: Final = 10.0
_MAX_CONCURRENT_READS: Final = 64
_PENDING_PREFIX: Final = "pending:"
"""Versions that begin so are of bytes that have not reached the container."""

_UNREACHABLE_ERRORS: Final = (BackendUnavailable, AuthError)
"""Without a network there is often no token to be had either."""

_log = logging.getLogger(__name__)


class PullResult(msgspec.Struct, frozen=True):
    """What a pull brought."""

    changed: tuple[str, ...]
    unchanged: int


class CachedStore:
    """Keeps the ObjectStore contract in front of a container."""

    def __init__(
        self,
        inner: ObjectStore,
        mirror: ObjectMirror,
        outbox: Outbox,
        *,
        clock: Clock,
        pacing: RetryClock,
    ) -> None:
        self._inner = inner
        self._mirror = mirror
        self._outbox = outbox
        self._clock = clock
        self._pacing = pacing
        self._view = RemoteView(pacing.elapsed)
        self._listing = asyncio.Lock()
        self._send_lock = asyncio.Lock()
        self._debouncer = Debouncer(self.flush, delay=_BATCH_DELAY_S, failure="unsent writes wait")

    async def open(self) -> None:
        """Take over what earlier processes could not send, and start to send it."""
        await asyncio.to_thread(self._outbox.take_over)
        if self._outbox.waiting_keys():
            self._debouncer.start()

    async def close(self) -> None:
        """Send what waits; what cannot be sent stays in the outbox for the next process."""
        await self._debouncer.close()
        try:
            await self.flush()
        except (StorageError, AuthError) as error:
            _log.warning("what waits in the outbox is sent by the next process: %s", error)
        await asyncio.to_thread(self._outbox.close)

    async def read(self, key: str) -> StoredObject | None:
        check_key(key)
        await self._flush_for(key)
        if await self._online():
            try:
                async with _foreground_timeout(key):
                    return await self._with_pending_writes(key, await self._current(key))
            except _UNREACHABLE_ERRORS as error:
                self._view.mark_unreachable(error)
        return await self._read_remembered(key)

    async def stat(self, key: str) -> ObjectInfo | None:
        check_key(key)
        await self._flush_for(key)
        if await self._online() and not self._outbox.holds(key):
            try:
                async with _foreground_timeout(key):
                    return self._view.known.get(key) or await self._inner.stat(key)
            except _UNREACHABLE_ERRORS as error:
                self._view.mark_unreachable(error)
        stored = await self._read_remembered(key)
        return describe_object(key, stored) if stored else None

    async def listing(self, prefix: str = "") -> ObjectListing:
        if self._outbox.waiting_keys() and not self._view.away:
            await self._flush_if_possible()
        if not await self._online() and not self._view.entries_by_key:
            raise BackendUnavailable("the container does not answer and was never listed here")
        entries = {key: info for key, info in self._view.known.items() if key.startswith(prefix)}
        for key in self._outbox.waiting_keys():
            if key.startswith(prefix):
                entries[key] = await self._expected(key)
        refused = tuple(name for name in self._view.refused if name.startswith(prefix))
        return ObjectListing(tuple(entries[key] for key in sorted(entries)), refused)

    async def pull(self, prefix: str = "") -> PullResult:
        """Bring the mirror up to date: one listing, then what changed, in parallel."""
        await self._list()
        keys = [key for key in sorted(self._view.known) if key.startswith(prefix)]
        changed = await asyncio.to_thread(self._find_unmirrored, keys)
        await run_for_each(changed, self._fetch, max_concurrent=_MAX_CONCURRENT_READS)
        return PullResult(tuple(changed), len(keys) - len(changed))

    async def write(
        self, key: str, data: bytes, *, expect: Expect, metadata: Mapping[str, str] = NO_METADATA
    ) -> Version:
        check_key(key)
        await self._flush_for(key)
        if isinstance(expect, Anything):
            return await self._overwrite(key, data, expect, metadata)
        self._require_nothing_waiting(key)
        copy = await asyncio.to_thread(self._mirror.load, key)
        if copy is not None and expect == Matches(copy.version):
            metadata = _with_lineage(copy, metadata)
        try:
            version = await self._inner.write(key, data, expect=expect, metadata=metadata)
        except ConcurrencyError:
            self._view.record_read(key, None)
            raise
        await self._remember(key, data, version, metadata)
        return version

    async def append(self, key: str, data: bytes, *, stamp: Stamp) -> None:
        del stamp  # the outbox stamps what it sends
        check_key(key)
        self._refuse_rival_of(key)
        self._debouncer.schedule()  # before anything that could be cancelled
        size = await asyncio.to_thread(self._outbox.append, key, data)
        if size >= _MAX_BATCH_BYTES and not self._view.away:
            self._debouncer.start()

    async def delete(self, key: str, *, expect: Matches | Anything) -> bool:
        check_key(key)
        await self._flush_for(key)
        self._require_nothing_waiting(key)
        was_deleted = await self._inner.delete(key, expect=expect)
        self._view.record_write(key, None)
        await asyncio.to_thread(self._mirror.drop, key)
        return was_deleted

    async def settle(self) -> None:
        """Send everything that waits, and have the store behind settle too."""
        await self.flush()
        if isinstance(self._inner, IndexedStore):
            await self._inner.settle()

    async def flush(self) -> None:
        """Send everything that waits, in order.

        Raises:
            StorageError: Some of it could not be sent and still waits.
        """
        async with self._send_lock:
            try:
                for item in await asyncio.to_thread(self._outbox.seal):
                    await self._send_or_reject(item)
            finally:
                if self._outbox.waiting_keys():
                    self._debouncer.schedule()

    # What is known here, and how sure that is.

    async def _online(self) -> bool:
        """Make sure that a recent listing is known, and say whether the container answers."""
        async with self._listing:  # one question, however many wait for its answer
            if not self._view.recent:
                try:
                    async with _foreground_timeout(""):
                        await self._list()
                except _UNREACHABLE_ERRORS as error:
                    self._view.mark_unreachable(error)
                    last = await asyncio.to_thread(self._mirror.load_listing)
                    if last is not None:
                        self._view.recall(last.entries)
            return not self._view.away

    async def _list(self) -> None:
        request_number = self._view.start_request()
        new, vanished = self._view.learn(await self._inner.listing(), request_number)
        if new:
            known = tuple(self._view.known.values())
            await asyncio.to_thread(self._mirror.save_listing, self._clock(), known)
        for key in vanished:
            await asyncio.to_thread(self._mirror.drop, key)

    async def _current(self, key: str) -> StoredObject | None:
        copy = await asyncio.to_thread(self._mirror.load, key)
        known = self._view.known.get(key)
        if copy is not None and known is not None and copy.version == known.version:
            return copy
        return await self._fetch(key)

    async def _read_remembered(self, key: str) -> StoredObject | None:
        copy = await asyncio.to_thread(self._mirror.load, key)
        items = await asyncio.to_thread(self._outbox.items, key)
        begins_here = any(not item.appends for item in items)
        known_absent = self._view.entries_by_key and key not in self._view.known
        if copy is None and not begins_here and not (items and known_absent):
            raise BackendUnavailable(
                "the container does not answer, and there is no copy on this machine", key=key
            )
        return await self._with_pending_writes(key, copy)

    async def _expected(self, key: str) -> ObjectInfo:
        """Describe what a key will hold when everything that waits for it has been sent."""
        known = self._view.known.get(key)
        size = known.size if known else 0
        for item in await asyncio.to_thread(self._outbox.items, key):
            size = size + len(item.data) if item.appends else len(item.data)
        return ObjectInfo(key, _pending_version(b"%d" % size), size, self._clock())

    async def _with_pending_writes(
        self, key: str, stored: StoredObject | None
    ) -> StoredObject | None:
        """Add to an object what was written here and has not been sent."""
        if not self._outbox.holds(key):
            return stored
        data = stored.data if stored else b""
        landed = Lineage.parse(stored.metadata if stored else NO_METADATA)
        for item in await asyncio.to_thread(self._outbox.items, key):
            if not item.appends:
                data = item.data
            elif not landed.includes(item.stamp):
                data += item.data
        return StoredObject(data, _pending_version(data), self._clock())

    def _find_unmirrored(self, keys: list[str]) -> list[str]:
        copies = ((key, self._mirror.load(key)) for key in keys)
        return [
            key
            for key, copy in copies
            if not copy or copy.version != self._view.known[key].version
        ]

    async def _fetch(self, key: str) -> StoredObject | None:
        request_number = self._view.start_request()
        stored = await self._inner.read(key)
        if self._view.is_outdated(key, request_number):
            return stored
        self._view.record_read(key, describe_object(key, stored) if stored else None)
        if stored is None:
            await asyncio.to_thread(self._mirror.drop, key)
            return None
        await asyncio.to_thread(self._mirror.save, key, stored)
        return stored

    async def _remember(
        self, key: str, data: bytes, version: Version, metadata: Mapping[str, str]
    ) -> None:
        stored = StoredObject(data, version, self._clock(), dict(metadata))
        self._view.record_write(key, describe_object(key, stored))
        await asyncio.to_thread(self._mirror.save, key, stored)

    # What waits to be sent.

    async def _overwrite(
        self, key: str, data: bytes, expect: Anything, metadata: Mapping[str, str]
    ) -> Version:
        copy = await asyncio.to_thread(self._mirror.load, key)
        seen = expect.seen
        if seen is None or seen.startswith(_PENDING_PREFIX):
            seen = copy.version if copy else None
        stamp = await asyncio.to_thread(self._outbox.next_stamp)
        if not self._outbox.holds(key) and not self._view.away:
            lineage = Lineage.parse(copy.metadata if copy else NO_METADATA)
            full_metadata = {**metadata, **lineage.plus(stamp).metadata()}
            try:
                async with _foreground_timeout(key):
                    version = await self._inner.write(
                        key, data, expect=Anything(seen), metadata=full_metadata
                    )
            except _UNREACHABLE_ERRORS as error:
                self._view.mark_unreachable(error)
            else:
                await self._remember(key, data, version, full_metadata)
                return version
        self._refuse_rival_of(key)
        known = self._view.known.get(key)
        last_known = known.version if known else NO_VERSION
        await asyncio.to_thread(self._outbox.replace, key, data, seen or last_known, stamp)
        self._debouncer.schedule()
        return _pending_version(data)

    def _refuse_rival_of(self, key: str) -> None:
        """Refuse what the container would refuse later, as far as that is known here."""
        if key not in self._view.known and not self._outbox.holds(key):
            known = (*self._view.known, *self._outbox.waiting_keys())
            refuse_collision(
                key, next((other for other in known if fold_key(other) == fold_key(key)), None)
            )

    def _require_nothing_waiting(self, key: str) -> None:
        if self._outbox.holds(key):
            raise BackendUnavailable(
                "earlier writes have not reached the container, so a condition cannot be checked",
                key=key,
            )

    async def _flush_for(self, key: str) -> None:
        if self._outbox.holds(key) and not self._view.away:
            await self._flush_if_possible()

    async def _flush_if_possible(self) -> None:
        try:
            async with _foreground_timeout(""):
                await self.flush()
        except _UNREACHABLE_ERRORS as error:
            self._view.mark_unreachable(error)
        except StorageError as error:
            _log.warning("writes wait in the outbox: %s", error)

    async def _send_or_reject(self, item: OutboxItem) -> None:
        try:
            await self._send(item)
        except (InvalidKey, TooLarge, RequestRefused) as error:
            # It would be refused for ever, and everything behind it would wait.
            aside = await asyncio.to_thread(self._outbox.reject, item)
            _log.error("the container will not take a write; it is kept in %s: %s", aside, error)
        else:
            await asyncio.to_thread(self._outbox.sent, item)

    async def _send(self, item: OutboxItem) -> None:
        key = item.key
        if not item.appends:
            await self._send_whole(item)
            return
        known = await asyncio.to_thread(self._mirror.load, key)
        after = await append_by_rewriting(
            self._inner, key, item.data, stamp=item.stamp, pacing=self._pacing, known=known
        )
        if after is None:
            self._view.record_read(key, None)
        else:
            await self._remember(key, after.data, after.version, after.metadata)

    async def _send_whole(self, item: OutboxItem) -> None:
        """Send a whole write, unless it landed before and only the answer got lost."""
        stored = await self._inner.read(item.key)
        lineage = Lineage.parse(stored.metadata if stored else NO_METADATA)
        if lineage.includes(item.stamp):
            self._view.record_read(item.key, None)
            return
        metadata = lineage.plus(item.stamp).metadata()
        version = await self._inner.write(
            item.key, item.data, expect=Anything(item.seen), metadata=metadata
        )
        await self._remember(item.key, item.data, version, metadata)


@asynccontextmanager
async def _foreground_timeout(key: str) -> AsyncGenerator[None]:
    """Let nobody wait long for a network that swallows everything."""
    try:
        async with asyncio.timeout(_FOREGROUND_TIMEOUT_S):
            yield
    except TimeoutError as error:
        raise BackendUnavailable("no answer in time", key=key) from error


def _with_lineage(copy: StoredObject | None, metadata: Mapping[str, str]) -> Mapping[str, str]:
    """Carry over which appends are in an object, so that none of them is sent again."""
    lineage = copy.metadata.get(LINEAGE_METADATA) if copy else None
    return {**metadata, LINEAGE_METADATA: lineage} if lineage else metadata


def _pending_version(data: bytes) -> Version:
    return Version(_PENDING_PREFIX + hashlib.sha256(data).hexdigest())
