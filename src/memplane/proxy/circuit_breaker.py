"""A circuit breaker: who failed several times in a row is left alone for a while (pure)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final

import msgspec

FAILURE_THRESHOLD: Final = 3
OPEN_DURATION_S: Final = 30.0


class _BreakerState(msgspec.Struct):
    """How often somebody failed in a row, and when last; once open, when one may try again."""

    failures: int = 0
    last: float = float("-inf")
    until: float | None = None
    probed: bool = False


class CircuitBreakers(msgspec.Struct):
    """One breaker for each key, all closed at first; only those who failed are remembered.

    After `failures` in a row a breaker opens. When `pause` seconds have passed it lets one probe
    through: if that succeeds it closes, otherwise it stays open for as long again.
    Those who were under way together when one of them failed are one failure: many turns wait
    for the same moment of a busy machine, and only one that comes later tells whether it passed.
    """

    failures: int = FAILURE_THRESHOLD
    pause: float = OPEN_DURATION_S
    _troubles: dict[Hashable, _BreakerState] = msgspec.field(
        default_factory=dict[Hashable, _BreakerState]
    )

    def admit(self, keys: Iterable[Hashable], now: float) -> bool:
        """Say whether to try what depends on all of these.

        Who was admitted says afterwards how it went, by `succeeded`, `failed` or `abandon`.
        """
        troubles = [self._troubles[key] for key in keys if key in self._troubles]
        opened = [one for one in troubles if one.until is not None]
        if any(one.probed or now < (one.until or 0.0) for one in opened):
            return False
        for one in opened:
            one.probed = True
        return True

    def succeeded(self, key: Hashable) -> None:
        """Close a breaker."""
        self._troubles.pop(key, None)

    def failed(self, key: Hashable, now: float, *, since: float) -> None:
        """Count a failure of who was admitted `since` then; a probe's opens the breaker again."""
        one = self._troubles.setdefault(key, _BreakerState())
        if since < one.last:
            return
        one.failures += 1
        one.last = now
        one.probed = False
        if one.failures >= self.failures:
            one.until = now + self.pause

    def abandon(self, key: Hashable) -> None:
        """Take back that somebody tries: nothing came of it, and the next one may."""
        if key in self._troubles:
            self._troubles[key].probed = False
