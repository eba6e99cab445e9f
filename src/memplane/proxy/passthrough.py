"""Passing a request on that is no turn; nothing of it is recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus

import msgspec

from memplane.auth.proxy_access import ProxyCaller
from memplane.errors import InvalidRequest, MemplaneError, UpstreamError
from memplane.exchange.content_encoding import decode_content
from memplane.exchange.dialect import ApiFamily
from memplane.exchange.request_body import MAX_BODY_BYTES, RequestBody, parse_body
from memplane.integrations.clawdapus.pod.agent_contexts import AgentContext, ProxiedAgent
from memplane.proxy.agent_token_removal import strip_agent_token
from memplane.proxy.managed_keys import ManagedKeyUse, classify_use, refuse_model_override
from memplane.proxy.request import ProxyRequest, make_attempt
from memplane.proxy.response import (
    ResponseWriter,
    forward_response,
    send_refusal,
    send_upstream_failure,
)
from memplane.proxy.route_selection import RequestRefusal, UpstreamRoute, detect_family
from memplane.proxy.router import Router
from memplane.proxy.upstream import UpstreamAttempt, UpstreamClient


class ForwardingContext(msgspec.Struct, frozen=True, kw_only=True):
    """Whom to ask, and what a pod says of those who ask."""

    routes: Router
    upstream: UpstreamClient
    find_pod_agent: Callable[[str], ProxiedAgent]
    pod: str = ""

    def agent(self, caller: ProxyCaller) -> ProxiedAgent:
        """Return what is known of whoever asks.

        Raises:
            PodError: A pod's metadata cannot be used.
        """
        if caller.in_pod:
            return self.find_pod_agent(caller.agent)
        return ProxiedAgent(AgentContext(caller.agent, pod=self.pod))

    def routed(
        self, asked: ProxyRequest, body: RequestBody, family: ApiFamily, *, clamps: bool = True
    ) -> UpstreamRoute | RequestRefusal:
        """Choose whom to ask for what a body wants, by its model and the agent's policy.

        A request that brings its own key goes by its path alone.

        Raises:
            MemplaneError: The providers' file or a pod's metadata cannot be used.
        """
        if not asked.caller.governed:
            return self.routes.passed(asked.target)
        policy = self.agent(asked.caller).policy
        if policy is not None and (refused := refuse_model_override(body.members)):
            return refused
        return self.routes.governed(asked.target, body.model, family, policy, clamps=clamps)


async def forward(passing: ForwardingContext, asked: ProxyRequest, client: ResponseWriter) -> None:
    """Pass a request on that is no turn; nothing of it is recorded."""
    try:
        attempts = await _choose_attempts(passing, asked)
    except MemplaneError as error:
        attempts = RequestRefusal(HTTPStatus.BAD_GATEWAY, str(error))
    if isinstance(attempts, RequestRefusal):
        await send_refusal(client, attempts)
        return
    try:
        async with passing.upstream.send(attempts) as answer:
            await forward_response(answer, client)
    except UpstreamError as error:
        await send_upstream_failure(client, error)


async def _choose_attempts(
    passing: ForwardingContext, asked: ProxyRequest
) -> list[UpstreamAttempt] | RequestRefusal:
    """Say what to send to whom."""
    if not asked.caller.governed:
        passed = passing.routes.passed(asked.target)
        return (
            passed if isinstance(passed, RequestRefusal) else _make_attempts(asked, passed, None)
        )
    use = classify_use(asked.method, asked.target.path)
    return (
        use
        if isinstance(use, RequestRefusal)
        else await _choose_managed_attempts(passing, asked, use)
    )


async def _choose_managed_attempts(
    passing: ForwardingContext, asked: ProxyRequest, use: ManagedKeyUse
) -> list[UpstreamAttempt] | RequestRefusal:
    """Say what to send with a key of ours: by the model, or for the list of models."""
    raw = asked.raw or await _read_upload(asked)
    if raw is None:
        return RequestRefusal(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {MAX_BODY_BYTES} bytes"
        )
    if asked.token:
        target, raw = strip_agent_token(asked.target, raw, asked.token)
        asked = replace(asked, target=target)
    if use is ManagedKeyUse.MODELS:
        routed = passing.routes.governed_path(asked.target)
        return routed if isinstance(routed, RequestRefusal) else _make_attempts(asked, routed, raw)
    try:
        body = parse_body(
            decode_content(raw, asked.header("content-encoding"), max_bytes=MAX_BODY_BYTES)
        )
    except InvalidRequest as error:
        # It may name a model that the agent may not use.
        return RequestRefusal(HTTPStatus.BAD_REQUEST, str(error))
    return _choose_attempts_by_model(passing, asked, body, clamps=use is not ManagedKeyUse.AT_ONCE)


def _choose_attempts_by_model(
    passing: ForwardingContext, asked: ProxyRequest, body: RequestBody, *, clamps: bool
) -> list[UpstreamAttempt] | RequestRefusal:
    named = passing.routed(asked, body, detect_family(asked.target.path, ()), clamps=clamps)
    if isinstance(named, RequestRefusal):
        return named
    first = named.candidates[0]
    renamed = body.with_members({"model": msgspec.json.encode(first.model)})
    return [make_attempt(asked, first, renamed, decoded=True)]


def _make_attempts(
    asked: ProxyRequest, routed: UpstreamRoute, raw: bytes | None
) -> list[UpstreamAttempt]:
    return [make_attempt(asked, one, raw, content_type=None) for one in routed.candidates]


async def _read_upload(asked: ProxyRequest) -> bytes | None:
    whole = bytearray()
    if asked.upload is not None:
        async for piece in asked.upload.pieces():
            whole += piece
            if len(whole) > MAX_BODY_BYTES:
                return None
    return bytes(whole)
