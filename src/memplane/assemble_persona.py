"""The choices for a folder of documents: its container, its gate, and what sync remembers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from memplane.assemble import configured_container, fingerprint, open_container, open_redactor
from memplane.clock import system_clock
from memplane.errors import BackendMisconfigured
from memplane.objects.pacing import Pacing
from memplane.persona.engine import Engine
from memplane.persona.entering import Place, open_engine
from memplane.persona.joining import Project
from memplane.settings import Settings


@asynccontextmanager
async def open_persona(
    settings: Settings, root: Path, mine: Project, *, join: bool = False, force: bool = False
) -> AsyncGenerator[Engine]:
    """Open a folder of documents for sync with the container.

    Raises:
        BackendMisconfigured: There is no container, or sync is switched off.
        PersonaError: The folder or the container belongs to something else.
    """
    storage = configured_container(settings)
    if not settings.persona.sync:
        raise BackendMisconfigured("sync is switched off: MEMPLANE_PERSONA_SYNC says so")
    redactor = open_redactor(settings)
    async with (
        open_container(storage) as store,
        open_engine(
            persona_place(settings, root, mine),
            store,
            find_secrets=lambda text: redactor.text(text).counts,
            clock=system_clock,
            pacing=Pacing(),
            join=join,
            force=force,
        ) as engine,
    ):
        yield engine


def persona_place(settings: Settings, root: Path, mine: Project) -> Place:
    """Say where a folder of documents is synced to, and where sync keeps its own things."""
    return Place(
        root,
        settings.state_dir / "sync",
        fingerprint(settings.blob),
        settings.persona.prefix,
        mine if mine.project else replace(mine, project=settings.persona.project),
        settings.persona.max_bytes,
    )
