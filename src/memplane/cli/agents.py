"""Which agent a command acts for."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memplane.settings import Settings


def agent_of(arguments: argparse.Namespace, settings: Settings) -> str:
    """Return the agent that was named, or the one that settings name.

    Raises:
        InvalidRequest: Neither names one, or what they name cannot be one.
    """
    from memplane.access.agents import AGENT_RULE, is_agent_id
    from memplane.errors import InvalidRequest

    agent = arguments.agent or settings.agent
    if not agent:
        raise InvalidRequest("say which agent: --agent NAME, or set MEMPLANE_AGENT")
    if not is_agent_id(agent):
        raise InvalidRequest(f"{agent!r} is no agent's id: {AGENT_RULE}")
    return str(agent)
