"""How the folders of this machine stand, without asking the container or waiting for a sync."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from memplane.persona.baseline import HeldDocument, QueuedDocument
from memplane.persona.baseline_reader import read_baseline
from memplane.persona.local_history import ConflictCopy, LocalHistory

UNSYNCED: Final = "unsynced"
"""Stands for the project of a folder that has none yet."""


class SyncStatus(msgspec.Struct, frozen=True):
    """What sync remembers of one folder and one container.

    `memory` is where it remembers that. `last_sync` is when a sync last ended; empty when none
    did. `documents` counts those that were in step then.
    """

    memory: Path
    folder: str = ""
    project: str = ""
    device: str = ""
    last_sync: str = ""
    documents: int = 0
    waiting: tuple[QueuedDocument, ...] = ()
    held: tuple[HeldDocument, ...] = ()
    conflicts: tuple[ConflictCopy, ...] = ()


def list_sync_statuses(sync: Path) -> list[SyncStatus]:
    """Return how every folder stands that was ever synced from this home."""
    statuses = (read_sync_status(path.parent) for path in sorted(sync.glob("*/*/baseline.db")))
    return [status for status in statuses if status is not None]


def read_sync_status(memory: Path) -> SyncStatus | None:
    """Return how a folder stands whose syncs are remembered there; None when none was made.

    What is held or waits and is no longer in the folder is left out: the next sync forgets it.

    Raises:
        PersonaError: What is remembered cannot be read.
    """
    if not (memory / "baseline.db").is_file():
        return None
    known = read_baseline(memory)
    folder = known.facts.get("folder", "")
    states = known.states.values()
    return SyncStatus(
        memory,
        folder,
        known.facts.get("project", ""),
        known.facts.get("device", ""),
        known.facts.get("last_sync", ""),
        sum(1 for state in states if state.base is not None and state.base.text is not None),
        tuple(row for _, row in sorted(known.waiting.items())),
        tuple(
            row for key, row in sorted(known.held.items()) if not folder or _is_there(folder, key)
        ),
        (
            *LocalHistory(unsynced_state_folder(memory)).conflicts(),
            *LocalHistory(memory).conflicts(),
        ),
    )


def unsynced_state_folder(memory: Path) -> Path:
    """Return where things of the same folder were kept before it was synced for the first time."""
    return memory.parent.parent / UNSYNCED / memory.name


def find_sync_status(sync: Path, project: str, folder: Path) -> SyncStatus | None:
    """Return how a folder of a project stands, with whichever container it was synced last."""
    matches = [
        status
        for path in sorted(sync.glob(f"{project}/*/baseline.db"))
        if (status := read_sync_status(path.parent)) is not None and status.folder == str(folder)
    ]
    return max(matches, key=lambda status: status.last_sync, default=None)


def _is_there(folder: str, key: str) -> bool:
    try:
        return (Path(folder) / key).is_file()
    except OSError:
        return False
