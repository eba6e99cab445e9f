"""The Recall lab: ask an agent's memory, and see what it answers and why."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
from starlette.responses import Response

from memplane.clock import Clock
from memplane.http.dashboard.agents import agents_known
from memplane.http.dashboard.browsers import Browsers
from memplane.http.dashboard.pages import Visit
from memplane.http.dashboard.signing_in import guarded, page_endpoint
from memplane.http.endpoints import Endpoint
from memplane.memory.contract import Ask, Block
from memplane.plane.contract import Plane

_LONGEST: Final = 4000
_MOST_TERMS: Final = 12
PARTS: Final = {
    "match": "it matches the question",
    "salient": "it matters, and has to do with the question",
    "timeline": "it happened around what matches",
    "recent": "it was said lately",
    "noise": "little else was found",
    "observation": "it was learned about what is asked",
}


class Told(msgspec.Struct, frozen=True):
    """A block of an answer, and why it is in it: words and signals, the weightiest first."""

    block: Block
    why: str
    terms: tuple[tuple[str, float], ...]
    signals: tuple[tuple[str, float, int], ...]

    @property
    def most(self) -> float:
        """What the weightiest word added."""
        return max([value for _, value in self.terms], default=1.0) or 1.0


class LabPage(msgspec.Struct, frozen=True):
    """Answers for questions that are tried."""

    plane: Plane
    clock: Clock
    ledgers: tuple[Path, ...]

    async def lab(self, visit: Visit) -> Response:
        """Show the form, and the answer when something was asked."""
        question = visit.query.get("q", "").strip()[:_LONGEST]
        agents = await agents_known(self.plane, self.ledgers)
        agent = visit.query.get("agent") or (agents[0] if agents else "")
        told = None
        if question and agent:
            found = await self.plane.recall(Ask(agent=agent, text=question, explain=True))
            told = [explained(one) for one in found.memories]
        return visit.page(
            "lab_result.html" if visit.is_partial else "lab.html",
            question=question,
            agent=agent,
            agents=agents,
            told=told,
            now=self.clock(),
        )


def explained(block: Block) -> Told:
    """Put the reasons of a block in order."""
    why = block.why
    if why is None:
        return Told(block, "", (), ())
    terms = sorted(why.terms.items(), key=lambda one: -one[1])[:_MOST_TERMS]
    signals = sorted(why.signals.items(), key=lambda one: -abs(one[1].added))
    return Told(
        block,
        PARTS.get(why.part, why.part),
        tuple(terms),
        tuple((name, one.added, one.place) for name, one in signals),
    )


def lab_pages(
    plane: Plane, browsers: Browsers, clock: Clock, ledgers: tuple[Path, ...]
) -> list[Endpoint]:
    """Make the endpoint of the page."""
    page = LabPage(plane, clock, ledgers)
    return [page_endpoint("GET", "/lab", guarded(browsers, page.lab), "The Recall lab")]
