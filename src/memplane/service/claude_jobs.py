"""What the worker does for sessions of Claude Code: before they begin, and after they ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

import msgspec

from memplane.errors import AuthError, BackendUnavailable, HomeError, MemplaneError
from memplane.home import Home
from memplane.integrations.claude_code.root_commit import find_root_commit
from memplane.kit.private_files import replace_private_file
from memplane.observations.requests import PromptQuery
from memplane.persona.project_match import Project
from memplane.persona.report import PersonaReport
from memplane.service.claude_hooks import has_container
from memplane.service.claude_reply import SessionReply
from memplane.service.client import Client
from memplane.service.composition.persona import open_persona
from memplane.service.operations.sessions import preview_prompt
from memplane.service.spool import SpooledJob
from memplane.service.worker_process import enqueue_and_wake
from memplane.settings import Settings

_log = logging.getLogger(__name__)

_SHOWN_OUTCOMES = {
    "brought": "updated",
    "merged": "merged with what is here",
    "deleted": "deleted",
}
"""What sessions are told about documents; what only went the other way is no news to them."""


async def start_sessions(settings: Settings, jobs: list[SpooledJob]) -> None:
    """Sync the folder of each session, look up what was learned, and reply.

    Whatever fails is said in the reply. What could not be sent stays a job for later.
    """
    for job in jobs:
        details = job.details
        reply = await _sync_for_session(settings, details)
        block = await _find_operational_memory(settings, details)
        reply = msgspec.structs.replace(reply, operational=block)
        path = Path(details.get("reply", ""))
        if path.name and path.parent.is_dir():
            replace_private_file(path, msgspec.json.encode(reply))


async def _sync_for_session(settings: Settings, details: Mapping[str, str]) -> SessionReply:
    if not has_container(settings):
        return SessionReply()
    folder, project = details.get("folder", ""), details.get("project", "")
    try:
        report = await sync_session_folder(settings, Path(folder), Path(project))
    except (BackendUnavailable, AuthError) as error:
        _log.warning("%s is not synced yet: %s", folder, error)
        later = {"folder": folder, "project": project}
        enqueue_and_wake(Home(settings.home), "persona", later)
        return SessionReply(
            problem="The container does not answer: documents that changed on other machines may "
            "be missing here. They come as soon as it answers."
        )
    except MemplaneError as error:
        _log.warning("%s was not synced: %s", folder, error)
        return SessionReply(problem=f"The documents were not synced: {error}")
    changed = tuple(
        (key, _SHOWN_OUTCOMES[outcome])
        for key, outcome in report.done
        if outcome in _SHOWN_OUTCOMES
    )
    return SessionReply(changed=changed)


async def sync_session_folder(settings: Settings, folder: Path, project: Path) -> PersonaReport:
    """Sync a folder of documents, and log what could not go.

    Raises:
        MemplaneError: It could not be synced.
    """
    mine = Project("", project.name, find_root_commit(project))
    async with open_persona(settings, folder, mine) as engine:
        report = await engine.sync()
    for key, reason in (*report.held, *report.errors):
        _log.warning("%s in %s: %s", key, folder, reason)
    return report


async def _find_operational_memory(settings: Settings, details: Mapping[str, str]) -> str:
    """Return what the agent learned; empty when it cannot be had, which ends no session."""
    if not Home(settings.home).database.exists():
        return ""
    agent, session = details.get("agent", ""), details.get("session", "")
    try:
        async with Client(settings) as client:
            view = await client.call(preview_prompt, agent, PromptQuery(session=session))
    except (MemplaneError, HomeError) as error:
        _log.warning("what %s learned is not in its session: %s", agent, error)
        return ""
    return view.block if view.included else ""


async def end_sessions(settings: Settings, jobs: list[SpooledJob]) -> None:
    """Draft the digest of each session that wrote none, remember it, and send what it left.

    Raises:
        MemplaneError: The container does not answer. The jobs stay.
    """
    for job in jobs:
        await draft_session_digest(settings, job.details)
        if settings.claude.record:
            await _remember_session(settings, job.details)
    if not has_container(settings):
        return
    folders = {job.details.get("folder", ""): job.details.get("project", "") for job in jobs}
    for folder, project in folders.items():
        try:
            await sync_session_folder(settings, Path(folder), Path(project))
        except (BackendUnavailable, AuthError):
            raise
        except MemplaneError as error:  # no later try would mend it
            _log.warning("%s was not synced: %s", folder, error)


async def draft_session_digest(settings: Settings, details: Mapping[str, str]) -> None:
    """Draft a session's digest from its transcript, unless it wrote one; failure is logged."""
    from memplane.service.session_digests import (  # noqa: PLC0415 - most jobs need none
        draft_digest,
        make_scrub,
        read_transcript,
    )

    transcript = Path(details.get("transcript", ""))
    try:
        record = await asyncio.to_thread(read_transcript, transcript, make_scrub(settings))
        if record is not None:
            key = await draft_digest(settings, Path(details.get("folder", "")), record)
            _log.info("%s: %s", record.session, key or "wrote its digest itself")
    except MemplaneError as error:
        _log.warning("no digest of %s: %s", transcript, error)


async def _remember_session(settings: Settings, details: Mapping[str, str]) -> None:
    """Retain the turns of a session; what fails is logged, and an import retains it later."""
    from memplane.service.transcript_import import import_transcripts  # noqa: PLC0415 - as above

    transcript, agent = Path(details.get("transcript", "")), details.get("agent", "")
    if not transcript.name or not agent:
        return
    try:
        async with Client(settings) as client:
            report = await import_transcripts(settings, client, [transcript], agent=agent)
    except (MemplaneError, OSError) as error:
        _log.warning("%s is not remembered: %s", transcript, error)
    else:
        _log.info("%s: %s turns retained for %s", transcript.stem, report.retained, agent)


async def draft_digests(settings: Settings, jobs: list[SpooledJob]) -> None:
    """Draft the digests of sessions that go on, such as before a compaction."""
    for job in jobs:
        await draft_session_digest(settings, job.details)
