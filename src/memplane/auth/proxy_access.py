"""For which agent a request passes through the proxy, and with whose key. Pure.

Governed: the agent shows a token of memplane's or of its pod, and the provider's key is ours.
Passed through: somebody on this machine shows a provider's key, which goes on to the provider.
An agent is governed while it holds a token that may take turns; one that reads changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from memplane.auth.agent_id import AGENT_ID_RULE, is_agent_id
from memplane.auth.grants import Grant, Scope
from memplane.auth.history_access import parse_claimed_agent
from memplane.auth.pod_context import PodContext


class ProxyCaller(msgspec.Struct, frozen=True):
    """An agent whose turn this is; `in_pod` says that a pod's compile step knows it."""

    agent: str
    governed: bool
    in_pod: bool = False


class CallerRefusal(msgspec.Struct, frozen=True):
    """Why not, with its status."""

    status: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyCredentials:
    """What a request shows: the agent in its path, if any, and its token.

    `grant` is what memplane's own tokens say of the token. `context` is what a pod says of the
    agent in the path, or else of the one that the token claims. `is_ours` says that it looks like
    a token of memplane's.
    """

    agent_name: str
    token: str
    grant: Grant | None
    context: PodContext | None
    is_ours: bool
    nearby: bool
    """It comes from this machine."""


class ProxyDeployment(msgspec.Struct, frozen=True, kw_only=True):
    """How this installation serves: a pod knows its agents, and somebody may be the default."""

    pod: bool
    default: str


_MAX_QUOTED_CHARS: Final = 100
_INVALID_TOKEN: Final = CallerRefusal(401, "invalid bearer token")
_NO_CONTEXT: Final = CallerRefusal(403, "agent context not found")
_WRONG_SECRET: Final = CallerRefusal(403, "invalid agent secret")


def identify_caller(
    credentials: ProxyCredentials, deployment: ProxyDeployment, *, is_governed: bool
) -> ProxyCaller | CallerRefusal:
    """Decide whose turn a request is.

    Args:
        credentials: What the request shows.
        deployment: How this installation serves.
        is_governed: The agent that would be served without a token has one that takes turns.
    """
    if credentials.agent_name and not is_agent_id(credentials.agent_name):
        return _NO_CONTEXT if deployment.pod else _refuse_agent_name(credentials.agent_name)
    if credentials.grant is not None:
        return _by_grant(credentials, credentials.grant, deployment)
    if deployment.pod:
        return _by_pod(credentials)
    agent = credentials.agent_name or deployment.default
    if credentials.is_ours:
        return _explain_refusal(_INVALID_TOKEN, "nobody was given it here, or it has expired")
    if not credentials.nearby:
        return _explain_refusal(
            _INVALID_TOKEN, "from another machine a turn needs a token of memplane's"
        )
    if is_governed:
        return _explain_refusal(
            _INVALID_TOKEN, f"{agent} holds a token of memplane's, and takes turns with it"
        )
    return ProxyCaller(agent, governed=False)


def _by_grant(
    credentials: ProxyCredentials, grant: Grant, deployment: ProxyDeployment
) -> ProxyCaller | CallerRefusal:
    agent = credentials.agent_name or grant.agent or deployment.default
    if not grant.reaches(agent):
        return _explain_refusal(_WRONG_SECRET, f"this token is not one of {agent}'s")
    if not grant.allows(Scope.PROXY):
        return _refuse_scope(agent, grant)
    # A pod's rules hold for its agents, whichever token they show.
    context = credentials.context
    in_pod = deployment.pod and context is not None and context.agent == agent
    return ProxyCaller(agent, governed=True, in_pod=in_pod)


def _explain_refusal(refusal: CallerRefusal, reason: str) -> CallerRefusal:
    """Say more than a pod's agents are told, whose contract fixes the words."""
    return CallerRefusal(refusal.status, f"{refusal.text}: {reason}")


def _refuse_agent_name(agent_name: str) -> CallerRefusal:
    return CallerRefusal(
        _NO_CONTEXT.status, f"{agent_name[:_MAX_QUOTED_CHARS]!a} is no agent's id: {AGENT_ID_RULE}"
    )


def _refuse_scope(agent: str, grant: Grant) -> CallerRefusal:
    scopes = ", ".join(sorted(grant.scopes))
    remedy = f"`memplane token create --agent {agent} --scope {Scope.PROXY}` makes one that has it"
    return CallerRefusal(
        403, f"this token is good for {scopes}, and a turn needs the scope {Scope.PROXY}. {remedy}"
    )


def _by_pod(credentials: ProxyCredentials) -> ProxyCaller | CallerRefusal:
    agent = parse_claimed_agent(credentials.token)
    if not agent:
        return _INVALID_TOKEN
    context = credentials.context
    if context is None or context.secret is None or credentials.agent_name not in {"", agent}:
        return _NO_CONTEXT
    if not context.has_secret(credentials.token.partition(":")[2]):
        return _WRONG_SECRET
    return ProxyCaller(agent, governed=True, in_pod=True)
