"""`memplane queue`: documents that have not reached the container."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memplane.persona.standing import Standing
    from memplane.settings import Settings


def waiting_documents(settings: Settings) -> list[dict[str, object]]:
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
        for each in _standings(settings)
        for one in each.waiting
    ]


def folders_that_wait(settings: Settings) -> list[str]:
    """Name the folders from which something is to be sent to this container."""
    return [one.folder for one in _standings(settings) if _is_ours(settings, one)]


async def send_documents(settings: Settings) -> bool:
    """Sync the folders in which documents wait; False when some still do."""
    from pathlib import Path

    from memplane.assemble.persona import open_persona
    from memplane.cli.show import harmless
    from memplane.errors import MemplaneError
    from memplane.persona.joining import Project
    from memplane.persona.watching import summary_of

    sent = True
    for folder in folders_that_wait(settings):
        try:
            async with open_persona(settings, Path(folder), Project("")) as engine:
                report = await engine.sync()
        except MemplaneError as error:
            print(harmless(f"{folder}: {error}"))
            sent = False
        else:
            print(harmless(f"{folder}: {summary_of(report)}"))
            sent = sent and not report.waiting and not report.errors
    return sent


async def drop_documents(settings: Settings, name: str) -> bool:
    """Let go of a document's place in the queue; its file stays, and the next sync looks again."""
    from memplane.objects.pacing import Pacing
    from memplane.persona.baseline import open_baseline

    found = [one for one in _standings(settings) if any(row.key == name for row in one.waiting)]
    for one in found:
        async with open_baseline(one.memory, pacing=Pacing()) as baseline:
            baseline.settled(name)
    return bool(found)


def _standings(settings: Settings) -> list[Standing]:
    from memplane.assemble.persona import sync_folder
    from memplane.persona.standing import standings

    return [one for one in standings(sync_folder(settings)) if one.waiting]


def _is_ours(settings: Settings, one: Standing) -> bool:
    """Say whether a folder is synced with the container and the prefix of now."""
    from pathlib import Path

    from memplane.assemble.persona import persona_place
    from memplane.persona.joining import Project

    if not one.folder:
        return False
    place = persona_place(settings, Path(one.folder), Project(""))
    return place.memory(one.project) == one.memory
