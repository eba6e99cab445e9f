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
        self._belief = RemoteView(pacing.elapsed)
        self._listing = asyncio.Lock()
        self._sending = asyncio.Lock()
        self._soon = Debouncer(self.flush, delay=_BATCH_DELAY_S, what="unsent writes wait")

    async def open(self) -> None:
        """Take over what earlier processes could not send, and start to send it."""
        await asyncio.to_thread(self._outbox.take_over)
        if self._outbox.waiting_keys():
            self._soon.start()

    async def close(self) -> None:
        """Send what waits; what cannot be sent stays in the outbox for the next process."""
        await self._soon.close()
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
                    return await self._with_waiting(key, await self._current(key))
            except _UNREACHABLE_ERRORS as error:
                self._belief.mark_unreachable(error)
        return await self._remembered(key)

    async def stat(self, key: str) -> ObjectInfo | None:
        check_key(key)
        await self._flush_for(key)
        if await self._online() and not self._outbox.holds(key):
            try:
                async with _foreground_timeout(key):
                    return self._belief.known.get(key) or await self._inner.stat(key)
            except _UNREACHABLE_ERRORS as error:
                self._belief.mark_unreachable(error)
        found = await self._remembered(key)
        return describe_object(key, found) if found else None

    async def listing(self, prefix: str = "") -> ObjectListing:
        if self._outbox.waiting_keys() and not self._belief.away:
            await self._flush_if_possible()
        if not await self._online() and not self._belief.listed:
            raise BackendUnavailable("the container does not answer and was never listed here")
        entries = {key: one for key, one in self._belief.known.items() if key.startswith(prefix)}
        for key in self._outbox.waiting_keys():
            if key.startswith(prefix):
                entries[key] = await self._expected(key)
        refused = tuple(name for name in self._belief.refused if name.startswith(prefix))
        return ObjectListing(tuple(entries[key] for key in sorted(entries)), refused)

    async def pull(self, prefix: str = "") -> PullResult:
        """Bring the mirror up to date: one listing, then what changed, in parallel."""
        await self._list()
        wanted = [key for key in sorted(self._belief.known) if key.startswith(prefix)]
        changed = await asyncio.to_thread(self._not_mirrored, wanted)
        await run_for_each(changed, self._fetch, at_once=_MAX_CONCURRENT_READS)
        return PullResult(tuple(changed), len(wanted) - len(changed))

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
            self._belief.found(key, None)
            raise
        await self._remember(key, data, version, metadata)
        return version

    async def append(self, key: str, data: bytes, *, stamp: Stamp) -> None:
        del stamp  # the outbox stamps what it sends
        check_key(key)
        self._refuse_rival_of(key)
        self._soon.ask()  # before anything that could be cancelled
        size = await asyncio.to_thread(self._outbox.append, key, data)
        if size >= _MAX_BATCH_BYTES and not self._belief.away:
            self._soon.start()

    async def delete(self, key: str, *, expect: Matches | Anything) -> bool:
        check_key(key)
        await self._flush_for(key)
        self._require_nothing_waiting(key)
        gone = await self._inner.delete(key, expect=expect)
        self._belief.wrote(key, None)
        await asyncio.to_thread(self._mirror.drop, key)
        return gone

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
        async with self._sending:
            try:
                for parcel in await asyncio.to_thread(self._outbox.seal):
                    await self._send_or_reject(parcel)
            finally:
                if self._outbox.waiting_keys():
                    self._soon.ask()

    # What is known here, and how sure that is.

    async def _online(self) -> bool:
        """Make sure that a recent listing is known, and say whether the container answers."""
        async with self._listing:  # one question, however many wait for its answer
            if not self._belief.recent:
                try:
                    async with _foreground_timeout(""):
                        await self._list()
                except _UNREACHABLE_ERRORS as error:
                    self._belief.mark_unreachable(error)
                    last = await asyncio.to_thread(self._mirror.load_listing)
                    if last is not None:
                        self._belief.recall(last.entries)
            return not self._belief.away

    async def _list(self) -> None:
        asked = self._belief.ask()
        new, vanished = self._belief.learn(await self._inner.listing(), asked)
        if new:
            known = tuple(self._belief.known.values())
            await asyncio.to_thread(self._mirror.save_listing, self._clock(), known)
        for key in vanished:
            await asyncio.to_thread(self._mirror.drop, key)

    async def _current(self, key: str) -> StoredObject | None:
        copy = await asyncio.to_thread(self._mirror.load, key)
        known = self._belief.known.get(key)
        if copy is not None and known is not None and copy.version == known.version:
            return copy
        return await self._fetch(key)

    async def _remembered(self, key: str) -> StoredObject | None:
        copy = await asyncio.to_thread(self._mirror.load, key)
        waiting = await asyncio.to_thread(self._outbox.parcels, key)
        begins_here = any(not one.appends for one in waiting)
        known_absent = self._belief.listed and key not in self._belief.known
        if copy is None and not begins_here and not (waiting and known_absent):
            raise BackendUnavailable(
                "the container does not answer, and there is no copy on this machine", key=key
            )
        return await self._with_waiting(key, copy)

    async def _expected(self, key: str) -> ObjectInfo:
        """Describe what a key will hold when everything that waits for it has been sent."""
        known = self._belief.known.get(key)
        size = known.size if known else 0
        for parcel in await asyncio.to_thread(self._outbox.parcels, key):
            size = size + len(parcel.data) if parcel.appends else len(parcel.data)
        return ObjectInfo(key, _pending_version(b"%d" % size), size, self._clock())

    async def _with_waiting(self, key: str, found: StoredObject | None) -> StoredObject | None:
        """Add to an object what was written here and has not been sent."""
        if not self._outbox.holds(key):
            return found
        data = found.data if found else b""
        landed = Lineage.parse(found.metadata if found else NO_METADATA)
        for parcel in await asyncio.to_thread(self._outbox.parcels, key):
            if not parcel.appends:
                data = parcel.data
            elif not landed.includes(parcel.stamp):
                data += parcel.data
        return StoredObject(data, _pending_version(data), self._clock())

    def _not_mirrored(self, keys: list[str]) -> list[str]:
        copies = ((key, self._mirror.load(key)) for key in keys)
        return [
            key for key, one in copies if not one or one.version != self._belief.known[key].version
        ]

    async def _fetch(self, key: str) -> StoredObject | None:
        asked = self._belief.ask()
        found = await self._inner.read(key)
        if self._belief.is_outdated(key, asked):
            return found
        self._belief.found(key, describe_object(key, found) if found else None)
        if found is None:
            await asyncio.to_thread(self._mirror.drop, key)
            return None
        await asyncio.to_thread(self._mirror.save, key, found)
        return found

    async def _remember(
        self, key: str, data: bytes, version: Version, metadata: Mapping[str, str]
    ) -> None:
        found = StoredObject(data, version, self._clock(), dict(metadata))
        self._belief.wrote(key, describe_object(key, found))
        await asyncio.to_thread(self._mirror.save, key, found)

    # What waits to be sent.

    async def _overwrite(
        self, key: str, data: bytes, expect: Anything, metadata: Mapping[str, str]
    ) -> Version:
        copy = await asyncio.to_thread(self._mirror.load, key)
        seen = expect.seen
        if seen is None or seen.startswith(_PENDING_PREFIX):
            seen = copy.version if copy else None
        stamp = await asyncio.to_thread(self._outbox.next_stamp)
        if not self._outbox.holds(key) and not self._belief.away:
            lineage = Lineage.parse(copy.metadata if copy else NO_METADATA)
            carried = {**metadata, **lineage.plus(stamp).metadata()}
            try:
                async with _foreground_timeout(key):
                    version = await self._inner.write(
                        key, data, expect=Anything(seen), metadata=carried
                    )
            except _UNREACHABLE_ERRORS as error:
                self._belief.mark_unreachable(error)
            else:
                await self._remember(key, data, version, carried)
                return version
        self._refuse_rival_of(key)
        known = self._belief.known.get(key)
        last_known = known.version if known else NO_VERSION
        await asyncio.to_thread(self._outbox.replace, key, data, seen or last_known, stamp)
        self._soon.ask()
        return _pending_version(data)

    def _refuse_rival_of(self, key: str) -> None:
        """Refuse what the container would refuse later, as far as that is known here."""
        if key not in self._belief.known and not self._outbox.holds(key):
            known = (*self._belief.known, *self._outbox.waiting_keys())
            refuse_collision(
                key, next((one for one in known if fold_key(one) == fold_key(key)), None)
            )

    def _require_nothing_waiting(self, key: str) -> None:
        if self._outbox.holds(key):
            raise BackendUnavailable(
                "earlier writes have not reached the container, so a condition cannot be checked",
                key=key,
            )

    async def _flush_for(self, key: str) -> None:
        if self._outbox.holds(key) and not self._belief.away:
            await self._flush_if_possible()

    async def _flush_if_possible(self) -> None:
        try:
            async with _foreground_timeout(""):
                await self.flush()
        except _UNREACHABLE_ERRORS as error:
            self._belief.mark_unreachable(error)
        except StorageError as error:
            _log.warning("writes wait in the outbox: %s", error)

    async def _send_or_reject(self, parcel: OutboxItem) -> None:
        try:
            await self._send(parcel)
        except (InvalidKey, TooLarge, RequestRefused) as error:
            # It would be refused for ever, and everything behind it would wait.
            aside = await asyncio.to_thread(self._outbox.reject, parcel)
            _log.error("the container will not take a write; it is kept in %s: %s", aside, error)
        else:
            await asyncio.to_thread(self._outbox.sent, parcel)

    async def _send(self, parcel: OutboxItem) -> None:
        key = parcel.key
        if not parcel.appends:
            await self._send_whole(parcel)
            return
        known = await asyncio.to_thread(self._mirror.load, key)
        after = await append_by_rewriting(
            self._inner, key, parcel.data, stamp=parcel.stamp, pacing=self._pacing, known=known
        )
        if after is None:
            self._belief.found(key, None)
        else:
            await self._remember(key, after.data, after.version, after.metadata)

    async def _send_whole(self, parcel: OutboxItem) -> None:
        """Send a whole write, unless it landed before and only the answer got lost."""
        found = await self._inner.read(parcel.key)
        lineage = Lineage.parse(found.metadata if found else NO_METADATA)
        if lineage.includes(parcel.stamp):
            self._belief.found(parcel.key, None)
            return
        metadata = lineage.plus(parcel.stamp).metadata()
        version = await self._inner.write(
            parcel.key, parcel.data, expect=Anything(parcel.seen), metadata=metadata
        )
        await self._remember(parcel.key, parcel.data, version, metadata)


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
