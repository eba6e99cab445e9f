"""The Persona pages: the documents that follow an agent, whether they are in step, conflicts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from memplane.kit.clock import Clock
from memplane.server.dashboard.browser_sessions import BrowserSessions
from memplane.server.dashboard.diff import MAX_SHOWN_CHARS, DiffLine, decode_text, diff_lines
from memplane.server.dashboard.forms import Form
from memplane.server.dashboard.renderer import PageRequest, redirect_to
from memplane.server.dashboard.sign_in import page_endpoint, require_form_session, require_session
from memplane.server.dashboard.toasts import add_toast
from memplane.server.endpoints import Endpoint

if TYPE_CHECKING:
    # What documents are made of is loaded for the first who looks at them.
    from memplane.persona.inspection import ConflictCopyView, InspectedDocument
    from memplane.persona.service import PersonaService, SyncedFolder

OpenDesk: TypeAlias = "Callable[[], PersonaService]"
"""Gives the folders of this machine, always the same."""

_CHANGED_CONDITIONS: Final = ("new here", "changed here", "deleted here", "unfinished")
_PROBLEM_CONDITIONS: Final = ("waiting", "held", "unreadable")


class RivalText(msgspec.Struct, frozen=True):
    """A text that is not the document's, and what would change with it."""

    copy: ConflictCopyView
    text: str
    lines: tuple[DiffLine, ...]


class PersonaPage(msgspec.Struct, frozen=True):
    """Answers for the folders of documents."""

    open_desk: OpenDesk
    clock: Clock

    @property
    def desk(self) -> PersonaService:
        """The folders of this machine."""
        return self.open_desk()

    async def persona(self, visit: PageRequest) -> Response:
        """Show a folder: where it is synced to, how its documents are, what is to be done."""
        from memplane.persona.inspection import FolderInspection  # noqa: PLC0415

        folders = await asyncio.to_thread(self.desk.folders)
        asked = visit.query.get("folder", "")
        chosen = next((one for one in folders if one.id == asked), next(iter(folders), None))
        look = FolderInspection(missing=True)
        if chosen is not None:
            look = await asyncio.to_thread(self.desk.look, chosen)
        return visit.page(
            "persona.html",
            folders=folders,
            folder=chosen,
            look=look,
            groups=_group_by_kind(look.documents),
            troubled=[one for one in look.documents if one.condition in _PROBLEM_CONDITIONS],
            changed=look.count(*_CHANGED_CONDITIONS),
            setup=self.desk.setup,
            objection=self.desk.objection_to(chosen) if chosen else "",
            ran=self.desk.ran(chosen) if chosen else None,
            now=self.clock(),
        )

    async def document(self, visit: PageRequest) -> Response:
        """Show a document, its conflict copies and what it was before."""
        from memplane.persona.document_kinds import find_kind  # noqa: PLC0415

        key, name = visit.query.get("key", ""), visit.query.get("snapshot", "")
        folder = await self._folder(visit.query.get("folder", ""))
        whole = await asyncio.to_thread(self.desk.inspect_document, folder, key)
        text = decode_text(whole.text or b"")
        earlier = None
        if name:
            earlier = await asyncio.to_thread(self.desk.snapshot, folder, key, name)
        return visit.page(
            "persona_document.html",
            folder=folder,
            whole=whole,
            kind=find_kind(whole.seen.kind),
            text=text[:MAX_SHOWN_CHARS],
            is_cut=len(text) > MAX_SHOWN_CHARS,
            rivals=[_make_rival(copy, data, text) for copy, data in whole.copies],
            snapshot=next((one for one in whole.snapshots if one.name == name), None),
            earlier=None if earlier is None else tuple(diff_lines(text, decode_text(earlier))),
            now=self.clock(),
        )

    async def sync(self, _visit: PageRequest, form: Form) -> Response:
        """Begin a sync."""
        folder = await self._folder(form.one("folder"))
        self.desk.start(folder)
        return redirect_to(_folder_link(folder))

    async def drop(self, _visit: PageRequest, form: Form) -> Response:
        """Let go of a conflict copy."""
        folder = await self._folder(form.one("folder"))
        key = await asyncio.to_thread(self.desk.drop, folder, form.one("copy"))
        return redirect_to(add_toast(_return_link(folder, key, form), 1, "drop_copy", ""))

    async def use(self, _visit: PageRequest, form: Form) -> Response:
        """Put a conflict copy in its document's place."""
        folder, seen = await self._folder(form.one("folder")), form.one("seen")
        copy = form.one("copy")
        key = await asyncio.to_thread(lambda: self.desk.use(folder, copy, seen=seen))
        return redirect_to(add_toast(document_link(folder, key), 1, "use_copy", ""))

    async def _folder(self, which: str) -> SyncedFolder:
        return await asyncio.to_thread(self.desk.folder, which)


def _group_by_kind(
    documents: Sequence[InspectedDocument],
) -> list[tuple[str, list[InspectedDocument]]]:
    """Put documents of a kind together, in the order of the table of kinds."""
    from memplane.persona.document_kinds import DOCUMENT_KINDS  # noqa: PLC0415

    places = {kind.name: place for place, kind in enumerate(DOCUMENT_KINDS)}
    groups: dict[str, list[InspectedDocument]] = {}
    for one in documents:
        groups.setdefault(one.kind, []).append(one)
    last = len(places)
    return sorted(groups.items(), key=lambda group: (places.get(group[0], last), group[0]))


def _make_rival(copy: ConflictCopyView, data: bytes, text: str) -> RivalText:
    other = decode_text(data)
    return RivalText(copy, other[:MAX_SHOWN_CHARS], tuple(diff_lines(text, other)))


def _folder_link(folder: SyncedFolder) -> str:
    return f"/persona?{urlencode({'folder': folder.id})}"


def document_link(folder: SyncedFolder, key: str, **more: str) -> str:
    """Return the address of a document's page."""
    return f"/persona/document?{urlencode({'folder': folder.id, 'key': key, **more})}"


def _return_link(folder: SyncedFolder, key: str, form: Form) -> str:
    """Return where a form came from: the page of the folder, or of the document."""
    is_there = form.one("from") == "folder"
    return _folder_link(folder) if is_there else document_link(folder, key)


def persona_pages(desk: OpenDesk, browsers: BrowserSessions, clock: Clock) -> list[Endpoint]:
    """Make the endpoints of the documents."""
    page = PersonaPage(desk, clock)
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
