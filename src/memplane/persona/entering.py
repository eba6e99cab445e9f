"""Opening a folder for sync: which project it is, what is remembered, and whether that can be."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from memplane.clock import Clock
from memplane.errors import PersonaError
from memplane.ids import new_id
from memplane.objects.pacing import Pacing
from memplane.objects.store import ObjectStore
from memplane.persona.baseline import Baseline, open_baseline
from memplane.persona.container import Container
from memplane.persona.engine import Engine
from memplane.persona.folder import Folder
from memplane.persona.gate import FindSecrets, Gate
from memplane.persona.joining import Project, project_to_join
from memplane.persona.marking import Marker, read_marker


@dataclass(frozen=True, slots=True)
class Place:
    """A folder, the container it is synced with, and where sync keeps its own things.

    `container` names the container on this machine, `mine` is what is known of the project here.
    """

    root: Path
    state: Path
    container: str
    prefix: str
    mine: Project
    limit: int

    def memory(self, project: str) -> Path:
        """Return where earlier syncs of this folder are remembered."""
        which = hashlib.sha256(f"{self.container}\n{self.prefix}\n{self.root}".encode())
        return self.state / project / which.hexdigest()[:16]


@asynccontextmanager
async def open_engine(
    place: Place,
    store: ObjectStore,
    *,
    find_secrets: FindSecrets,
    clock: Clock,
    pacing: Pacing,
    join: bool = False,
    force: bool = False,
) -> AsyncGenerator[Engine]:
    """Open a folder for sync, alone.

    Raises:
        PersonaError: It belongs to another project, or is not the folder that was synced before.
        BackendUnavailable: It was never synced, and the container does not say whose it is.
    """
    container = Container(store, place.prefix)
    marker = await asyncio.to_thread(_marker_of, place)
    project = marker.project if marker else await _joined(place, container, join=join)
    memory = place.memory(project)
    folder = Folder(place.root, memory)
    async with open_baseline(memory, pacing=pacing) as baseline:
        if marker is None:
            _refuse_strange_folder(baseline, force=force)
            await asyncio.to_thread(_mark, folder, project, baseline)
        elif baseline.fact("project") is None:
            await asyncio.to_thread(_adopt, folder, baseline)
        if baseline.fact("project") is None:
            baseline.note("project", project)
        gate = Gate(find_secrets, allowed=baseline.allowed(), limit=place.limit)
        yield Engine(folder, baseline, container, gate, clock=clock)


def _marker_of(place: Place) -> Marker | None:
    return read_marker(place.root) if place.root.exists() else None


async def _joined(place: Place, container: Container, *, join: bool) -> str:
    """Find out which project the folder belongs to, and say so in the container."""
    there = await container.read_project()
    scan = await asyncio.to_thread(Folder(place.root, place.state).scan)
    found = project_to_join(
        place.mine, there, empty=not scan.documents, join=join, new_id=new_id()
    )
    if there is None:
        claimed = await container.claim(found)
        if claimed.project != found.project:
            return await _joined(place, container, join=join)
    return found.project


def _refuse_strange_folder(baseline: Baseline, *, force: bool) -> None:
    """Refuse a folder without a marker where there was one: it may be an empty mount point."""
    if baseline.fact("project") is not None and not force:
        raise PersonaError(
            "the folder was synced before, and now its marker is missing: it may be another "
            "folder, or its disk is not mounted. If it is the right one, say --force"
        )


def _mark(folder: Folder, project: str, baseline: Baseline) -> None:
    folder.create()
    folder.mark(Marker(project, baseline.device))


def _adopt(folder: Folder, baseline: Baseline) -> None:
    """Take note of the files of a folder that was synced before by a memory that is lost."""
    keys = folder.scan().documents
    texts = {key: folder.read(key) for key in keys}
    baseline.adopt({key: text for key, text in texts.items() if text is not None})
