"""The ASGI application."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from memplane.errors import MemplaneError
from memplane.http.boundary import Boundary
from memplane.http.errors import status_of
from memplane.plane.contract import Plane
from memplane.secret import Secret
from memplane.version import VERSION


def create_app(plane: Plane, *, hosts: Iterable[str], token: Secret) -> Starlette:
    """Serve one plane to those who may ask."""

    async def get_health(_request: Request) -> Response:
        return JSONResponse({"ok": True, "version": VERSION})

    async def get_status(_request: Request) -> Response:
        return _json(await plane.status())

    return Starlette(
        routes=[
            Route("/health", get_health, methods=["GET"]),
            Route("/api/v1/status", get_status, methods=["GET"]),
        ],
        middleware=[Middleware(Boundary, hosts=tuple(hosts), token=token)],
        exception_handlers={MemplaneError: _answer_error},
    )


def _json(body: object) -> Response:
    return Response(msgspec.json.encode(body), media_type="application/json")


async def _answer_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, MemplaneError)  # noqa: S101 - registered for these alone
    body = {"error": {"type": type(error).__name__, "message": str(error)}}
    return JSONResponse(body, status_of(error))
