"""Which agent a command acts for."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memplane.errors import UnknownAgent
    from memplane.service.client import Client
    from memplane.settings import Settings

_MAX_LISTED_AGENTS: Final = 20


def resolve_agent(arguments: argparse.Namespace, settings: Settings) -> str:
    """Return the agent that was named, or the one that settings name.

    Raises:
        InvalidRequest: Neither names one, or what they name cannot be one.
    """
    from memplane.errors import InvalidRequest

    agent = arguments.agent or settings.agent
    if not agent:
        raise InvalidRequest("say which agent: --agent NAME, or set MEMPLANE_AGENT")
    _check_id(agent)
    return str(agent)


def _check_id(agent: str) -> None:
    from memplane.auth.agent_id import AGENT_ID_RULE, is_agent_id
    from memplane.errors import InvalidRequest

    if not is_agent_id(agent):
        raise InvalidRequest(f"{agent!r} is no agent's id: {AGENT_ID_RULE}")


async def expect_agent(agent: str, client: Client, settings: Settings) -> None:
    """Refuse to look for an agent that nobody has heard of: its name may be misspelt.

    Raises:
        InvalidRequest: That cannot be an agent's name.
        UnknownAgent: It has no turn, no token, and nothing ever happened to its memory.
    """
    from memplane.home import Home
    from memplane.observations.requests import ActQuery
    from memplane.server.dashboard.agent_list import list_agents
    from memplane.service.operations.stats import list_acts
    from memplane.service.operations.tokens import list_tokens

    _check_id(agent)
    ledgers = (settings.ledger.dir, Home(settings.home).received)
    places = (*ledgers, *filter(None, [settings.context_root]))
    if any((place / agent).is_dir() for place in places):
        return
    if (await client.call(list_acts, agent, ActQuery(limit=1))).acts:
        return
    known = {
        *await list_agents(client, ledgers),
        *(one.agent for one in await client.call(list_tokens)),
    }
    if agent not in known:
        raise make_unknown_agent(agent, sorted(filter(None, known)))


def make_unknown_agent(agent: str, known: Iterable[str], missing: str = "") -> UnknownAgent:
    """Make the error for a name that is no agent's here; it names those that there are.

    Args:
        agent: The name.
        known: The agents that there are.
        missing: What the agent does not have, where that is not everything.
    """
    from memplane.cli.output import escape_text
    from memplane.errors import UnknownAgent

    problem = f"{agent} has {missing}" if missing else f"there is no agent {agent}"
    return UnknownAgent(f"{escape_text(problem)}. {list_known_agents(known)}")


def list_known_agents(known: Iterable[str]) -> str:
    """Name the agents that there are, for a message."""
    names = list(known)
    if not names:
        return "There is none yet"
    more = (
        f" and {len(names) - _MAX_LISTED_AGENTS} more" if len(names) > _MAX_LISTED_AGENTS else ""
    )
    return f"There are: {', '.join(names[:_MAX_LISTED_AGENTS])}{more}"
