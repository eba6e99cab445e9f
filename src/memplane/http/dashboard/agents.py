"""Whom pages can be about."""

from __future__ import annotations

import asyncio
from pathlib import Path

from memplane.ledger.folder import agents_in
from memplane.observations.contract import ListAsked
from memplane.plane.contract import Plane


async def agents_known(plane: Plane, ledgers: Path) -> list[str]:
    """Name the agents that have a ledger or have learned something, in order."""
    memories = await plane.memories()
    learned = (await memories.facets(None, ListAsked(state="any"))).agent
    recorded = await asyncio.to_thread(agents_in, ledgers)
    return sorted({*recorded, *(one.value for one in learned)})
