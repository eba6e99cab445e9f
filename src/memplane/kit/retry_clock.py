"""How long to wait before another attempt: growing, with jitter, until patience ends."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec


@dataclass(frozen=True, slots=True)
class RetryClock:
    """The clock and the dice that retries use; tests bring their own."""

    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    elapsed: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random

    def for_contention(self) -> RetryAttempts:
        """Pace those who lost a race: half a minute, in short steps."""
        return RetryAttempts(self, until=self.elapsed() + 30.0, wait=0.01, max_wait_s=0.5)

    def for_faults(self) -> RetryAttempts:
        """Pace those who got no answer: four attempts, in longer steps."""
        return RetryAttempts(self, until=self.elapsed() + 120.0, wait=0.2, max_wait_s=5.0, left=3)


class RetryAttempts(msgspec.Struct):
    """The attempts at one thing."""

    clock: RetryClock
    until: float
    wait: float
    max_wait_s: float
    left: int | None = None

    async def wait_for_next(self, *, at_least: float = 0.0) -> bool:
        """Wait, and say whether to try once more; at once False when patience is at its end."""
        pause = max(at_least, self.wait * (0.5 + self.clock.chance()))
        if self.left == 0 or self.clock.elapsed() + pause > self.until:
            return False
        if self.left is not None:
            self.left -= 1
        self.wait = min(self.wait * 2, self.max_wait_s)
        await self.clock.sleep(pause)
        return True
