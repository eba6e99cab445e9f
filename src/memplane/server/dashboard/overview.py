"""The Overview page: what was learned lately, what waits, and whether all is well."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec
from starlette.responses import Response

from memplane.kit.clock import Clock
from memplane.observations.api_types import DayView, MemoryView, PromptView
from memplane.observations.requests import DaysQuery, MemoryQuery
from memplane.server.dashboard.agent_list import list_agents
from memplane.server.dashboard.browser_sessions import BrowserSessions
from memplane.server.dashboard.charts import StackedChart, draw_histogram, draw_stacked
from memplane.server.dashboard.health import assess_health
from memplane.server.dashboard.renderer import PageRequest
from memplane.server.dashboard.sign_in import page_endpoint, require_session
from memplane.server.endpoints import Endpoint
from memplane.service.client import Client
from memplane.service.operations import stats
from memplane.service.operations.observations import list_memories
from memplane.service.operations.sessions import preview_prompt

_MAX_CACHED_PREVIEWS: Final = 50
_PREVIEW_LIFETIME: Final = timedelta(minutes=5)
_LATEST_ROWS: Final = 8
_FADING_ROWS: Final = 6
_BUDGET_ROWS: Final = 4
_CHART_DAYS: Final = (30, 60)
_TRASH_STATES: Final = ("retired", "superseded")


class PromptBudget(msgspec.Struct, frozen=True):
    """How much of its room the next prompt of an agent takes."""

    agent: str
    prompt: PromptView


class OverviewPage(msgspec.Struct, frozen=True):
    """Answers for the page that is opened first."""

    client: Client
    clock: Clock
    ledgers: tuple[Path, ...]
    _previews: dict[str, tuple[int, datetime, PromptView]] = msgspec.field(
        default_factory=dict[str, tuple[int, datetime, PromptView]]
    )

    async def overview(self, visit: PageRequest) -> Response:
        """Show all at a glance."""
        call = self.client.call
        agent = visit.query.get("agent") or None
        days = next(
            (one for one in _CHART_DAYS if str(one) == visit.query.get("days")), _CHART_DAYS[0]
        )
        counts = await call(stats.get_stats, agent)
        newest = MemoryQuery(sort="created", limit=_LATEST_ROWS)
        lately = await call(list_memories, agent, newest)
        learned = [one.value for one in (await call(stats.get_facets)).agent]
        status = await self.client.status()
        return visit.page(
            "overview.html",
            agent=agent,
            agents=await list_agents(self.client, self.ledgers),
            stats=counts,
            lately=lately.memories,
            fading=await _load_fading(self.client, agent),
            budgets=await self._budgets([agent] if agent else learned[:_BUDGET_ROWS]),
            more_agents=0 if agent else len(learned[_BUDGET_ROWS:]),
            findings=assess_health(status),
            turns=status.memory.episodes if status.memory else 0,
            histogram=draw_histogram(counts.histogram),
            states=_draw_states((await call(stats.count_days, agent, DaysQuery(days=days))).days),
            days=days,
            spans=_CHART_DAYS,
            address=str(visit.request.base_url).rstrip("/"),
            now=self.clock(),
        )

    async def _budgets(self, agents: Sequence[str]) -> list[PromptBudget]:
        """Preview prompts; one of a few minutes ago will do where nothing happened since."""
        latest, now = (await self.client.call(stats.watch_events)).after, self.clock()
        found: list[PromptBudget] = []
        if len(self._previews) > _MAX_CACHED_PREVIEWS:
            self._previews.clear()
        for one in agents:
            seen = self._previews.get(one)
            if seen is None or seen[0] != latest or now - seen[1] > _PREVIEW_LIFETIME:
                seen = (latest, now, await self.client.call(preview_prompt, one))
                self._previews[one] = seen
            found.append(PromptBudget(one, seen[2]))
        return found


async def _load_fading(client: Client, agent: str | None) -> list[MemoryView]:
    page = await client.call(list_memories, agent, MemoryQuery(stale=True, state="active"))
    return sorted(page.memories, key=lambda one: one.goes_inactive_at or "")[:_FADING_ROWS]


def _draw_states(days: Sequence[DayView]) -> StackedChart:
    """Draw how many there were of each state; the trash is one."""

    def counted(*states: str) -> list[int]:
        return [sum(day.by_state.get(one, 0) for one in states) for day in days]

    layers = [(one, counted(one)) for one in ("active", "inactive", "quarantined")]
    return draw_stacked(
        [one.day for one in days], [*layers, ("in the trash", counted(*_TRASH_STATES))]
    )


def overview_pages(
    client: Client, browsers: BrowserSessions, clock: Clock, ledgers: tuple[Path, ...]
) -> list[Endpoint]:
    """Make the endpoint of the page."""
    page = OverviewPage(client, clock, ledgers)
    return [
        page_endpoint("GET", "/", require_session(browsers, page.overview), "The Overview page")
    ]
