"""How much is too much: of wrong tokens from one address, of requests with one token.

The time is seconds that only go forward, and comes in as an argument. Memory is bounded: what
was not seen for longest is forgotten first.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final

import msgspec

_MOST_KEPT: Final = 4096


class WrongTokens:
    """Counts wrong tokens per address, in a window that slides."""

    def __init__(self, *, most: int = 100, window: float = 10.0) -> None:
        self._most = most
        self._window = window
        self._seen: OrderedDict[str, deque[float]] = OrderedDict()

    def wait_after(self, address: str, now: float) -> float:
        """Count one; return how long to wait for the next, or 0 when that was not too many."""
        times = self._seen.setdefault(address, deque(maxlen=self._most + 1))
        self._seen.move_to_end(address)
        if len(self._seen) > _MOST_KEPT:
            self._seen.popitem(last=False)
        times.append(now)
        if len(times) <= self._most or now - times[0] > self._window:
            return 0.0
        return self._window - (now - times[0])


class _Bucket(msgspec.Struct):
    left: float
    filled: float


class Buckets:
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
        if len(self._buckets) > _MOST_KEPT:
            self._buckets.popitem(last=False)
        bucket.left = min(burst, bucket.left + (now - bucket.filled) * self._rate)
        bucket.filled = now
        if bucket.left < 1:
            return (1 - bucket.left) / self._rate
        bucket.left -= 1
        return 0.0
