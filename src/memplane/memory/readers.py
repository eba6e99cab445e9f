"""Processes that answer questions, so that whoever passes streams on does not compute meanwhile.

Each has its own connection to the database and its own view of the text index, and looks at both
anew for each question: what was written before it was asked is in the answer. A process that ends
is started again, and who waits for it is told to ask elsewhere. None outlives the one that began
it: its end of the line closes, and it leaves.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Final, TypeAlias, cast

import msgspec

from memplane.errors import IndexUnusable
from memplane.memory.asking import Asked, Frames, Outcome, Replied, framed, replied_of
from memplane.memory.contract import Ask, Recalled
from memplane.memory.question import Question

_log = logging.getLogger(__name__)

_SOONEST: Final = 1.0
_LATEST: Final = 60.0
_MOST_WAITING: Final = 64

_PATIENCE: Final = 5.0

Sleep: TypeAlias = Callable[[float], Awaitable[object]]


class Readers:
    """Asks the process that has the least to do."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        processes: int,
        *,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._command = command
        self._environment = environment
        self._processes = processes
        self._sleep = sleep
        self.is_ready = asyncio.Event()
        """Set while there is a process that can be asked."""
        self._lines: list[_Line] = []
        self._running: list[asyncio.Task[None]] = []
        self._is_closed = False
        self._numbers = count(1)

    def open(self) -> None:
        """Let processes be started, once; until they are ready nobody is asked."""
        if not self._running and not self._is_closed:
            self._running = [asyncio.create_task(self._run()) for _ in range(self._processes)]

    async def close(self) -> None:
        """End all processes, and wait until they are gone."""
        self._is_closed = True
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def recall(
        self, ask: Ask, question: Question, at: int, *, model: str = "", vector: bytes = b""
    ) -> Recalled | None:
        """Let a process answer; None when there is none that can, and whoever asks has to.

        The first question lets them be started: a home that nobody asks needs none.

        Raises:
            IndexUnusable: The text index cannot be read.
        """
        self.open()
        line = min(self._lines, key=_Line.load, default=None)
        if line is None or line.load() >= _MOST_WAITING:
            return None
        asked = Asked(
            next(self._numbers),
            msgspec.structs.replace(ask, text="", messages=None),
            question.text,
            question.context,
            at,
            model,
            vector,
        )
        replied = await line.ask(asked)
        match replied.outcome:
            case Outcome.ANSWERED:
                return replied.recalled
            case Outcome.INDEX_UNUSABLE:
                raise IndexUnusable(replied.why)
            case Outcome.FAILED:
                _log.warning("a reader could not answer: %s", replied.why)
                return None

    async def _run(self) -> None:
        """Keep one process running."""
        pause = _SOONEST
        while True:
            was_ready = await self._run_once()
            pause = _SOONEST if was_ready else min(2 * pause, _LATEST)
            _log.warning("a reader ended; the next one begins in %g s", pause)
            await self._sleep(pause)

    async def _run_once(self) -> bool:
        """Run a process until it ends; says whether it was ever ready."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process = await self._started(theirs.fileno())
        except OSError as error:
            ours.close()
            _log.warning("a reader cannot be started: %s", error)
            return False
        except BaseException:
            ours.close()
            raise
        hang_up = ours.close
        try:
            line = await self._line(ours)
            hang_up = line.close
            await line.ended
            return line.was_ready
        finally:
            hang_up()
            await _gone(process)

    async def _started(self, line: int) -> Process:
        """Start a process; whoever gives up meanwhile waits until it is gone again."""
        starting = asyncio.create_task(
            asyncio.create_subprocess_exec(
                *self._command, stdin=line, stdout=DEVNULL, env=dict(self._environment)
            )
        )
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            with suppress(OSError):
                process = await starting
                process.kill()
                await process.wait()
            raise

    async def _line(self, ours: socket.socket) -> _Line:
        loop = asyncio.get_running_loop()
        _, line = await loop.create_connection(lambda: _Line(self._know, self._forget), sock=ours)
        return line

    def _know(self, line: _Line) -> None:
        self._lines.append(line)
        self.is_ready.set()

    def _forget(self, line: _Line) -> None:
        if line in self._lines:
            self._lines.remove(line)
        if not self._lines:
            self.is_ready.clear()


async def _gone(process: Process) -> None:
    """Wait until a process is gone: it leaves when its line is closed, unless it hangs."""
    try:
        async with asyncio.timeout(_PATIENCE):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


class _Line(asyncio.Protocol):
    """The line to one process, and those who wait for what it says."""

    def __init__(
        self, is_ready: Callable[[_Line], None], is_over: Callable[[_Line], None]
    ) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.was_ready = False
        self._is_ready = is_ready
        self._is_over = is_over
        self._frames = Frames()
        self._waiting: dict[int, asyncio.Future[Replied]] = {}
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def load(self) -> int:
        """Say how many questions wait there."""
        return len(self._waiting)

    async def ask(self, asked: Asked) -> Replied:
        """Ask, and wait for the reply; one that is not waited for any more is left out."""
        assert self._transport is not None  # noqa: S101 - it was ready
        frame = framed(asked)
        waiting: asyncio.Future[Replied] = asyncio.get_running_loop().create_future()
        # It counts until the process is through with it, whether anybody waits for it or not.
        self._waiting[asked.number] = waiting
        self._transport.write(frame)
        return await waiting

    def data_received(self, data: bytes) -> None:
        for frame in self._frames.feed(data):
            replied = replied_of(frame)
            if not replied.number:
                self.was_ready = True
                self._is_ready(self)
                continue
            waiting = self._waiting.pop(replied.number, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(replied)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._is_over(self)
        for number, waiting in self._waiting.items():
            if not waiting.done():
                waiting.set_result(Replied(number, Outcome.FAILED, why="it ended"))
        self._waiting.clear()
        if not self.ended.done():
            self.ended.set_result(None)

    def close(self) -> None:
        """Hang up; the process leaves then."""
        if self._transport is not None:
            self._transport.abort()
