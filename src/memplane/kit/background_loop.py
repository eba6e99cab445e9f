"""One event loop in a thread, for callers that are not asynchronous."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, Final, ParamSpec, TypeVar

_T = TypeVar("_T")
_P = ParamSpec("_P")
_MAX_THREADS: Final = 8


def run_in_background(work: Coroutine[Any, Any, _T], *, patience: float | None = None) -> _T:
    """Run a coroutine on the process's background loop and wait for it.

    Works from plain code, from any thread and from inside a running event loop, which it blocks
    as any synchronous call would.

    Raises:
        TimeoutError: It took longer than `patience` seconds, and was told to stop.
    """
    future = asyncio.run_coroutine_threadsafe(work, _background.loop())
    try:
        return future.result(patience)
    except FutureTimeout:
        future.cancel()
        raise TimeoutError from None


def start_in_background(work: Coroutine[Any, Any, _T]) -> Future[_T]:
    """Run a coroutine on the process's background loop, and do not wait for it.

    When the process ends, it is cut short.
    """
    return asyncio.run_coroutine_threadsafe(work, _background.loop())


class _BackgroundLoop:
    """The loop, made when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._loop.set_default_executor(_ExitSafeThreadPool())
                run = self._loop.run_forever
                threading.Thread(target=run, name="memplane", daemon=True).start()
            return self._loop


_background = _BackgroundLoop()


def _drop_parent_loop() -> None:
    # A forked child has the parent's memory but not its threads.
    global _background  # noqa: PLW0603 - the one loop of this process
    _background = _BackgroundLoop()


os.register_at_fork(after_in_child=_drop_parent_loop)


class _ExitSafeThreadPool(ThreadPoolExecutor):
    """Threads that still work in exit handlers.

    The standard pool takes no work once the interpreter begins to end, which is when the last
    writes are flushed: file work and name look-ups would fail there. No thread can be started
    then either, so they all start now.
    """

    def __init__(self) -> None:
        super().__init__(max_workers=1)
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        for number in range(_MAX_THREADS):
            name = f"memplane-files-{number}"
            threading.Thread(target=self._serve, name=name, daemon=True).start()

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        future: Future[_T] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - whoever waits gets it
                future.set_exception(error)

        self._work.put(work)
        return future

    def _serve(self) -> None:
        while True:
            self._work.get()()
