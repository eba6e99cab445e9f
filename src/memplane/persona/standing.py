"""How the folders of this machine stand, without asking the container or waiting for a sync."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec

from memplane.errors import PersonaError
from memplane.persona.baseline import Baseline, Held, Waiting
from memplane.persona.keeping import ConflictCopy, Keeping

_BUSY_MILLISECONDS: Final = 2_000


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
    if not (memory / "baseline.db").exists():
        return None
    with _reading(memory / "baseline.db") as baseline:
        folder = baseline.fact("folder") or ""
        states = baseline.states().values()
        return Standing(
            memory,
            folder,
            baseline.fact("project") or "",
            baseline.device,
            baseline.fact("last_sync") or "",
            sum(1 for one in states if one.base is not None and one.base.text is not None),
            tuple(baseline.waiting()),
            tuple(one for one in baseline.held() if not folder or _is_there(folder, one.key)),
            Keeping(memory).conflicts(),
        )


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


@contextmanager
def _reading(path: Path) -> Generator[Baseline]:
    """Look into the file beside whoever syncs: SQLite shows what was committed last."""
    try:
        # The library's own types are not complete.
        database: Any = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            database.set_busy_timeout(_BUSY_MILLISECONDS)
            yield Baseline(database)
        finally:
            database.close()
    except (apsw.Error, msgspec.DecodeError) as error:
        raise PersonaError(f"what is remembered in {path} cannot be read ({error})") from error
