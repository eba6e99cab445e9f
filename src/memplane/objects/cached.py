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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from memplane.clock import Clock
from memplane.errors import (
    AuthError,
    BackendUnavailable,
    ConcurrencyError,
    InvalidKey,
    RequestRefused,
    StorageError,
    TooLarge,
)
from memplane.objects.appending import append_by_rewriting
from memplane.objects.keys import check_key, folded, refuse_collision
from memplane.objects.lineage import Lineage, Stamp
from memplane.objects.mirror import Mirror
from memplane.objects.outbox import Outbox, Parcel
from memplane.objects.pacing import Pacing
from memplane.objects.parallel import for_each
from memplane.objects.soon import Soon
from memplane.objects.store import (
    NO_METADATA,
    Anything,
    Expect,
    Listing,
    Matches,
    Object,
    ObjectInfo,
    ObjectStore,
    Version,
    info_of,
)

_FRESH_SECONDS: Final = 5.0
_BATCH_SECONDS: Final = 5.0
_BATCH_BYTES: Final = 4096
_LONGEST_OFFLINE: Final = 60.0
_PARALLEL: Final = 64
_PENDING: Final = "pending:"
"""Versions that begin so are of bytes that have not reached the container."""

_AWAY: Final = (BackendUnavailable, AuthError)
"""Without a network there is often no token to be had either."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pulled:
    """What a pull brought."""

    changed: tuple[str, ...]
    unchanged: int


class CachedStore:
    """Keeps the ObjectStore contract in front of a container."""

    def __init__(
        self,
        inner: ObjectStore,
        mirror: Mirror,
        outbox: Outbox,
        *,
        clock: Clock,
        pacing: Pacing,
    ) -> None:
        self._inner = inner
        self._mirror = mirror
        self._outbox = outbox
        self._clock = clock
        self._pacing = pacing
        self._known: dict[str, ObjectInfo] = {}
        self._refused: tuple[str, ...] = ()
        self._listed = False
        self._believe_until = float("-inf")
        self._offline_for = 0.0
        self._sending = asyncio.Lock()
        self._soon = Soon(self.flush, delay=_BATCH_SECONDS, what="unsent writes wait")

    async def open(self) -> None:
        """Take over what earlier processes could not send, and start to send it."""
        await asyncio.to_thread(self._outbox.take_over)
        if self._outbox.keys():
            self._soon.start()

    async def close(self) -> None:
        """Send what waits; what cannot be sent stays in the outbox for the next process."""
        await self._soon.close()
        await self._flush_if_possible()
        await asyncio.to_thread(self._outbox.close)

    async def read(self, key: str) -> Object | None:
        check_key(key)
        await self._flush_for(key)
        if await self._online():
            try:
                return await self._with_waiting(key, await self._current(key))
            except _AWAY as error:
                self._note_offline(error)
        return await self._remembered(key)

    async def stat(self, key: str) -> ObjectInfo | None:
        check_key(key)
        await self._flush_for(key)
        if await self._online() and not self._outbox.holds(key):
            try:
                return self._known.get(key) or await self._inner.stat(key)
            except _AWAY as error:
                self._note_offline(error)
        found = await self._remembered(key)
        return info_of(key, found) if found else None

    async def listing(self, prefix: str = "") -> Listing:
        waiting = self._outbox.keys()
        if waiting and not self._believed_offline():
            await self._flush_if_possible()
        if not await self._online() and not self._listed:
            raise BackendUnavailable("the container does not answer and was never listed here")
        entries = {key: one for key, one in self._known.items() if key.startswith(prefix)}
        for key in waiting:
            if key.startswith(prefix) and (found := await self.stat(key)) is not None:
                entries[key] = found
        refused = tuple(name for name in self._refused if name.startswith(prefix))
        return Listing(tuple(entries[key] for key in sorted(entries)), refused)

    async def pull(self, prefix: str = "") -> Pulled:
        """Bring the mirror up to date: one listing, then what changed, in parallel."""
        await self._list()
        wanted = [key for key in sorted(self._known) if key.startswith(prefix)]
        changed = await asyncio.to_thread(self._not_mirrored, wanted)
        await for_each(changed, self._fetch, at_once=_PARALLEL)
        return Pulled(tuple(changed), len(wanted) - len(changed))

    async def write(
        self, key: str, data: bytes, *, expect: Expect, metadata: Mapping[str, str] = NO_METADATA
    ) -> Version:
        check_key(key)
        await self._flush_for(key)
        if isinstance(expect, Anything):
            return await self._overwrite(key, data, expect, metadata)
        self._require_nothing_waiting(key)
        try:
            version = await self._inner.write(key, data, expect=expect, metadata=metadata)
        except ConcurrencyError:
            self._known.pop(key, None)
            raise
        await self._remember(key, data, version, metadata)
        return version

    async def append(self, key: str, data: bytes, *, stamp: Stamp) -> None:
        del stamp  # the outbox stamps what it sends
        check_key(key)
        self._refuse_rival_of(key)
        size = await asyncio.to_thread(self._outbox.append, key, data)
        if size >= _BATCH_BYTES and not self._believed_offline():
            self._soon.start()
        else:
            self._soon.ask()

    async def delete(self, key: str, *, expect: Matches | Anything) -> bool:
        check_key(key)
        await self._flush_for(key)
        self._require_nothing_waiting(key)
        gone = await self._inner.delete(key, expect=expect)
        self._known.pop(key, None)
        await asyncio.to_thread(self._mirror.drop, key)
        return gone

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
                if self._outbox.keys():
                    self._soon.ask()

    # What is known here, and how sure that is.

    async def _online(self) -> bool:
        """Make sure that a recent listing is known, and say whether the container answers."""
        if self._pacing.elapsed() < self._believe_until:
            return not self._offline_for
        try:
            await self._list()
        except _AWAY as error:
            self._note_offline(error)
            last = await asyncio.to_thread(self._mirror.load_listing)
            if not self._listed and last is not None:
                self._listed = True
                self._known = {one.key: one for one in last.entries}
        return not self._offline_for

    def _believed_offline(self) -> bool:
        return bool(self._offline_for) and self._pacing.elapsed() < self._believe_until

    def _note_offline(self, error: BackendUnavailable | AuthError) -> None:
        if not self._offline_for:
            _log.warning("%s; working from what this machine last knew", error)
        self._offline_for = min(max(self._offline_for * 2, _FRESH_SECONDS), _LONGEST_OFFLINE)
        self._believe_until = self._pacing.elapsed() + self._offline_for

    async def _list(self) -> None:
        found = await self._inner.listing()
        before, self._known = self._known, {one.key: one for one in found.entries}
        self._refused = found.refused
        if self._offline_for:
            _log.warning("the container answers again")
        self._offline_for = 0.0
        self._believe_until = self._pacing.elapsed() + _FRESH_SECONDS
        if before != self._known or not self._listed:
            await asyncio.to_thread(self._mirror.save_listing, self._clock(), found.entries)
        self._listed = True

    async def _current(self, key: str) -> Object | None:
        copy = await asyncio.to_thread(self._mirror.load, key)
        known = self._known.get(key)
        if copy is not None and known is not None and copy.version == known.version:
            return copy
        return await self._fetch(key)

    async def _remembered(self, key: str) -> Object | None:
        copy = await asyncio.to_thread(self._mirror.load, key)
        if copy is None and (key in self._known or not self._outbox.holds(key)):
            raise BackendUnavailable(
                "the container does not answer, and there is no copy on this machine", key=key
            )
        return await self._with_waiting(key, copy)

    async def _with_waiting(self, key: str, found: Object | None) -> Object | None:
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
        return Object(data, _pending(data), self._clock())

    def _not_mirrored(self, keys: list[str]) -> list[str]:
        copies = ((key, self._mirror.load(key)) for key in keys)
        return [key for key, one in copies if not one or one.version != self._known[key].version]

    async def _fetch(self, key: str) -> Object | None:
        found = await self._inner.read(key)
        if found is None:
            self._known.pop(key, None)
            await asyncio.to_thread(self._mirror.drop, key)
            return None
        self._known[key] = info_of(key, found)
        await asyncio.to_thread(self._mirror.save, key, found)
        return found

    async def _remember(
        self, key: str, data: bytes, version: Version, metadata: Mapping[str, str]
    ) -> None:
        found = Object(data, version, self._clock(), dict(metadata))
        self._known[key] = info_of(key, found)
        await asyncio.to_thread(self._mirror.save, key, found)

    # What waits to be sent.

    async def _overwrite(
        self, key: str, data: bytes, expect: Anything, metadata: Mapping[str, str]
    ) -> Version:
        seen = expect.seen
        if seen is None or seen.startswith(_PENDING):
            copy = await asyncio.to_thread(self._mirror.load, key)
            seen = copy.version if copy else None
        if not self._outbox.holds(key) and not self._believed_offline():
            try:
                version = await self._inner.write(
                    key, data, expect=Anything(seen), metadata=metadata
                )
            except _AWAY as error:
                self._note_offline(error)
            else:
                await self._remember(key, data, version, metadata)
                return version
        self._refuse_rival_of(key)
        await asyncio.to_thread(self._outbox.replace, key, data, seen)
        self._soon.ask()
        return _pending(data)

    def _refuse_rival_of(self, key: str) -> None:
        """Refuse what the container would refuse later, as far as that is known here."""
        if key not in self._known and not self._outbox.holds(key):
            known = (*self._known, *self._outbox.keys())
            refuse_collision(key, next((one for one in known if folded(one) == folded(key)), None))

    def _require_nothing_waiting(self, key: str) -> None:
        if self._outbox.holds(key):
            raise BackendUnavailable(
                "earlier writes have not reached the container, so a condition cannot be checked",
                key=key,
            )

    async def _flush_for(self, key: str) -> None:
        if self._outbox.holds(key) and not self._believed_offline():
            await self._flush_if_possible()

    async def _flush_if_possible(self) -> None:
        try:
            await self.flush()
        except _AWAY as error:
            self._note_offline(error)
        except StorageError as error:
            _log.warning("writes wait in the outbox: %s", error)

    async def _send_or_reject(self, parcel: Parcel) -> None:
        try:
            await self._send(parcel)
        except (InvalidKey, TooLarge, RequestRefused) as error:
            # It would be refused for ever, and everything behind it would wait.
            aside = await asyncio.to_thread(self._outbox.reject, parcel)
            _log.error("the container will not take a write; it is kept in %s: %s", aside, error)
        else:
            await asyncio.to_thread(self._outbox.sent, parcel)

    async def _send(self, parcel: Parcel) -> None:
        key = parcel.key
        if not parcel.appends:
            seen = parcel.seen
            version = await self._inner.write(key, parcel.data, expect=Anything(seen))
            await self._remember(key, parcel.data, version, NO_METADATA)
            return
        known = await asyncio.to_thread(self._mirror.load, key)
        after = await append_by_rewriting(
            self._inner, key, parcel.data, stamp=parcel.stamp, pacing=self._pacing, known=known
        )
        if after is None:
            self._known.pop(key, None)
        else:
            await self._remember(key, after.data, after.version, after.metadata)


def _pending(data: bytes) -> Version:
    return Version(_PENDING + hashlib.sha256(data).hexdigest())
