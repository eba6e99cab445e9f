"""The choices for a folder of documents: its container, its gate, and what sync remembers."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from memplane.errors import BackendMisconfigured
from memplane.kit.clock import system_clock
from memplane.kit.retry_clock import RetryClock
from memplane.persona.engine import SyncEngine, SyncView
from memplane.persona.folder_watcher import FolderWatcher, publish_watcher
from memplane.persona.open_sync import (
    SyncTarget,
    find_current_target,
    find_document_prefix,
    open_engine,
)
from memplane.persona.project_match import Project
from memplane.persona.publish_gate import PublishGate, SecretFinder, find_secret
from memplane.persona.report import PersonaReport
from memplane.persona.sync_preview import preview_first_sync
from memplane.service.composition.redactors import log_redactor, open_redactor
from memplane.service.composition.storage import (
    configured_container,
    container_address,
    fingerprint,
    named_container,
    open_container,
)
from memplane.settings import Settings
from memplane.storage.migration import PERSONA_PREFIX
from memplane.storage.store import ObjectStore

if TYPE_CHECKING:
    from memplane.persona.service import PersonaService


@asynccontextmanager
async def open_persona(
    settings: Settings, root: Path, mine: Project, *, join: str = "", force: bool = False
) -> AsyncGenerator[SyncEngine]:
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
    settings: Settings, root: Path, mine: Project, *, join: str = ""
) -> tuple[SyncView, PublishGate]:
    """Look at a folder that was never synced, and plan, without leaving a trace.

    Raises:
        BackendMisconfigured: There is no container, or sync is switched off.
        PersonaError: It would be refused.
    """
    place = persona_place(settings, root, mine)
    async with _open_store(settings) as store:
        view = await preview_first_sync(place, store, join=join)
    return view, PublishGate(_find_secrets(settings), limit=place.limit)


async def watch_persona(
    settings: Settings,
    root: Path,
    mine: Project,
    *,
    stop: asyncio.Event,
    greet: Callable[[], None],
    tell: Callable[[str], None],
    warn: Callable[[str], None],
) -> None:
    """Keep a folder of documents in step until told to stop; `greet` is called when that begins.

    Raises:
        BackendMisconfigured: There is no container, or sync is switched off.
    """
    place = persona_place(settings, root, mine)
    async with _open_store(settings) as store:

        async def sync() -> PersonaReport:
            async with _open_engine(settings, store, place) as engine:
                return await engine.sync()

        greet()
        with publish_watcher(persona_post(settings, root)) as note:
            await FolderWatcher(root, sync, tell, warn, note).watch(stop)


async def persona_prefix(
    settings: Settings, root: Path, mine: Project, *, join: str = "", claim: bool = True
) -> str:
    """Return where a folder of documents belongs in the container, as a first sync decides it.

    Without `claim` nothing is recorded there.

    Raises:
        BackendMisconfigured: There is no container.
        UnknownProject: Nothing says which project it is.
    """
    async with open_container(configured_container(settings)) as store:
        return await find_document_prefix(
            persona_place(settings, root, mine), store, join=join, claim=claim
        )


def persona_desk(settings: Settings, root: Path | None) -> PersonaService:
    """Make what an operator sees of all folders that are synced here; `root` is the usual one."""
    from memplane.persona.service import PersonaService, PersonaSetup  # noqa: PLC0415 - who pushes needs none

    here = None if root is None else persona_place(settings, root, Project(""))

    async def sync(folder: Path, prefix: str) -> PersonaReport:
        chosen = replace(settings, persona=replace(settings.persona, prefix=prefix))
        async with open_persona(chosen, folder, Project("")) as engine:
            return await engine.sync()

    setup = PersonaSetup(
        sync_folder(settings),
        here,
        _find_secrets(settings),
        objection_to_syncing(settings),
        settings.persona.max_bytes,
    )
    return PersonaService(setup, sync, system_clock)


def objection_to_syncing(settings: Settings) -> str:
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
    place: SyncTarget,
    *,
    join: str = "",
    force: bool = False,
) -> AsyncGenerator[SyncEngine]:
    async with open_engine(
        place,
        store,
        find_secrets=_find_secrets(settings),
        clock=system_clock,
        pacing=RetryClock(),
        join=join,
        force=force,
    ) as engine:
        yield engine


def upload_refusal(
    settings: Settings, *, prefix: str = "", allowed: Collection[str] = ()
) -> Callable[[str, bytes], str]:
    """Make what says why an object may not be uploaded: the gate of sync, for any object.

    Persona documents have to pass all of it. Of other objects secrets are looked for. `prefix` is
    where documents are, besides the usual place; `allowed` names keys, or what is above them, that
    may go with secrets in them.
    """
    find_secrets = secrets_unasked(settings)
    prefixes = {prefix, settings.persona.prefix, PERSONA_PREFIX} - {""}

    def refuse(key: str, data: bytes) -> str:
        may_hold = any(key == name or key.startswith(f"{name}/") for name in allowed)
        document = _document_of(key, prefixes)
        if document is not None:
            gate = PublishGate(
                find_secrets,
                allowed=[document] if may_hold else (),
                limit=settings.persona.max_bytes,
            )
            refusal = gate.refusal(document, data)
            return "" if refusal is None else refusal.reason
        problem = None if may_hold else find_secret(key, data, find_secrets)
        return "" if problem is None else problem.text

    return refuse


def _document_of(key: str, prefixes: Collection[str]) -> str | None:
    """Return a document's own key; None when an object is none.

    The documents of a container's further projects are beside the usual prefix, below a name that
    begins with it.
    """
    for prefix in prefixes:
        place, _, rest = key.removeprefix(prefix).partition("/")
        if key.startswith(prefix) and rest and (not place or place.startswith(".")):
            return rest
    return None


def secrets_unasked(settings: Settings) -> SecretFinder:
    """Make what finds secrets in documents that go nowhere, without touching the home."""
    redactor = log_redactor(settings)
    return lambda text: redactor.text(text).counts


def _find_secrets(settings: Settings) -> SecretFinder:
    redactor = open_redactor(settings)
    return lambda text: redactor.text(text).counts


def synced_place(settings: Settings, root: Path) -> SyncTarget:
    """Say where a folder was synced to, as far as is known here."""
    return find_current_target(persona_place(settings, root, Project("")))


def persona_place(settings: Settings, root: Path, mine: Project) -> SyncTarget:
    """Say where a folder of documents is synced to by its settings, and where sync keeps things.

    Its prefix is that of the container's first project: another project may have its own.
    """
    return SyncTarget(
        root,
        sync_folder(settings),
        fingerprint(named_container(settings)),
        settings.persona.prefix,
        mine if mine.project else structs.replace(mine, project=settings.persona.project),
        settings.persona.max_bytes,
        container_address(named_container(settings)),
    )
