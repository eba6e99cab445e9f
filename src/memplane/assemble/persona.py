"""The choices for a folder of documents: its container, its gate, and what sync remembers."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from memplane.assemble.redactors import log_redactor, open_redactor
from memplane.assemble.storage import (
    configured_container,
    container_address,
    fingerprint,
    open_container,
)
from memplane.clock import system_clock
from memplane.errors import BackendMisconfigured
from memplane.objects.pacing import Pacing
from memplane.objects.store import ObjectStore
from memplane.persona.engine import Engine, View
from memplane.persona.entering import Place, open_engine
from memplane.persona.gate import FindSecrets, Gate
from memplane.persona.joining import Project
from memplane.persona.previewing import first_look
from memplane.persona.report import PersonaReport
from memplane.persona.watching import Watcher, posted
from memplane.settings import Settings

if TYPE_CHECKING:
    from memplane.persona.desk import Desk


@asynccontextmanager
async def open_persona(
    settings: Settings, root: Path, mine: Project, *, join: bool = False, force: bool = False
) -> AsyncGenerator[Engine]:
    """Open a folder of documents for sync with the container.

    Raises:
        BackendMisconfigured: There is no container, or sync is switched off.
        PersonaError: The folder or the container belongs to something else.
    """
    place = persona_place(settings, root, mine)
    async with (
        _open_store(settings) as store,
        _open_engine(settings, store, place, join=join, force=force) as engine,
    ):
        yield engine


async def look_first(
    settings: Settings, root: Path, mine: Project, *, join: bool = False
) -> tuple[View, Gate]:
    """Look at a folder that was never synced, and plan, without leaving a trace.

    Raises:
        BackendMisconfigured: There is no container, or sync is switched off.
        PersonaError: It would be refused.
    """
    place = persona_place(settings, root, mine)
    async with _open_store(settings) as store:
        view = await first_look(place, store, join=join)
    return view, Gate(_find_secrets(settings), limit=place.limit)


async def watch_persona(
    settings: Settings,
    root: Path,
    mine: Project,
    *,
    stop: asyncio.Event,
    tell: Callable[[str], None],
    warn: Callable[[str], None],
) -> None:
    """Keep a folder of documents in step until told to stop.

    Raises:
        BackendMisconfigured: There is no container, or sync is switched off.
    """
    place = persona_place(settings, root, mine)
    async with _open_store(settings) as store:

        async def sync() -> PersonaReport:
            async with _open_engine(settings, store, place) as engine:
                return await engine.sync()

        with posted(persona_post(settings, root)) as note:
            await Watcher(root, sync, tell, warn, note).watch(stop)


def persona_desk(settings: Settings, root: Path | None) -> Desk:
    """Make what an operator sees of all folders that are synced here; `root` is the usual one."""
    from memplane.persona.desk import Desk, Setup  # noqa: PLC0415 - who pushes needs none

    here = None if root is None else persona_place(settings, root, Project(""))

    async def sync(folder: Path, prefix: str) -> PersonaReport:
        chosen = replace(settings, persona=replace(settings.persona, prefix=prefix))
        async with open_persona(chosen, folder, Project("")) as engine:
            return await engine.sync()

    return Desk(Setup(sync_folder(settings), here, _objection(settings)), sync, system_clock)


def _objection(settings: Settings) -> str:
    """Say why nothing can be synced; empty when it can."""
    try:
        configured_container(settings)
    except BackendMisconfigured as error:
        return str(error)
    return "" if settings.persona.sync else "sync is switched off: MEMPLANE_PERSONA_SYNC says so"


def persona_post(settings: Settings, root: Path) -> Path:
    """Return where a process says that it watches a folder."""
    which = hashlib.sha256(str(root).encode()).hexdigest()[:16]
    return sync_folder(settings) / "watching" / which


def sync_folder(settings: Settings) -> Path:
    """Return where the syncs of all folders are remembered."""
    return settings.state_dir / "sync"


@asynccontextmanager
async def _open_store(settings: Settings) -> AsyncGenerator[ObjectStore]:
    storage = configured_container(settings)
    if not settings.persona.sync:
        raise BackendMisconfigured("sync is switched off: MEMPLANE_PERSONA_SYNC says so")
    async with open_container(storage) as store:
        yield store


@asynccontextmanager
async def _open_engine(
    settings: Settings,
    store: ObjectStore,
    place: Place,
    *,
    join: bool = False,
    force: bool = False,
) -> AsyncGenerator[Engine]:
    async with open_engine(
        place,
        store,
        find_secrets=_find_secrets(settings),
        clock=system_clock,
        pacing=Pacing(),
        join=join,
        force=force,
    ) as engine:
        yield engine


def secrets_unasked(settings: Settings) -> FindSecrets:
    """Make what finds secrets in documents that go nowhere, without touching the home."""
    redactor = log_redactor(settings)
    return lambda text: redactor.text(text).counts


def _find_secrets(settings: Settings) -> FindSecrets:
    redactor = open_redactor(settings)
    return lambda text: redactor.text(text).counts


def persona_place(settings: Settings, root: Path, mine: Project) -> Place:
    """Say where a folder of documents is synced to, and where sync keeps its own things."""
    return Place(
        root,
        sync_folder(settings),
        fingerprint(settings.blob),
        settings.persona.prefix,
        mine if mine.project else structs.replace(mine, project=settings.persona.project),
        settings.persona.max_bytes,
        container_address(settings.blob),
    )
