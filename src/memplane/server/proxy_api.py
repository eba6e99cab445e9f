"""The proxy's door: whose turn a request is, and what becomes of it.

Every path below `/v1` is passed on to a provider; a turn's is also recorded and given memories.
With a key of memplane's only some are, as `memplane.proxy.managed_keys` says.
"""

from __future__ import annotations

import ipaddress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from memplane.auth.agent_id import is_agent_id
from memplane.auth.history_access import parse_claimed_agent
from memplane.auth.pod_files import read_pod_context
from memplane.auth.proxy_access import (
    CallerRefusal,
    ProxyCaller,
    ProxyCredentials,
    ProxyDeployment,
    identify_caller,
)
from memplane.auth.token_store import TokenStore
from memplane.exchange.dialect_registry import find_dialect
from memplane.exchange.request_body import MAX_BODY_BYTES
from memplane.kit.clock import Clock, system_clock
from memplane.proxy.agent_token_removal import strip_agent_token
from memplane.proxy.managed_keys import classify_use
from memplane.proxy.passthrough import forward
from memplane.proxy.request import ProxyRequest
from memplane.proxy.response import error_body
from memplane.proxy.route_selection import RequestRefusal as NotServed
from memplane.proxy.route_selection import RequestTarget
from memplane.proxy.turn import Proxy, handle_turn, refuse_request
from memplane.secret import Secret
from memplane.server.endpoints import Endpoint, HandlerAuth, NoAuth
from memplane.server.request_auth import find_grant, find_possible_tokens, read_token
from memplane.server.request_body import check_head, limit_body, read_body_bytes
from memplane.server.response_stream import RELAYED_KEY, RequestUpload, StreamedResponse

_MAX_UPLOAD_BYTES: Final = 1 << 40
"""What is passed on while it comes takes no room here: its provider says what is too long."""
_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD")
_AUTH_REASON: Final = (
    "agents show provider's keys or tokens of theirs, and the contract fixes its refusals"
)
_MISPLACED_TOKEN: Final = CallerRefusal(
    401,
    "a token of memplane's would go on to the provider from there: show it once, with no key "
    "beside it, as Authorization: Bearer or as x-api-key",
)
_UPGRADE_REQUIRED: Final = 426
_DOUBLE_VERSION_PREFIX: Final = "/v1/v1/"
_BASE_URL_ENDS: Final = ("", "v1")
_BASE_URL_HELP: Final = (
    "there is no such path. The base URL of OpenAI's clients ends with /v1, as in "
    "{here}/agent/NAME/v1, and that of Anthropic's does not: {here}/agent/NAME"
)


class ProxyHandler(msgspec.Struct, frozen=True, kw_only=True):
    """Lets requests through to the proxy."""

    proxy: Proxy
    tokens: TokenStore
    context_root: Path | None
    default_agent: str
    clock: Clock = system_clock

    async def answer(self, request: Request) -> Response:
        """Answer one request."""
        caller = self._caller(request)
        if isinstance(caller, CallerRefusal):
            return provider_error_response(caller.status, caller.text)
        if request.headers.get("upgrade", "").lower() == "websocket":
            # Clients that would rather speak over a WebSocket fall back at this status.
            return provider_error_response(
                _UPGRADE_REQUIRED, "speak HTTP here, not over a WebSocket"
            )
        path = _read_sent_path(request)
        if path is None:
            return provider_error_response(HTTPStatus.BAD_REQUEST, "that path is not passed on")
        if path.startswith(_DOUBLE_VERSION_PREFIX):
            return await _explain_base_url(request)
        request.scope[RELAYED_KEY] = True
        use = classify_use(request.method, path) if caller.governed else None
        if isinstance(use, NotServed):
            return StreamedResponse(
                partial(
                    refuse_request, self.proxy, use, _make_proxy_request(request, caller, path)
                )
            )
        dialect = find_dialect(path) if request.method == "POST" else None
        if dialect is None:
            upload = _open_upload(request)
            asked = _make_proxy_request(request, caller, path, upload=upload)
            return StreamedResponse(partial(forward, self.proxy.passing, asked), upload)
        asked = _make_proxy_request(request, caller, path, raw=await _read_turn_body(request))
        return StreamedResponse(partial(handle_turn, self.proxy, dialect, asked))

    def _caller(self, request: Request) -> ProxyCaller | CallerRefusal:
        token, named = read_token(request.scope), request.path_params.get("agent", "")
        here = ProxyDeployment(pod=self.context_root is not None, default=self.default_agent)
        claimed = parse_claimed_agent(token)
        shown = ProxyCredentials(
            agent_name=named,
            token=token,
            grant=find_grant(request),
            context=read_pod_context(self.context_root, named or claimed or here.default),
            is_ours=is_agent_id(claimed),
            nearby=_is_nearby(request),
        )
        now = self.clock()
        is_governed = self.tokens.governs(named or here.default, now)
        caller = identify_caller(shown, here, is_governed=is_governed)
        if isinstance(caller, ProxyCaller):
            others = {*find_possible_tokens(request.scope)} - {token}
            in_path = caller.governed and token in request.scope["path"]
            if in_path or any(self.tokens.find(one, now) for one in others):
                return _MISPLACED_TOKEN
        return caller


