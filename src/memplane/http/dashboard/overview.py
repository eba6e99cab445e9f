"""The Overview page: what was learned lately, what waits, and whether all is well."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec
from starlette.responses import Response

from memplane.clock import Clock
from memplane.http.dashboard.agents import agents_known
from memplane.http.dashboard.browsers import Browsers
from memplane.http.dashboard.charts import Layers, histogram, stacked
from memplane.http.dashboard.health import findings
from memplane.http.dashboard.pages import Visit
from memplane.http.dashboard.signing_in import guarded, page_endpoint
from memplane.http.endpoints import Endpoint
from memplane.observations.contract import (
    DayView,
    ListAsked,
    MemoryView,
    OperationalMemory,
    PromptAsked,
    PromptView,
)
from memplane.plane.contract import Plane

_KEPT: Final = 50
_FRESH: Final = timedelta(minutes=5)
_LATELY: Final = 8
_FADING: Final = 6
_BUDGETS: Final = 4
_SPANS: Final = (30, 60)
_TRASH: Final = ("retired", "superseded")


class Budget(msgspec.Struct, frozen=True):
    """How much of its room the next prompt of an agent takes."""

    agent: str
    prompt: PromptView


class OverviewPage(msgspec.Struct, frozen=True):
    """Answers for the page that is opened first."""

    plane: Plane
    clock: Clock
    ledgers: tuple[Path, ...]
    _previews: dict[str, tuple[int, datetime, PromptView]] = msgspec.field(
        default_factory=dict[str, tuple[int, datetime, PromptView]]
    )

    async def overview(self, visit: Visit) -> Response:
        """Show all at a glance."""
        memories = await self.plane.memories()
        agent = visit.query.get("agent") or None
        days = next((one for one in _SPANS if str(one) == visit.query.get("days")), _SPANS[0])
        stats = await memories.stats(agent)
        lately = await memories.page(agent, ListAsked(sort="created", limit=_LATELY))
        learned = [one.value for one in (await memories.facets(None, ListAsked())).agent]
        status = await self.plane.status()
        return visit.page(
            "overview.html",
            agent=agent,
            agents=await agents_known(self.plane, self.ledgers),
            stats=stats,
            lately=lately.memories,
            fading=await _fading(memories, agent),
            budgets=await self._budgets(memories, [agent] if agent else learned[:_BUDGETS]),
            more_agents=0 if agent else len(learned[_BUDGETS:]),
            findings=findings(status),
            turns=status.memory.episodes if status.memory else 0,
            histogram=histogram(stats.histogram),
            states=_states(await memories.by_day(agent, days)),
            days=days,
            spans=_SPANS,
            address=str(visit.request.base_url).rstrip("/"),
            now=self.clock(),
        )

    async def _budgets(self, memories: OperationalMemory, agents: Sequence[str]) -> list[Budget]:
        """Preview prompts; one of a few minutes ago will do where nothing happened since."""
        latest, now = await memories.latest(), self.clock()
        found: list[Budget] = []
        if len(self._previews) > _KEPT:
            self._previews.clear()
        for one in agents:
            seen = self._previews.get(one)
            if seen is None or seen[0] != latest or now - seen[1] > _FRESH:
                seen = (latest, now, await memories.preview(PromptAsked(agent=one)))
                self._previews[one] = seen
            found.append(Budget(one, seen[2]))
        return found


async def _fading(memories: OperationalMemory, agent: str | None) -> list[MemoryView]:
    page = await memories.page(agent, ListAsked(stale=True, state="active"))
    return sorted(page.memories, key=lambda one: one.goes_inactive_at or "")[:_FADING]


def _states(days: Sequence[DayView]) -> Layers:
    """Draw how many there were of each state; the trash is one."""

    def counted(*states: str) -> list[int]:
        return [sum(day.by_state.get(one, 0) for one in states) for day in days]

    layers = [(one, counted(one)) for one in ("active", "inactive", "quarantined")]
    return stacked([one.day for one in days], [*layers, ("in the trash", counted(*_TRASH))])


def overview_pages(
    plane: Plane, browsers: Browsers, clock: Clock, ledgers: tuple[Path, ...]
) -> list[Endpoint]:
    """Make the endpoint of the page."""
    page = OverviewPage(plane, clock, ledgers)
    return [page_endpoint("GET", "/", guarded(browsers, page.overview), "The Overview page")]
