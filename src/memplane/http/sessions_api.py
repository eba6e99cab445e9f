"""`/api/v1/sessions` and `/api/v1/preview`: what a run of an agent is told, and what it tells."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from memplane.http.api import answer_json
from memplane.http.bodies import as_kind, read_whole
from memplane.http.endpoints import Endpoint
from memplane.http.memories_api import MISSING, READ, SMALL, WRITE, number_in
from memplane.http.memories_wire import (
    EndBody,
    HeardBody,
    LastQuery,
    PreviewQuery,
    ScopeQuery,
    SessionBody,
    Sessions,
)
from memplane.http.queries import read_query
from memplane.http.reaching import one_agent, reached_agent
from memplane.observations.contract import (
    HeardReceipt,
    OperationalMemory,
    PromptAsked,
    PromptView,
    SessionBegun,
    SessionView,
)
from memplane.plane.contract import Plane


def sessions_endpoints(plane: Plane) -> list[Endpoint]:
    """Make the endpoints for runs of agents."""
    return [*_looking(plane), *_running(plane)]


def _looking(plane: Plane) -> list[Endpoint]:
    async def get_preview(request: Request) -> Response:
        query = read_query(request.query_params, PreviewQuery)
        asked = PromptAsked(
            agent=one_agent(request),
            services=query.service,
            budget=query.budget,
            session=query.session,
            prompt=query.prompt,
        )
        return answer_json(await (await plane.memories()).preview(asked))

    async def get_sessions(request: Request) -> Response:
        limit = read_query(request.query_params, LastQuery).limit
        found = await (await plane.memories()).sessions(reached_agent(request), limit=limit)
        return answer_json(Sessions(sessions=tuple(found)))

    async def get_session(request: Request) -> Response:
        memories = await plane.memories()
        return answer_json(await memories.session(reached_agent(request), _number(request)))

    return [
        Endpoint(
            method="GET",
            path="/api/v1/preview",
            handler=get_preview,
            needs=READ,
            query=PreviewQuery,
            gives=PromptView,
            summary="What the next prompt would be told, what was left out, and why",
        ),
        Endpoint(
            method="GET",
            path="/api/v1/sessions",
            handler=get_sessions,
            needs=READ,
            query=LastQuery,
            gives=Sessions,
            refuses={400: "The limit is negative, or no number."},
            summary="The last sessions, the newest first",
        ),
        Endpoint(
            method="GET",
            path="/api/v1/sessions/{id:int}",
            handler=get_session,
            needs=READ,
            query=ScopeQuery,
            gives=SessionView,
            refuses=MISSING,
            summary="What is known of a session",
        ),
    ]


def _running(plane: Plane) -> list[Endpoint]:
    async def post_session(request: Request) -> Response:
        body = as_kind(await read_whole(request), SessionBody)
        wanted = msgspec.structs.replace(body, agent=one_agent(request, body.agent))
        return answer_json(await (await plane.memories()).begin(wanted), 201)

    async def post_heard(request: Request) -> Response:
        heard = as_kind(await read_whole(request), HeardBody)
        memories, session = await plane.memories(), _number(request)
        agent = await _agent_of(memories, request, session)
        return answer_json(await memories.hear(agent, session, heard))

    async def post_end(request: Request) -> Response:
        ended = as_kind(await read_whole(request) if await request.body() else {}, EndBody)
        memories, session = await plane.memories(), _number(request)
        agent = await _agent_of(memories, request, session)
        return answer_json(await memories.end(agent, session, ended))

    return [
        Endpoint(
            method="POST",
            path="/api/v1/sessions",
            handler=post_session,
            needs=WRITE,
            query=ScopeQuery,
            takes=SessionBody,
            gives=SessionBegun,
            status=201,
            summary="Begin a session, and keep what it is told",
        ),
        Endpoint(
            method="POST",
            path="/api/v1/sessions/{id:int}/heard",
            handler=post_heard,
            needs=WRITE,
            query=ScopeQuery,
            takes=HeardBody,
            gives=HeardReceipt,
            refuses=MISSING,
            summary="Learn from what happened in a session",
        ),
        Endpoint(
            method="POST",
            path="/api/v1/sessions/{id:int}/end",
            handler=post_end,
            needs=WRITE,
            query=ScopeQuery,
            takes=EndBody,
            gives=SessionView,
            body_limit=SMALL,
            body_optional=True,
            refuses=MISSING,
            summary="End a session",
        ),
    ]


def _number(request: Request) -> int:
    return number_in(request, "session")


async def _agent_of(memories: OperationalMemory, request: Request, session: int) -> str:
    """Return whose session it is; an admin need not say."""
    agent = reached_agent(request)
    return agent if agent is not None else (await memories.session(None, session)).agent