def proxy_endpoints(door: ProxyHandler) -> list[Endpoint]:
    """List the proxy's endpoints: every path of a provider, bare and below an agent's name."""
    return [
        *(
            Endpoint(
                method="HEAD",
                path=path,
                handler=_answer_probe,
                needs=NoAuth(),
                summary="Say that a server is here, as clients ask before their first turn",
            )
            for path in ("/", "/agent/{agent}")
        ),
        *(
            Endpoint(
                method=method,
                path=path,
                handler=door.answer,
                needs=HandlerAuth(_AUTH_REASON),
                summary="Pass a request on to a provider; turns are recorded and given memories",
                body_limit=_MAX_UPLOAD_BYTES,
                encoded=True,
            )
            for path in ("/v1/{rest:path}", "/agent/{agent}/v1/{rest:path}")
            for method in _METHODS
        ),
        *(
            Endpoint(
                method="POST",
                path=path,
                handler=_explain_base_url,
                needs=NoAuth(),
                summary="Say what a client's base URL should be",
                encoded=True,
            )
            for path in ("/chat/completions", "/responses", "/agent/{agent}/{rest:path}")
        ),
        Endpoint(
            method="HEAD",
            path="/agent/{agent}/{rest:path}",
            handler=_probe_base_url,
            needs=NoAuth(),
            summary="Say that a server is here, for base URLs that end with / or /v1",
        ),
    ]


async def _answer_probe(_request: Request) -> Response:
    return Response()


async def _probe_base_url(request: Request) -> Response:
    """Answer a client's probe of its base URL; other paths are not found."""
    is_base_url = request.path_params["rest"] in _BASE_URL_ENDS
    return Response() if is_base_url else await _explain_base_url(request)


async def _explain_base_url(request: Request) -> Response:
    here = f"{request.scope['scheme']}://{request.headers['host']}"
    return provider_error_response(HTTPStatus.NOT_FOUND, _BASE_URL_HELP.format(here=here))


def _read_sent_path(request: Request) -> str | None:
    """Return the path below the agent's name, with its percent signs as they were sent.

    None when only another way to write it was sent, which a provider may read differently.
    """
    sent = bytes(request.scope["raw_path"]).decode("latin-1")
    agent = request.path_params.get("agent")
    before = "" if agent is None else f"/agent/{agent}"
    return sent.removeprefix(before) if sent.startswith(f"{before}/v1/") else None


def _open_upload(request: Request) -> RequestUpload | None:
    """Return the body that is still coming; None when there is none to wait for."""
    said = request.headers
    has_body = "transfer-encoding" in said or said.get("content-length", "0") != "0"
    return RequestUpload(request) if has_body else None


async def _read_turn_body(request: Request) -> bytes:
    """Read the body of a turn; where it is too long the request ends with 413."""
    check_head(request.scope["headers"], limit=MAX_BODY_BYTES, json=False, encoded=True)
    return await read_body_bytes(
        Request(request.scope, limit_body(request.receive, MAX_BODY_BYTES))
    )


def _make_proxy_request(
    request: Request,
    caller: ProxyCaller,
    path: str,
    *,
    raw: bytes = b"",
    upload: RequestUpload | None = None,
) -> ProxyRequest:
    scope = request.scope
    target = RequestTarget(path, scope["query_string"].decode("latin-1"), scope["headers"])
    token = Secret(read_token(scope)) if caller.governed else None
    if token:
        target, raw = strip_agent_token(target, raw, token)
    return ProxyRequest(
        caller=caller, method=request.method, target=target, raw=raw, upload=upload, token=token
    )


def provider_error_response(status: int, text: str) -> Response:
    """Refuse as providers do, so that their clients show the reason."""
    return JSONResponse(error_body(status, text), status)


def _is_nearby(request: Request) -> bool:
    """Say whether a request comes from this machine: over loopback, or over the owner's socket."""
    client = request.scope.get("client")
    if client is None or not client[0]:
        return True
    return ipaddress.ip_address(client[0]).is_loopback
