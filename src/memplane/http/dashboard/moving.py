"""Memories out of the dashboard as files, and in again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Final, cast, get_args

import msgspec
from starlette.responses import Response, StreamingResponse

from memplane.errors import InvalidRequest, UnknownAgent, UnknownMemory
from memplane.http.dashboard.agents import agents_known
from memplane.http.dashboard.browsers import Browsers
from memplane.http.dashboard.forms import Form
from memplane.http.dashboard.listed import Listed
from memplane.http.dashboard.memories import BY
from memplane.http.dashboard.pages import SAFE, Visit
from memplane.http.dashboard.signing_in import guarded, guarded_act, page_endpoint
from memplane.http.dashboard.turns import Places
from memplane.http.endpoints import Endpoint
from memplane.observations.contract import ImportAsked, ImportReceipt, MemoryView
from memplane.observations.exporting import Format, as_jsonl, read_jsonl
from memplane.observations.walking import exported
from memplane.plane.contract import Plane

IMPORT_LIMIT: Final = 8 * 1024 * 1024
_MEDIA_TYPES: Final[Mapping[Format, str]] = {
    "jsonl": "application/x-ndjson",
    "md": "text/markdown; charset=utf-8",
    "csv": "text/csv; charset=utf-8",
}


class MovingPage(msgspec.Struct, frozen=True):
    """Answers for files of memories."""

    plane: Plane
    places: Places

    async def export(self, visit: Visit) -> Response:
        """Hand out all that a list shows, not only the page that is seen."""
        name = visit.query.get("format", "jsonl")
        if name not in get_args(Format):
            raise InvalidRequest(f"memories are not exported as {name!r}")
        chosen = cast("Format", name)
        listed = Listed.of(visit.query)
        pieces = exported(await self.plane.memories(), listed.agent, listed.asked(), chosen)
        # What cannot be exported is said before the answer begins.
        first = await anext(pieces, "")
        return StreamingResponse(
            _after(first, pieces), media_type=_MEDIA_TYPES[chosen], headers=_as_file(chosen)
        )

    async def export_ticked(self, visit: Visit, form: Form) -> Response:
        """Hand out the memories that are ticked."""
        del visit
        memories, found = await self.plane.memories(), list[MemoryView]()
        for number in form.numbers("ids"):
            try:
                found.append(await memories.one(None, number, trash=True))
            except UnknownMemory:
                continue  # It was purged since it was ticked.
        if not found:
            raise InvalidRequest("tick at least one memory")
        return Response(
            as_jsonl(found), media_type=_MEDIA_TYPES["jsonl"], headers=_as_file("jsonl")
        )

    async def form(self, visit: Visit) -> Response:
        """Show where memories from elsewhere can be put in."""
        return await self._form(visit)

    async def _form(
        self,
        visit: Visit,
        code: int = 200,
        *,
        draft: Form | None = None,
        errors: Mapping[str, str] | None = None,
        receipt: ImportReceipt | None = None,
    ) -> Response:
        return visit.page(
            "import.html",
            code,
            agents=await agents_known(self.plane, self.places.ledgers),
            draft=draft,
            errors=errors or {},
            receipt=receipt,
        )

    async def take_in(self, visit: Visit, form: Form) -> Response:
        """Take in the lines of an export; what is there already is not added again."""
        lines = form.one("lines").encode().split(b"\n")
        agent = form.one("agent").strip()
        memories = await self.plane.memories()
        try:
            found = await asyncio.to_thread(lambda: tuple(read_jsonl(lines)))
            if not found:
                raise InvalidRequest("there is no memory in it")  # noqa: TRY301 - said below
            asked = ImportAsked(memories=found, source="dashboard")
            receipt = await memories.take_in(agent, asked, by=BY)
        except UnknownAgent as error:
            return await self._form(visit, 422, draft=form, errors={"agent": str(error)})
        except InvalidRequest as error:
            return await self._form(visit, 422, draft=form, errors={"lines": str(error)})
        return await self._form(visit, receipt=receipt)


def _as_file(chosen: Format) -> dict[str, str]:
    return {**SAFE, "Content-Disposition": f'attachment; filename="memories.{chosen}"'}


async def _after(first: str, rest: AsyncIterator[str]) -> AsyncIterator[str]:
    yield first
    async for piece in rest:
        yield piece


def moving_pages(plane: Plane, browsers: Browsers, places: Places) -> list[Endpoint]:
    """Make the endpoints of files."""
    page = MovingPage(plane, places)
    take_in = page_endpoint(
        "POST", "/memories/import", guarded_act(browsers, page.take_in), "Take in memories"
    )
    return [
        page_endpoint(
            "GET", "/memories/export", guarded(browsers, page.export), "The list as a file"
        ),
        page_endpoint(
            "POST",
            "/memories/export",
            guarded_act(browsers, page.export_ticked),
            "Some memories as a file",
        ),
        page_endpoint("GET", "/memories/import", guarded(browsers, page.form), "The Import page"),
        replace(take_in, body_limit=IMPORT_LIMIT),
    ]
