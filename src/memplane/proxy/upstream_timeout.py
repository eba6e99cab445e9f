"""How long an answer's body is waited for."""

from __future__ import annotations

import asyncio

import aiohttp

from memplane.errors import UpstreamStalled


class BodyTimeout:
    """Ends the wait for a body that does not come.

    One timer serves a whole answer. It is set anew when it rings and not for each piece of the
    body, which is what makes a piece cheap. Only the time counts in which somebody waits.
    """

    __slots__ = ("_began", "_content", "_first_byte", "_idle", "_loop", "_since", "_timer", "_who")

    def __init__(self, loop: asyncio.AbstractEventLoop, first_byte: float, idle: float) -> None:
        self._loop = loop
        self._first_byte = first_byte
        self._idle = idle
        self._began: float | None = loop.time()
        self._since: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._content: aiohttp.StreamReader | None = None
        self._who = ""

    def restart(self) -> None:
        """Begin to count again, for the next candidate."""
        self._began = self._loop.time()

    def start(self, content: aiohttp.StreamReader, who: str) -> None:
        """Watch over a body."""
        self._content = content
        self._who = who
        self._set(min(self._first_byte, self._idle))

    def begin(self) -> None:
        """Note that somebody waits from now on."""
        self._since = self._loop.time()

    def end(self) -> None:
        """Note that something came."""
        self._since = self._began = None

    def stop(self) -> None:
        """Watch no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self, seconds: float) -> None:
        self._timer = self._loop.call_later(seconds, self._ring)

    def _ring(self) -> None:
        now = self._loop.time()
        if self._since is None:
            self._set(self._idle)
            return
        if self._began is not None:
            left, phase = self._began + self._first_byte - now, "first byte"
        else:
            left, phase = self._since + self._idle - now, "idle"
        if left > 0:
            self._set(left)
        elif self._content is not None:
            self._timer = None
            self._content.set_exception(UpstreamStalled(f"{self._who} went silent", phase))
