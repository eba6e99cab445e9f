"""What a first sync would do. It looks, and unlike opening the folder it leaves no trace."""

from __future__ import annotations

import asyncio

from memplane.objects.store import ObjectStore
from memplane.persona.container import Container
from memplane.persona.engine import View
from memplane.persona.entering import Place
from memplane.persona.folder import Folder
from memplane.persona.joining import project_to_join
from memplane.persona.plan import plan, unwelcome
from memplane.persona.reading import documents_in


async def first_look(place: Place, store: ObjectStore, *, join: bool) -> View:
    """Look at a folder that was never synced, and plan.

    Raises:
        PersonaError: It would be refused, because the documents there are another project's.
        BackendUnavailable: The container does not answer.
    """
    container = Container(store, place.prefix)
    there = await container.read_project()
    read = await asyncio.to_thread(documents_in, Folder(place.root, place.state))
    project_to_join(place.mine, there, empty=not read.files, join=join, new_id="")
    survey = await container.survey()
    unclear = {**unwelcome(survey.listed, {}, limit=place.limit), **read.refused}
    rows = plan({}, read.files, survey.listed, unclear=unclear)
    return View(read.files, {}, unclear, survey, rows)
