"""For which agent a request passes through the proxy, and with whose key. Pure.

Governed: the agent shows a token of memplane's or of its pod, and the provider's key is ours.
Passed through: somebody on this machine shows a provider's key, which goes on to the provider.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from memplane.access.agents import is_agent_id
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


_INVALID: Final = Refused(401, "invalid bearer token")
_NO_CONTEXT: Final = Refused(403, "agent context not found")
_WRONG_SECRET: Final = Refused(403, "invalid agent secret")


def caller_of(shown: Shown, here: Here, *, holds_token: bool) -> Caller | Refused:
    """Decide whose turn a request is.

    Args:
        shown: What the request shows.
        here: How this installation serves.
        holds_token: The agent that would be served without a token has one, or is a pod's.
    """
    if shown.named and not is_agent_id(shown.named):
        return _NO_CONTEXT
    if shown.grant is not None:
        return _by_grant(shown, shown.grant, here)
    if here.pod:
        return _by_pod(shown)
    if shown.is_ours or not shown.nearby or holds_token:
        return _INVALID
    return Caller(shown.named or here.default, governed=False)


def _by_grant(shown: Shown, grant: Grant, here: Here) -> Caller | Refused:
    agent = shown.named or grant.agent or here.default
    if not grant.allows(Scope.PROXY) or not grant.reaches(agent):
        return _WRONG_SECRET
    # A pod's rules hold for its agents, whichever token they show.
    context = shown.context
    in_pod = here.pod and context is not None and context.agent == agent
    return Caller(agent, governed=True, in_pod=in_pod)


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
