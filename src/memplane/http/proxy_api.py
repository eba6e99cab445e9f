"""The proxy's door: whose turn a request is, and what becomes of it.

Every path below `/v1` is passed on to a provider; a turn's is also recorded and given memories.
With a key of memplane's only some are, as `memplane.proxy.governing` says.
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

from memplane.access.agents import is_agent_id
from memplane.access.history import claimed_agent
from memplane.access.pods import read_pod_context
from memplane.access.proxying import Caller, Here, Refused, Shown, caller_of
from memplane.access.tokens import TokenStore
from memplane.clock import Clock, system_clock
from memplane.http.bodies import check_head, counted, whole_body
from memplane.http.endpoints import Endpoint, Open, OwnRules
from memplane.http.principals import grant_if_any, token_given, tokens_shown
from memplane.http.relaying import RELAYED, Relay, Upload
from memplane.proxy.asking import Asked
from memplane.proxy.body import LONGEST
from memplane.proxy.dialects.table import dialect_at
from memplane.proxy.governing import use_of
from memplane.proxy.passing import pass_on
from memplane.proxy.routing import Refused as NotServed
from memplane.proxy.routing import Target
from memplane.proxy.turn import Proxy, take_turn, turn_away
from memplane.proxy.withholding import withheld
from memplane.secret import Secret

_LONGEST_UPLOAD: Final = 1 << 40
"""What is passed on while it comes takes no room here: its provider says what is too long."""
_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD")
_WHY: Final = (
    "agents show provider's keys or tokens of theirs, and the contract fixes its refusals"
)
_MISPLACED: Final = Refused(
    401,
    "a token of memplane's would go on to the provider from there: show it once, with no key "
    "beside it, as Authorization: Bearer or as x-api-key",
)
_UPGRADE_REQUIRED: Final = 426
_TWICE: Final = "/v1/v1/"
_BASE_URLS: Final = (
    "there is no such path. The base URL of OpenAI's clients ends with /v1, as in "
    "{here}/agent/NAME/v1, and that of Anthropic's does not: {here}/agent/NAME"
)


class ProxyDoor(msgspec.Struct, frozen=True, kw_only=True):
    """Lets requests through to the proxy."""

    proxy: Proxy
    tokens: TokenStore
    context_root: Path | None
    default_agent: str
    clock: Clock = system_clock

    async def answer(self, request: Request) -> Response:
        """Answer one request."""
        caller = self._caller(request)
        if isinstance(caller, Refused):
            return refused(caller.status, caller.text)
        if request.headers.get("upgrade", "").lower() == "websocket":
            # Clients that would rather speak over a WebSocket fall back at this status.
            return refused(_UPGRADE_REQUIRED, "speak HTTP here, not over a WebSocket")
        path = _path_sent(request)
        if path is None:
            return refused(HTTPStatus.BAD_REQUEST, "that path is not passed on")
        if path.startswith(_TWICE):
            return await _misled(request)
        request.scope[RELAYED] = True
        use = use_of(request.method, path) if caller.governed else None
        if isinstance(use, NotServed):
            return Relay(partial(turn_away, self.proxy, use, _asked(request, caller, path)))
        dialect = dialect_at(path) if request.method == "POST" else None
        if dialect is None:
            upload = _upload(request)
            asked = _asked(request, caller, path, upload=upload)
            return Relay(partial(pass_on, self.proxy.passing, asked), upload)
        asked = _asked(request, caller, path, raw=await _whole(request))
        return Relay(partial(take_turn, self.proxy, dialect, asked))

    def _caller(self, request: Request) -> Caller | Refused:
        token, named = token_given(request.scope), request.path_params.get("agent", "")
        here = Here(pod=self.context_root is not None, default=self.default_agent)
        claimed = claimed_agent(token)
        shown = Shown(
            named=named,
            token=token,
            grant=grant_if_any(request),
            context=read_pod_context(self.context_root, named or claimed or here.default),
            is_ours=is_agent_id(claimed),
            nearby=_is_nearby(request),
        )
        now = self.clock()
        is_governed = self.tokens.governs(named or here.default, now)
        caller = caller_of(shown, here, is_governed=is_governed)
        if isinstance(caller, Caller):
            others = {*tokens_shown(request.scope)} - {token}
            in_path = caller.governed and token in request.scope["path"]
            if in_path or any(self.tokens.find(one, now) for one in others):
                return _MISPLACED
        return caller


def proxy_endpoints(door: ProxyDoor) -> list[Endpoint]:
    """List the proxy's endpoints: every path of a provider, bare and below an agent's name."""
    return [
        Endpoint(
            method="HEAD",
            path="/",
            handler=_here,
            needs=Open(),
            summary="Say that a server is here, as clients ask before their first turn",
        ),
        *(
            Endpoint(
                method=method,
                path=path,
                handler=door.answer,
                needs=OwnRules(_WHY),
                summary="Pass a request on to a provider; turns are recorded and given memories",
                body_limit=_LONGEST_UPLOAD,
                encoded=True,
            )
            for path in ("/v1/{rest:path}", "/agent/{agent}/v1/{rest:path}")
            for method in _METHODS
        ),
        *(
            Endpoint(
                method="POST",
                path=path,
                handler=_misled,
                needs=Open(),
                summary="Say what a client's base URL should be",
                encoded=True,
            )
            for path in ("/chat/completions", "/responses", "/agent/{agent}/{rest:path}")
        ),
    ]


async def _here(_request: Request) -> Response:
    return Response()


async def _misled(request: Request) -> Response:
    here = f"{request.scope['scheme']}://{request.headers['host']}"
    return refused(HTTPStatus.NOT_FOUND, _BASE_URLS.format(here=here))


def _path_sent(request: Request) -> str | None:
    """Return the path below the agent's name, with its percent signs as they were sent.

    None when only another way to write it was sent, which a provider may read differently.
    """
    sent = bytes(request.scope["raw_path"]).decode("latin-1")
    agent = request.path_params.get("agent")
    before = "" if agent is None else f"/agent/{agent}"
    return sent.removeprefix(before) if sent.startswith(f"{before}/v1/") else None


def _upload(request: Request) -> Upload | None:
    """Return the body that is still coming; None when there is none to wait for."""
    said = request.headers
    has_body = "transfer-encoding" in said or said.get("content-length", "0") != "0"
    return Upload(request) if has_body else None


async def _whole(request: Request) -> bytes:
    """Read the body of a turn; where it is too long the request ends with 413."""
    check_head(request.scope["headers"], limit=LONGEST, json=False, encoded=True)
    return await whole_body(Request(request.scope, counted(request.receive, LONGEST)))


def _asked(
    request: Request, caller: Caller, path: str, *, raw: bytes = b"", upload: Upload | None = None
) -> Asked:
    scope = request.scope
    target = Target(path, scope["query_string"].decode("latin-1"), scope["headers"])
    token = Secret(token_given(scope)) if caller.governed else None
    if token:
        target, raw = withheld(target, raw, token)
    return Asked(
        caller=caller, method=request.method, target=target, raw=raw, upload=upload, token=token
    )


def refused(status: int, text: str) -> Response:
    """Refuse as providers do, so that their clients show the reason."""
    error = {"type": "error", "error": {"type": "memplane", "message": text}}
    return JSONResponse(error, status)


def _is_nearby(request: Request) -> bool:
    """Say whether a request comes from this machine: over loopback, or over the owner's socket."""
    client = request.scope.get("client")
    if client is None or not client[0]:
        return True
    return ipaddress.ip_address(client[0]).is_loopback
