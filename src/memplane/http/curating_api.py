"""What waits for an operator, and all memories at once: conflicts, rejects, counts, in and out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from memplane.errors import InvalidRequest
from memplane.http.api import answer_json
from memplane.http.bodies import LINES, as_kind, is_lines, read_whole
from memplane.http.endpoints import Endpoint
from memplane.http.memories_api import (
    BEHIND,
    MISSING,
    READ,
    SMALL,
    WRITE,
    answer_memory,
    filters_of,
    impossible_now,
)
from memplane.http.memories_wire import (
    Conflicts,
    ConflictsQuery,
    ExportQuery,
    FacetsQuery,
    ImportQuery,
    LastQuery,
    Memories,
    Rejects,
    ScopeQuery,
    Services,
    UndoBody,
)
from memplane.http.queries import read_query
from memplane.http.reaching import one_agent, operator_of, reached_agent
from memplane.observations.contract import (
    AcceptAsked,
    ConflictView,
    Facets,
    ImportAsked,
    ImportReceipt,
    MemoryView,
    ResolveAsked,
    Stats,
)
from memplane.observations.exporting import Format, read_jsonl
from memplane.observations.walking import exported
from memplane.plane.contract import Plane

_TOO_LATE: Final[Mapping[int, str]] = {409: "It cannot be done as things are now."}
_MEDIA_TYPES: Final[Mapping[Format, str]] = {
    "jsonl": LINES,
    "md": "text/markdown; charset=utf-8",
    "csv": "text/csv; charset=utf-8; header=present",
}


def curating_endpoints(plane: Plane) -> list[Endpoint]:
    """Make the endpoints for what waits, and for all memories at once."""
    return [*_waiting(plane), *_counting(plane), *_moving(plane)]


def _waiting(plane: Plane) -> list[Endpoint]:
    async def get_conflicts(request: Request) -> Response:
        resolved = read_query(request.query_params, ConflictsQuery).resolved
        memories = await plane.memories()
        found = await memories.conflicts(reached_agent(request), resolved=resolved)
        return answer_json(Conflicts(conflicts=tuple(found)))

    async def post_resolve(request: Request) -> Response:
        asked = as_kind(await read_whole(request), ResolveAsked)
        agent, conflict = reached_agent(request), request.path_params["id"]
        memories = await plane.memories()
        try:
            done = await memories.resolve(agent, conflict, asked, by=operator_of(request))
        except InvalidRequest as error:
            raise impossible_now(error) from error
        return answer_json(done)

    async def get_rejects(request: Request) -> Response:
        limit = read_query(request.query_params, LastQuery).limit
        found = await (await plane.memories()).rejects(reached_agent(request), limit=limit)
        return answer_json(Rejects(rejects=tuple(found)))

    async def post_accept(request: Request) -> Response:
        asked = as_kind(await read_whole(request) if await request.body() else {}, AcceptAsked)
        agent, reject = reached_agent(request), request.path_params["id"]
        memories = await plane.memories()
        return answer_memory(await memories.accept(agent, reject, asked, by=operator_of(request)))

    return [
        Endpoint(
            method="GET",
            path="/api/v1/conflicts",
            handler=get_conflicts,
            needs=READ,
            query=ConflictsQuery,
            gives=Conflicts,
            summary="Memories that do not go together, the oldest conflict first",
        ),
        Endpoint(
            method="POST",
            path="/api/v1/conflicts/{id}/resolve",
            handler=post_resolve,
            needs=WRITE,
            query=ScopeQuery,
            headers=BEHIND,
            takes=ResolveAsked,
            gives=ConflictView,
            body_limit=SMALL,
            refuses={**MISSING, **_TOO_LATE},
            summary="End a conflict",
        ),
        Endpoint(
            method="GET",
            path="/api/v1/rejects",
            handler=get_rejects,
            needs=READ,
            query=LastQuery,
            gives=Rejects,
            refuses={400: "The limit is negative, or no number."},
            summary="What was said and is not remembered, the newest first",
        ),
        Endpoint(
            method="POST",
            path="/api/v1/rejects/{id}/accept",
            handler=post_accept,
            needs=WRITE,
            query=ScopeQuery,
            headers=BEHIND,
            takes=AcceptAsked,
            gives=MemoryView,
            body_limit=SMALL,
            body_optional=True,
            refuses=MISSING,
            summary="Make a memory of a reject",
        ),
    ]


def _counting(plane: Plane) -> list[Endpoint]:
    async def get_stats(request: Request) -> Response:
        return answer_json(await (await plane.memories()).stats(reached_agent(request)))

    async def get_facets(request: Request) -> Response:
        query = read_query(request.query_params, FacetsQuery)
        asked, memories = filters_of(query, query.state), await plane.memories()
        return answer_json(await memories.facets(reached_agent(request), asked))

    async def get_services(request: Request) -> Response:
        found = await (await plane.memories()).services(reached_agent(request))
        return answer_json(Services(services=tuple(found)))

    return [
        Endpoint(
            method="GET",
            path="/api/v1/stats",
            handler=get_stats,
            needs=READ,
            query=ScopeQuery,
            gives=Stats,
            summary="How much there is of everything",
        ),
        Endpoint(
            method="GET",
            path="/api/v1/facets",
            handler=get_facets,
            needs=READ,
            query=FacetsQuery,
            gives=Facets,
            summary="What a list of memories can be narrowed to, and how many that would leave",
        ),
        Endpoint(
            method="GET",
            path="/api/v1/services",
            handler=get_services,
            needs=READ,
            query=ScopeQuery,
            gives=Services,
            summary="What memories are about, and how many there are",
        ),
    ]


def _moving(plane: Plane) -> list[Endpoint]:
    async def get_export(request: Request) -> Response:
        query = read_query(request.query_params, ExportQuery)
        agent, asked = reached_agent(request), filters_of(query, query.state)
        pieces = exported(await plane.memories(), agent, asked, query.format)
        # What cannot be exported is said before the answer begins.
        first = await anext(pieces, "")
        return StreamingResponse(
            _after(first, pieces),
            media_type=_MEDIA_TYPES[query.format],
            headers={"Content-Disposition": f'attachment; filename="memories.{query.format}"'},
        )

    async def post_import(request: Request) -> Response:
        agent = one_agent(request)
        if is_lines(request.headers.get("content-type", "")):
            source = read_query(request.query_params, ImportQuery).source
            lines = (await request.body()).split(b"\n")
            found = await asyncio.to_thread(lambda: tuple(read_jsonl(lines)))
            asked = ImportAsked(memories=found, source=source)
        else:
            asked = as_kind(await read_whole(request), ImportAsked)
        memories = await plane.memories()
        return answer_json(await memories.take_in(agent, asked, by=operator_of(request)))

    async def post_undo(request: Request) -> Response:
        batch = as_kind(await read_whole(request), UndoBody).batch
        memories = await plane.memories()
        try:
            changed = await memories.undo(reached_agent(request), batch, by=operator_of(request))
        except InvalidRequest as error:
            raise impossible_now(error) from error
        return answer_json(Memories(memories=tuple(changed)))

    return [
        Endpoint(
            method="GET",
            path="/api/v1/export",
            handler=get_export,
            needs=READ,
            query=ExportQuery,
            media_type=LINES,
            also_gives=("text/markdown", "text/csv"),
            summary="All memories: lines that an import reads, Markdown, or a table",
        ),
        Endpoint(
            method="POST",
            path="/api/v1/import",
            handler=post_import,
            needs=WRITE,
            query=ImportQuery,
            headers=BEHIND,
            takes=ImportAsked,
            takes_lines=True,
            gives=ImportReceipt,
            summary="Take in memories from elsewhere; what is there already is not added again",
        ),
        Endpoint(
            method="POST",
            path="/api/v1/undo",
            handler=post_undo,
            needs=WRITE,
            query=ScopeQuery,
            headers=BEHIND,
            takes=UndoBody,
            gives=Memories,
            body_limit=SMALL,
            refuses=_TOO_LATE,
            summary="Take back all that was done in one go; undoing that does it again",
        ),
    ]


async def _after(first: str, rest: AsyncIterator[str]) -> AsyncIterator[str]:
    yield first
    async for piece in rest:
        yield piece
