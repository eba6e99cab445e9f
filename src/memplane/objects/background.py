"""One event loop in a thread, for callers that are not asynchronous."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, Final, ParamSpec, TypeVar

_T = TypeVar("_T")
_P = ParamSpec("_P")
_THREADS: Final = 8


def run_in_background(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine on the process's background loop and wait for it.

    Works from plain code, from any thread and from inside a running event loop, which it blocks
    as any synchronous call would.
    """
    # A forked child has the parent's memory but not its threads; so a loop per process id.
    return asyncio.run_coroutine_threadsafe(work, _loop_of(os.getpid())).result()


@cache
def _loop_of(process: int) -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    loop.set_default_executor(_ThreadsToTheEnd())
    threading.Thread(target=loop.run_forever, name=f"memplane-{process}", daemon=True).start()
    return loop


class _ThreadsToTheEnd(ThreadPoolExecutor):
    """Threads that still work in exit handlers.

    The standard pool takes no work once the interpreter begins to end, which is when the last
    writes are flushed: file work and name look-ups would fail there. No thread can be started
    then either, so they all start now.
    """

    def __init__(self) -> None:
        super().__init__(max_workers=1)
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        for number in range(_THREADS):
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
