"""The one place that sends answers: with the safe headers, and in one piece where they are whole.

Layers take a request and return its answer. A server that writes whole answers says how in the
request's scope; elsewhere they go out as ASGI messages.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeAlias

from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send

from memplane.server.response_stream import DIRECT_SEND_KEY, Headers

AppLayer: TypeAlias = Callable[[Scope, Receive], Awaitable[Response]]
"""A layer: it takes a request and returns the answer to it."""

WRITE_WHOLE_KEY: Final = "memplane.whole"
"""The function that writes a whole answer, in a request's scope; False when it has to be sent."""

STATUS_KEY: Final = "memplane.status"
"""The status of the answer, in a request's scope, once its head was sent."""

SAFE_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_WHOLE_RESPONSE_TYPES: Final = frozenset({Response, JSONResponse, PlainTextResponse, HTMLResponse})


async def send_response(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Send an answer."""
    write_whole: Callable[[int, Headers, bytes], bool] | None = scope.get(WRITE_WHOLE_KEY)
    if (
        write_whole is not None
        and type(response) in _WHOLE_RESPONSE_TYPES
        and response.background is None
    ):
        head = add_safe_headers(response.raw_headers)
        if write_whole(response.status_code, head, bytes(response.body)):
            scope[STATUS_KEY] = response.status_code
            return

    async def send_safely(message: Message) -> None:
        if message["type"] == "http.response.start":
            scope[STATUS_KEY] = message["status"]
            message = {**message, "headers": add_safe_headers(message.get("headers", ()))}
        await send(message)

    scope[DIRECT_SEND_KEY] = send
    await response(scope, receive, send_safely)


def add_safe_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Add the safe headers to those of an answer; what it says itself counts."""
    given = list(headers)
    names = {name.lower() for name, _ in given}
    return given + [header for header in SAFE_HEADERS if header[0] not in names]
