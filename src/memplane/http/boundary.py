"""The first layer a request meets: is it for us, and may its origin ask at all?

A browser sends any page's requests to loopback, so the Host and Origin headers decide before
anything is routed. A request over the owner's socket names the host `localhost`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from memplane.http.errors import refusal
from memplane.http.principals import header_values
from memplane.http.sending import send_answer

_POLICY_VIOLATION: Final = 1008
_OTHER_HOST: Final = (
    "this server does not answer for that host. Whoever runs it lists names for it in "
    "http.allowed_hosts"
)


def loopback_hosts(port: int) -> frozenset[str]:
    """Name the Host headers that mean this machine's own port."""
    return frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]"))


class _Expected(msgspec.Struct, frozen=True):
    """The hosts that a request may name, and the origins of their own pages."""

    hosts: frozenset[str]
    origins: frozenset[str]

    @classmethod
    def at(cls, hosts: Iterable[str]) -> _Expected:
        lower = frozenset(host.lower() for host in hosts)
        return cls(
            lower, frozenset(f"{way}://{host}" for way in ("http", "https") for host in lower)
        )


class Boundary:
    """Refuses foreign hosts and origins, and more requests at once than `most`.

    `refused` is told the reason of each refusal.
    """

    def __init__(
        self, app: ASGIApp, *, hosts: Iterable[str], most: int, refused: Callable[[str], None]
    ) -> None:
        self._app = app
        self._by_port = _Expected.at(hosts)
        self._by_socket = _Expected.at(("localhost",))
        self._most = most
        self._refused = refused
        self._answering = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await _refuse_other(scope, receive, send)
            return
        found = self._refusal(scope)
        if found is not None:
            reason, answer = found
            self._refused(reason)
            await send_answer(answer, scope, receive, send)
            return
        self._answering += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._answering -= 1

    def _refusal(self, scope: Scope) -> tuple[str, Response] | None:
        hosts = header_values(scope, b"host")
        expected = self._by_port if _came_by_port(scope) else self._by_socket
        if len(hosts) != 1 or hosts[0].lower() not in expected.hosts:
            return "host", refusal(421, _OTHER_HOST)
        if any(one not in expected.origins for one in header_values(scope, b"origin")):
            return "origin", refusal(403, "that origin may not ask this server")
        if not scope["path"].startswith("/"):
            return "target", refusal(400, "ask for a path, not for a whole address")
        names = {name for name, _ in scope["headers"]}
        if {b"content-length", b"transfer-encoding"} <= names:
            return "framing", refusal(400, "a body has a length or is chunked, not both")
        if self._answering >= self._most:
            busy = refusal(503, "too many requests at once; try again", {"Retry-After": "1"})
            return "busy", busy
        return None


async def _refuse_other(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION})


def _came_by_port(scope: Scope) -> bool:
    server = scope.get("server")
    return server is not None and server[1] is not None
