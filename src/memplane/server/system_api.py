"""The endpoints of `/api/v1`, and those that watch over the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from memplane.auth.grants import Scope
from memplane.errors import code_of_status
from memplane.server.endpoints import AnyTokenAuth, Endpoint, NoAuth, ScopeAuth
from memplane.server.metrics import METRICS_MEDIA_TYPE, Metrics
from memplane.server.request_auth import require_grant
from memplane.service.operation import TextStream
from memplane.version import VERSION

_ADMIN: Final = ScopeAuth(Scope.ADMIN)
_UNAVAILABLE: Final = 503


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong, in the form of every error."""

    code: str
    message: str


class Health(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether the server keeps what it is given; `error` is there when it does not."""

    ok: bool
    version: str
    error: Failure | None = None


class WhoAmI(msgspec.Struct, frozen=True, kw_only=True):
    """What a token is good for."""

    name: str
    agent: str | None
    scopes: tuple[Scope, ...]
    expires: datetime | None


def json_response(body: object, status: int = 200) -> Response:
    """Answer with a value as JSON."""
    return Response(msgspec.json.encode(body), status, media_type="application/json")


def answer_text(text: TextStream, headers: Mapping[str, str] = MappingProxyType({})) -> Response:
    """Answer with a text as a file, piece by piece."""
    disposition = f'attachment; filename="{text.filename}"'
    return StreamingResponse(
        text.pieces,
        media_type=text.media_type,
        headers={**headers, "Content-Disposition": disposition},
    )


def system_endpoints(metrics: Metrics, failing: Callable[[], Sequence[str]]) -> list[Endpoint]:
    """Make the endpoints that need no service; `failing` says what is not kept now."""

    async def get_health(_request: Request) -> Response:
        found = failing()
        if not found:
            return json_response(Health(ok=True, version=VERSION))
        message = f"{', and '.join(found)}; `memplane status` says why"
        wrong = Failure(code=code_of_status(_UNAVAILABLE), message=message)
        return json_response(Health(ok=False, version=VERSION, error=wrong), _UNAVAILABLE)

    async def get_whoami(request: Request) -> Response:
        grant = require_grant(request)
        return json_response(
            WhoAmI(
                name=grant.name,
                agent=grant.agent,
                scopes=tuple(sorted(grant.scopes)),
                expires=grant.expires,
            )
        )

    async def get_metrics(_request: Request) -> Response:
        # The figures of other parts may have to look at the disk.
        text = await asyncio.to_thread(metrics.text)
        return Response(text, headers={"Content-Type": METRICS_MEDIA_TYPE})

    return [
        Endpoint(
            method="GET",
            path="/health",
            handler=get_health,
            needs=NoAuth(),
            gives=Health,
            refuses={_UNAVAILABLE: "What is given is not kept now, and why."},
            summary="Whether the server answers, and keeps what it is given",
        ),
        Endpoint(
            method="GET",
            path="/api/v1/whoami",
            handler=get_whoami,
            needs=AnyTokenAuth(),
            gives=WhoAmI,
            summary="What the token of this request is good for",
        ),
        Endpoint(
            method="GET",
            path="/metrics",
            handler=get_metrics,
            needs=_ADMIN,
            gives=str,
            media_type="text/plain",
            summary="Figures for Prometheus",
        ),
    ]
