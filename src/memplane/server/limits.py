"""How much is too much: of wrong tokens from one address, of requests with one token or at once.

The time is seconds that only go forward, and comes in as an argument. Memory is bounded: what
was not seen for longest is forgotten first.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from typing import Final, Protocol

import msgspec

_MAX_TRACKED_KEYS: Final = 4096
_ADDRESS_SHARE_DIVISOR: Final = 4
_WITHHELD_AFTER_S: Final = 1.0
_UNREAD_AFTER_S: Final = 10.0


class WrongTokenLimit:
    """Counts wrong tokens per address, in a window that slides."""

    def __init__(self, *, most: int = 100, window: float = 10.0) -> None:
        self._most = most
        self._window = window
        self._seen: OrderedDict[str, deque[float]] = OrderedDict()

    def wait_after(self, address: str, now: float) -> float:
        """Count one; return how long to wait for the next, or 0 when that was not too many."""
        times = self._seen.setdefault(address, deque(maxlen=self._most + 1))
        self._seen.move_to_end(address)
        if len(self._seen) > _MAX_TRACKED_KEYS:
            self._seen.popitem(last=False)
        times.append(now)
        if len(times) <= self._most or now - times[0] > self._window:
            return 0.0
        return self._window - (now - times[0])


class _Bucket(msgspec.Struct):
    left: float
    filled: float


class TokenRateLimit:
    """Lets each token make so many requests a second, and twice as many at once."""

    def __init__(self, per_second: int) -> None:
        self._rate = float(per_second)
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def wait_for(self, grant_id: str, now: float) -> float:
        """Take one request out of the bucket; return how long to wait when it is empty."""
        if not self._rate:
            return 0.0
        burst = 2 * self._rate
        bucket = self._buckets.setdefault(grant_id, _Bucket(burst, now))
        self._buckets.move_to_end(grant_id)
        if len(self._buckets) > _MAX_TRACKED_KEYS:
            self._buckets.popitem(last=False)
        bucket.left = min(burst, bucket.left + (now - bucket.filled) * self._rate)
        bucket.filled = now
        if bucket.left < 1:
            return (1 - bucket.left) / self._rate
        bucket.left -= 1
        return 0.0


class SlotHolder(Protocol):
    """A request that holds a slot."""

    def owed_since(self) -> float | None:
        """Return since when its client has owed the rest of the body; None when it is there."""
        ...

    def unread_since(self) -> float | None:
        """Return since when its client has read nothing of the answer; None when it reads."""
        ...

    def give_up(self) -> None:
        """End the request; it is told to be slow if no answer has begun."""
        ...


class RequestSlots:
    """The requests that are handled at the same time.

    A client that withholds a body or does not read its answer loses its slot when another request
    needs it. One address keeps at most a quarter of the slots with bodies that it withholds;
    requests whose body is there count towards no such share.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._share = max(1, most // _ADDRESS_SHARE_DIVISOR)
        self._held: dict[SlotHolder, str] = {}

    @property
    def needs_watch(self) -> bool:
        """Whether so many slots are taken that one address can have more than its share."""
        return len(self._held) > self._share

    def take(self, request: SlotHolder, address: str, now: float) -> bool:
        """Give a slot to a request from an address; False when there is none to be had."""
        if len(self._held) >= self._most:
            self.end_withheld(now)
        if len(self._held) >= self._most and not self._end_slowest(now):
            return False
        self._held[request] = address
        return True

    def free(self, request: SlotHolder) -> None:
        """Take the slot back, if the request still has it."""
        self._held.pop(request, None)

    def end_withheld(self, now: float) -> None:
        """End what an address withholds beyond its share, beginning with the slowest bodies."""
        withheld: defaultdict[str, list[tuple[float, SlotHolder]]] = defaultdict(list)
        for request, address in self._held.items():
            since = request.owed_since()
            if since is not None and now - since >= _WITHHELD_AFTER_S:
                withheld[address].append((since, request))
        for slow in withheld.values():
            slow.sort(key=_waiting_since)
            for _, request in slow[: max(0, len(slow) - self._share)]:
                self._end(request)

    def _end_slowest(self, now: float) -> bool:
        """End the request whose body or, failing that, whose reader is slowest; False if none."""
        owed = [(at, one) for one in self._held if (at := one.owed_since()) is not None]
        unread = [
            (at, one)
            for one in (() if owed else self._held)
            if (at := one.unread_since()) is not None and now - at >= _UNREAD_AFTER_S
        ]
        if not owed and not unread:
            return False
        self._end(min(owed or unread, key=_waiting_since)[1])
        return True

    def _end(self, request: SlotHolder) -> None:
        del self._held[request]
        request.give_up()


def _waiting_since(waited: tuple[float, SlotHolder]) -> float:
    return waited[0]
