"""Documents: the folders on this machine, what they hold, and conflicts between machines.

They lie in folders that agents and people write to as well, so no process owns them. The usual
folder is that of the agent that the settings name: its token reads and writes there. An admin
reaches every folder that was synced on this machine.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from memplane.auth.grants import Scope
from memplane.errors import UnknownMemory
from memplane.persona.api_types import (
    ConflictCopyChoice,
    ConflictCopyReceipt,
    ConflictCopyText,
    DocumentList,
    DocumentQuery,
    DocumentView,
    DocumentWrite,
    FolderList,
    FolderQuery,
    FolderView,
    SnapshotQuery,
    SnapshotText,
    SyncRequest,
    WrittenDocument,
)
from memplane.service.operation import AnyAgent, FileContext, operation

if TYPE_CHECKING:
    from memplane.persona.service import PersonaService, SyncedFolder

_USUAL: Final = FolderQuery()
_USUAL_SYNC: Final = SyncRequest()
_NO_FOLDER: Final = (
    "there is no folder of documents. Name one with MEMPLANE_PERSONA_DIR, or run "
    "`memplane persona sync` in a project"
)
_CHANGED: Final = {409: "It was changed meanwhile."}


@operation("GET", "/api/v1/folders", scope=Scope.READ, needs_owner=False)
async def list_folders(context: FileContext, agent: AnyAgent = None) -> FolderList:
    """List the folders of documents on this machine, the usual one first."""
    service = context.files.open_documents()
    folders = await asyncio.to_thread(_list_reachable, context, service, agent)
    views = tuple(_view(service, folder) for folder in folders)
    return FolderList(folders=views, objection=service.setup.objection)


@operation("GET", "/api/v1/documents", scope=Scope.READ, needs_owner=False)
async def list_documents(
    context: FileContext, agent: AnyAgent = None, query: FolderQuery = _USUAL
) -> DocumentList:
    """List the documents of a folder and its conflict copies, without their texts."""
    service = context.files.open_documents()
    folder = await _find_folder(context, service, agent, query.folder)
    contents = await asyncio.to_thread(service.look, folder)
    return DocumentList(folder=_view(service, folder), contents=contents)


@operation("GET", "/api/v1/documents/text", scope=Scope.READ, has_version=True, needs_owner=False)
async def read_document(
    context: FileContext, agent: AnyAgent, query: DocumentQuery
) -> DocumentView:
    """Return a document with its text, its conflict copies and what it replaced."""
    service = context.files.open_documents()
    folder = await _find_folder(context, service, agent, query.folder)
    found = await asyncio.to_thread(service.inspect_document, folder, query.key)
    text = decode_text(found.text) if found.text is not None else None
    return DocumentView(
        folder=_view(service, folder),
        document=found.seen,
        text=text,
        version=found.version,
        is_exact=text is None or text.encode() == found.text,
        fields=tuple(found.fields),
        flaw=found.document.flaw or "",
        copies=tuple(
            ConflictCopyText(copy=copy, text=decode_text(data)) for copy, data in found.copies
        ),
        snapshots=found.snapshots,
    )


@operation(
    "PUT",
    "/api/v1/documents/text",
    scope=Scope.WRITE,
    has_version=True,
    needs_owner=False,
    refusals=_CHANGED,
)
async def write_document(
    context: FileContext, agent: AnyAgent, body: DocumentWrite
) -> WrittenDocument:
    """Write a document, if nobody changed it since it was read; sync then carries it further."""
    service = context.files.open_documents()
    folder = await _find_folder(context, service, agent, body.folder)
    text, expected = body.text.encode(), body.expected_version
    return await asyncio.to_thread(service.write, folder, body.key, text, expected)


@operation("GET", "/api/v1/documents/snapshots", scope=Scope.READ, needs_owner=False)
async def read_snapshot(
    context: FileContext, agent: AnyAgent, query: SnapshotQuery
) -> SnapshotText:
    """Return an earlier text of a document."""
    service = context.files.open_documents()
    folder = await _find_folder(context, service, agent, query.folder)
    text = await asyncio.to_thread(service.snapshot, folder, query.key, query.name)
    if text is None:
        raise UnknownMemory("there is no such snapshot any more")
    return SnapshotText(text=decode_text(text))


@operation(
    "POST",
    "/api/v1/documents/conflicts/use",
    scope=Scope.WRITE,
    needs_owner=False,
    refusals=_CHANGED,
)
async def use_conflict_copy(
    context: FileContext, agent: AnyAgent, body: ConflictCopyChoice
) -> ConflictCopyReceipt:
    """Put a conflict copy in its document's place; the text there becomes a snapshot."""
    service = context.files.open_documents()
    folder = await _find_folder(context, service, agent, body.folder)
    key = await asyncio.to_thread(service.use, folder, body.copy, body.expected_version)
    return ConflictCopyReceipt(key=key)


@operation("POST", "/api/v1/documents/conflicts/drop", scope=Scope.WRITE, needs_owner=False)
async def drop_conflict_copy(
    context: FileContext, agent: AnyAgent, body: ConflictCopyChoice
) -> ConflictCopyReceipt:
    """Remove a conflict copy."""
    service = context.files.open_documents()
    folder = await _find_folder(context, service, agent, body.folder)
    return ConflictCopyReceipt(key=await asyncio.to_thread(service.drop, folder, body.copy))


@operation(
    "POST",
    "/api/v1/folders/sync",
    scope=Scope.WRITE,
    status=202,
    is_body_optional=True,
    needs_owner=False,
)
async def start_sync(
    context: FileContext, agent: AnyAgent = None, body: SyncRequest = _USUAL_SYNC
) -> FolderView:
    """Start to sync a folder with the container, and do not wait for the end."""
    service = context.files.open_documents()
    folder = await _find_folder(context, service, agent, body.folder)
    service.start(folder)
    return _view(service, folder)


async def _find_folder(
    context: FileContext, service: PersonaService, agent: str | None, wanted: str
) -> SyncedFolder:
    """Return a folder that is within reach; without a name, the usual one."""
    folders = await asyncio.to_thread(_list_reachable, context, service, agent)
    for folder in folders:
        if wanted in {"", folder.id}:
            return folder
    if wanted:
        raise UnknownMemory("no such folder is synced on this machine")
    raise UnknownMemory(_NO_FOLDER)


def _list_reachable(
    context: FileContext, service: PersonaService, agent: str | None
) -> list[SyncedFolder]:
    if agent is None:
        return service.folders()
    usual = service.usual_folder()
    return [usual] if usual is not None and agent == context.files.agent else []


def _view(service: PersonaService, folder: SyncedFolder) -> FolderView:
    return FolderView(
        id=folder.id,
        root=str(folder.root),
        address=folder.address,
        prefix=folder.prefix,
        project=folder.project,
        name=folder.name,
        last=folder.last,
        objection=service.objection_to(folder),
        sync=service.ran(folder),
    )


def decode_text(data: bytes) -> str:
    """Return a document as text; bytes that are not UTF-8 are replaced."""
    return data.decode("utf-8", "replace")
