"""An answer that comes from elsewhere: passed on as it comes, and given up when nobody listens.

An answer that breaks off is cut here too: whoever asked must not take a part for the whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

HANG_UP_KEY: Final = "memplane.hang_up"
"""The function by which a request's connection is closed, in its scope."""
DISCONNECTED_KEY: Final = "memplane.gone"
"""The event in a request's scope that is set when its connection is lost."""
STOPPING_KEY: Final = "memplane.stopping"
"""The event in a request's scope that is set when the server stops."""
DIRECT_SEND_KEY: Final = "memplane.straight"
"""How the body of an answer is sent, in a request's scope: past those who look at its head."""
RELAYED_KEY: Final = "memplane.relayed"
"""Set in the scope of a request whose answer another server made."""
_STOPPED_REASON: Final = "memplane was stopped"
_BODILESS_STATUSES: Final = frozenset({204, 304})

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]


class HttpResponseWriter:
    """Whoever asked, to whom an answer is passed on."""

    def __init__(self, send: Send, straight: Send | None = None) -> None:
        self._send = send
        self._straight = straight or send
        self.begun = False
        self.ended = False
        self.takes_events = False

    async def begin(self, status: int, headers: Headers) -> None:
        """Send the head of the answer."""
        if status in _BODILESS_STATUSES:
            # A length is that of another answer, and the server would wait for so many bytes.
            headers = [one for one in headers if one[0].lower() != b"content-length"]
        self.begun = True
        self.takes_events = _takes_events(headers)
        await self._send(
            {"type": "http.response.start", "status": status, "headers": list(headers)}
        )

    async def send(self, data: bytes) -> None:
        """Send a piece of the answer; this waits while the other side is slow to read."""
        await self._straight({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        """Say that the answer is whole."""
        self.ended = True
        await self._straight({"type": "http.response.body", "body": b"", "more_body": False})


def _takes_events(headers: Headers) -> bool:
    """Say whether an event of ours can follow: in a stream, and where nothing frames its bytes."""
    said = {name.lower(): value for name, value in headers}
    is_stream = said.get(b"content-type", b"").lower().startswith(b"text/event-stream")
    return is_stream and not {b"content-length", b"content-encoding"} & said.keys()


StreamWork: TypeAlias = Callable[[HttpResponseWriter], Awaitable[None]]


class StreamedResponse(Response):
    """Does its work for a client, and stops it within a moment when the client leaves."""

    def __init__(self, work: StreamWork, upload: RequestUpload | None = None) -> None:
        super().__init__()
        self._work = work
        self._upload = upload

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the answer on."""
        client = HttpResponseWriter(send, scope.get(DIRECT_SEND_KEY))
        work = asyncio.ensure_future(self._work(client))
        leaving = asyncio.create_task(self._left(receive, scope.get(DISCONNECTED_KEY)))
        try:
            await asyncio.wait((work, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not work.done() and client.ended:
                # It got everything. What is done after that is nobody's to interrupt.
                await work
            if not work.done():
                await _cancel_work(work)
                return
            work.result()
            if not client.ended:
                await _hang_up(scope, leaving)
        except asyncio.CancelledError:
            # The server ends, and has waited for long enough.
            await _cancel_work(work, _STOPPED_REASON)
            await _hang_up(scope, leaving)
        finally:
            work.cancel()
            leaving.cancel()

    async def _left(self, receive: Receive, gone: asyncio.Event | None) -> None:
        """Return when the client has left; what it still sends is read by others until then."""
        if self._upload is not None and await self._upload.is_lost(gone):
            return
        while (await receive())["type"] != "http.disconnect":
            pass


class DisconnectedResponse(Response):
    """The answer to whoever has left before it was made."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send nothing."""


class RequestUpload:
    """A request's body that is passed on while it comes."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self.ended = asyncio.Event()

    async def is_lost(self, gone: asyncio.Event | None) -> bool:
        """Wait for its end, or say that the connection was lost before: nobody may be reading."""
        ends = [self.ended] if gone is None else [self.ended, gone]
        waiting = [asyncio.ensure_future(one.wait()) for one in ends]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waiting:
                one.cancel()
        return not self.ended.is_set()

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield it piece by piece."""
        try:
            async for piece in self._request.stream():
                if piece:
                    yield piece
        finally:
            self.ended.set()


async def _cancel_work(work: asyncio.Future[None], why: str = "") -> None:
    work.cancel(why or None)
    with suppress(asyncio.CancelledError):
        await work


async def _hang_up(scope: Scope, leaving: asyncio.Task[None]) -> None:
    hang_up = scope.get(HANG_UP_KEY)
    if hang_up is None:
        raise ConnectionError("the answer broke off, and there is no connection to close")
    hang_up()
    await leaving


def is_relayed(scope: Scope) -> bool:
    """Say whether another server made the answer."""
    return bool(scope.get(RELAYED_KEY))
