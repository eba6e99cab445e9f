"""How the folders of this machine stand, without asking the container or waiting for a sync."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from memplane.persona.baseline import Held, Waiting
from memplane.persona.keeping import ConflictCopy, Keeping
from memplane.persona.remembering import remembered_in

UNSYNCED: Final = "unsynced"
"""Stands for the project of a folder that has none yet."""


class Standing(msgspec.Struct, frozen=True):
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
    waiting: tuple[Waiting, ...] = ()
    held: tuple[Held, ...] = ()
    conflicts: tuple[ConflictCopy, ...] = ()


def standings(sync: Path) -> list[Standing]:
    """Return how every folder stands that was ever synced from this home."""
    found = (standing_in(path.parent) for path in sorted(sync.glob("*/*/baseline.db")))
    return [one for one in found if one is not None]


def standing_in(memory: Path) -> Standing | None:
    """Return how a folder stands whose syncs are remembered there; None when none was made.

    What is held or waits and is no longer in the folder is left out: the next sync forgets it.

    Raises:
        PersonaError: What is remembered cannot be read.
    """
    if not (memory / "baseline.db").is_file():
        return None
    known = remembered_in(memory)
    folder = known.facts.get("folder", "")
    states = known.states.values()
    return Standing(
        memory,
        folder,
        known.facts.get("project", ""),
        known.facts.get("device", ""),
        known.facts.get("last_sync", ""),
        sum(1 for one in states if one.base is not None and one.base.text is not None),
        tuple(row for _, row in sorted(known.waiting.items())),
        tuple(
            row for key, row in sorted(known.held.items()) if not folder or _is_there(folder, key)
        ),
        (*Keeping(unsynced(memory)).conflicts(), *Keeping(memory).conflicts()),
    )


def unsynced(memory: Path) -> Path:
    """Return where things of the same folder were kept before it was synced for the first time."""
    return memory.parent.parent / UNSYNCED / memory.name


def standing_of(sync: Path, project: str, folder: Path) -> Standing | None:
    """Return how a folder of a project stands, with whichever container it was synced last."""
    found = [
        one
        for path in sorted(sync.glob(f"{project}/*/baseline.db"))
        if (one := standing_in(path.parent)) is not None and one.folder == str(folder)
    ]
    return max(found, key=lambda one: one.last_sync, default=None)


def _is_there(folder: str, key: str) -> bool:
    try:
        return (Path(folder) / key).is_file()
    except OSError:
        return False
