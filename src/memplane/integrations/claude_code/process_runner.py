"""A program whose output goes on as it comes, byte for byte, and is listened to.

Passing on has a thread to itself: it never waits for whoever listens.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
from asyncio.subprocess import Process
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

_CHUNK_BYTES: Final = 1 << 16
_FORWARDED_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SIGNAL_EXIT_BASE: Final = 128
"""A shell adds this to the signal that ended a program."""


async def run_program(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    sink: int,
    heard: Callable[[bytes], None],
) -> int:
    """Run a program to its end, and return its exit code, or 128 and the signal that ended it.

    It has our standard input and error. Its output goes to `sink`, and every piece of it to
    `heard` in the event loop. Signals that we get reach it, and we outlive it.

    Raises:
        OSError: It cannot be started.
    """
    loop = asyncio.get_running_loop()
    source, its = os.pipe()
    stop, stopping = os.pipe()

    def pass_on() -> None:
        _forward_output(source, sink, stop, lambda data: loop.call_soon_threadsafe(heard, data))

    with _forward_signals(stopping) as child:
        try:
            process = await child.start(arguments, environment, its)
        except BaseException:
            _close(source, its, stop, stopping)
            raise
        os.close(its)
        passing = loop.run_in_executor(None, pass_on)
        try:
            code = await process.wait()
            # Somebody whom it started may still be writing.
            await asyncio.shield(passing)
        finally:
            os.write(stopping, b".")
            await passing
            _close(stop, stopping)
    return code if code >= 0 else SIGNAL_EXIT_BASE - code


class _ChildProcess:
    """A program that gets our signals, also those that came before it was there."""

    def __init__(self, stopping: int) -> None:
        self._stopping = stopping
        self._process: Process | None = None
        self._early: list[signal.Signals] = []

    async def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], output: int
    ) -> Process:
        process = await asyncio.create_subprocess_exec(*arguments, env=environment, stdout=output)
        self._process = process
        for number in self._early:
            self.signal(number)
        return process

    def signal(self, number: signal.Signals) -> None:
        """Hand a signal on; once the program has ended, one ends the waiting for its output."""
        if self._process is None:
            self._early.append(number)
        elif self._process.returncode is not None:
            os.write(self._stopping, b".")
        elif number != signal.SIGINT or not _is_foreground():
            # Not by asyncio, which would look for its end, and then not see that end any more.
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)


@contextmanager
def _forward_signals(stopping: int) -> Generator[_ChildProcess]:
    """Let signals reach a program, and not end us."""
    loop = asyncio.get_running_loop()
    child = _ChildProcess(stopping)
    for number in _FORWARDED_SIGNALS:
        loop.add_signal_handler(number, child.signal, number)
    try:
        yield child
    finally:
        for number in _FORWARDED_SIGNALS:
            loop.remove_signal_handler(number)


def _is_foreground() -> bool:
    """Say whether Ctrl-C at a terminal reaches the program without us."""
    for descriptor in (0, 1, 2):
        with suppress(OSError):
            return os.tcgetpgrp(descriptor) == os.getpgrp()
    return False


def _forward_output(source: int, sink: int, stop: int, heard: Callable[[bytes], object]) -> None:
    """Pass bytes on until there are no more, or nobody wants them."""
    try:
        while _readable(source, stop) and (data := os.read(source, _CHUNK_BYTES)):
            heard(data)
            _write(sink, data)
    except OSError:
        pass  # Nobody reads any more. Our end is closed, so the program's next write tells it.
    finally:
        os.close(source)


def _readable(source: int, stop: int) -> bool:
    """Wait until there is something to read, or its end; False when there is no need to."""
    ready = select.poll()
    ready.register(source, select.POLLIN)
    ready.register(stop, select.POLLIN)
    return any(descriptor == source for descriptor, _ in ready.poll())


def _write(sink: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(sink, view) :]
        except BlockingIOError:
            # Somebody who shares our terminal may have told it not to wait.
            select.select([], [sink], [])


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
