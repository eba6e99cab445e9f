"""The folder of documents is kept in step while `memplane up` runs, where that is wanted."""

from __future__ import annotations

import argparse
import asyncio
import logging
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from memplane.settings import Settings

_STOP_TIMEOUT_S: Final = 5.0
"""How long a sync may take to end when memplane does."""

_log = logging.getLogger(__name__)


@asynccontextmanager
async def watch_in_background(settings: Settings) -> AsyncGenerator[None]:
    """Watch the folder behind whatever else is done. Nothing that happens there does harm here."""
    if not settings.persona.watch:
        yield
        return
    stop = asyncio.Event()
    task = asyncio.create_task(_watch(settings, stop))
    task.add_done_callback(_log_failure)
    try:
        yield
    finally:
        stop.set()
        _, late = await asyncio.wait([task], timeout=_STOP_TIMEOUT_S)
        for one in late:
            one.cancel()
            with suppress(asyncio.CancelledError):
                await one


def _log_failure(task: asyncio.Task[None]) -> None:
    """Log what nobody thought of; the rest of memplane goes on."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        _log.error("documents are not watched any more", exc_info=error)


async def _watch(settings: Settings, stop: asyncio.Event) -> None:
    from memplane.cli.persona_request import PersonaRequest
    from memplane.errors import MemplaneError
    from memplane.service.composition.files import find_persona_folder
    from memplane.service.composition.persona import watch_persona

    try:
        here = find_persona_folder(settings)
        project = await asyncio.to_thread(
            PersonaRequest(argparse.Namespace(), settings, here).project
        )
        await watch_persona(
            settings,
            here.root,
            project,
            stop=stop,
            greet=partial(_log.info, "watching %s", here.root),
            tell=partial(_log.info, "%s"),
            warn=partial(_log.warning, "%s"),
        )
    except MemplaneError as error:
        _log.warning("documents are not watched: %s", error)
