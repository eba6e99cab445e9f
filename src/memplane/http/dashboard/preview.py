"""The Prompt page: the block that the next prompt would be told, and what stays out of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from starlette.responses import Response

from memplane.clock import Clock
from memplane.errors import InvalidRequest, UnknownMemory
from memplane.http.dashboard.browsers import Browsers
from memplane.http.dashboard.pages import Visit
from memplane.http.dashboard.signing_in import guarded, page_endpoint
from memplane.http.endpoints import Endpoint
from memplane.observations.contract import (
    ListAsked,
    MemoryView,
    OperationalMemory,
    PromptAsked,
    PromptView,
)
from memplane.plane.contract import Plane

REASONS: Final = {
    "budget": "no room left",
    "contested": "contested",
    "weaker": "its rival is surer",
    "empty": "nothing to say",
}
_SHOWN: Final = 100
_LONGEST_PROMPT: Final = 20_000
_MOST_DIGITS: Final = 7


class LeftOut(msgspec.Struct, frozen=True):
    """A memory that is not told, and why in words."""

    memory: MemoryView
    why: str


class PreviewPage(msgspec.Struct, frozen=True):
    """Answers for the next prompt."""

    plane: Plane
    clock: Clock

    async def preview(self, visit: Visit) -> Response:
        """Show what a prompt would be told now."""
        memories = await self.plane.memories()
        agents = [one.value for one in (await memories.facets(None, ListAsked())).agent]
        agent = visit.query.get("agent") or (agents[0] if agents else "")
        given = visit.request.query_params
        services = tuple(one for one in given.getlist("service") if one)
        prompt, told, left_out, wrong = None, [], [], ""
        try:
            asked = PromptAsked(
                agent=agent,
                services=services,
                budget=_budget(given.get("budget", "")),
                prompt=given.get("prompt", "")[:_LONGEST_PROMPT],
            )
            if agent:
                prompt = await memories.preview(asked)
                told = await _found(memories, agent, prompt.included)
                left_out = await _left_out(memories, agent, prompt)
        except InvalidRequest as error:
            wrong = str(error)
        return visit.page(
            "preview_result.html" if visit.is_partial else "preview.html",
            422 if wrong else 200,
            agent=agent,
            agents=agents,
            services=[
                one.service for one in await memories.services(agent or None) if one.service
            ],
            chosen=services,
            budget=given.get("budget", ""),
            asked=given.get("prompt", ""),
            prompt=prompt,
            told=told,
            left_out=left_out,
            wrong=wrong,
            now=self.clock(),
        )


def _budget(text: str) -> int | None:
    text = text.strip()
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
        raise InvalidRequest("the budget is a whole number of tokens")
    return int(text)


async def _left_out(memories: OperationalMemory, agent: str, prompt: PromptView) -> list[LeftOut]:
    why = {one.id: REASONS.get(one.reason, one.reason) for one in prompt.dropped}
    return [LeftOut(one, why[one.id]) for one in await _found(memories, agent, tuple(why))]


async def _found(
    memories: OperationalMemory, agent: str, numbers: Sequence[int]
) -> list[MemoryView]:
    """Look memories up in their order; one that is gone meanwhile is passed over."""
    found: list[MemoryView] = []
    for number in numbers[:_SHOWN]:
        try:
            found.append(await memories.one(agent, number))
        except UnknownMemory:
            continue
    return found


def preview_pages(plane: Plane, browsers: Browsers, clock: Clock) -> list[Endpoint]:
    """Make the endpoint of the page."""
    page = PreviewPage(plane, clock)
    return [
        page_endpoint(
            "GET", "/preview", guarded(browsers, page.preview), "What the next prompt is told"
        )
    ]
