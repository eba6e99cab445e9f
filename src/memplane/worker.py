"""The worker: does the jobs that short-lived processes leave, and goes when all is quiet."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from memplane.assemble.persona import open_persona
from memplane.assemble.storage import choose_storage, open_store
from memplane.clock import system_clock
from memplane.errors import AuthError, BackendUnavailable, MemplaneError
from memplane.home import Home
from memplane.objects.cached import CachedStore
from memplane.objects.pacing import Pacing
from memplane.persona.joining import Project
from memplane.persona.report import PersonaReport
from memplane.persona.watching import summary_of
from memplane.settings import Settings
from memplane.spool import Job, finish_job, leave_job, waiting_jobs

QUIET_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.5
_LOG_BYTES: Final = 1_000_000

_log = logging.getLogger(__name__)

DoJobs = Callable[[Settings, list[Job]], Awaitable[None]]
"""Does all waiting jobs of one kind together; raises when some must be tried again."""


async def _deliver(settings: Settings, _jobs: list[Job]) -> None:
    """Send what waits in the outbox; opening the store takes over what other processes left."""
    async with open_store(choose_storage(settings).storage) as store:
        if isinstance(store, CachedStore):
            await store.flush()


async def _sync_persona(settings: Settings, jobs: list[Job]) -> None:
    """Sync the folders of documents that the jobs name, each once.

    What no later try would mend is only logged: a later sync finds whatever is left to do.
    """
    unavailable: MemplaneError | None = None
    for folder in sorted({job.details.get("folder", "") for job in jobs} - {""}):
        alike = [job.details for job in jobs if job.details.get("folder") == folder]
        try:
            report = await _sync_folder(settings, folder, alike)
        except (BackendUnavailable, AuthError) as error:
            unavailable = error
        except MemplaneError as error:
            _log.warning("%s was not synced: %s", folder, error)
        else:
            _log.info("%s: %s", folder, summary_of(report))
            for key, reason in (*report.held, *report.errors):
                _log.warning("%s in %s: %s", key, folder, reason)
    if unavailable is not None:
        raise unavailable


async def _sync_folder(
    settings: Settings, folder: str, alike: list[Mapping[str, str]]
) -> PersonaReport:
    """Sync a folder, or send single documents when no job asks for more."""
    first = alike[0]
    mine = Project("", first.get("name", ""), first.get("origin", ""))
    named = [one.get("keys", "") for one in alike]
    async with open_persona(settings, Path(folder), mine) as engine:
        if not all(named):
            return await engine.sync()
        return await engine.push({key for keys in named for key in keys.split("\n")})


KINDS: Final[Mapping[str, DoJobs]] = {"deliver": _deliver, "persona": _sync_persona}


def leave_and_wake(settings: Settings, kind: str, details: Mapping[str, str]) -> None:
    """Leave a job, and start a worker unless one runs. Returns at once."""
    home = Home(settings.home)
    home.create()
    leave_job(home.spool, kind, details, now=system_clock())
    with _the_only_worker(home.spool) as free:
        if not free:
            return
    with _log_file(home).open("ab") as output:
        subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", "memplane", "--home", str(home.path), "worker"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # it outlives whoever woke it
        )


def _log_file(home: Home) -> Path:
    log = home.path / "logs" / "worker.log"
    log.parent.mkdir(mode=0o700, exist_ok=True)
    if log.exists() and log.stat().st_size > _LOG_BYTES:
        log.replace(log.with_suffix(".log.1"))
    return log


async def work(
    settings: Settings, *, pacing: Pacing, quiet_seconds: float = QUIET_SECONDS
) -> None:
    """Do jobs until there were none for a while. One worker per home."""
    spool = Home(settings.home).spool
    while True:
        with _the_only_worker(spool) as free:
            if not free:
                return
            seen = await _work_until_quiet(settings, spool, pacing, quiet_seconds)
        # A job left while we were letting go found the lock taken and woke nobody.
        if all(job.path in seen for job in waiting_jobs(spool)):
            return


async def _work_until_quiet(
    settings: Settings, spool: Path, pacing: Pacing, quiet_seconds: float
) -> set[Path]:
    """Do jobs until nothing could be done for a while; return those that could not be done."""
    quiet_until = pacing.elapsed() + quiet_seconds
    while True:
        jobs = await asyncio.to_thread(waiting_jobs, spool)
        left = await _do(settings, jobs)
        if len(left) < len(jobs):
            quiet_until = pacing.elapsed() + quiet_seconds
        if pacing.elapsed() >= quiet_until:
            return {job.path for job in left}
        await pacing.sleep(_LOOK_SECONDS)


async def _do(settings: Settings, jobs: list[Job]) -> list[Job]:
    """Do the jobs, kind by kind; return those that must wait."""
    left: list[Job] = []
    for kind in sorted({job.kind for job in jobs}):
        alike = [job for job in jobs if job.kind == kind]
        do = KINDS.get(kind)
        if do is None:
            _log.debug("no worker of this version does %r jobs; they stay", kind)
            left += alike
            continue
        try:
            await do(settings, alike)
        except MemplaneError as error:
            _log.warning("%s: tried again later: %s", kind, error)
            left += alike
        else:
            for job in alike:
                finish_job(job)
    return left


@contextmanager
def _the_only_worker(spool: Path) -> Generator[bool]:
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
