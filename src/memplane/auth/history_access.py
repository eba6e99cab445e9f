"""Who may read whose history. Pure; the statuses and words are the read API's contract.

Three kinds of token read a history besides memplane's own: the agent's, the one that a pod wrote
for replay into a memory service, and an admin's. A replay is redacted by policy, and the others
see the ledger as it was recorded.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from memplane.auth.grants import Grant, Scope
from memplane.auth.pod_context import HISTORY_SERVICE_NAME, PodContext


class ReaderRole(StrEnum):
    """As whom somebody reads."""

    AGENT = "agent"
    ADMIN = "admin"
    REPLAY = "replay"


class HistoryReader(msgspec.Struct, frozen=True):
    """Somebody who may read the history of an agent."""

    agent: str
    role: ReaderRole
    name: str


class HistoryRefusal(msgspec.Struct, frozen=True):
    """Why not, as plain text with its status."""

    status: int
    text: str


HistoryDecision: TypeAlias = HistoryReader | HistoryRefusal

_INVALID_TOKEN: Final = HistoryRefusal(401, "invalid bearer token")
_AGENT_NOT_NAMED: Final = HistoryRefusal(
    400, "an admin token reads the history of any agent: name one, as in /history/AGENT"
)
_MISSING_TOKEN: Final = HistoryRefusal(401, "missing bearer token")
_NO_CONTEXT_TEXT: Final = "agent context not found"
_WRONG_SECRET: Final = HistoryRefusal(403, "invalid agent secret")
_FORBIDDEN: Final = HistoryRefusal(403, "forbidden")
_NOT_CONFIGURED: Final = HistoryRefusal(404, "history not configured")


class HistoryCredentials(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about one agent and about the token that was given.

    `grant` is what memplane's own tokens say of the token, `context` what a pod says of the agent.
    `elsewhere` says that the agent exists without a pod: it has a token here, or a ledger.
    """

    grant: Grant | None
    context: PodContext | None
    elsewhere: bool = False
    configured: bool = True


def parse_claimed_agent(credential: str) -> str:
    """Return the agent that a token of the form `<agent>:<secret>` speaks for, or nothing."""
    agent, _, secret = credential.partition(":")
    return agent if secret else ""


def authorise_own_history(credential: str, known: HistoryCredentials) -> HistoryDecision:
    """Decide about `GET /history`; `known` is about `claimed_agent(given)`."""
    agent = parse_claimed_agent(credential)
    if known.grant and known.grant.admin:
        return _AGENT_NOT_NAMED
    if not agent:
        return _INVALID_TOKEN
    if known.context is None and not known.elsewhere:
        # A replay token looks like an agent's; its agent would be called `<service>-history`.
        return (
            _INVALID_TOKEN if agent.endswith("-history") else HistoryRefusal(403, _NO_CONTEXT_TEXT)
        )
    if known.context and known.context.secret is None and not known.elsewhere:
        return HistoryRefusal(403, _NO_CONTEXT_TEXT)
    decision = _as_agent(agent, credential, known)
    return decision or _WRONG_SECRET


def authorise_agent_history(
    agent: str, credential: str, known: HistoryCredentials
) -> HistoryDecision:
    """Decide about `GET /history/<agent>`; `known` is about that agent.

    Only an admin learns whether the agent exists. Everybody else gets the same answer for every
    name.
    """
    if not credential:
        return _MISSING_TOKEN
    if known.context is None and not known.elsewhere:
        is_admin = known.grant is not None and known.grant.admin
        return HistoryRefusal(404, _NO_CONTEXT_TEXT) if is_admin else _FORBIDDEN
    decision = _as_admin(agent, known) or _as_agent(agent, credential, known)
    decision = decision or _as_replay(agent, credential, known)
    if isinstance(decision, HistoryReader) and not known.configured:
        return _NOT_CONFIGURED
    return decision or _FORBIDDEN


def _as_admin(agent: str, known: HistoryCredentials) -> HistoryDecision | None:
    grant = known.grant
    return HistoryReader(agent, ReaderRole.ADMIN, grant.name) if grant and grant.admin else None


def _as_agent(agent: str, credential: str, known: HistoryCredentials) -> HistoryDecision | None:
    grant = known.grant
    if grant is not None:
        # A memory service's token reaches every agent, and reads nobody's history.
        reads = grant.agent == agent and grant.allows(Scope.READ)
        return HistoryReader(agent, ReaderRole.AGENT, grant.name) if reads else _FORBIDDEN
    claimed, _, secret = credential.partition(":")
    if claimed == agent and known.context and known.context.has_secret(secret):
        return HistoryReader(agent, ReaderRole.AGENT, agent)
    return None


def _as_replay(agent: str, credential: str, known: HistoryCredentials) -> HistoryDecision | None:
    service = known.context.service_of(credential) if known.context else None
    if service is None or service.service != HISTORY_SERVICE_NAME:
        return None
    return HistoryReader(agent, ReaderRole.REPLAY, service.principal)
