"""For which agent a request passes through the proxy, and with whose key. Pure.

Governed: the agent shows a token of memplane's or of its pod, and the provider's key is ours.
Passed through: somebody on this machine shows a provider's key, which goes on to the provider.
An agent is governed while it holds a token that may take turns; one that reads changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from memplane.access.agents import AGENT_RULE, is_agent_id
from memplane.access.contexts import PodContext
from memplane.access.grants import Grant, Scope
from memplane.access.history import claimed_agent


class Caller(msgspec.Struct, frozen=True):
    """An agent whose turn this is; `in_pod` says that a pod's compile step knows it."""

    agent: str
    governed: bool
    in_pod: bool = False


class Refused(msgspec.Struct, frozen=True):
    """Why not, with its status."""

    status: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a request shows: the agent in its path, if any, and its token.

    `grant` is what memplane's own tokens say of the token. `context` is what a pod says of the
    agent in the path, or else of the one that the token claims. `is_ours` says that it looks like
    a token of memplane's.
    """

    named: str
    token: str
    grant: Grant | None
    context: PodContext | None
    is_ours: bool
    nearby: bool
    """It comes from this machine."""


class Here(msgspec.Struct, frozen=True, kw_only=True):
    """How this installation serves: a pod knows its agents, and somebody may be the default."""

    pod: bool
    default: str


_SHOWN: Final = 100
_INVALID: Final = Refused(401, "invalid bearer token")
_NO_CONTEXT: Final = Refused(403, "agent context not found")
_WRONG_SECRET: Final = Refused(403, "invalid agent secret")


def caller_of(shown: Shown, here: Here, *, is_governed: bool) -> Caller | Refused:
    """Decide whose turn a request is.

    Args:
        shown: What the request shows.
        here: How this installation serves.
        is_governed: The agent that would be served without a token has one that takes turns.
    """
    if shown.named and not is_agent_id(shown.named):
        return _NO_CONTEXT if here.pod else _no_agent(shown.named)
    if shown.grant is not None:
        return _by_grant(shown, shown.grant, here)
    if here.pod:
        return _by_pod(shown)
    agent = shown.named or here.default
    if shown.is_ours:
        return _because(_INVALID, "nobody was given it here, or it has expired")
    if not shown.nearby:
        return _because(_INVALID, "from another machine a turn needs a token of memplane's")
    if is_governed:
        return _because(_INVALID, f"{agent} holds a token of memplane's, and takes turns with it")
    return Caller(agent, governed=False)


def _by_grant(shown: Shown, grant: Grant, here: Here) -> Caller | Refused:
    agent = shown.named or grant.agent or here.default
    if not grant.reaches(agent):
        return _because(_WRONG_SECRET, f"this token is not one of {agent}'s")
    if not grant.allows(Scope.PROXY):
        return _no_turns(agent, grant)
    # A pod's rules hold for its agents, whichever token they show.
    context = shown.context
    in_pod = here.pod and context is not None and context.agent == agent
    return Caller(agent, governed=True, in_pod=in_pod)


def _because(refused: Refused, why: str) -> Refused:
    """Say more than a pod's agents are told, whose contract fixes the words."""
    return Refused(refused.status, f"{refused.text}: {why}")


def _no_agent(named: str) -> Refused:
    return Refused(_NO_CONTEXT.status, f"{named[:_SHOWN]!a} is no agent's id: {AGENT_RULE}")


def _no_turns(agent: str, grant: Grant) -> Refused:
    scopes = ", ".join(sorted(grant.scopes))
    remedy = f"`memplane token create --agent {agent} --scope {Scope.PROXY}` makes one that has it"
    return Refused(
        403, f"this token is good for {scopes}, and a turn needs the scope {Scope.PROXY}. {remedy}"
    )


def _by_pod(shown: Shown) -> Caller | Refused:
    agent = claimed_agent(shown.token)
    if not agent:
        return _INVALID
    context = shown.context
    if context is None or context.secret is None or shown.named not in {"", agent}:
        return _NO_CONTEXT
    if not context.has_secret(shown.token.partition(":")[2]):
        return _WRONG_SECRET
    return Caller(agent, governed=True, in_pod=True)
