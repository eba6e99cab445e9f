"""Processes that answer questions, so that whoever passes streams on does not compute meanwhile.

Each has its own connection to the database and its own view of the text index, and looks at both
anew for each question: what was written before it was asked is in the answer. A process that ends
is started again, and who waits for it is told to ask elsewhere; so it is with one that hangs.
None outlives the one that began it: its end of the line closes, and it leaves.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from asyncio.subprocess import DEVNULL, Process
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Final, TypeAlias, cast

import msgspec

from memplane.episodes.api_types import RecallRequest, RecallResponse
from memplane.episodes.question import Question
from memplane.episodes.worker_protocol import (
    FrameDecoder,
    WorkerOutcome,
    WorkerReply,
    WorkerRequest,
    decode_reply,
    encode_frame,
)
from memplane.errors import IndexUnusable

_log = logging.getLogger(__name__)

_MIN_RESTART_DELAY_S: Final = 1.0
_MAX_RESTART_DELAY_S: Final = 60.0
_CROWDED_QUEUE_LENGTH: Final = 3
_CROWDED_AFTER_S: Final = 0.5
_MAX_QUEUED_RECALLS: Final = 64
_EXIT_TIMEOUT_S: Final = 5.0

Sleep: TypeAlias = Callable[[float], Awaitable[object]]


class WorkerTimeouts(msgspec.Struct, frozen=True, kw_only=True):
    """How long a process may be silent while questions wait there.

    Each reply begins the time anew: one that has much to do and answers is not silent. The time
    is counted in steps, so that a loop that stood still, and has not heard anybody, counts one.

    Args:
        step: How many seconds a step has.
        aside: After as many steps others answer what waits there, and it is asked no more until
            it says something.
        lost: After as many it is ended, and another one is started.
        opening: As many it may take to be ready.
    """

    step: float = 0.25
    aside: int = 2
    lost: int = 40
    opening: int = 240


class _QueuedRecall(msgspec.Struct, frozen=True):
    """A question that waits for its reply."""

    asked: WorkerRequest
    reply: asyncio.Future[WorkerReply]

    def give_up(self, why: str) -> None:
        """Let whoever waits ask elsewhere."""
        if not self.reply.done():
            self.reply.set_result(WorkerReply(self.asked.number, WorkerOutcome.FAILED, why=why))


class RecallWorkerPool:
    """Asks the process that is free first, and starts another when questions go on waiting."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        processes: int,
        *,
        patience: WorkerTimeouts | None = None,
        sleep: Sleep = asyncio.sleep,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        self._command = command
        self._environment = environment
        self._processes = processes
        self._patience = patience or WorkerTimeouts()
        self._sleep = sleep
        self._elapsed = elapsed
        self._crowded_since: float | None = None
        self.is_ready = asyncio.Event()
        """Set while there is a process that can be asked."""
        self._lines: list[_WorkerConnection] = []
        self._queue: deque[_QueuedRecall] = deque()
        self._running: list[asyncio.Task[None]] = []
        self._is_closed = False
        self._lost = 0
        self._numbers = count(1)

    @property
    def complaint(self) -> str:
        """What an operator should know about them."""
        if not self._lost:
            return ""
        times = "once" if self._lost == 1 else f"{self._lost} times"
        return f"a process that answers questions hung and was replaced, {times} since the start"

    def open(self) -> None:
        """Let the first process be started, once; until it is ready nobody is asked."""
        if not self._running:
            self._begin_another()

    def _begin_another(self) -> None:
        if len(self._running) < self._processes and not self._is_closed:
            self._running.append(asyncio.create_task(self._run()))

    async def close(self) -> None:
        """End all processes, and wait until they are gone."""
        self._is_closed = True
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def recall(
        self,
        ask: RecallRequest,
        question: Question,
        at: int,
        *,
        model: str = "",
        vector: bytes = b"",
    ) -> RecallResponse | None:
        """Let a process answer; None when there is none that can, and whoever asks has to.

        The first question lets one be started, and another when each has had several waiting for
        half a second on end: a home that nobody asks needs none, and streams that begin together
        need one.

        Raises:
            IndexUnusable: The text index cannot be read.
        """
        self.open()
        if not self._lines or len(self._queue) >= _MAX_QUEUED_RECALLS:
            return None
        if self._is_crowded() and len(self._lines) == len(self._running):
            self._begin_another()
        asked = WorkerRequest(
            next(self._numbers),
            msgspec.structs.replace(ask, text="", messages=None),
            question.text,
            question.context,
            at,
            model,
            vector,
        )
        waiting = _QueuedRecall(asked, asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        self._hand_out()
        replied = await waiting.reply
        match replied.outcome:
            case WorkerOutcome.ANSWERED:
                return replied.recalled
            case WorkerOutcome.INDEX_UNUSABLE:
                raise IndexUnusable(replied.why)
            case WorkerOutcome.FAILED:
                _log.warning("a reader could not answer: %s", replied.why)
                return None

    def _hand_out(self) -> None:
        """Give the questions that wait to the processes that have none.

        Each has one at a time, so that nobody waits behind a process that the system lets stand
        still for a moment while another one is free.
        """
        while self._queue:
            line = min(self._lines, key=_WorkerConnection.load, default=None)
            if line is not None and line.load():
                return
            question = self._queue.popleft()
            if line is None:
                question.give_up("there is no reader any more")
            elif not question.reply.done():
                line.ask(question)

    def _is_crowded(self) -> bool:
        """Say whether every question of the last half second found several that waited."""
        if (
            min(map(_WorkerConnection.load, self._lines)) + len(self._queue)
            < _CROWDED_QUEUE_LENGTH
        ):
            self._crowded_since = None
            return False
        now = self._elapsed()
        if self._crowded_since is None:
            self._crowded_since = now
        return now - self._crowded_since >= _CROWDED_AFTER_S

    async def _run(self) -> None:
        """Keep one process running."""
        pause = _MIN_RESTART_DELAY_S
        while True:
            was_ready = await self._run_once()
            pause = _MIN_RESTART_DELAY_S if was_ready else min(2 * pause, _MAX_RESTART_DELAY_S)
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
        line: _WorkerConnection | None = None
        try:
            line = await self._line(ours)
            await line.ended
            return line.was_ready
        finally:
            if line is None:
                ours.close()
            else:
                self._hang_up(line, process)
            await _wait_for_exit(process)

    def _hang_up(self, line: _WorkerConnection, process: Process) -> None:
        """Let a process leave; one that is silent would not, and one that is opening not soon."""
        line.close()
        if line.is_lost:
            self._lost += 1
            _log.error("a reader (%d) hung; it is ended", process.pid)
        if (line.is_silent or not line.was_ready) and process.returncode is None:
            process.kill()

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

    async def _line(self, ours: socket.socket) -> _WorkerConnection:
        loop = asyncio.get_running_loop()
        _, line = await loop.create_connection(
            lambda: _WorkerConnection(self._know, self._forget, self._hand_out, self._patience),
            sock=ours,
        )
        return line

    def _know(self, line: _WorkerConnection) -> None:
        self._lines.append(line)
        self.is_ready.set()
        self._hand_out()

    def _forget(self, line: _WorkerConnection) -> None:
        if line in self._lines:
            self._lines.remove(line)
        if not self._lines:
            self.is_ready.clear()
            self._hand_out()


async def _wait_for_exit(process: Process) -> None:
    """Wait until a process is gone: it leaves when its line is closed, unless it hangs."""
    try:
        async with asyncio.timeout(_EXIT_TIMEOUT_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


class _WorkerConnection(asyncio.Protocol):
    """The line to one process, and those who wait for what it says."""

    def __init__(
        self,
        is_ready: Callable[[_WorkerConnection], None],
        is_over: Callable[[_WorkerConnection], None],
        is_free: Callable[[], None],
        patience: WorkerTimeouts,
    ) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.was_ready = False
        self.is_silent = False
        """Whether it said nothing for so long that nobody waits for it."""
        self.is_lost = False
        """Whether it was silent for so long that it was given up."""
        self._is_ready = is_ready
        self._is_over = is_over
        self._is_free = is_free
        self._patience = patience
        self._quiet = 0
        self._looking: asyncio.TimerHandle | None = None
        self._frames = FrameDecoder()
        self._waiting: dict[int, _QueuedRecall] = {}
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)
        self._look_later()

    def load(self) -> int:
        """Say how many questions wait there."""
        return len(self._waiting)

    def ask(self, question: _QueuedRecall) -> None:
        """Ask; the reply is told to whoever waits, and is left out when nobody does any more."""
        assert self._transport is not None  # noqa: S101 - it was ready
        # It counts until the process is through with it, whether anybody waits for it or not.
        self._waiting[question.asked.number] = question
        self._transport.write(encode_frame(question.asked))
        if self._looking is None:
            self._quiet = 0
            self._look_later()

    def data_received(self, data: bytes) -> None:
        self._quiet = -1  # the step that has begun does not count
        for frame in self._frames.feed(data):
            replied = decode_reply(frame)
            if not replied.number:
                self.was_ready = True
                self._is_ready(self)
                continue
            question = self._waiting.pop(replied.number, None)
            if question is not None and not question.reply.done():
                question.reply.set_result(replied)
        if self.is_silent and not self.is_lost:
            self.is_silent = False
            self._is_ready(self)
        self._is_free()

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._looking = loop.call_later(self._patience.step, self._look)

    def _look(self) -> None:
        """See for how long it has been silent, as long as something is expected of it."""
        self._looking = None
        if self.was_ready and not self._waiting:
            return
        self._quiet += 1
        if self._quiet >= (self._patience.lost if self.was_ready else self._patience.opening):
            self.is_silent = self.is_lost = True
            self.close()
            return
        if self.was_ready and not self.is_silent and self._quiet >= self._patience.aside:
            self.is_silent = True
            self._is_over(self)
            self._let_go("it is silent")
        self._look_later()

    def _let_go(self, why: str) -> None:
        """Let all who wait ask elsewhere."""
        for question in self._waiting.values():
            question.give_up(why)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self._looking is not None:
            self._looking.cancel()
        self._is_over(self)
        self._let_go("it ended")
        self._waiting.clear()
        if not self.ended.done():
            self.ended.set_result(None)

    def close(self) -> None:
        """Hang up; the process leaves then."""
        if self._transport is not None:
            self._transport.abort()
