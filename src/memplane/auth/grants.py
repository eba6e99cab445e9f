"""What a token lets its bearer do. Pure."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from memplane.auth.agent_id import AGENT_ID_RULE, is_agent_id
from memplane.errors import InvalidRequest

MAX_TOKEN_LIFE_S: Final = 10 * 366 * 24 * 3600
_MAX_NAME_CHARS: Final = 200


class Scope(StrEnum):
    """What a token is good for."""

    READ = "read"
    WRITE = "write"
    PROXY = "proxy"
    ADMIN = "admin"


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """What the bearer of a token may do; without an agent it may be done for every agent."""

    id: str
    name: str
    agent: str | None
    scopes: frozenset[Scope]
    expires: datetime | None = None

    @property
    def admin(self) -> bool:
        """Whether the bearer may do everything, for every agent."""
        return Scope.ADMIN in self.scopes

    def allows(self, scope: Scope) -> bool:
        """Say whether the bearer may do this at all."""
        return self.admin or scope in self.scopes

    def reaches(self, agent: str) -> bool:
        """Say whether that agent's things exist for the bearer."""
        return self.agent is None or self.agent == agent


class TokenRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A token that somebody asks for: of one agent with its scopes, or of an admin."""

    agent: str | None = None
    admin: bool = False
    scopes: tuple[Scope, ...] = ()
    name: str = ""
    expires_in: int | None = None
    """Seconds from now; none is for ever."""


def check_token_request(request: TokenRequest) -> None:
    """Check that the token may exist.

    Raises:
        InvalidRequest: It may not.
    """
    if request.admin:
        _check_admin(request)
    else:
        _check_agent(request)
    if len(request.name) > _MAX_NAME_CHARS or not request.name.isprintable():
        raise InvalidRequest(
            f"a token's name has at most {_MAX_NAME_CHARS} characters, all of them printable"
        )
    if request.expires_in is not None and not 0 < request.expires_in <= MAX_TOKEN_LIFE_S:
        raise InvalidRequest("a token expires after at least one second and at most ten years")


def _check_admin(request: TokenRequest) -> None:
    if request.agent is not None:
        raise InvalidRequest("an admin's token is for every agent: leave the agent out")
    if not {*request.scopes} <= {Scope.ADMIN}:
        raise InvalidRequest("an admin may do everything: leave the scopes out")


def _check_agent(request: TokenRequest) -> None:
    if request.agent is None:
        raise InvalidRequest("say which agent the token is for, or that it is an admin's")
    if not is_agent_id(request.agent):
        raise InvalidRequest(f"{request.agent!r} is no agent's id: {AGENT_ID_RULE}")
    if not request.scopes:
        raise InvalidRequest("say what the token is good for: read, write, proxy")
    if Scope.ADMIN in request.scopes:
        raise InvalidRequest("an agent's token cannot be an admin's: ask for read, write, proxy")
