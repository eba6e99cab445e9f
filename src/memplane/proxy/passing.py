"""Passing a request on that is no turn; nothing of it is recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

import msgspec

from memplane.access.proxying import Caller
from memplane.errors import InvalidRequest, MemplaneError, UpstreamError
from memplane.pod.contexts import AgentContext, ProxiedAgent
from memplane.proxy.answering import Client, pass_answer, refuse, tell_failure
from memplane.proxy.asking import LONGEST, Asked, attempt_of
from memplane.proxy.body import body_of
from memplane.proxy.candidate import Candidate
from memplane.proxy.encodings import undone
from memplane.proxy.routes import Routes
from memplane.proxy.routing import Allowed, Family, ModelPolicy, Refused
from memplane.proxy.upstream import Upstream
from memplane.proxy.withholding import redacted


@dataclass(frozen=True, slots=True, kw_only=True)
class Passing:
    """Whom to ask, and what a pod says of those who ask."""

    routes: Routes
    upstream: Upstream
    agent_in_pod: Callable[[str], ProxiedAgent]
    pod: str = ""

    def agent(self, caller: Caller) -> ProxiedAgent:
        """Return what is known of whoever asks.

        Raises:
            PodError: A pod's metadata cannot be used.
        """
        if caller.in_pod:
            return self.agent_in_pod(caller.agent)
        return ProxiedAgent(AgentContext(caller.agent, pod=self.pod))


async def pass_on(passing: Passing, asked: Asked, client: Client) -> None:
    """Pass a request on that is no turn; nothing of it is recorded."""
    try:
        routed = await _routed_path(passing, asked)
    except MemplaneError as error:
        routed = Refused(HTTPStatus.BAD_GATEWAY, str(error))
    if isinstance(routed, Refused):
        await refuse(client, routed)
        return
    candidates, raw = routed
    attempts = [attempt_of(asked, one, raw, content_type=None) for one in candidates]
    try:
        async with passing.upstream.send(attempts) as answer:
            await pass_answer(answer, client)
    except UpstreamError as error:
        await tell_failure(client, error)


async def _routed_path(
    passing: Passing, asked: Asked
) -> tuple[tuple[Candidate, ...], bytes | None] | Refused:
    """Route a request that is no turn; where it names a model and the key is ours, by that."""
    if not asked.caller.governed:
        passed = passing.routes.passed(asked.target)
        return passed if isinstance(passed, Refused) else (passed.candidates, None)
    raw = asked.raw or await _whole(asked)
    if raw is None:
        return Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {LONGEST} bytes")
    if asked.token:
        raw = redacted(raw, asked.token)
    try:
        body = body_of(undone(raw, asked.header("content-encoding"), most=LONGEST))
    except InvalidRequest:
        body = None
    if body is None or not body.model:
        routed = passing.routes.governed_path(asked.target)
        return routed if isinstance(routed, Refused) else (routed.candidates, raw)
    messages = asked.target.path.startswith("/v1/messages")
    family: Family = "anthropic" if messages else "openai"
    policy = policy_of(passing.agent(asked.caller))
    named = passing.routes.governed(asked.target, body.model, family, policy)
    if isinstance(named, Refused):
        return named
    first = named.candidates[0]
    return (first,), body.with_members({"model": msgspec.json.encode(first.model)})


async def _whole(asked: Asked) -> bytes | None:
    whole = bytearray()
    if asked.upload is not None:
        async for piece in asked.upload.pieces():
            whole += piece
            if len(whole) > LONGEST:
                return None
    return bytes(whole)


def policy_of(agent: ProxiedAgent) -> ModelPolicy | None:
    """Return which models an agent may use; None is any."""
    if agent.policy is None:
        return None
    allowed = tuple(Allowed(one.slot, one.ref) for one in agent.policy.allowed)
    return ModelPolicy(allowed, agent.policy.mode)
