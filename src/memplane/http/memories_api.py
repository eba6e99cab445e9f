"""`/api/v1/memories`: what was learned, and what operators do about it, one memory or several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from memplane.access.grants import Scope
from memplane.errors import ConcurrencyError, InvalidRequest, UnknownMemory
from memplane.http.api import answer_json
from memplane.http.bodies import as_kind, read_whole
from memplane.http.endpoints import Endpoint, Handler, Needs
from memplane.http.errors import Refused
from memplane.http.memories_wire import (
    BulkBody,
    EvidenceFound,
    FilterQuery,
    History,
    Injections,
    ListQuery,
    MemoryBody,
    MemoryPatch,
    MemoryPut,
    MergeBody,
    OneQuery,
    PageQuery,
    PurgeBody,
    ReasonBody,
    ScopeQuery,
)
from memplane.http.queries import read_query
from memplane.http.reaching import OPERATOR, one_agent, operator_of, reached_agent
from memplane.observations.contract import (
    Act,
    ActAsked,
    BulkOutcome,
    ListAsked,
    MemoryChange,
    MemoryPage,
    MemoryView,
    RebuildReceipt,
)
from memplane.observations.model import State
from memplane.plane.contract import Plane

READ: Final = Needs(Scope.READ)
WRITE: Final = Needs(Scope.WRITE)
ADMIN: Final = Needs(Scope.ADMIN)
SMALL: Final = 64 * 1024
MISSING: Final[Mapping[int, str]] = {404: "There is none for whoever asks."}
BEHIND: Final[Mapping[str, str]] = {
    OPERATOR: "For whom an admin does this, percent-encoded; otherwise it is the token's name."
}
_LARGEST_ID: Final = 2**63 - 1
_LONGEST_KEY: Final = 255
_STALE: Final[Mapping[int, str]] = {409: "It is not as it was thought to be."}


def memories_endpoints(plane: Plane) -> list[Endpoint]:
    """Make the endpoints for memories, one or several."""
    return [*_listing(plane), *_changing(plane), *_acting(plane), *_telling(plane)]


def _listing(plane: Plane) -> list[Endpoint]:
    async def get_memories(request: Request) -> Response:
        query = read_query(request.query_params, ListQuery)
        memories = await plane.memories()
        asked = _list_asked(query, query.state)
        return answer_json(await memories.page(reached_agent(request), asked))

    async def get_quarantine(request: Request) -> Response:
        query = read_query(request.query_params, PageQuery)
        memories = await plane.memories()
        asked = _list_asked(query, State.QUARANTINED.value)
        return answer_json(await memories.page(reached_agent(request), asked))

    async def post_memory(request: Request) -> Response:
        body = as_kind(await _with_fields(request, "category", "observation"), MemoryBody)
        agent = one_agent(request, body.agent)
        memories = await plane.memories()
        added = await memories.add(agent, body, by=operator_of(request), key=_key(request))
        return answer_memory(added, 201)

    async def post_bulk(request: Request) -> Response:
        asked = as_kind(await read_whole(request), BulkBody)
        memories = await plane.memories()
        return answer_json(
            await memories.bulk(reached_agent(request), asked, by=operator_of(request))
        )

    async def post_rebuild(_request: Request) -> Response:
        return answer_json(await (await plane.memories()).rebuild())

    return [
        Endpoint(
            method="GET",
            path="/api/v1/memories",
            handler=get_memories,
            needs=READ,
            query=ListQuery,
            gives=MemoryPage,
            refuses={400: "The limit or the offset is negative, or no number."},
            summary="What was learned, the surest first",
        ),
        Endpoint(
            method="GET",
            path="/api/v1/quarantine",
            handler=get_quarantine,
            needs=READ,
            query=PageQuery,
            gives=MemoryPage,
            refuses={400: "The limit or the offset is negative, or no number."},
            summary="What waits to be approved, and is told to nobody until then",
        ),
        Endpoint(
            method="POST",
            path="/api/v1/memories",
            handler=post_memory,
            needs=WRITE,
            query=ScopeQuery,
            headers={
                "Idempotency-Key": "The same key again makes no second memory.",
                **BEHIND,
            },
            takes=MemoryBody,
            gives=MemoryView,
            status=201,
            body_limit=SMALL,
            refuses={400: "The body is not JSON, or a category or an observation is missing."},
            summary="Write a memory down",
        ),
        Endpoint(
            method="POST",
            path="/api/v1/memories/bulk",
            handler=post_bulk,
            needs=WRITE,
            query=ScopeQuery,
            headers=BEHIND,
            takes=BulkBody,
            gives=BulkOutcome,
            body_limit=SMALL,
            summary="Do something to several memories, all or nothing; `batch` undoes it",
        ),
        Endpoint(
            method="POST",
            path="/api/v1/memories/rebuild",
            handler=post_rebuild,
            needs=ADMIN,
            gives=RebuildReceipt,
            body_limit=SMALL,
            summary="Make every memory again from its events, and compare",
        ),
    ]


def _changing(plane: Plane) -> list[Endpoint]:
    async def get_memory(request: Request) -> Response:
        trash = read_query(request.query_params, OneQuery).state is not None
        memories = await plane.memories()
        found = await memories.one(reached_agent(request), number_in(request), trash=trash)
        if f'"{found.version}"' in _etags(request, "If-None-Match"):
            return Response(status_code=304, headers={"ETag": f'"{found.version}"'})
        return answer_memory(found)

    async def put_memory(request: Request) -> Response:
        value = await _with_fields(request, "observation", "confidence", "active")
        return await change(request, _change_of(as_kind(value, MemoryPut)))

    async def patch_memory(request: Request) -> Response:
        return await change(request, as_kind(await read_whole(request), MemoryPatch))

    async def change(request: Request, wanted: MemoryChange) -> Response:
        agent, memory = reached_agent(request), number_in(request)
        memories = await plane.memories()
        # What is in the trash is not there for whoever changes it, either.
        now = await memories.one(agent, memory)
        changed = await memories.change(
            agent, memory, wanted, by=operator_of(request), version=_expected(request, now)
        )
        return answer_memory(changed)

    async def delete_memory(request: Request) -> Response:
        agent, memory = reached_agent(request), number_in(request)
        memories = await plane.memories()
        await memories.one(agent, memory)
        await memories.act(agent, memory, ActAsked(act="retire"), by=operator_of(request))
        return Response(status_code=204)

    path = "/api/v1/memories/{id:int}"
    expecting = {"If-Match": "The ETag of what is to be changed.", **BEHIND}
    return [
        Endpoint(
            method="GET",
            path=path,
            handler=get_memory,
            needs=READ,
            query=OneQuery,
            headers={"If-None-Match": "The ETag of what is known already."},
            gives=MemoryView,
            refuses={304: "It is what is known already.", **MISSING},
            summary="One memory",
        ),
        Endpoint(
            method="PUT",
            path=path,
            handler=put_memory,
            needs=WRITE,
            query=ScopeQuery,
            headers=expecting,
            takes=MemoryPut,
            gives=MemoryView,
            body_limit=SMALL,
            refuses={400: "The body is not JSON, or a field is missing.", **MISSING, **_STALE},
            summary="Change all that a memory says",
        ),
        Endpoint(
            method="PATCH",
            path=path,
            handler=patch_memory,
            needs=WRITE,
            query=ScopeQuery,
            headers=expecting,
            takes=MemoryPatch,
            gives=MemoryView,
            body_limit=SMALL,
            refuses={**MISSING, **_STALE},
            summary="Change some of what a memory says",
        ),
        Endpoint(
            method="DELETE",
            path=path,
            handler=delete_memory,
            needs=WRITE,
            query=ScopeQuery,
            headers=BEHIND,
            status=204,
            body_limit=SMALL,
            refuses=MISSING,
            summary="Put a memory into the trash, from which it can be restored",
        ),
    ]


_ACTS: Final[Mapping[Act, tuple[Needs, type[ReasonBody], str]]] = {
    "retire": (WRITE, ReasonBody, "Put a memory into the trash"),
    "restore": (WRITE, ReasonBody, "Take a memory out of the trash, or switch it on again"),
    "pin": (WRITE, ReasonBody, "Keep a memory from fading, and tell it first"),
    "unpin": (WRITE, ReasonBody, "Let a memory fade again"),
    "approve": (WRITE, ReasonBody, "Let a memory out of quarantine"),
    "undo": (WRITE, ReasonBody, "Take back the last thing that was done to a memory"),
    "merge": (WRITE, MergeBody, "Let another memory take the place of this one"),
    "purge": (ADMIN, PurgeBody, "Erase a memory's words for good"),
}


def _acting(plane: Plane) -> list[Endpoint]:
    def doing(act: Act, kind: type[ReasonBody]) -> Handler:
        async def post_act(request: Request) -> Response:
            body = as_kind(await read_whole(request) if await request.body() else {}, kind)
            asked = msgspec.convert({"act": act, **msgspec.structs.asdict(body)}, ActAsked)
            memories = await plane.memories()
            agent, memory = reached_agent(request), number_in(request)
            try:
                done = await memories.act(agent, memory, asked, by=operator_of(request))
            except InvalidRequest as error:
                raise impossible_now(error) from error
            return answer_memory(done)

        return post_act

    return [
        Endpoint(
            method="POST",
            path=f"/api/v1/memories/{{id:int}}/{act}",
            handler=doing(act, kind),
            needs=needs,
            query=ScopeQuery,
            headers=BEHIND,
            takes=kind,
            gives=MemoryView,
            body_limit=SMALL,
            body_optional=kind is ReasonBody,
            refuses={**MISSING, 409: "It cannot be done to it as it is now."},
            summary=summary,
        )
        for act, (needs, kind, summary) in _ACTS.items()
    ]


def _telling(plane: Plane) -> list[Endpoint]:
    async def get_history(request: Request) -> Response:
        found = await (await plane.memories()).history(reached_agent(request), number_in(request))
        return answer_json(History(events=tuple(found)))

    async def get_evidence(request: Request) -> Response:
        memories = await plane.memories()
        found = await memories.evidence(reached_agent(request), number_in(request))
        return answer_json(EvidenceFound(evidence=tuple(found)))

    async def get_injections(request: Request) -> Response:
        memories = await plane.memories()
        found = await memories.injections(reached_agent(request), number_in(request))
        return answer_json(Injections(injections=tuple(found)))

    told: tuple[tuple[str, Handler, type[Any], str], ...] = (
        ("history", get_history, History, "All that happened to a memory"),
        ("evidence", get_evidence, EvidenceFound, "What speaks for a memory and against it"),
        ("injections", get_injections, Injections, "The prompts that a memory was told in"),
    )
    return [
        Endpoint(
            method="GET",
            path=f"/api/v1/memories/{{id:int}}/{name}",
            handler=handler,
            needs=READ,
            query=ScopeQuery,
            gives=gives,
            refuses=MISSING,
            summary=summary,
        )
        for name, handler, gives, summary in told
    ]


def filters_of(query: FilterQuery, state: str | None) -> ListAsked:
    """Put what a query filters by into the words of memory."""
    return ListAsked(
        service=query.service or None,
        category=query.category,
        state=state,
        tier=query.tier,
        origin=query.origin,
        contested=query.contested,
        pinned=query.pinned,
        stale=query.stale,
        session=query.session,
        entry=query.entry,
        q=query.q,
    )


def _list_asked(query: PageQuery, state: str | None) -> ListAsked:
    return msgspec.structs.replace(
        filters_of(query, state),
        sort=query.sort,
        descending=query.order == "desc",
        limit=query.limit,
        offset=query.offset,
        cursor=query.cursor,
        as_of=query.as_of,
        known_at=query.known_at,
    )


def number_in(request: Request, what: str = "memory") -> int:
    """Return the number in a path; what no database can hold is the number of nothing."""
    number = int(request.path_params["id"])
    if number > _LARGEST_ID:
        raise UnknownMemory(f"there is no {what} with that number")
    return number


def impossible_now(error: InvalidRequest) -> InvalidRequest | Refused:
    """Tell a request that is wrong, which names its field, from one that comes at a bad time."""
    return error if error.fields else Refused(409, str(error))


def answer_memory(found: MemoryView, status: int = 200) -> Response:
    """Answer with a memory, and its version for whoever changes it."""
    response = answer_json(found, status)
    response.headers["ETag"] = f'"{found.version}"'
    return response


async def _with_fields(request: Request, *needed: str) -> object:
    """Read the body as JSON in which some fields must stand; without one it ends with 400."""
    value = await read_whole(request)
    if isinstance(value, dict):
        given = cast("dict[str, object]", value)
        missing = {name: "is missing" for name in needed if given.get(name) is None}
        if missing:
            raise Refused(400, f"the body has no {' and no '.join(missing)}", missing)
        return given
    return value


def _change_of(put: MemoryPut) -> MemoryChange:
    return MemoryChange(**msgspec.structs.asdict(put))


def _key(request: Request) -> str:
    key = request.headers.get("Idempotency-Key", "")
    if len(key) > _LONGEST_KEY:
        why = f"has more than {_LONGEST_KEY} characters"
        raise InvalidRequest(f"the Idempotency-Key {why}", fields={"Idempotency-Key": why})
    return key


def _etags(request: Request, header: str) -> set[str]:
    return {one.strip().removeprefix("W/") for one in request.headers.get(header, "").split(",")}


def _expected(request: Request, now: MemoryView) -> int | None:
    """Return the version that whoever asks has seen; None when that does not matter."""
    if "If-Match" not in request.headers:
        return None
    tags = _etags(request, "If-Match")
    if "*" in tags:
        return None
    if f'"{now.version}"' not in tags:
        raise ConcurrencyError(
            f"memory {now.id} is at version {now.version} by now. Read it again, then change it"
        )
    return now.version
