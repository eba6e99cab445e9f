"""Who may read whose history. Pure; the statuses and words are the read API's contract.

Three kinds of token read a history besides memplane's own: the agent's, the one that a pod wrote
for replay into a memory service, and an admin's. A replay is redacted by policy, and the others
see the ledger as it was recorded.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from memplane.access.contexts import HISTORY_SERVICE, PodContext
from memplane.access.grants import Grant, Scope


class Role(StrEnum):
    """As whom somebody reads."""

    AGENT = "agent"
    ADMIN = "admin"
    REPLAY = "replay"


class Reader(msgspec.Struct, frozen=True):
    """Somebody who may read the history of an agent."""

    agent: str
    role: Role
    name: str

    @property
    def redacted(self) -> bool:
        """Whether policy takes secrets out of what is read."""
        return self.role is Role.REPLAY


class Refused(msgspec.Struct, frozen=True):
    """Why not, as plain text with its status."""

    status: int
    text: str


Decision: TypeAlias = Reader | Refused

_INVALID: Final = Refused(401, "invalid bearer token")
_MISSING: Final = Refused(401, "missing bearer token")
_NO_CONTEXT: Final = "agent context not found"
_WRONG_SECRET: Final = Refused(403, "invalid agent secret")
_FORBIDDEN: Final = Refused(403, "forbidden")
_NOT_CONFIGURED: Final = Refused(404, "history not configured")


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about one agent and about the token that was given.

    `grant` is what memplane's own tokens say of the token, `context` what a pod says of the agent.
    `elsewhere` says that the agent exists without a pod: it has a token here, or a ledger.
    """

    grant: Grant | None
    context: PodContext | None
    elsewhere: bool = False
    configured: bool = True


def claimed_agent(given: str) -> str:
    """Return the agent that a token of the form `<agent>:<secret>` speaks for, or nothing."""
    agent, _, secret = given.partition(":")
    return agent if secret else ""


def may_read_own_history(given: str, known: Known) -> Decision:
    """Decide about `GET /history`; `known` is about `claimed_agent(given)`."""
    agent = claimed_agent(given)
    if not agent or (known.grant and known.grant.admin):
        return _INVALID
    if known.context is None and not known.elsewhere:
        # A replay token looks like an agent's; its agent would be called `<service>-history`.
        return _INVALID if agent.endswith("-history") else Refused(403, _NO_CONTEXT)
    if known.context and known.context.secret is None and not known.elsewhere:
        return Refused(403, _NO_CONTEXT)
    found = _as_agent(agent, given, known)
    return found or _WRONG_SECRET


def may_read_history_of(agent: str, given: str, known: Known) -> Decision:
    """Decide about `GET /history/<agent>`; `known` is about that agent."""
    if known.context is None and not known.elsewhere:
        return Refused(404, _NO_CONTEXT)
    if not given:
        return _MISSING
    found = _as_admin(agent, known) or _as_agent(agent, given, known)
    found = found or _as_replay(agent, given, known)
    if isinstance(found, Reader) and not known.configured:
        return _NOT_CONFIGURED
    return found or _FORBIDDEN


def _as_admin(agent: str, known: Known) -> Decision | None:
    grant = known.grant
    return Reader(agent, Role.ADMIN, grant.name) if grant and grant.admin else None


def _as_agent(agent: str, given: str, known: Known) -> Decision | None:
    grant = known.grant
    if grant is not None:
        # A memory service's token reaches every agent, and reads nobody's history.
        reads = grant.agent == agent and grant.allows(Scope.READ)
        return Reader(agent, Role.AGENT, grant.name) if reads else _FORBIDDEN
    claimed, _, secret = given.partition(":")
    if claimed == agent and known.context and known.context.has_secret(secret):
        return Reader(agent, Role.AGENT, agent)
    return None


def _as_replay(agent: str, given: str, known: Known) -> Decision | None:
    service = known.context.service_of(given) if known.context else None
    if service is None or service.service != HISTORY_SERVICE:
        return None
    return Reader(agent, Role.REPLAY, service.principal)
