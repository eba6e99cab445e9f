"""Statistics of memories: counts of them, what happened to them, and what happens now."""

from __future__ import annotations

from typing import Annotated, Final

from memplane.auth.grants import Scope
from memplane.observations.api_types import (
    ActList,
    ChangeEvent,
    DayList,
    Facets,
    ServiceList,
    Stats,
)
from memplane.observations.requests import ActQuery, DaysQuery, MemoryFilter
from memplane.service.operation import AnyAgent, Context, EventStream, Header, operation

_ALL: Final = MemoryFilter()
_MONTH: Final = DaysQuery()
_LAST: Final = ActQuery()


@operation("GET", "/api/v1/stats", scope=Scope.READ)
async def get_stats(context: Context, agent: AnyAgent = None) -> Stats:
    """Count memories, conflicts and rejects."""
    return await (await context.services.memories()).stats(agent)


@operation("GET", "/api/v1/stats/days", scope=Scope.READ)
async def count_days(
    context: Context, agent: AnyAgent = None, query: DaysQuery = _MONTH
) -> DayList:
    """Count memories by their state at the end of each of the last days."""
    memories = await context.services.memories()
    return DayList(days=tuple(await memories.by_day(agent, query.days)))


@operation("GET", "/api/v1/facets", scope=Scope.READ)
async def get_facets(
    context: Context, agent: AnyAgent = None, query: MemoryFilter = _ALL
) -> Facets:
    """Count the values that a list of memories can be filtered by."""
    return await (await context.services.memories()).facets(agent, query)


@operation("GET", "/api/v1/services", scope=Scope.READ)
async def list_services(context: Context, agent: AnyAgent = None) -> ServiceList:
    """List the services that memories are about, with counts."""
    memories = await context.services.memories()
    return ServiceList(services=tuple(await memories.services(agent)))


@operation("GET", "/api/v1/acts", scope=Scope.READ)
async def list_acts(context: Context, agent: AnyAgent = None, query: ActQuery = _LAST) -> ActList:
    """List what happened to memories and by whom, the newest first."""
    memories = await context.services.memories()
    return ActList(acts=tuple(await memories.acts(agent, query)))


@operation("GET", "/api/v1/events", scope=Scope.READ)
async def watch_events(
    context: Context,
    agent: AnyAgent = None,
    *,
    after: Annotated[
        int | None,
        Header("Last-Event-ID", "Resume after that event; without it, from now on."),
    ] = None,
) -> EventStream[ChangeEvent]:
    """Stream what happens to memories, as server-sent events."""
    memories = await context.services.memories()
    latest = await memories.latest()
    place = latest if after is None else min(after, latest)
    return EventStream(place, memories.changes(agent, place))
