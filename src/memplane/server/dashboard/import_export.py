"""Memories out of the dashboard as files, and in again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, cast, get_args

import msgspec
from starlette.responses import Response

from memplane.errors import InvalidRequest, UnknownAgent, UnknownMemory
from memplane.observations.api_types import ImportReceipt, MemoryView
from memplane.observations.export_format import format_jsonl, parse_jsonl
from memplane.observations.requests import WITH_TRASH, Format, ImportAsked
from memplane.server.dashboard.agent_list import list_agents
from memplane.server.dashboard.browser_sessions import BrowserSessions
from memplane.server.dashboard.forms import Form
from memplane.server.dashboard.list_query import ListQuery
from memplane.server.dashboard.renderer import PAGE_HEADERS, PageRequest
from memplane.server.dashboard.sign_in import page_endpoint, require_form_session, require_session
from memplane.server.dashboard.turns import TurnSources
from memplane.server.endpoints import Endpoint
from memplane.server.request_body import NDJSON_TYPE
from memplane.server.system_api import answer_text
from memplane.service.client import Client
from memplane.service.operations import observations

MAX_IMPORT_BYTES: Final = 8 * 1024 * 1024


class ImportExportPage(msgspec.Struct, frozen=True):
    """Answers for files of memories."""

    client: Client
    places: TurnSources

    async def export(self, visit: PageRequest) -> Response:
        """Hand out all that a list shows, not only the page that is seen."""
        name = visit.query.get("format", "jsonl")
        if name not in get_args(Format):
            raise InvalidRequest(f"memories are not exported as {name!r}")
        chosen = cast("Format", name)
        listed = ListQuery.of(visit.query)
        query = listed.export_query(chosen)
        return answer_text(
            await self.client.call(observations.export_memories, listed.agent, query), PAGE_HEADERS
        )

    async def export_selected(self, visit: PageRequest, form: Form) -> Response:
        """Hand out the memories that are ticked."""
        del visit
        found = list[MemoryView]()
        for number in form.numbers("ids"):
            try:
                found.append(
                    await self.client.call(observations.get_memory, None, number, WITH_TRASH)
                )
            except UnknownMemory:
                continue  # It was purged since it was ticked.
        if not found:
            raise InvalidRequest("tick at least one memory")
        return Response(
            format_jsonl(found),
            media_type=NDJSON_TYPE,
            headers={
                **PAGE_HEADERS,
                "Content-Disposition": 'attachment; filename="memories.jsonl"',
            },
        )

    async def form(self, visit: PageRequest) -> Response:
        """Show where memories from elsewhere can be put in."""
        return await self._form(visit)

    async def _form(
        self,
        visit: PageRequest,
        code: int = 200,
        *,
        draft: Form | None = None,
        errors: Mapping[str, str] | None = None,
        receipt: ImportReceipt | None = None,
    ) -> Response:
        return visit.page(
            "import.html",
            code,
            agents=await list_agents(self.client, self.places.ledgers),
            draft=draft,
            errors=errors or {},
            receipt=receipt,
        )

    async def take_in(self, visit: PageRequest, form: Form) -> Response:
        """Take in the lines of an export; what is there already is not added again."""
        lines = form.one("lines").encode().split(b"\n")
        agent = form.one("agent").strip()
        try:
            found = await asyncio.to_thread(lambda: tuple(parse_jsonl(lines)))
            if not found:
                raise InvalidRequest("there is no memory in it")  # noqa: TRY301 - said below
            asked = ImportAsked(memories=found, source="dashboard")
            receipt = await self.client.call(observations.import_memories, agent, asked)
        except UnknownAgent as error:
            return await self._form(visit, 422, draft=form, errors={"agent": str(error)})
        except InvalidRequest as error:
            return await self._form(visit, 422, draft=form, errors={"lines": str(error)})
        return await self._form(visit, receipt=receipt)


def import_export_pages(
    client: Client, browsers: BrowserSessions, places: TurnSources
) -> list[Endpoint]:
    """Make the endpoints of files."""
    page = ImportExportPage(client, places)
    take_in = page_endpoint(
        "POST",
        "/memories/import",
        require_form_session(browsers, page.take_in),
        "Take in memories",
    )
    return [
        page_endpoint(
            "GET", "/memories/export", require_session(browsers, page.export), "The list as a file"
        ),
        page_endpoint(
            "POST",
            "/memories/export",
            require_form_session(browsers, page.export_selected),
            "Some memories as a file",
        ),
        page_endpoint(
            "GET", "/memories/import", require_session(browsers, page.form), "The Import page"
        ),
        replace(take_in, body_limit=MAX_IMPORT_BYTES),
    ]
