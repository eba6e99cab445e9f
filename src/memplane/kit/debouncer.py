"""Work that may wait a little, so that many requests for it become one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from memplane.errors import MemplaneError

_log = logging.getLogger(__name__)


class Debouncer:
    """Runs an action within `delay` seconds of being asked, once however often it was asked."""

    def __init__(
        self, action: Callable[[], Awaitable[object]], *, delay: float, failure: str
    ) -> None:
        self._action = action
        self._delay = delay
        self._failure = failure
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def schedule(self) -> None:
        """Have the action run within the delay."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._delay, self.start)

    def start(self) -> None:
        """Have the action run now; while it is under way, have it run again within the delay."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())
        else:
            self.schedule()

    async def close(self) -> None:
        """Drop what is only due, and wait for what is running."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            await self._action()
        except MemplaneError as error:
            # Nobody waits for this task; the work is still recorded and is tried again.
            _log.warning("%s: %s", self._failure, error)
