"""Whom pages can be about."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from memplane.ledger.folder import agents_in
from memplane.observations.contract import ListAsked
from memplane.plane.contract import Plane


async def agents_known(plane: Plane, ledgers: Iterable[Path]) -> list[str]:
    """Name the agents that have turns, recorded or received, or have learned something."""
    memories = await plane.memories()
    learned = (await memories.facets(None, ListAsked(state="any"))).agent
    found = {one.value for one in learned}
    for folder in ledgers:
        found.update(await asyncio.to_thread(agents_in, folder))
    return sorted(found)
