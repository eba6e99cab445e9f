"""Opening a folder for sync: which project it is, what is remembered, and whether that can be."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from msgspec.structs import replace

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


class Place(msgspec.Struct, frozen=True):
    """A folder, the container it is synced with, and where sync keeps its own things.

    `container` names the container on this machine, `mine` is what is known of the project here,
    `address` is the container's for people to read.
    """

    root: Path
    state: Path
    container: str
    prefix: str
    mine: Project
    limit: int
    address: str = ""

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
        await asyncio.to_thread(_enter, folder, baseline, project, marker, force=force)
        _note_place(baseline, place)
        gate = Gate(find_secrets, allowed=baseline.allowed(), limit=place.limit)
        mine = replace(place.mine, project=project)
        yield Engine(folder, baseline, container, gate, mine=mine, clock=clock)


def _note_place(baseline: Baseline, place: Place) -> None:
    """Note what a name that is a digest does not tell, for those who only look."""
    told = {"folder": str(place.root), "prefix": place.prefix, "address": place.address}
    for name, value in (told | {"name": place.mine.name}).items():
        if value and baseline.fact(name) != value:
            baseline.note(name, value)


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


def _enter(
    folder: Folder, baseline: Baseline, project: str, marker: Marker | None, *, force: bool
) -> None:
    """See whether the folder and what is remembered of it belong together, and mark them.

    Raises:
        PersonaError: The folder has no marker, though it was synced before.
    """
    synced = baseline.fact("project") is not None
    if marker is None:
        if synced and not force:
            raise PersonaError(
                "the folder was synced before, and now its marker is missing: it may be another "
                "folder, or its disk is not mounted. If it is the right one, say --force"
            )
        folder.create()
        if synced:
            # What is not in it was not deleted, as far as anybody knows.
            _adopt(folder, baseline)
        else:
            baseline.note("first_time", project)
        folder.mark(Marker(project, baseline.device))
    elif not synced and baseline.fact("first_time") is None:
        _adopt(folder, baseline)
    if not synced:
        baseline.note("project", project)


def _adopt(folder: Folder, baseline: Baseline) -> None:
    """Take note of the files of a folder that was synced before by a memory that is lost."""
    keys = folder.scan().documents
    texts = {key: folder.read(key) for key in keys}
    baseline.adopt({key: text for key, text in texts.items() if text is not None})
