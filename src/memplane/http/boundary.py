"""The first layer a request meets: is it for us, and may its origin ask at all?

A browser sends any page's requests to loopback, so the Host and Origin headers decide before
anything is routed. A request over the owner's socket names the host `localhost`.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import Final

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from memplane.secret import Secret

_OPEN_PATHS: Final = frozenset({"/health"})


def loopback_hosts(port: int) -> frozenset[str]:
    """Name the Host headers that mean this machine's own port."""
    return frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]"))


class Boundary:
    """Refuses foreign hosts and origins, and whoever has no token; `/health` is open."""

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str], token: Secret) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._token = hashlib.sha256(token.reveal().encode()).digest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] in {"http", "websocket"} else None
        if refusal is not None:
            await refusal(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        hosts = _values(scope, b"host")
        allowed = self._hosts if _came_by_port(scope) else frozenset({"localhost"})
        if len(hosts) != 1 or hosts[0].lower() not in allowed:
            return _refused(421, "this server does not answer for that host")
        own = {f"http://{host}" for host in allowed} | {f"https://{host}" for host in allowed}
        if any(origin not in own for origin in _values(scope, b"origin")):
            return _refused(403, "that origin may not ask this server")
        if scope["path"] not in _OPEN_PATHS and not self._has_token(scope):
            return _refused(401, "a bearer token is needed; it is in the home's token file")
        return None

    def _has_token(self, scope: Scope) -> bool:
        given = _values(scope, b"authorization")
        if len(given) != 1:
            return False
        scheme, _, token = given[0].partition(" ")
        digest = hashlib.sha256(token.encode("latin-1")).digest()
        return scheme.lower() == "bearer" and hmac.compare_digest(digest, self._token)


def _came_by_port(scope: Scope) -> bool:
    server = scope.get("server")
    return server is not None and server[1] is not None


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _refused(status: int, why: str) -> JSONResponse:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None  # noqa: PLR2004
    return JSONResponse({"error": {"message": why}}, status, headers)
