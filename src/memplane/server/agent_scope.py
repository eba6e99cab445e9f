"""Whose memories a request reaches, and who asks."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from starlette.requests import Request

from memplane.auth.agent_id import AGENT_ID_RULE, is_agent_id
from memplane.errors import InvalidRequest
from memplane.server.errors import InvalidFieldsError, not_found_error
from memplane.server.request_auth import require_grant

OPERATOR_HEADER: Final = "X-Memplane-Operator"
_MAX_NAME_CHARS: Final = 200


def resolve_agent(request: Request, named: str = "") -> str | None:
    """Return the agent that a request reaches: its token's, or the one it names; None is all.

    It is named in the query or in the body. Another agent's things are as if absent, and only
    an admin reaches all agents at once, or what was forgotten.
    """
    grant = require_grant(request)
    if "forgotten" in request.query_params and not grant.admin:
        why = "only an admin may see what was forgotten"
        raise InvalidFieldsError(403, f"{why}: leave out `forgotten`", {"forgotten": why})
    asked = {name for name in (named, request.query_params.get("agent", "")) if name}
    if grant.agent is not None:
        if asked - {grant.agent}:
            raise not_found_error()
        return grant.agent
    if len(asked) > 1:
        raise _make_agent_error("the query and the body name different agents")
    for agent in asked:
        if not is_agent_id(agent):
            raise _make_agent_error(AGENT_ID_RULE)
        return agent
    if not grant.admin:
        raise _make_agent_error("name one: this token is for many agents, and not an admin's")
    return None


def resolve_one_agent(request: Request, named: str = "") -> str:
    """Return the one agent that a request is about."""
    agent = resolve_agent(request, named)
    if agent is None:
        raise _make_agent_error("name one, in the query or in the body: this token is for all")
    return agent


def resolve_operator(request: Request) -> str:
    """Return who asks: the token's name, or whom an admin asks for."""
    grant = require_grant(request)
    behind = unquote(request.headers.get(OPERATOR_HEADER, "")) if grant.admin else ""
    if len(behind) > _MAX_NAME_CHARS or not behind.isprintable():
        raise InvalidRequest(
            f"{OPERATOR_HEADER} is a name of at most {_MAX_NAME_CHARS} printable characters",
            fields={OPERATOR_HEADER: "is no name"},
        )
    return behind or grant.name


def _make_agent_error(why: str) -> InvalidRequest:
    return InvalidRequest(f"which agent? {why}", fields={"agent": why})
