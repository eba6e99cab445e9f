"""Whom pages can be about."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from memplane.ledger.folder import list_ledger_agents
from memplane.observations.requests import MemoryFilter
from memplane.service.client import Client
from memplane.service.operations import stats


async def list_agents(client: Client, ledgers: Iterable[Path]) -> list[str]:
    """Name the agents that have turns, recorded or received, or have learned something."""
    learned = (await client.call(stats.get_facets, None, MemoryFilter(state="any"))).agent
    found = {one.value for one in learned}
    for folder in ledgers:
        found.update(await asyncio.to_thread(list_ledger_agents, folder))
    return sorted(found)
