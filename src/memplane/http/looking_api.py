"""What happened to memories over time: the course of one, counts by day, and every act."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from memplane.http.api import answer_json
from memplane.http.endpoints import Endpoint
from memplane.http.memories_api import MISSING, READ, number_in
from memplane.http.memories_wire import LastQuery, Number, ScopeQuery
from memplane.http.queries import read_query
from memplane.http.reaching import reached_agent
from memplane.observations.contract import MOST_DAYS, ActsAsked, ActView, Course, DayView
from memplane.observations.events import Kind
from memplane.plane.contract import Plane

_Days = Annotated[int, msgspec.Meta(ge=1, le=MOST_DAYS, description="How many days, until today.")]


class DaysQuery(ScopeQuery, frozen=True, kw_only=True):
    """Whose memories, and for how many days."""

    days: _Days = 30


class Days(msgspec.Struct, frozen=True, kw_only=True):
    """How many memories were in which state at the end of each day, the oldest first."""

    days: tuple[DayView, ...]


class ActsQuery(LastQuery, frozen=True, kw_only=True):
    """Whose acts, and which."""

    actor: Annotated[
        Literal["operator", "system", "agent", "import"] | None,
        msgspec.Meta(description="Whose doing it was."),
    ] = None
    kind: Kind | None = None
    before: Annotated[
        Number, msgspec.Meta(description="Go on behind an earlier page; its last `seq`.")
    ] = 0


class Acts(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to memories, the newest first."""

    acts: tuple[ActView, ...]


def looking_endpoints(plane: Plane) -> list[Endpoint]:
    """Make the endpoints for what happened over time."""

    async def get_course(request: Request) -> Response:
        memories = await plane.memories()
        return answer_json(await memories.course(reached_agent(request), number_in(request)))

    async def get_days(request: Request) -> Response:
        days = read_query(request.query_params, DaysQuery).days
        found = await (await plane.memories()).by_day(reached_agent(request), days)
        return answer_json(Days(days=tuple(found)))

    async def get_acts(request: Request) -> Response:
        query = read_query(request.query_params, ActsQuery)
        asked = ActsAsked(
            actor=query.actor or "",
            kind=query.kind or "",
            before=query.before,
            limit=query.limit,
        )
        found = await (await plane.memories()).acts(reached_agent(request), asked)
        return answer_json(Acts(acts=tuple(found)))

    return [
        Endpoint(
            method="GET",
            path="/api/v1/memories/{id:int}/course",
            handler=get_course,
            needs=READ,
            query=ScopeQuery,
            gives=Course,
            refuses=MISSING,
            summary="How sure we were of a memory over time, and how that goes on",
        ),
        Endpoint(
            method="GET",
            path="/api/v1/stats/days",
            handler=get_days,
            needs=READ,
            query=DaysQuery,
            gives=Days,
            summary="How many memories were in which state at the end of each of the last days",
        ),
        Endpoint(
            method="GET",
            path="/api/v1/acts",
            handler=get_acts,
            needs=READ,
            query=ActsQuery,
            gives=Acts,
            refuses={400: "The limit is negative, or no number."},
            summary="What happened to memories and by whom, the newest first",
        ),
    ]
