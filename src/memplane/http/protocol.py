"""HTTP/1.1 as uvicorn reads it, without whole addresses, long heads and slow ones."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Final, cast

import httptools
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from memplane.http.relaying import GONE, HANG_UP, STOPPING, Headers
from memplane.http.sending import SAFE_HEADERS, WHOLE

LONGEST_HEAD: Final = 64 * 1024
_LINGER: Final = 5.0
_HEAD_SECONDS: Final = 15.0
_BODILESS: Final = frozenset({204, 304})
_LINE_END: Final = b"\r\n"
_CONTROLS: Final = bytes({*range(32), 127} - {ord("\t")})


class StrictProtocol(HttpToolsProtocol):
    """Takes a path and a head of at most 64 KiB, or answers 400 or 431 and hangs up.

    The parser hides `GET http://other/path` behind its path, and it takes heads of any length.
    It leaves the body out where a client would rather speak another protocol, as Java's does of
    HTTP/2; so the head of such a request is read again, without that wish.
    """

    parser: httptools.HttpRequestParser  # until the connection is lost

    _head_is_open = False
    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None
    _refusal_status = 400
    _hung_up = False
    _head_again = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Give the first head its time; later ones have the server's own for idle connections."""
        super().connection_made(transport)
        self._stopping = asyncio.Event()
        self._gone = asyncio.Event()
        self._head_timer = self.loop.call_later(_HEAD_SECONDS, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock, and tell whoever does not read."""
        self._stop_timer()
        self._gone.set()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Let answers that go on for ever come to their end."""
        self._stopping.set()
        super().shutdown()

    def _give_up(self) -> None:
        if not self._hung_up:
            self._refusal_status = 408
            self.send_400_response("The head of the request did not come in time.")

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def data_received(self, data: bytes) -> None:
        """Parse what came, unless it is more of a head than we take."""
        if self._hung_up:
            return
        if self._head_is_open:
            self._head_bytes += len(data)
        if self._head_bytes > LONGEST_HEAD:
            self._refusal_status = 431
            self.send_400_response("The head of the request is too long.")
            return
        self._unset_keepalive_if_required()
        try:
            self._parse(data)
        except httptools.HttpParserError:
            message = "Invalid HTTP request received."
            self.logger.warning(message)
            self.send_400_response(message)

    def _parse(self, data: bytes) -> None:
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as wish:
                head, self._head_again = self._head_again, b""
                data = head + data[wish.args[0] :]
                self.parser = _new_parser(self)  # the other one is done with the connection
            else:
                return

    def on_message_begin(self) -> None:
        """Begin to count a head, and its time."""
        self._stop_timer()
        self._head_timer = self.loop.call_later(_HEAD_SECONDS, self._give_up)
        self._head_is_open = True
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Check the head as a whole; an error here is answered by `send_400_response`."""
        self._stop_timer()
        self._head_is_open = False
        self._head_bytes = 0
        if not self.url.startswith(b"/"):
            raise ValueError("the target is not a path")
        if len(self.url) + sum(len(n) + len(v) for n, v in self.headers) > LONGEST_HEAD:
            self._refusal_status = 431
            raise ValueError("the head is too long")
        if self.parser.should_upgrade() and _has_body(self.headers):
            self._head_again = self._without_wish()
            return
        cast("Scope", self.scope)[HANG_UP] = self.transport.close
        cast("Scope", self.scope)[STOPPING] = self._stopping
        cast("Scope", self.scope)[GONE] = self._gone
        super().on_headers_complete()
        cast("Scope", self.scope)[WHOLE] = partial(write_whole, self.cycle)

    def on_message_complete(self) -> None:
        """Note the end of a request, unless it is read again."""
        if not self._head_again:
            super().on_message_complete()

    def _without_wish(self) -> bytes:
        """Write the head again as one that asks for no other protocol."""
        version = self.parser.get_http_version().encode()
        first = b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)
        said = (name + b": " + value for name, value in self.headers if name != b"upgrade")
        return b"\r\n".join([first, *said, b"", b""])

    def send_400_response(self, msg: str) -> None:
        """Refuse, and let the client finish: a reset would take the answer from it."""
        self._hung_up = True
        headers = [
            *SAFE_HEADERS,
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", str(len(msg)).encode()),
            (b"connection", b"close"),
        ]
        head = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        self.transport.write(STATUS_LINE[self._refusal_status] + head + b"\r\n" + msg.encode())
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(_LINGER, self.transport.close)


def _new_parser(protocol: StrictProtocol) -> httptools.HttpRequestParser:
    parser = httptools.HttpRequestParser(protocol)
    # As the server's own: an answer may still be due when the client has said that it leaves.
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def write_whole(cycle: RequestResponseCycle, status: int, headers: Headers, body: bytes) -> bool:
    """Write an answer at once, where the server would write its head and then its body.

    Each of these takes as long as the rest of a short answer, and wakes the client. False when
    it has to be done the long way: the client is slow to read, or has left, or gets no body.
    """
    if (
        cycle.response_started
        or cycle.disconnected
        or cycle.flow.write_paused
        or status in _BODILESS
        or cycle.scope["method"] == "HEAD"
    ):
        return False
    lines = [b"%b: %b\r\n" % header for header in (*cycle.default_headers, *headers)]
    head = b"".join(lines)
    if len(head) - len(head.translate(None, _CONTROLS)) != len(_LINE_END) * len(lines):
        return False  # a header has more of them than the ends of lines, and is refused there
    last = b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n"
    cycle.response_started = cycle.response_complete = True
    cycle.transport.write(b"".join((STATUS_LINE[status], head, last, body)))
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
    return True


def _has_body(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in headers
    )
