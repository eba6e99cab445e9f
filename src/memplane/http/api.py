"""The endpoints of `/api/v1`, and those that watch over the server."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from memplane.access.grants import Scope, TokenWanted
from memplane.http.bodies import read_json
from memplane.http.endpoints import AnyToken, Endpoint, Needs, Open
from memplane.http.metrics import MEDIA_TYPE, Metrics
from memplane.http.principals import grant_of
from memplane.plane.contract import IssuedToken, Plane, Status, Token, TokenAnswer
from memplane.version import VERSION

_ADMIN: Final = Needs(Scope.ADMIN)
_SMALL: Final = 64 * 1024


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """That the server answers."""

    ok: bool
    version: str


class WhoAmI(msgspec.Struct, frozen=True, kw_only=True):
    """What a token is good for."""

    name: str
    agent: str | None
    scopes: tuple[Scope, ...]
    expires: datetime | None


def answer_json(body: object, status: int = 200) -> Response:
    """Answer with a value as JSON."""
    return Response(msgspec.json.encode(body), status, media_type="application/json")


def api_endpoints(plane: Plane) -> list[Endpoint]:
    """Make the endpoints that ask the plane."""

    async def get_status(_request: Request) -> Response:
        return answer_json(await plane.status())

    async def get_tokens(_request: Request) -> Response:
        return answer_json(await plane.tokens())

    async def post_token(request: Request) -> Response:
        wanted = await read_json(request, TokenWanted)
        return _answer_issued(await plane.issue_token(wanted), 201)

    async def delete_token(request: Request) -> Response:
        await plane.revoke_token(request.path_params["id"])
        return Response(status_code=204)

    async def rotate_token(request: Request) -> Response:
        return _answer_issued(await plane.rotate_token(request.path_params["id"]), 200)

    return [
        Endpoint(
            method="GET",
            path="/api/v1/status",
            handler=get_status,
            needs=_ADMIN,
            gives=Status,
            summary="What is configured, where state lives and what is pending",
        ),
        Endpoint(
            method="GET",
            path="/api/v1/tokens",
            handler=get_tokens,
            needs=_ADMIN,
            gives=tuple[Token, ...],
            summary="The tokens that were issued, without the tokens themselves",
        ),
        Endpoint(
            method="POST",
            path="/api/v1/tokens",
            handler=post_token,
            needs=_ADMIN,
            takes=TokenWanted,
            gives=TokenAnswer,
            status=201,
            body_limit=_SMALL,
            summary="Issue a token for one agent, or for an admin; it is told once",
        ),
        Endpoint(
            method="DELETE",
            path="/api/v1/tokens/{id}",
            handler=delete_token,
            needs=_ADMIN,
            status=204,
            body_limit=_SMALL,
            summary="Revoke a token, at once",
        ),
        Endpoint(
            method="POST",
            path="/api/v1/tokens/{id}/rotate",
            handler=rotate_token,
            needs=_ADMIN,
            gives=TokenAnswer,
            body_limit=_SMALL,
            summary="Replace a token by a new one, at once",
        ),
    ]


def door_endpoints(metrics: Metrics) -> list[Endpoint]:
    """Make the endpoints that need no plane."""

    async def get_health(_request: Request) -> Response:
        return answer_json(Health(ok=True, version=VERSION))

    async def get_whoami(request: Request) -> Response:
        grant = grant_of(request)
        return answer_json(
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
        return Response(text, headers={"Content-Type": MEDIA_TYPE})

    return [
        Endpoint(
            method="GET",
            path="/health",
            handler=get_health,
            needs=Open(),
            gives=Health,
            summary="Whether the server answers",
        ),
        Endpoint(
            method="GET",
            path="/api/v1/whoami",
            handler=get_whoami,
            needs=AnyToken(),
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


def _answer_issued(issued: IssuedToken, status: int) -> Response:
    return answer_json(TokenAnswer(about=issued.about, token=issued.token.reveal()), status)
