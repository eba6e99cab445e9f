"""The worker's process: one for each home, started by whoever leaves a job and finds none.

This is what hooks import, so it imports nothing that does the work.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from memplane.home import Home
from memplane.kit.clock import system_clock
from memplane.kit.own_program import get_own_program
from memplane.service.spool import enqueue_job

_MAX_LOG_BYTES: Final = 1_000_000


def enqueue_and_wake(home: Home, kind: str, details: Mapping[str, str]) -> None:
    """Leave a job, and start a worker unless one runs. Returns at once."""
    home.create()
    enqueue_job(home.spool, kind, details, now=system_clock())
    wake_worker(home)


def wake_worker(home: Home) -> None:
    """Start a worker unless one runs."""
    with worker_lock(home.spool) as free:
        if not free:
            return
    with _log_file(home).open("ab") as output:
        subprocess.Popen(  # noqa: S603 - our own program
            [*get_own_program(), "--home", str(home.path), "worker"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # it outlives whoever woke it
        )


@contextmanager
def worker_lock(spool: Path) -> Generator[bool]:
    """Hold the lock that a worker has while it works; False when another process has it."""
    spool.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    lock = os.open(spool / "lock", flags, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield True
    finally:
        os.close(lock)


def _log_file(home: Home) -> Path:
    log = home.path / "logs" / "worker.log"
    log.parent.mkdir(mode=0o700, exist_ok=True)
    if log.exists() and log.stat().st_size > _MAX_LOG_BYTES:
        log.replace(log.with_suffix(".log.1"))
    return log
