"""What a first sync would do. It looks, and unlike opening the folder it leaves no trace."""

from __future__ import annotations

import asyncio

from memplane.persona.container import DocumentContainer
from memplane.persona.engine import SyncView
from memplane.persona.folder import DocumentFolder
from memplane.persona.folder_contents import read_documents
from memplane.persona.open_sync import SyncTarget, locate_project
from memplane.persona.plan import find_unsyncable, plan_sync
from memplane.storage.store import ObjectStore


async def preview_first_sync(target: SyncTarget, store: ObjectStore, *, join: str) -> SyncView:
    """Look at a folder that was never synced, and plan.

    Raises:
        UnknownProject: It would be refused: nothing says which project it is.
        BackendUnavailable: The container does not answer.
    """
    located = await locate_project(target, store, None, join=join, claim=False)
    read = await asyncio.to_thread(read_documents, DocumentFolder(target.root, target.state))
    survey = await DocumentContainer(store, located.prefix).survey()
    unclear = {**find_unsyncable(survey.listed, {}, limit=target.limit), **read.refused}
    rows = plan_sync({}, read.files, survey.listed, unclear=unclear)
    return SyncView(read.files, {}, unclear, survey, rows)
