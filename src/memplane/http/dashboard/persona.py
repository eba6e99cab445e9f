"""The Persona pages: the documents that follow an agent, whether they are in step, conflicts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from memplane.clock import Clock
from memplane.http.dashboard.browsers import Browsers
from memplane.http.dashboard.compared import LONGEST, Line, compared, readable
from memplane.http.dashboard.forms import Form
from memplane.http.dashboard.pages import Visit, go_to
from memplane.http.dashboard.signing_in import guarded, guarded_act, page_endpoint
from memplane.http.dashboard.toasts import with_toast
from memplane.http.endpoints import Endpoint

if TYPE_CHECKING:
    # What documents are made of is loaded for the first who looks at them.
    from memplane.persona.desk import Desk, Synced
    from memplane.persona.looking import Copy, Seen

OpenDesk: TypeAlias = "Callable[[], Desk]"
"""Gives the folders of this machine, always the same."""

_CHANGED: Final = ("new here", "changed here", "deleted here", "unfinished")
_TROUBLED: Final = ("waiting", "held", "unreadable")


class Rival(msgspec.Struct, frozen=True):
    """A text that is not the document's, and what would change with it."""

    copy: Copy
    text: str
    lines: tuple[Line, ...]


class PersonaPage(msgspec.Struct, frozen=True):
    """Answers for the folders of documents."""

    open_desk: OpenDesk
    clock: Clock

    @property
    def desk(self) -> Desk:
        """The folders of this machine."""
        return self.open_desk()

    async def persona(self, visit: Visit) -> Response:
        """Show a folder: where it is synced to, how its documents are, what is to be done."""
        from memplane.persona.looking import Look  # noqa: PLC0415

        folders = await asyncio.to_thread(self.desk.folders)
        asked = visit.query.get("folder", "")
        chosen = next((one for one in folders if one.id == asked), next(iter(folders), None))
        look = Look(missing=True)
        if chosen is not None:
            look = await asyncio.to_thread(self.desk.look, chosen)
        return visit.page(
            "persona.html",
            folders=folders,
            folder=chosen,
            look=look,
            groups=_by_kind(look.documents),
            troubled=[one for one in look.documents if one.condition in _TROUBLED],
            changed=look.count(*_CHANGED),
            setup=self.desk.setup,
            objection=self.desk.objection_to(chosen) if chosen else "",
            ran=self.desk.ran(chosen) if chosen else None,
            now=self.clock(),
        )

    async def document(self, visit: Visit) -> Response:
        """Show a document, its conflict copies and what it was before."""
        from memplane.persona.kinds import kind_named  # noqa: PLC0415

        key, name = visit.query.get("key", ""), visit.query.get("snapshot", "")
        folder = await self._folder(visit.query.get("folder", ""))
        whole = await asyncio.to_thread(self.desk.look_closely, folder, key)
        text = readable(whole.text or b"")
        earlier = None
        if name:
            earlier = await asyncio.to_thread(self.desk.snapshot, folder, key, name)
        return visit.page(
            "persona_document.html",
            folder=folder,
            whole=whole,
            kind=kind_named(whole.seen.kind),
            text=text[:LONGEST],
            is_cut=len(text) > LONGEST,
            rivals=[_rival(copy, data, text) for copy, data in whole.copies],
            snapshot=next((one for one in whole.snapshots if one.name == name), None),
            earlier=None if earlier is None else tuple(compared(text, readable(earlier))),
            now=self.clock(),
        )

    async def sync(self, _visit: Visit, form: Form) -> Response:
        """Begin a sync."""
        folder = await self._folder(form.one("folder"))
        self.desk.start(folder)
        return go_to(_folder_link(folder))

    async def drop(self, _visit: Visit, form: Form) -> Response:
        """Let go of a conflict copy."""
        folder = await self._folder(form.one("folder"))
        key = await asyncio.to_thread(self.desk.drop, folder, form.one("copy"))
        return go_to(with_toast(_after(folder, key, form), 1, "drop_copy", ""))

    async def use(self, _visit: Visit, form: Form) -> Response:
        """Put a conflict copy in its document's place."""
        folder, seen = await self._folder(form.one("folder")), form.one("seen")
        copy = form.one("copy")
        key = await asyncio.to_thread(lambda: self.desk.use(folder, copy, seen=seen))
        return go_to(with_toast(document_link(folder, key), 1, "use_copy", ""))

    async def _folder(self, which: str) -> Synced:
        return await asyncio.to_thread(self.desk.folder, which)


def _by_kind(documents: Sequence[Seen]) -> list[tuple[str, list[Seen]]]:
    """Put documents of a kind together, in the order of the table of kinds."""
    from memplane.persona.kinds import KINDS  # noqa: PLC0415

    places = {kind.name: place for place, kind in enumerate(KINDS)}
    groups: dict[str, list[Seen]] = {}
    for one in documents:
        groups.setdefault(one.kind, []).append(one)
    last = len(places)
    return sorted(groups.items(), key=lambda group: (places.get(group[0], last), group[0]))


def _rival(copy: Copy, data: bytes, text: str) -> Rival:
    other = readable(data)
    return Rival(copy, other[:LONGEST], tuple(compared(text, other)))


def _folder_link(folder: Synced) -> str:
    return f"/persona?{urlencode({'folder': folder.id})}"


def document_link(folder: Synced, key: str, **more: str) -> str:
    """Return the address of a document's page."""
    return f"/persona/document?{urlencode({'folder': folder.id, 'key': key, **more})}"


def _after(folder: Synced, key: str, form: Form) -> str:
    """Return where a form came from: the page of the folder, or of the document."""
    is_there = form.one("from") == "folder"
    return _folder_link(folder) if is_there else document_link(folder, key)


def persona_pages(desk: OpenDesk, browsers: Browsers, clock: Clock) -> list[Endpoint]:
    """Make the endpoints of the documents."""
    page = PersonaPage(desk, clock)
    return [
        page_endpoint(
            "GET", "/persona", guarded(browsers, page.persona), "The documents that follow"
        ),
        page_endpoint(
            "GET", "/persona/document", guarded(browsers, page.document), "One document"
        ),
        page_endpoint("POST", "/persona/sync", guarded_act(browsers, page.sync), "Sync a folder"),
        page_endpoint(
            "POST",
            "/persona/copies/drop",
            guarded_act(browsers, page.drop),
            "Let go of a conflict copy",
        ),
        page_endpoint(
            "POST",
            "/persona/copies/use",
            guarded_act(browsers, page.use),
            "Put a conflict copy in its document's place",
        ),
    ]
