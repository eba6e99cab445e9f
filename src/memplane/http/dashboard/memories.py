"""The Memories page: the list, each row, creating, editing, acting on many, undoing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final, cast, get_args

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from memplane.clock import Clock
from memplane.errors import ConcurrencyError, InvalidRequest
from memplane.http.dashboard.browsers import Browsers
from memplane.http.dashboard.forms import Form
from memplane.http.dashboard.listed import Listed
from memplane.http.dashboard.pages import Visit, go_to
from memplane.http.dashboard.signing_in import Act as Acting
from memplane.http.dashboard.signing_in import Page, guarded, guarded_act, page_endpoint
from memplane.http.dashboard.toasts import back_of, ours, with_toast, words_for
from memplane.http.endpoints import Endpoint
from memplane.observations.contract import (
    Act,
    ActAsked,
    BulkAction,
    BulkAsked,
    MemoryChange,
    MemoryView,
    MemoryWanted,
    OperationalMemory,
)
from memplane.observations.model import Category
from memplane.plane.contract import Plane

BY = "dashboard"
_UNTOUCHED: Final[dict[str, object]] = {"draft": None, "errors": dict[str, str](), "theirs": None}
"""What a form knows before somebody has sent it."""


class MemoriesPage(msgspec.Struct, frozen=True):
    """Answers for the list of memories and what is in it."""

    plane: Plane
    clock: Clock

    async def listing(self, visit: Visit) -> Response:
        """Show the list, or the part of it that changed."""
        listed = Listed.of(visit.query)
        return await self._listing(visit, listed)

    async def _listing(
        self, visit: Visit, listed: Listed, code: int = 200, **more: object
    ) -> Response:
        memories = await self.plane.memories()
        page = await memories.page(listed.agent, listed.asked())
        template = "memories.html"
        if visit.is_partial:
            template = "memories_more.html" if listed.cursor else "memories_list.html"
        return visit.page(
            template,
            code,
            listed=listed,
            page=page,
            groups=_grouped(page.memories, listed.group),
            facets=await memories.facets(listed.agent, listed.asked()),
            categories=list(Category),
            now=self.clock(),
            **(_UNTOUCHED | more),
        )

    async def row(self, visit: Visit) -> Response:
        """Show one row anew."""
        found = await self._found(visit)
        return visit.page("memory_row.html", memory=found, now=self.clock())

    async def edit_row(self, visit: Visit) -> Response:
        """Show a row as a form."""
        found = await self._found(visit)
        return self._form(visit, found)

    def _form(self, visit: Visit, found: MemoryView, code: int = 200, **more: object) -> Response:
        return visit.page(
            "memory_edit.html" if visit.is_partial else "memory_edit_page.html",
            code,
            memory=found,
            categories=list(Category),
            back=ours(visit.query.get("back", ""), f"/memories/{found.id}"),
            now=self.clock(),
            **(_UNTOUCHED | more),
        )

    async def create(self, visit: Visit, form: Form) -> Response:
        """Write a memory down; what is wrong is said at its field, and nothing typed is lost."""
        memories = await self.plane.memories()
        try:
            wanted = _wanted(form)
            made = await memories.add(_agent(form), wanted, by=BY, key=form.one("key"))
        except InvalidRequest as error:
            listed = Listed.of(visit.query)
            errors = error.fields or {"observation": str(error)}
            return await self._listing(visit, listed, 422, draft=form, errors=errors)
        last = (await memories.history(None, made.id))[-1]
        return go_to(with_toast(back_of(form), 1, "add", last.batch))

    async def update(self, visit: Visit, form: Form) -> Response:
        """Change a memory as its form says; one that was changed meanwhile is shown beside."""
        memories, found = await self.plane.memories(), await self._found(visit)
        version = _version(form)
        try:
            change = _change(form)
            changed = await memories.change(None, found.id, change, by=BY, version=version)
        except ConcurrencyError:
            # It may have been changed between looking and writing: theirs is what there is now.
            theirs = await self._found(visit)
            return self._form(visit, theirs, 409, draft=form, theirs=theirs)
        except InvalidRequest as error:
            errors = error.fields or {"observation": str(error)}
            return self._form(visit, found, 422, draft=form, errors=errors)
        if visit.is_partial:
            return visit.page("memory_row.html", memory=changed, now=self.clock())
        last = (await memories.history(None, found.id))[-1]
        back = back_of(form, f"/memories/{found.id}")
        return go_to(with_toast(back, 1, "edit", last.batch if changed != found else ""))

    async def delete(self, visit: Visit, form: Form) -> Response:
        """Put a memory into the trash."""
        return await self._act(visit, form, "retire")

    async def act(self, visit: Visit, form: Form) -> Response:
        """Do one of the acts that are buttons."""
        act = form.one("act")
        if act not in get_args(Act):
            raise InvalidRequest(f"there is no act {act!r}")
        return await self._act(visit, form, cast("Act", act))

    async def _act(self, visit: Visit, form: Form, act: Act) -> Response:
        memories, found = await self.plane.memories(), await self._found(visit)
        into = form.numbers("into")
        asked = ActAsked(
            act=act,
            reason=form.one("reason"),
            into=into[0] if into else None,
            confirm=form.one("confirm"),
        )
        after = await memories.act(None, found.id, asked, by=BY)
        last = (await memories.history(None, found.id))[-1]
        done = 1 + len(last.together) if act == "undo" else 1
        if not visit.is_partial:
            return go_to(with_toast(back_of(form, f"/memories/{found.id}"), done, act, last.batch))
        return visit.page(
            "memory_acted.html",
            memory=after,
            is_gone=after.state in {"retired", "superseded", "purged"},
            said=words_for(done, act),
            batch="" if act in {"undo", "purge"} else last.batch,
            now=self.clock(),
        )

    async def bulk(self, visit: Visit, form: Form) -> Response:
        """Say how many memories an action would change, and do it when that is confirmed."""
        memories = await self.plane.memories()
        asked = _bulk(form)
        outcome = await memories.bulk(None, asked, by=BY)
        if asked.dry_run or not outcome.done:
            code = 200 if all(one.ok for one in outcome.results) else 422
            return visit.page(
                "bulk_confirm.html" if visit.is_partial else "bulk_page.html",
                code,
                asked=asked,
                outcome=outcome,
                back=back_of(form),
            )
        return go_to(with_toast(back_of(form), len(outcome.results), asked.action, outcome.batch))

    async def undo(self, visit: Visit, form: Form) -> Response:
        """Take back what was done in one go."""
        del visit
        memories = await self.plane.memories()
        undone = await memories.undo(None, form.one("batch"), by=BY)
        return go_to(with_toast(back_of(form), len(undone), "undo", ""))

    async def _found(self, visit: Visit) -> MemoryView:
        return await found_in(await self.plane.memories(), visit)


async def found_in(memories: OperationalMemory, visit: Visit) -> MemoryView:
    """Return the memory that an address names; the trash is open to operators."""
    number = visit.request.path_params["id"]
    if not (number.isascii() and number.isdecimal() and len(number) < 19):  # noqa: PLR2004
        raise HTTPException(404, "there is no such memory")
    return await memories.one(None, int(number), trash=True)


def _grouped(memories: Sequence[MemoryView], group: str) -> list[tuple[str, list[MemoryView]]]:
    """Put rows together that belong together, in the order in which each group begins."""
    if not group:
        return [("", list(memories))]

    def name(one: MemoryView) -> str:
        return (one.service or "general") if group == "service" else one.category.value

    order = {label: at for at, label in reversed(list(enumerate(map(name, memories))))}
    rows = sorted(memories, key=lambda one: (name(one) == "general", order[name(one)]))
    return [(label, list(found)) for label, found in groupby(rows, key=name)]


def _wanted(form: Form) -> MemoryWanted:
    return MemoryWanted(
        category=form.one("category"),
        observation=form.one("observation"),
        service=form.one("service").strip() or None,
        confidence=_confidence(form.one("confidence")),
        pinned=form.has("pinned"),
    )


def _change(form: Form) -> MemoryChange:
    """Return what a form changes; a confidence that nobody touched is not sent."""
    said: dict[str, object] = {
        "observation": form.one("observation"),
        "category": form.one("category"),
        "service": form.one("service").strip() or None,
    }
    confidence = form.one("confidence").strip()
    if confidence != form.one("confidence_was").strip():
        said["confidence"] = _confidence(confidence)
    if form.has("has_active"):
        said["active"] = form.has("active")
    if form.has("has_expiry"):
        said["expires_at"] = form.one("expires_at").strip() or None
    return msgspec.convert(said, MemoryChange)


def _confidence(text: str) -> float | None:
    if not text.strip():
        return None
    try:
        return float(text)
    except ValueError:
        words = "the confidence is a number from 0 to 1"
        raise InvalidRequest(words, fields={"confidence": words}) from None


def _version(form: Form) -> int | None:
    version = form.numbers("version")
    return version[0] if version else None


def _agent(form: Form) -> str:
    agent = form.one("agent").strip()
    if not agent:
        words = "say whose memory it is"
        raise InvalidRequest(words, fields={"agent": words})
    return agent


def _bulk(form: Form) -> BulkAsked:
    action = form.one("action")
    ids = form.numbers("ids")
    if action not in get_args(BulkAction):
        raise InvalidRequest("choose what to do with the memories that are ticked")
    if not ids:
        raise InvalidRequest("tick at least one memory")
    value: str | float | None = form.one("value") or None
    if action in {"set_confidence", "adjust_confidence"}:
        value = _confidence(form.one("value"))
    elif action == "merge":
        value = float(min(ids)) if value is None else _confidence(str(value))
    return BulkAsked(
        ids=ids,
        action=cast("BulkAction", action),
        value=value,
        dry_run=not form.has("confirmed"),
    )


def memories_pages(plane: Plane, browsers: Browsers, clock: Clock) -> list[Endpoint]:
    """Make the endpoints of the list."""
    page = MemoriesPage(plane, clock)

    def shows(path: str, handler: Page, summary: str) -> Endpoint:
        return page_endpoint("GET", path, guarded(browsers, handler), summary)

    def does(path: str, handler: Acting, summary: str) -> Endpoint:
        return page_endpoint("POST", path, guarded_act(browsers, handler), summary)

    return [
        shows("/memories", page.listing, "The Memories page"),
        shows("/memories/{id}/row", page.row, "One row of it"),
        shows("/memories/{id}/edit", page.edit_row, "One row as a form"),
        does("/memories", page.create, "Write a memory down"),
        does("/memories/bulk", page.bulk, "Do something to several memories"),
        does("/memories/{id}/update", page.update, "Change a memory"),
        does("/memories/{id}/delete", page.delete, "Put a memory into the trash"),
        does("/memories/{id}/act", page.act, "Do something to a memory"),
        does("/undo", page.undo, "Take back what was done in one go"),
    ]
