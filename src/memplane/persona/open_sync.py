"""Opening a folder for sync: which project it is, what is remembered, and whether that can be."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from msgspec.structs import replace

from memplane.errors import BackendUnavailable, MemplaneError, PersonaError, UnknownProject
from memplane.kit.clock import Clock
from memplane.kit.retry_clock import RetryClock
from memplane.persona.baseline import Baseline, open_baseline
from memplane.persona.container import DocumentContainer
from memplane.persona.engine import SyncEngine
from memplane.persona.folder import DocumentFolder
from memplane.persona.project_marker import ProjectMarker, read_marker
from memplane.persona.project_match import OwnedPrefix, Project, has_id
from memplane.persona.project_prefix import find_prefix
from memplane.persona.publish_gate import PublishGate, SecretFinder
from memplane.storage.store import ObjectStore


class SyncTarget(msgspec.Struct, frozen=True):
    """A folder, the container it is synced with, and where sync keeps its own things.

    `container` names the container on this machine, `mine` is what is known of the project here,
    `address` is the container's for people to read. `prefix` is the one of the settings until it
    is known which one the project has.
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
        identity = hashlib.sha256(f"{self.container}\n{self.prefix}\n{self.root}".encode())
        return self.state / project / identity.hexdigest()[:16]


@asynccontextmanager
async def open_engine(
    target: SyncTarget,
    store: ObjectStore,
    *,
    find_secrets: SecretFinder,
    clock: Clock,
    pacing: RetryClock,
    join: str = "",
    force: bool = False,
) -> AsyncGenerator[SyncEngine]:
    """Open a folder for sync, alone.

    Raises:
        PersonaError: It belongs to another project, or is not the folder that was synced before.
        BackendUnavailable: It was never synced, and the container does not say whose it is.
    """
    base = target.prefix
    marker = await asyncio.to_thread(_marker_of, target)
    known = await asyncio.to_thread(_find_synced_target, target, marker)
    if known is None or marker is None or join:
        located = await locate_project(target, store, marker, join=join)
        known, project = replace(target, prefix=located.prefix), located.project.project
        marker = _relocated(marker, "" if located.prefix == base else located.prefix)
    else:
        project = marker.project
    memory = known.memory(project)
    folder = DocumentFolder(known.root, memory)
    async with open_baseline(memory, pacing=pacing) as baseline:
        own_prefix = "" if known.prefix == base else known.prefix
        is_first_time = baseline.fact("project") is None
        if marker is None:  # another process may have made the first sync meanwhile
            marker = await asyncio.to_thread(_marker_of, known)
            _refuse_other_marker(marker, project)
        new = ProjectMarker(project, baseline.device, own_prefix)
        await asyncio.to_thread(_check_and_mark, folder, baseline, marker, new, force=force)
        _note_target(baseline, known)
        gate = PublishGate(find_secrets, allowed=baseline.allowed(), limit=target.limit)
        mine = replace(target.mine, project=project)
        container = DocumentContainer(store, known.prefix)
        engine = SyncEngine(folder, baseline, container, gate, mine=mine, clock=clock)
        if own_prefix and is_first_time:
            engine.notes.append(
                f"the container's {base} has the documents of another project; those of this one "
                f"are in {own_prefix}"
            )
        yield engine


def _refuse_other_marker(marker: ProjectMarker | None, project: str) -> None:
    """Stop where a folder was marked as another project's while this process waited.

    Raises:
        BackendUnavailable: It was.
    """
    if marker is not None and marker.project != project:
        raise BackendUnavailable("another process began to sync this folder just now: sync again")


def _note_target(baseline: Baseline, target: SyncTarget) -> None:
    """Note what a name that is a digest does not tell, for those who only look."""
    facts = {"folder": str(target.root), "prefix": target.prefix, "address": target.address}
    for name, value in (facts | {"name": target.mine.name}).items():
        if value and baseline.fact(name) != value:
            baseline.note(name, value)


def _marker_of(target: SyncTarget) -> ProjectMarker | None:
    return read_marker(target.root) if target.root.exists() else None


def _find_synced_target(target: SyncTarget, marker: ProjectMarker | None) -> SyncTarget | None:
    """Return the place with the prefix that the folder was synced to; None when it never was."""
    if marker is None:
        return None
    for prefix in (marker.prefix, target.prefix):
        if prefix == target.prefix or prefix.startswith(f"{target.prefix}."):
            likely = replace(target, prefix=prefix)
            if (likely.memory(marker.project) / "baseline.db").exists():
                return likely
    return None


def find_current_target(target: SyncTarget) -> SyncTarget:
    """Return the place with the prefix of earlier syncs, if there were any. Asks nobody."""
    try:
        return _find_synced_target(target, _marker_of(target)) or target
    except MemplaneError:
        return target  # whoever syncs says what is wrong with the marker


async def find_document_prefix(
    target: SyncTarget, store: ObjectStore, *, join: str = "", claim: bool = True
) -> str:
    """Return the prefix of a folder's documents, as its first sync would choose it.

    With `claim`, a project that is new to the container is recorded there if its id is known.
    The folder is left alone.

    Raises:
        UnknownProject: Nothing says which project it is, or the marker names another one.
    """
    marker = await asyncio.to_thread(_marker_of, target)
    known = await asyncio.to_thread(_find_synced_target, target, marker)
    if known is not None and not join:
        return known.prefix
    claim = claim and (has_id(target.mine) or marker is not None)
    located = await locate_project(target, store, marker, join=join, claim=claim)
    return located.prefix


async def locate_project(
    target: SyncTarget,
    store: ObjectStore,
    marker: ProjectMarker | None,
    *,
    join: str,
    claim: bool = True,
) -> OwnedPrefix:
    """Find the project that the folder belongs to, and its prefix.

    Raises:
        UnknownProject: Nothing says which project it is, or the marker names another one.
    """
    marked = marker.project if marker is not None else _last_known_project(target)
    located = await find_prefix(
        store, target.prefix, target.mine, marked=marked, join=join, claim=claim
    )
    if marker is not None and join and located.project.project != marker.project:
        raise UnknownProject(
            f"this folder belongs to another project than {join!r} already: its marker says so"
        )
    return located


def _last_known_project(target: SyncTarget) -> str:
    """Return the project of earlier syncs of a folder whose marker and other ids are missing."""
    if has_id(target.mine):
        return ""
    known = target.state.glob(f"*/{target.memory('any').name}/baseline.db")
    projects = sorted(path.parent.parent.name for path in known)
    return projects[0] if len(projects) == 1 else ""


def _relocated(marker: ProjectMarker | None, prefix: str) -> ProjectMarker | None:
    return None if marker is None else replace(marker, prefix=prefix)


def _check_and_mark(
    folder: DocumentFolder,
    baseline: Baseline,
    marker: ProjectMarker | None,
    new: ProjectMarker,
    *,
    force: bool,
) -> None:
    """See whether the folder and what is remembered of it belong together, and mark them.

    `marker` is the folder's, with the prefix of now; `new` is for a folder that has none.

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
            baseline.note("first_time", new.project)
        folder.mark(new)
    elif not synced and baseline.fact("first_time") is None:
        _adopt(folder, baseline)
    if marker is not None and folder.marker() != marker:
        folder.mark(marker)
    if not synced:
        baseline.note("project", new.project)


def _adopt(folder: DocumentFolder, baseline: Baseline) -> None:
    """Take note of the files of a folder that was synced before by a memory that is lost."""
    keys = folder.scan().documents
    texts = {key: folder.read(key) for key in keys}
    baseline.adopt({key: text for key, text in texts.items() if text is not None})
