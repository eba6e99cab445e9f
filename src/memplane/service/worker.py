"""The worker: does the jobs that short-lived processes leave, and goes when all is quiet."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

from memplane.errors import AuthError, BackendUnavailable, MemplaneError
from memplane.home import Home
from memplane.integrations.claude_code.root_commit import find_root_commit
from memplane.kit.retry_clock import RetryClock
from memplane.persona.folder_watcher import summarise_report
from memplane.persona.project_match import Project
from memplane.persona.report import PersonaReport
from memplane.service.claude_jobs import draft_digests, end_sessions, start_sessions
from memplane.service.composition.persona import open_persona
from memplane.service.composition.storage import choose_storage, open_store
from memplane.service.spool import SpooledJob, list_jobs, remove_job
from memplane.service.worker_process import worker_lock
from memplane.settings import Settings
from memplane.storage.cached_store import CachedStore

IDLE_TIMEOUT_S: Final = 30.0
_POLL_INTERVAL_S: Final = 0.1
_RETRY_INTERVAL_S: Final = 0.5

_log = logging.getLogger(__name__)

JobHandler = Callable[[Settings, list[SpooledJob]], Awaitable[None]]
"""Does all waiting jobs of one kind together; raises when some must be tried again."""


async def _deliver(settings: Settings, _jobs: list[SpooledJob]) -> None:
    """Send what waits in the outbox; opening the store takes over what other processes left."""
    async with open_store(choose_storage(settings).storage) as store:
        if isinstance(store, CachedStore):
            await store.flush()


async def _sync_persona(settings: Settings, jobs: list[SpooledJob]) -> None:
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
            _log.info("%s: %s", folder, summarise_report(report))
            for key, reason in (*report.held, *report.errors):
                _log.warning("%s in %s: %s", key, folder, reason)
    if unavailable is not None:
        raise unavailable


async def _sync_folder(
    settings: Settings, folder: str, alike: list[Mapping[str, str]]
) -> PersonaReport:
    """Sync a folder, or send single documents when no job asks for more."""
    mine = _find_project(alike[0])
    named = [one.get("keys", "") for one in alike]
    async with open_persona(settings, Path(folder), mine) as engine:
        if not all(named):
            return await engine.sync()
        return await engine.push({key for keys in named for key in keys.split("\n")})


def _find_project(details: Mapping[str, str]) -> Project:
    """Say which project a job is about: one that a hook left names its folder."""
    if root := details.get("project", ""):
        return Project("", Path(root).name, find_root_commit(Path(root)))
    return Project("", details.get("name", ""), details.get("origin", ""))


JOB_HANDLERS: Final[Mapping[str, JobHandler]] = {
    "session-start": start_sessions,  # somebody waits for it
    "session-digest": draft_digests,
    "session-end": end_sessions,
    "persona": _sync_persona,
    "deliver": _deliver,
}
"""What a worker does, in the order in which it does it."""


async def run_worker(
    settings: Settings, *, pacing: RetryClock, quiet_seconds: float = IDLE_TIMEOUT_S
) -> None:
    """Do jobs until there were none for a while. One worker per home."""
    spool = Home(settings.home).spool
    while True:
        with worker_lock(spool) as free:
            if not free:
                return
            seen = await _work_until_idle(settings, spool, pacing, quiet_seconds)
        # A job left while we were letting go found the lock taken and woke nobody.
        if all(job.path in seen for job in list_jobs(spool)):
            return


async def _work_until_idle(
    settings: Settings, spool: Path, pacing: RetryClock, quiet_seconds: float
) -> set[Path]:
    """Do jobs until nothing could be done for a while; return those that could not be done."""
    quiet_until = pacing.elapsed() + quiet_seconds
    while True:
        jobs = await asyncio.to_thread(list_jobs, spool)
        left = await _run_jobs(settings, jobs)
        if len(left) < len(jobs):
            quiet_until = pacing.elapsed() + quiet_seconds
        if pacing.elapsed() >= quiet_until:
            return {job.path for job in left}
        await pacing.sleep(_RETRY_INTERVAL_S if left else _POLL_INTERVAL_S)


async def _run_jobs(settings: Settings, jobs: list[SpooledJob]) -> list[SpooledJob]:
    """Do the jobs, kind by kind; return those that must wait."""
    left: list[SpooledJob] = []
    for kind in _sort_kinds({job.kind for job in jobs}):
        alike = [job for job in jobs if job.kind == kind]
        do = JOB_HANDLERS.get(kind)
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
                remove_job(job)
    return left


def _sort_kinds(kinds: AbstractSet[str]) -> list[str]:
    """Put kinds of jobs in the order of the handlers; those of a newer version come last."""
    order = [*JOB_HANDLERS, *sorted(kinds - JOB_HANDLERS.keys())]
    return [kind for kind in order if kind in kinds]
