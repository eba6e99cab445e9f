"""The Prompt page: the block that the next prompt would be told, and what stays out of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from starlette.responses import Response

from memplane.errors import InvalidRequest, UnknownMemory
from memplane.kit.clock import Clock
from memplane.observations.api_types import MemoryView, PromptView
from memplane.observations.requests import PromptQuery
from memplane.server.dashboard.browser_sessions import BrowserSessions
from memplane.server.dashboard.renderer import PageRequest
from memplane.server.dashboard.sign_in import page_endpoint, require_session
from memplane.server.endpoints import Endpoint
from memplane.service.client import Client
from memplane.service.operations import sessions, stats
from memplane.service.operations.observations import get_memory

OMISSION_REASONS: Final = {
    "budget": "no room left",
    "contested": "contested",
    "weaker": "its rival is surer",
    "empty": "nothing to say",
}
_MAX_ROWS: Final = 100
_MAX_PROMPT_CHARS: Final = 20_000
_MAX_BUDGET_DIGITS: Final = 7


class OmittedMemory(msgspec.Struct, frozen=True):
    """A memory that is not told, and why in words."""

    memory: MemoryView
    why: str


class PromptPreviewPage(msgspec.Struct, frozen=True):
    """Answers for the next prompt."""

    client: Client
    clock: Clock

    async def preview(self, visit: PageRequest) -> Response:
        """Show what a prompt would be told now."""
        agents = [one.value for one in (await self.client.call(stats.get_facets)).agent]
        agent = visit.query.get("agent") or (agents[0] if agents else "")
        given = visit.request.query_params
        services = tuple(one for one in given.getlist("service") if one)
        prompt, told, left_out, wrong = None, [], [], ""
        try:
            asked = PromptQuery(
                services=services,
                budget=_parse_budget(given.get("budget", "")),
                prompt=given.get("prompt", "")[:_MAX_PROMPT_CHARS],
            )
            if agent:
                prompt = await self.client.call(sessions.preview_prompt, agent, asked)
                told = await _load_memories(self.client, agent, prompt.included)
                left_out = await _load_omitted(self.client, agent, prompt)
        except InvalidRequest as error:
            wrong = str(error)
        listed = await self.client.call(stats.list_services, agent or None)
        return visit.page(
            "preview_result.html" if visit.is_partial else "preview.html",
            422 if wrong else 200,
            agent=agent,
            agents=agents,
            services=[each.service for each in listed.services if each.service],
            chosen=services,
            budget=given.get("budget", ""),
            asked=given.get("prompt", ""),
            prompt=prompt,
            told=told,
            left_out=left_out,
            wrong=wrong,
            now=self.clock(),
        )


def _parse_budget(text: str) -> int | None:
    text = text.strip()
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _MAX_BUDGET_DIGITS):
        raise InvalidRequest("the budget is a whole number of tokens")
    return int(text)


async def _load_omitted(client: Client, agent: str, prompt: PromptView) -> list[OmittedMemory]:
    why = {one.id: OMISSION_REASONS.get(one.reason, one.reason) for one in prompt.dropped}
    return [
        OmittedMemory(one, why[one.id]) for one in await _load_memories(client, agent, tuple(why))
    ]


async def _load_memories(client: Client, agent: str, numbers: Sequence[int]) -> list[MemoryView]:
    """Look memories up in their order; one that is gone meanwhile is passed over."""
    found: list[MemoryView] = []
    for number in numbers[:_MAX_ROWS]:
        try:
            found.append(await client.call(get_memory, agent, number))
        except UnknownMemory:
            continue
    return found


def prompt_preview_pages(
    client: Client, browsers: BrowserSessions, clock: Clock
) -> list[Endpoint]:
    """Make the endpoint of the page."""
    page = PromptPreviewPage(client, clock)
    return [
        page_endpoint(
            "GET",
            "/preview",
            require_session(browsers, page.preview),
            "What the next prompt is told",
        )
    ]
