"""The Memories page: the list, each row, creating, editing, acting on many, undoing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final, cast, get_args

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from memplane.errors import ConcurrencyError, InvalidRequest
from memplane.kit.clock import Clock
from memplane.observations.api_types import MemoryView
from memplane.observations.model import Category
from memplane.observations.requests import (
    WITH_TRASH,
    Act,
    BulkAction,
    BulkRequest,
    MemoryCreate,
    MemoryPatch,
    MergeBody,
    PurgeBody,
    ReasonBody,
    UndoBody,
)
from memplane.server.dashboard.browser_sessions import BrowserSessions
from memplane.server.dashboard.forms import Form
from memplane.server.dashboard.list_query import ListQuery
from memplane.server.dashboard.renderer import PageRequest, redirect_to
from memplane.server.dashboard.sign_in import ActionHandler as Acting
from memplane.server.dashboard.sign_in import (
    PageHandler,
    page_endpoint,
    require_form_session,
    require_session,
)
from memplane.server.dashboard.toasts import (
    add_toast,
    format_toast,
    read_return_path,
    restrict_to_site,
)
from memplane.server.endpoints import Endpoint
from memplane.service.client import Client
from memplane.service.operations import observations
from memplane.service.operations.stats import get_facets

OPERATOR: Final = "dashboard"
"""Who changes memories here, for the record."""
_EMPTY_FORM: Final[dict[str, object]] = {"draft": None, "errors": dict[str, str](), "theirs": None}
"""What a form knows before somebody has sent it."""


class MemoriesPage(msgspec.Struct, frozen=True):
    """Answers for the list of memories and what is in it."""

    client: Client
    clock: Clock

    async def listing(self, visit: PageRequest) -> Response:
        """Show the list, or the part of it that changed."""
        listed = ListQuery.of(visit.query)
        return await self._listing(visit, listed)

    async def _listing(
        self, visit: PageRequest, listed: ListQuery, code: int = 200, **more: object
    ) -> Response:
        query = listed.query()
        page = await self.client.call(observations.list_memories, listed.agent, query)
        facets = await self.client.call(get_facets, listed.agent, query)
        template = "memories.html"
        if visit.is_partial:
            template = "memories_more.html" if listed.cursor else "memories_list.html"
        return visit.page(
            template,
            code,
            listed=listed,
            page=page,
            groups=_group_rows(page.memories, listed.group),
            facets=facets,
            categories=list(Category),
            now=self.clock(),
            **(_EMPTY_FORM | more),
        )

    async def row(self, visit: PageRequest) -> Response:
        """Show one row anew."""
        found = await self._found(visit)
        return visit.page("memory_row.html", memory=found, now=self.clock())

    async def edit_row(self, visit: PageRequest) -> Response:
        """Show a row as a form."""
        found = await self._found(visit)
        return self._form(visit, found)

    def _form(
        self, visit: PageRequest, found: MemoryView, code: int = 200, **more: object
    ) -> Response:
        return visit.page(
            "memory_edit.html" if visit.is_partial else "memory_edit_page.html",
            code,
            memory=found,
            categories=list(Category),
            back=restrict_to_site(visit.query.get("back", ""), f"/memories/{found.id}"),
            now=self.clock(),
            **(_EMPTY_FORM | more),
        )

    async def create(self, visit: PageRequest, form: Form) -> Response:
        """Write a memory down; what is wrong is said at its field, and nothing typed is lost."""
        call = self.client.call
        try:
            made = await call(
                observations.add_memory,
                _parse_agent(form),
                _parse_memory(form),
                key=form.one("key"),
            )
        except InvalidRequest as error:
            listed = ListQuery.of(visit.query)
            errors = error.fields or {"observation": str(error)}
            return await self._listing(visit, listed, 422, draft=form, errors=errors)
        last = (await call(observations.get_history, None, made.id)).events[-1]
        return redirect_to(add_toast(read_return_path(form), 1, "add", last.batch))

    async def update(self, visit: PageRequest, form: Form) -> Response:
        """Change a memory as its form says; one that was changed meanwhile is shown beside."""
        call, found = self.client.call, await self._found(visit)
        versions = form.numbers("version")[:1]
        try:
            change = _parse_change(form)
            changed = await call(
                observations.update_memory, None, found.id, change, versions=versions
            )
        except ConcurrencyError:
            # It may have been changed between looking and writing: theirs is what there is now.
            theirs = await self._found(visit)
            return self._form(visit, theirs, 409, draft=form, theirs=theirs)
        except InvalidRequest as error:
            errors = error.fields or {"observation": str(error)}
            return self._form(visit, found, 422, draft=form, errors=errors)
        count = int(changed.version != found.version)
        batch = ""
        if count:
            batch = (await call(observations.get_history, None, found.id)).events[-1].batch
        if visit.is_partial:
            return self._acted(visit, changed, format_toast(count, "edit"), batch)
        back = read_return_path(form, f"/memories/{found.id}")
        return redirect_to(add_toast(back, count, "edit", batch))

    async def delete(self, visit: PageRequest, form: Form) -> Response:
        """Put a memory into the trash."""
        return await self._act(visit, form, "retire")

    async def act(self, visit: PageRequest, form: Form) -> Response:
        """Do one of the acts that are buttons."""
        act = form.one("act")
        if act not in get_args(Act):
            raise InvalidRequest(f"there is no act {act!r}")
        return await self._act(visit, form, cast("Act", act))

    async def _act(self, visit: PageRequest, form: Form, act: Act) -> Response:
        number = (await self._found(visit)).id
        after = await self._apply(number, form, act)
        last = (await self.client.call(observations.get_history, None, number)).events[-1]
        done = 1 + len(last.together) if act == "undo" else 1
        if not visit.is_partial:
            return redirect_to(
                add_toast(read_return_path(form, f"/memories/{number}"), done, act, last.batch)
            )
        batch = "" if act in {"undo", "purge"} else last.batch
        is_gone = after.state in {"retired", "superseded", "purged"}
        return self._acted(visit, after, format_toast(done, act), batch, is_gone=is_gone)

    async def _apply(self, number: int, form: Form, act: Act) -> MemoryView:
        call, reason = self.client.call, form.one("reason")
        match act:
            case "merge":
                into = form.numbers("into")
                if not into:
                    words = "say which memory it is merged into"
                    raise InvalidRequest(words, fields={"into": words})
                body = MergeBody(into=into[0], reason=reason)
                return await call(observations.merge_memory, None, number, body)
            case "purge":
                purge = PurgeBody(confirm=form.one("confirm"), reason=reason)
                return await call(observations.purge_memory, None, number, purge)
            case _:
                action = observations.ACTIONS[act]
                return await call(action, None, number, ReasonBody(reason=reason))

    def _acted(
        self,
        visit: PageRequest,
        memory: MemoryView,
        said: str,
        batch: str,
        *,
        is_gone: bool = False,
    ) -> Response:
        """Show a row as it is now, and say what was done, with a way back."""
        return visit.page(
            "memory_acted.html",
            memory=memory,
            is_gone=is_gone,
            said=said,
            batch=batch,
            now=self.clock(),
        )

    async def bulk(self, visit: PageRequest, form: Form) -> Response:
        """Say how many memories an action would change, and do it when that is confirmed."""
        asked = _parse_bulk(form)
        outcome = await self.client.call(observations.apply_bulk, None, asked)
        if asked.dry_run or not outcome.done:
            code = 200 if all(one.ok for one in outcome.results) else 422
            return visit.page(
                "bulk_confirm.html" if visit.is_partial else "bulk_page.html",
                code,
                asked=asked,
                outcome=outcome,
                back=read_return_path(form),
            )
        return redirect_to(
            add_toast(read_return_path(form), len(outcome.results), asked.action, outcome.batch)
        )

    async def undo(self, visit: PageRequest, form: Form) -> Response:
        """Take back what was done in one go."""
        del visit
        body = UndoBody(batch=form.one("batch"))
        undone = (await self.client.call(observations.undo_batch, None, body)).memories
        return redirect_to(add_toast(read_return_path(form), len(undone), "undo", ""))

    async def _found(self, visit: PageRequest) -> MemoryView:
        return await load_memory(self.client, visit)


async def load_memory(client: Client, visit: PageRequest) -> MemoryView:
    """Return the memory that an address names; the trash is open to operators."""
    number = visit.request.path_params["id"]
    if not (number.isascii() and number.isdecimal() and len(number) < 19):  # noqa: PLR2004
        raise HTTPException(404, "there is no such memory")
    return await client.call(observations.get_memory, None, int(number), WITH_TRASH)


def _group_rows(memories: Sequence[MemoryView], group: str) -> list[tuple[str, list[MemoryView]]]:
    """Put rows together that belong together, in the order in which each group begins."""
    if not group:
        return [("", list(memories))]

    def name(one: MemoryView) -> str:
        return (one.service or "general") if group == "service" else one.category.value

    order = {label: at for at, label in reversed(list(enumerate(map(name, memories))))}
    rows = sorted(memories, key=lambda one: (name(one) == "general", order[name(one)]))
    return [(label, list(found)) for label, found in groupby(rows, key=name)]


def _parse_memory(form: Form) -> MemoryCreate:
    return MemoryCreate(
        category=form.one("category"),
        observation=form.one("observation"),
        service=form.one("service").strip() or None,
        confidence=_parse_confidence(form.one("confidence")),
        pinned=form.has("pinned"),
    )


def _parse_change(form: Form) -> MemoryPatch:
    """Return what a form changes; a confidence that nobody touched is not sent."""
    said: dict[str, object] = {
        "observation": form.one("observation"),
        "category": form.one("category"),
        "service": form.one("service").strip() or None,
    }
    confidence = form.one("confidence").strip()
    if confidence != form.one("confidence_was").strip():
        said["confidence"] = _parse_confidence(confidence)
    if form.has("has_active"):
        said["active"] = form.has("active")
    if form.has("has_expiry"):
        said["expires_at"] = form.one("expires_at").strip() or None
    return msgspec.convert(said, MemoryPatch)


def _parse_confidence(text: str) -> float | None:
    if not text.strip():
        return None
    try:
        return float(text)
    except ValueError:
        words = "the confidence is a number from 0 to 1"
        raise InvalidRequest(words, fields={"confidence": words}) from None


def _parse_agent(form: Form) -> str:
    agent = form.one("agent").strip()
    if not agent:
        words = "say whose memory it is"
        raise InvalidRequest(words, fields={"agent": words})
    return agent


def _parse_bulk(form: Form) -> BulkRequest:
    action = form.one("action")
    ids = form.numbers("ids")
    if action not in get_args(BulkAction):
        raise InvalidRequest("choose what to do with the memories that are ticked")
    if not ids:
        raise InvalidRequest("tick at least one memory")
    value: str | float | None = form.one("value") or None
    if action in {"set_confidence", "adjust_confidence"}:
        value = _parse_confidence(form.one("value"))
    elif action == "merge":
        value = float(min(ids)) if value is None else _parse_confidence(str(value))
    return BulkRequest(
        ids=ids,
        action=cast("BulkAction", action),
        value=value,
        dry_run=not form.has("confirmed"),
    )


def memories_pages(client: Client, browsers: BrowserSessions, clock: Clock) -> list[Endpoint]:
    """Make the endpoints of the list."""
    page = MemoriesPage(client, clock)

    def shows(path: str, handler: PageHandler, summary: str) -> Endpoint:
        return page_endpoint("GET", path, require_session(browsers, handler), summary)

    def does(path: str, handler: Acting, summary: str) -> Endpoint:
        return page_endpoint("POST", path, require_form_session(browsers, handler), summary)

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
