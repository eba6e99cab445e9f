"""Passing a request on that is no turn; nothing of it is recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus

import msgspec

from memplane.access.proxying import Caller
from memplane.errors import InvalidRequest, MemplaneError, UpstreamError
from memplane.pod.contexts import AgentContext, ProxiedAgent
from memplane.proxy.answering import Client, pass_answer, refuse, tell_failure
from memplane.proxy.asking import Asked, attempt_of
from memplane.proxy.body import LONGEST, Body, body_of
from memplane.proxy.candidate import Family
from memplane.proxy.encodings import undone
from memplane.proxy.governing import Use, names_other_models, use_of
from memplane.proxy.routes import Routes
from memplane.proxy.routing import Refused, Routed, family_of
from memplane.proxy.upstream import Attempt, Upstream
from memplane.proxy.withholding import withheld


class Passing(msgspec.Struct, frozen=True, kw_only=True):
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

    def routed(
        self, asked: Asked, body: Body, family: Family, *, clamps: bool = True
    ) -> Routed | Refused:
        """Choose whom to ask for what a body wants, by its model and the agent's policy.

        A request that brings its own key goes by its path alone.

        Raises:
            MemplaneError: The providers' file or a pod's metadata cannot be used.
        """
        if not asked.caller.governed:
            return self.routes.passed(asked.target)
        policy = self.agent(asked.caller).policy
        if policy is not None and (refused := names_other_models(body.members)):
            return refused
        return self.routes.governed(asked.target, body.model, family, policy, clamps=clamps)


async def pass_on(passing: Passing, asked: Asked, client: Client) -> None:
    """Pass a request on that is no turn; nothing of it is recorded."""
    try:
        attempts = await _attempts(passing, asked)
    except MemplaneError as error:
        attempts = Refused(HTTPStatus.BAD_GATEWAY, str(error))
    if isinstance(attempts, Refused):
        await refuse(client, attempts)
        return
    try:
        async with passing.upstream.send(attempts) as answer:
            await pass_answer(answer, client)
    except UpstreamError as error:
        await tell_failure(client, error)


async def _attempts(passing: Passing, asked: Asked) -> list[Attempt] | Refused:
    """Say what to send to whom."""
    if not asked.caller.governed:
        passed = passing.routes.passed(asked.target)
        return passed if isinstance(passed, Refused) else _each(asked, passed, None)
    use = use_of(asked.method, asked.target.path)
    return use if isinstance(use, Refused) else await _governed(passing, asked, use)


async def _governed(passing: Passing, asked: Asked, use: Use) -> list[Attempt] | Refused:
    """Say what to send with a key of ours: by the model, or for the list of models."""
    raw = asked.raw or await _whole(asked)
    if raw is None:
        return Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {LONGEST} bytes")
    if asked.token:
        target, raw = withheld(asked.target, raw, asked.token)
        asked = replace(asked, target=target)
    if use is Use.MODELS:
        routed = passing.routes.governed_path(asked.target)
        return routed if isinstance(routed, Refused) else _each(asked, routed, raw)
    try:
        body = body_of(undone(raw, asked.header("content-encoding"), most=LONGEST))
    except InvalidRequest as error:
        # It may name a model that the agent may not use.
        return Refused(HTTPStatus.BAD_REQUEST, str(error))
    return _by_model(passing, asked, body, clamps=use is not Use.AT_ONCE)


def _by_model(
    passing: Passing, asked: Asked, body: Body, *, clamps: bool
) -> list[Attempt] | Refused:
    named = passing.routed(asked, body, family_of(asked.target.path, ()), clamps=clamps)
    if isinstance(named, Refused):
        return named
    first = named.candidates[0]
    renamed = body.with_members({"model": msgspec.json.encode(first.model)})
    return [attempt_of(asked, first, renamed, decoded=True)]


def _each(asked: Asked, routed: Routed, raw: bytes | None) -> list[Attempt]:
    return [attempt_of(asked, one, raw, content_type=None) for one in routed.candidates]


async def _whole(asked: Asked) -> bytes | None:
    whole = bytearray()
    if asked.upload is not None:
        async for piece in asked.upload.pieces():
            whole += piece
            if len(whole) > LONGEST:
                return None
    return bytes(whole)
