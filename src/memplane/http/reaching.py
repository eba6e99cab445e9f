"""Whose memories a request reaches, and who asks."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from starlette.requests import Request

from memplane.access.agents import AGENT_RULE, is_agent_id
from memplane.errors import InvalidRequest
from memplane.http.errors import absent
from memplane.http.principals import grant_of

OPERATOR: Final = "X-Memplane-Operator"
_LONGEST_NAME: Final = 200


def reached_agent(request: Request, named: str = "") -> str | None:
    """Return the agent that a request reaches: its token's, or the one it names; None is all.

    It is named in the query or in the body. Another agent's things are as if absent, and only
    an admin reaches all agents at once.
    """
    grant = grant_of(request)
    asked = {name for name in (named, request.query_params.get("agent", "")) if name}
    if grant.agent is not None:
        if asked - {grant.agent}:
            raise absent()
        return grant.agent
    if len(asked) > 1:
        raise _wrong_agent("the query and the body name different agents")
    for agent in asked:
        if not is_agent_id(agent):
            raise _wrong_agent(AGENT_RULE)
        return agent
    if not grant.admin:
        raise _wrong_agent("name one: this token is for many agents, and not an admin's")
    return None


def one_agent(request: Request, named: str = "") -> str:
    """Return the one agent that a request is about."""
    agent = reached_agent(request, named)
    if agent is None:
        raise _wrong_agent("name one, in the query or in the body: this token is for all")
    return agent


def operator_of(request: Request) -> str:
    """Return who asks: the token's name, or whom an admin asks for."""
    grant = grant_of(request)
    behind = unquote(request.headers.get(OPERATOR, "")) if grant.admin else ""
    if len(behind) > _LONGEST_NAME or not behind.isprintable():
        raise InvalidRequest(
            f"{OPERATOR} is a name of at most {_LONGEST_NAME} printable characters",
            fields={OPERATOR: "is no name"},
        )
    return behind or grant.name


def _wrong_agent(why: str) -> InvalidRequest:
    return InvalidRequest(f"which agent? {why}", fields={"agent": why})
