"""Closing what is open when the process leaves: at its end, and when it is told to go."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import traceback
from types import FrameType
from typing import Final, Protocol

_EXIT_TIMEOUT_S: Final = 10.0
_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
_open: Final[set[ExitHook]] = set()


class ExitHook(Protocol):
    """Something that has a last thing to do."""

    def leave(self, patience: float) -> None:
        """Do it, within so many seconds. Harmless to repeat."""
        ...


def register_exit_hook(hook: ExitHook) -> None:
    """Have `leave()` called when the process ends, also by SIGTERM or SIGHUP.

    A program that handles these signals itself keeps its handlers; it ends by exiting, and that
    is seen too. Outside the main thread only the ordinary end is seen.
    """
    atexit.unregister(_close_all)
    atexit.register(_close_all)
    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _close_and_exit)
    _open.add(hook)


def unregister_exit_hook(hook: ExitHook) -> None:
    """Forget something that was closed before the process leaves."""
    _open.discard(hook)


def _close_all() -> None:
    for hook in list(_open):
        try:
            hook.leave(_EXIT_TIMEOUT_S)
        except Exception:  # noqa: BLE001 - nobody is left to handle it, and the others must go on
            # Not by logging: the thread that was interrupted may hold its lock.
            traceback.print_exc(file=sys.stderr)


def _close_and_exit(number: int, _frame: FrameType | None) -> None:
    try:
        _close_all()
    finally:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
