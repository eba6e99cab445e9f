"""The first layer a request meets: is it for us, and may its origin ask at all?

A browser sends any page's requests to loopback, so the Host and Origin headers decide before
anything is routed. A request over the owner's socket names the host `localhost`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from memplane.server.errors import error_response
from memplane.server.limits import RequestSlots, SlotHolder
from memplane.server.request_auth import header_values
from memplane.server.responses import send_response

SLOT_HOLDER_KEY: Final = "memplane.holder"
"""The `SlotHolder` in a request's scope, where the server knows how slow its client is."""
_POLICY_VIOLATION: Final = 1008
_WATCH_INTERVAL_S: Final = 1.0
_OTHER_HOST: Final = (
    "this server does not answer for that host. Whoever runs it lists names for it in "
    "http.allowed_hosts"
)


def loopback_hosts(port: int) -> frozenset[str]:
    """Name the Host headers that mean this machine's own port."""
    return frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]"))


class _AllowedHosts(msgspec.Struct, frozen=True):
    """The hosts that a request may name, and the origins of their own pages."""

    hosts: frozenset[str]
    origins: frozenset[str]

    @classmethod
    def at(cls, hosts: Iterable[str]) -> _AllowedHosts:
        lower = frozenset(host.lower() for host in hosts)
        return cls(
            lower, frozenset(f"{way}://{host}" for way in ("http", "https") for host in lower)
        )


class _PromptHolder:
    """A request whose client keeps nobody waiting, as far as is known."""

    def owed_since(self) -> None:
        return None

    def unread_since(self) -> None:
        return None

    def give_up(self) -> None:
        """Never called, as nothing is owed."""


class HostOriginCheck:
    """Refuses foreign hosts and origins, and more requests at once than `most`.

    `refused` is told the reason of each refusal.
    """

    def __init__(
        self, app: ASGIApp, *, hosts: Iterable[str], most: int, refused: Callable[[str], None]
    ) -> None:
        self._app = app
        self._by_port = _AllowedHosts.at(hosts)
        self._by_socket = _AllowedHosts.at(("localhost",))
        self._slots = RequestSlots(most)
        self._refused = refused
        self._watch: asyncio.TimerHandle | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await _refuse_websocket(scope, receive, send)
            return
        found = self._refusal(scope)
        if found is not None:
            reason, answer = found
            self._refused(reason)
            await send_response(answer, scope, receive, send)
            return
        holder: SlotHolder = scope.get(SLOT_HOLDER_KEY) or _PromptHolder()
        loop = asyncio.get_running_loop()
        client = scope.get("client")
        if not self._slots.take(holder, client[0] if client else "", loop.time()):
            self._refused("busy")
            busy = error_response(
                503, "too many requests at once; try again", {"Retry-After": "1"}
            )
            await send_response(busy, scope, receive, send)
            return
        if self._watch is None and self._slots.needs_watch:
            self._watch = loop.call_later(_WATCH_INTERVAL_S, self._end_withheld, loop)
        try:
            await self._app(scope, receive, send)
        finally:
            self._slots.free(holder)

    def _end_withheld(self, loop: asyncio.AbstractEventLoop) -> None:
        """End what an address withholds beyond its share, as long as many slots are taken."""
        self._slots.end_withheld(loop.time())
        needed = self._slots.needs_watch
        self._watch = (
            loop.call_later(_WATCH_INTERVAL_S, self._end_withheld, loop) if needed else None
        )

    def _refusal(self, scope: Scope) -> tuple[str, Response] | None:
        hosts = header_values(scope, b"host")
        expected = self._by_port if _came_by_port(scope) else self._by_socket
        if len(hosts) != 1 or hosts[0].lower() not in expected.hosts:
            return "host", error_response(421, _OTHER_HOST)
        if any(one not in expected.origins for one in header_values(scope, b"origin")):
            return "origin", error_response(403, "that origin may not ask this server")
        if not scope["path"].startswith("/"):
            return "target", error_response(400, "ask for a path, not for a whole address")
        names = {name for name, _ in scope["headers"]}
        if {b"content-length", b"transfer-encoding"} <= names:
            return "framing", error_response(400, "a body has a length or is chunked, not both")
        return None


async def _refuse_websocket(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION})


def _came_by_port(scope: Scope) -> bool:
    server = scope.get("server")
    return server is not None and server[1] is not None
