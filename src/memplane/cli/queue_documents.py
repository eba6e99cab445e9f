"""`memplane queue`: documents that have not reached the container."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memplane.persona.sync_status import SyncStatus
    from memplane.settings import Settings


def list_waiting_documents(settings: Settings) -> list[dict[str, object]]:
    """Tell which documents wait, and which the container will not take."""
    return [
        {
            "state": "rejected" if one.dead else "waiting",
            "what": "document",
            "key": one.key,
            "folder": each.folder,
            "reason": one.error,
            "since": one.since,
            "attempts": one.attempts,
            "next_try": one.next_try,
            "name": one.key,
        }
        for each in _list_sync_statuses(settings)
        for one in each.waiting
    ]


def list_waiting_folders(settings: Settings) -> list[str]:
    """Name the folders from which something is to be sent to this container."""
    return [one.folder for one in _list_sync_statuses(settings) if _is_ours(settings, one)]


async def send_documents(settings: Settings) -> bool:
    """Sync the folders in which documents wait; False when some still do."""
    from pathlib import Path

    from memplane.cli.output import escape_text
    from memplane.cli.persona_output import print_unsynced
    from memplane.errors import MemplaneError
    from memplane.persona.folder_watcher import summarise_report
    from memplane.persona.project_match import Project
    from memplane.service.composition.persona import open_persona

    sent = True
    for folder in list_waiting_folders(settings):
        try:
            async with open_persona(settings, Path(folder), Project("")) as engine:
                report = await engine.sync()
        except MemplaneError as error:
            print(escape_text(f"{folder}: {error}"))
            sent = False
        else:
            print_unsynced(report)
            print(escape_text(f"{folder}: {summarise_report(report)}"))
            sent = sent and not report.waiting and not report.errors
    return sent


async def drop_documents(settings: Settings, name: str) -> bool:
    """Let go of a document's place in the queue; its file stays, and the next sync looks again."""
    from memplane.kit.retry_clock import RetryClock
    from memplane.persona.baseline import open_baseline

    found = [
        one for one in _list_sync_statuses(settings) if any(row.key == name for row in one.waiting)
    ]
    for one in found:
        async with open_baseline(one.memory, pacing=RetryClock()) as baseline:
            baseline.settled(name)
    return bool(found)


def _list_sync_statuses(settings: Settings) -> list[SyncStatus]:
    from memplane.persona.sync_status import list_sync_statuses
    from memplane.service.composition.persona import sync_folder

    return [one for one in list_sync_statuses(sync_folder(settings)) if one.waiting]


def _is_ours(settings: Settings, one: SyncStatus) -> bool:
    """Say whether a folder is synced with the container and the prefix of now."""
    from pathlib import Path

    from memplane.service.composition.persona import synced_place

    if not one.folder:
        return False
    place = synced_place(settings, Path(one.folder))
    return place.memory(one.project) == one.memory
