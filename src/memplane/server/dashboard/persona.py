"""The Persona pages: the documents that follow an agent, whether they are in step, conflicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from memplane.kit.clock import Clock
from memplane.persona.api_types import (
    ConflictCopyChoice,
    ConflictCopyText,
    ConflictCopyView,
    DocumentQuery,
    FolderInspection,
    FolderQuery,
    InspectedDocument,
    SnapshotQuery,
    SyncRequest,
)
from memplane.persona.document_kinds import DOCUMENT_KINDS, find_kind
from memplane.server.dashboard.browser_sessions import BrowserSessions
from memplane.server.dashboard.diff import MAX_SHOWN_CHARS, DiffLine, diff_lines, normalise_lines
from memplane.server.dashboard.forms import Form
from memplane.server.dashboard.renderer import PageRequest, redirect_to
from memplane.server.dashboard.sign_in import page_endpoint, require_form_session, require_session
from memplane.server.dashboard.toasts import add_toast
from memplane.server.endpoints import Endpoint
from memplane.service.client import Client
from memplane.service.operations import documents

_CHANGED_CONDITIONS: Final = ("new here", "changed here", "deleted here", "unfinished")
_PROBLEM_CONDITIONS: Final = ("waiting", "held", "unreadable")


class RivalText(msgspec.Struct, frozen=True):
    """A text that is not the document's, and what would change with it."""

    copy: ConflictCopyView
    text: str
    lines: tuple[DiffLine, ...]


class PersonaPage(msgspec.Struct, frozen=True):
    """Answers for the folders of documents."""

    client: Client
    clock: Clock

    async def persona(self, visit: PageRequest) -> Response:
        """Show a folder: where it is synced to, how its documents are, what is to be done."""
        listed = await self.client.call(documents.list_folders)
        asked = visit.query.get("folder", "")
        known = {folder.id: folder for folder in listed.folders}
        chosen = known.get(asked) or next(iter(listed.folders), None)
        contents = FolderInspection(missing=True)
        if chosen is not None:
            query = FolderQuery(folder=chosen.id)
            found = await self.client.call(documents.list_documents, None, query)
            contents = found.contents
        return visit.page(
            "persona.html",
            folders=listed.folders,
            folder=chosen,
            look=contents,
            groups=_group_by_kind(contents.documents),
            troubled=[
                document
                for document in contents.documents
                if document.condition in _PROBLEM_CONDITIONS
            ],
            changed=contents.count(*_CHANGED_CONDITIONS),
            no_sync=listed.objection,
            now=self.clock(),
        )

    async def document(self, visit: PageRequest) -> Response:
        """Show a document, its conflict copies and what it was before."""
        key, name = visit.query.get("key", ""), visit.query.get("snapshot", "")
        folder = visit.query.get("folder", "")
        whole = await self.client.call(
            documents.read_document, None, DocumentQuery(key=key, folder=folder)
        )
        text = normalise_lines(whole.text or "")
        snapshot = next((one for one in whole.snapshots if one.name == name), None)
        earlier = None
        if snapshot is not None:
            query = SnapshotQuery(key=key, name=name, folder=folder)
            found = await self.client.call(documents.read_snapshot, None, query)
            earlier = tuple(diff_lines(text, normalise_lines(found.text)))
        return visit.page(
            "persona_document.html",
            folder=whole.folder,
            whole=whole,
            kind=find_kind(whole.document.kind),
            text=text[:MAX_SHOWN_CHARS],
            is_cut=len(text) > MAX_SHOWN_CHARS,
            rivals=[_make_rival(rival, text) for rival in whole.copies],
            snapshot=snapshot,
            earlier=earlier,
            now=self.clock(),
        )

    async def sync(self, _visit: PageRequest, form: Form) -> Response:
        """Begin a sync."""
        request = SyncRequest(folder=form.one("folder"))
        folder = await self.client.call(documents.start_sync, None, request)
        return redirect_to(_folder_link(folder.id))

    async def drop(self, _visit: PageRequest, form: Form) -> Response:
        """Let go of a conflict copy."""
        choice = ConflictCopyChoice(copy=form.one("copy"), folder=form.one("folder"))
        dropped = await self.client.call(documents.drop_conflict_copy, None, choice)
        link = _return_link(choice.folder, dropped.key, form)
        return redirect_to(add_toast(link, 1, "drop_copy", ""))

    async def use(self, _visit: PageRequest, form: Form) -> Response:
        """Put a conflict copy in its document's place."""
        choice = ConflictCopyChoice(
            copy=form.one("copy"), expected_version=form.one("seen"), folder=form.one("folder")
        )
        used = await self.client.call(documents.use_conflict_copy, None, choice)
        return redirect_to(add_toast(document_link(choice.folder, used.key), 1, "use_copy", ""))


def _group_by_kind(
    listed: Sequence[InspectedDocument],
) -> list[tuple[str, list[InspectedDocument]]]:
    """Put documents of a kind together, in the order of the table of kinds."""
    places = {kind.name: place for place, kind in enumerate(DOCUMENT_KINDS)}
    groups: dict[str, list[InspectedDocument]] = {}
    for document in listed:
        groups.setdefault(document.kind, []).append(document)
    last = len(places)
    return sorted(groups.items(), key=lambda group: (places.get(group[0], last), group[0]))


def _make_rival(rival: ConflictCopyText, text: str) -> RivalText:
    other = normalise_lines(rival.text)
    return RivalText(rival.copy, other[:MAX_SHOWN_CHARS], tuple(diff_lines(text, other)))


def _folder_link(folder: str) -> str:
    return f"/persona?{urlencode({'folder': folder})}"


def document_link(folder: str, key: str, **more: str) -> str:
    """Return the address of a document's page."""
    return f"/persona/document?{urlencode({'folder': folder, 'key': key, **more})}"


def _return_link(folder: str, key: str, form: Form) -> str:
    """Return where a form came from: the page of the folder, or of the document."""
    is_folder_page = form.one("from") == "folder"
    return _folder_link(folder) if is_folder_page else document_link(folder, key)


def persona_pages(client: Client, browsers: BrowserSessions, clock: Clock) -> list[Endpoint]:
    """Make the endpoints of the documents."""
    page = PersonaPage(client, clock)
    return [
        page_endpoint(
            "GET", "/persona", require_session(browsers, page.persona), "The documents that follow"
        ),
        page_endpoint(
            "GET", "/persona/document", require_session(browsers, page.document), "One document"
        ),
        page_endpoint(
            "POST", "/persona/sync", require_form_session(browsers, page.sync), "Sync a folder"
        ),
        page_endpoint(
            "POST",
            "/persona/copies/drop",
            require_form_session(browsers, page.drop),
            "Let go of a conflict copy",
        ),
        page_endpoint(
            "POST",
            "/persona/copies/use",
            require_form_session(browsers, page.use),
            "Put a conflict copy in its document's place",
        ),
    ]
