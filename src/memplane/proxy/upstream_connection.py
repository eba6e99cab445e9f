"""The connection of one attempt: what is known of its end, and how it is closed at once."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Final

import aiohttp
from aiohttp.connector import Connection

_BODILESS_STATUSES: Final = frozenset({204, 304})


class UpstreamConnection:
    """The connection of the attempt that is under way."""

    __slots__ = ("_closed", "_reply", "_transport")

    def __init__(self) -> None:
        self._closed: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._reply: aiohttp.ClientResponse | None = None

    def take(self, connection: Connection) -> None:
        """Learn which connection the request goes over."""
        self._transport = connection.transport
        self._closed = connection.protocol.closed if connection.protocol is not None else None
        if self._closed is not None:
            # Once for each connection, however many requests go over it.
            self._closed.remove_done_callback(_retrieve_exception)
            self._closed.add_done_callback(_retrieve_exception)
            self._closed.add_done_callback(self._lost)

    def answers(self, reply: aiohttp.ClientResponse) -> None:
        """Learn the answer that comes over it."""
        self._reply = reply

    def broken(self) -> bool:
        """Say whether a body broke off that looks whole to the library.

        One that ends with its connection does, even when the connection was reset.
        """
        if self._closed is None or self._reply is None or not is_close_delimited(self._reply):
            return False
        return self._closed.done() and self._closed.exception() is not None

    def drop(self) -> None:
        """Close the connection at once, unless an answer was read to its end over it.

        The library would first send what is still to be sent, and a provider that reads nothing
        would hold the connection for ever.
        """
        closed, reply, transport = self._closed, self._reply, self._transport
        self._closed = self._transport = self._reply = None
        if closed is not None:
            closed.remove_done_callback(self._lost)
        if reply is not None and reply.connection is None:
            # It was given back, and may be somebody else's by now.
            return
        if transport is not None:
            transport.abort()
        if reply is not None:
            reply.close()

    def _lost(self, _closed: asyncio.Future[None]) -> None:
        """End the wait for a body when its connection is gone.

        The library does not when the body could not be read as HTTP.
        """
        content = self._reply.content if self._reply is not None else None
        if content is not None and not content.is_eof() and content.exception() is None:
            content.set_exception(aiohttp.ClientPayloadError())


def _retrieve_exception(closed: asyncio.Future[None]) -> None:
    """Look at how a connection ended, so that nobody complains that nobody did."""
    if not closed.cancelled():
        closed.exception()


CURRENT_CONNECTION: Final[ContextVar[UpstreamConnection]] = ContextVar(
    "memplane.proxy.upstream_connection"
)
"""The line of the attempt that the running task makes."""


class TrackedRequest(aiohttp.ClientRequest):
    """A request that tells its sender which connection it goes over."""

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        CURRENT_CONNECTION.get().take(conn)
        return await super().send(conn)


def is_close_delimited(reply: aiohttp.ClientResponse) -> bool:
    """Say whether nothing but the end of the connection tells that a body is whole."""
    chunked = "chunked" in reply.headers.get("Transfer-Encoding", "").lower()
    has_body = reply.method != "HEAD" and reply.status not in _BODILESS_STATUSES
    return has_body and not chunked and "Content-Length" not in reply.headers
