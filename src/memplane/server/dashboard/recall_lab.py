"""The Recall lab: ask an agent's memory, and see what it answers and why."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
from starlette.responses import Response

from memplane.episodes.api_types import MemoryBlock, RecallRequest
from memplane.episodes.provenance import MAX_SOURCE_CHARS
from memplane.kit.clock import Clock
from memplane.server.dashboard.agent_list import list_agents
from memplane.server.dashboard.browser_sessions import BrowserSessions
from memplane.server.dashboard.renderer import PageRequest
from memplane.server.dashboard.sign_in import page_endpoint, require_session
from memplane.server.endpoints import Endpoint
from memplane.service.client import Client
from memplane.service.operations.memory import list_sources, recall

_MAX_QUESTION_CHARS: Final = 4000
_MAX_TERMS: Final = 12
_MAX_LISTED_SOURCES: Final = 100
PART_DESCRIPTIONS: Final = {
    "match": "it matches the question",
    "salient": "it matters, and has to do with the question",
    "timeline": "it happened around what matches",
    "recent": "it was said lately",
    "noise": "little else was found",
    "observation": "it was learned about what is asked",
}


class ExplainedBlock(msgspec.Struct, frozen=True):
    """A block of an answer, and why it is in it: words and signals, the weightiest first."""

    block: MemoryBlock
    why: str
    terms: tuple[tuple[str, float], ...]
    signals: tuple[tuple[str, float, int], ...]

    @property
    def most(self) -> float:
        """What the weightiest word added."""
        return max([value for _, value in self.terms], default=1.0) or 1.0


class RecallLabPage(msgspec.Struct, frozen=True):
    """Answers for questions that are tried."""

    client: Client
    clock: Clock
    ledgers: tuple[Path, ...]

    async def lab(self, visit: PageRequest) -> Response:
        """Show the form, and the answer when something was asked."""
        question = visit.query.get("q", "").strip()[:_MAX_QUESTION_CHARS]
        agents = await list_agents(self.client, self.ledgers)
        agent = visit.query.get("agent") or (agents[0] if agents else "")
        source = visit.query.get("source", "").strip()[:MAX_SOURCE_CHARS]
        sources = (await self.client.call(list_sources, agent)).sources if agent else ()
        user = visit.query.get("user", "").strip()
        told = None
        if question and agent:
            ask = RecallRequest(
                agent=agent, user=user or None, text=question, explain=True, source=source
            )
            found = await self.client.call(recall, ask)
            told = [explain_block(one) for one in found.memories]
        return visit.page(
            "lab_result.html" if visit.is_partial else "lab.html",
            question=question,
            agent=agent,
            user=user,
            agents=agents,
            source=source,
            sources=sources[:_MAX_LISTED_SOURCES],
            told=told,
            now=self.clock(),
        )


def explain_block(block: MemoryBlock) -> ExplainedBlock:
    """Put the reasons of a block in order."""
    why = block.why
    if why is None:
        return ExplainedBlock(block, "", (), ())
    terms = sorted(why.terms.items(), key=lambda one: -one[1])[:_MAX_TERMS]
    signals = sorted(why.signals.items(), key=lambda one: -abs(one[1].added))
    return ExplainedBlock(
        block,
        PART_DESCRIPTIONS.get(why.part, why.part),
        tuple(terms),
        tuple((name, one.added, one.place) for name, one in signals),
    )


def recall_lab_pages(
    client: Client, browsers: BrowserSessions, clock: Clock, ledgers: tuple[Path, ...]
) -> list[Endpoint]:
    """Make the endpoint of the page."""
    page = RecallLabPage(client, clock, ledgers)
    return [page_endpoint("GET", "/lab", require_session(browsers, page.lab), "The Recall lab")]
