"""HTTP/1.1 as uvicorn reads it, without whole addresses, long heads and slow clients."""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import Iterable
from functools import partial
from typing import ClassVar, Final, cast

import httptools
import msgspec
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from memplane.errors import code_of_status
from memplane.server.body_progress import BodyProgress
from memplane.server.host_origin_check import SLOT_HOLDER_KEY
from memplane.server.response_stream import DISCONNECTED_KEY, HANG_UP_KEY, STOPPING_KEY, Headers
from memplane.server.responses import SAFE_HEADERS, STATUS_KEY, WRITE_WHOLE_KEY

MAX_HEAD_BYTES: Final = 64 * 1024
_LINGER_S: Final = 5.0
_HEAD_TIMEOUT_S: Final = 15.0
_BODILESS_STATUSES: Final = frozenset({204, 304})
_LINE_END: Final = b"\r\n"
_CONTROL_CHARS: Final = bytes({*range(32), 127} - {ord("\t")})


_REQUEST_TIMEOUT_STATUS: Final = 408


class StrictProtocol(HttpToolsProtocol):
    """Takes a path and a head of at most 64 KiB, or answers 400 or 431 and hangs up.

    It waits for its clients only so long: for a head, for the next bytes of a body, and for the
    answer to be read. What is answered before the body has come is read to its end all the same,
    since a reset would take the answer from a client that still sends.

    The parser hides `GET http://other/path` behind its path, and it takes heads of any length.
    It leaves the body out where a client would rather speak another protocol, as Java's does of
    HTTP/2; so the head of such a request is read again, without that wish.
    """

    BODY_TIMEOUT_S: ClassVar[float] = 30.0
    UNREAD_TIMEOUT_S: ClassVar[float] = 300.0
    DISCARD_IDLE_S: ClassVar[float] = 5.0
    DISCARD_S: ClassVar[float] = 120.0

    parser: httptools.HttpRequestParser  # until the connection is lost

    _head_is_open = False
    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None
    _refusal_status = 400
    _hung_up = False
    _head_again = b""
    _request: _ConnectionRequest | None = None
    _body_is_open = False
    _body_timer: asyncio.TimerHandle | None = None
    _answered_at: float | None = None
    """When the answer ended to a request whose body had not come."""
    _closes_after_body = False
    _unread_bytes = 0
    _unread_since: float | None = None
    _unread_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Give the first head its time; later ones have the server's own for idle connections."""
        super().connection_made(transport)
        self._stopping = asyncio.Event()
        self._gone = asyncio.Event()
        if len(self.connections) > self.max_connections():
            self._end_slowest_head()
        self._head_timer = self.loop.call_later(_HEAD_TIMEOUT_S, self._give_up)

    def max_connections(self) -> int:
        """Return how many connections there may be, so that files can still be opened."""
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return sys.maxsize if most == resource.RLIM_INFINITY else most * 3 // 4

    def _end_slowest_head(self) -> None:
        """Close the connection whose client has withheld a head for longest."""
        waiting = [
            (due, one)
            for one in self.connections
            if isinstance(one, StrictProtocol) and (due := one.head_due()) is not None
        ]
        if waiting:
            min(waiting, key=_due_time)[1].transport.abort()

    def head_due(self) -> float | None:
        """Return when the head of a request has to be there; None while none is waited for."""
        return None if self._head_timer is None else self._head_timer.when()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clocks, and tell whoever does not read."""
        self._stop_timer()
        self._stop_body_timer()
        self._stop_unread_timer()
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
        if self._head_bytes > MAX_HEAD_BYTES:
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
            return
        self._watch_what_is_open()

    def _watch_what_is_open(self) -> None:
        """Start the clock for a body that has not come, or for a head that has not begun."""
        request = self._request
        if request is not None and self._body_is_open:
            if request.body is None:
                request.body = BodyProgress(self.loop.time())
                self.cycle.transport = _DeferredCloseTransport(self)
                self._body_timer = self.loop.call_later(self.BODY_TIMEOUT_S, self._check_body)
        elif self._head_timer is None and (request is None or self.cycle.response_complete):
            # Such as an empty line between two requests.
            self._head_timer = self.loop.call_later(_HEAD_TIMEOUT_S, self._give_up)

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
        self._head_timer = self.loop.call_later(_HEAD_TIMEOUT_S, self._give_up)
        self._head_is_open = True
        self._head_bytes = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header of the head; what follows a body is a trailer, and is dropped."""
        if self._head_is_open:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Check the head as a whole; an error here is answered by `send_400_response`."""
        self._stop_timer()
        self._head_is_open = False
        self._head_bytes = 0
        if not self.url.startswith(b"/"):
            raise ValueError("the target is not a path")
        if len(self.url) + sum(len(n) + len(v) for n, v in self.headers) > MAX_HEAD_BYTES:
            self._refusal_status = 431
            raise ValueError("the head is too long")
        if self.parser.should_upgrade() and _has_body(self.headers):
            self._head_again = self._without_wish()
            return
        cast("Scope", self.scope)[HANG_UP_KEY] = self.transport.close
        cast("Scope", self.scope)[STOPPING_KEY] = self._stopping
        cast("Scope", self.scope)[DISCONNECTED_KEY] = self._gone
        cast("Scope", self.scope)[SLOT_HOLDER_KEY] = self._request = _ConnectionRequest(self)
        self._body_is_open = True
        self._answered_at = None
        super().on_headers_complete()
        cast("Scope", self.scope)[WRITE_WHOLE_KEY] = partial(write_whole_response, self.cycle)

    def on_body(self, body: bytes) -> None:
        """Note that the body goes on."""
        if self._request is not None and self._request.body is not None:
            self._request.body.add(len(body), self.loop.time())
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note the end of a request, unless it is read again."""
        if self._head_again or self._request is None:
            return
        self._body_is_open = False
        if self._request.body is not None:
            self._request.body.is_complete = True
            self._stop_body_timer()
            self.cycle.transport = self.transport
        super().on_message_complete()
        if self._answered_at is None:
            return
        self._answered_at = None
        if self._closes_after_body:
            self.transport.close()
        else:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_response_complete(self) -> None:
        """Read the rest of a body that was answered before it came, for a while."""
        super().on_response_complete()
        body = self._request.body if self._request is not None and self._body_is_open else None
        if body is None or not self.cycle.response_complete:
            return
        self._unset_keepalive_if_required()
        self._answered_at = self.loop.time()
        body.restart(self._answered_at)
        self._stop_body_timer()
        self._check_body()

    def close_after_body(self) -> None:
        """Say that nothing follows, and close the connection once the body has come."""
        self._closes_after_body = True
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def _check_body(self) -> None:
        """Give up a body of which nothing came for too long, or look again when it may be."""
        self._body_timer = None
        request, now = self._request, self.loop.time()
        body = request.body if request is not None else None
        if request is None or body is None or self._hung_up or self.transport.is_closing():
            return
        if request.is_held_up():
            body.restart(now)
        since = body.owed_since()
        if since is None:
            return
        due = since + self.BODY_TIMEOUT_S
        if self._answered_at is not None:
            due = min(since + self.DISCARD_IDLE_S, self._answered_at + self.DISCARD_S)
        if due <= now:
            self.give_up(request)
        else:
            self._body_timer = self.loop.call_later(due - now, self._check_body)

    def give_up(self, request: _ConnectionRequest) -> None:
        """End a request whose client is too slow: with 408, or without an end to its answer."""
        if self._hung_up or self.transport.is_closing():
            return
        if request is not self._request or self.cycle.response_started:
            self.transport.abort()
            return
        cast("Scope", self.cycle.scope)[STATUS_KEY] = _REQUEST_TIMEOUT_STATUS
        self._refusal_status = _REQUEST_TIMEOUT_STATUS
        self.send_400_response(
            "The body of the request did not come in time. Send it again, without a pause."
        )
        # Whoever handles the request learns that its client is gone.
        self.cycle.disconnected = True
        self.cycle.message_event.set()
        self._gone.set()
        self.flow.resume_reading()

    def pause_writing(self) -> None:
        """Begin to wait for a client that does not read its answer."""
        super().pause_writing()
        self._unread_bytes = self.transport.get_write_buffer_size()
        self._unread_since = self.loop.time()
        self._unread_timer = self.loop.call_later(self.UNREAD_TIMEOUT_S, self._check_unread)

    def resume_writing(self) -> None:
        """Wait no longer: the client reads."""
        self._stop_unread_timer()
        super().resume_writing()

    def unread_since(self) -> float | None:
        """Return since when the client has read nothing although there is much to read."""
        if self._unread_since is not None:
            unread = self.transport.get_write_buffer_size()
            if unread < self._unread_bytes:
                self._unread_bytes, self._unread_since = unread, self.loop.time()
        return self._unread_since

    def _check_unread(self) -> None:
        self._unread_timer = None
        since = self.unread_since()
        if since is None:
            return
        due = since + self.UNREAD_TIMEOUT_S - self.loop.time()
        if due <= 0:
            self.transport.abort()
        else:
            self._unread_timer = self.loop.call_later(due, self._check_unread)

    def _stop_body_timer(self) -> None:
        if self._body_timer is not None:
            self._body_timer.cancel()
            self._body_timer = None

    def _stop_unread_timer(self) -> None:
        self._unread_since = None
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def _without_wish(self) -> bytes:
        """Write the head again as one that asks for no other protocol."""
        version = self.parser.get_http_version().encode()
        first = b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)
        said = (name + b": " + value for name, value in self.headers if name != b"upgrade")
        return b"\r\n".join([first, *said, b"", b""])

    def send_400_response(self, msg: str) -> None:
        """Refuse, and let the client finish: a reset would take the answer from it."""
        self._hung_up = True
        self._stop_body_timer()
        error = {"code": code_of_status(self._refusal_status), "message": msg}
        body = msgspec.json.encode({"error": error})
        headers = [
            *SAFE_HEADERS,
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        head = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        self.transport.write(STATUS_LINE[self._refusal_status] + head + b"\r\n" + body)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(_LINGER_S, self.transport.close)


class _ConnectionRequest:
    """One request of a connection, as the holder of a slot."""

    __slots__ = ("_protocol", "body")

    def __init__(self, protocol: StrictProtocol) -> None:
        self._protocol = protocol
        self.body: BodyProgress | None = None
        """None where all of the body came with the head, or there is none."""

    def is_held_up(self) -> bool:
        """Say whether the server is the one that keeps the body from coming."""
        waits_for_us = self._protocol.cycle.waiting_for_100_continue
        return waits_for_us or self._protocol.flow.read_paused

    def owed_since(self) -> float | None:
        """Return since when the client has owed the next bytes of the body."""
        since = None if self.body is None else self.body.owed_since()
        return None if since is None or self.is_held_up() else since

    def unread_since(self) -> float | None:
        """Return since when the client has read nothing of the answer."""
        return self._protocol.unread_since()

    def give_up(self) -> None:
        """End the request."""
        self._protocol.give_up(self)


class _DeferredCloseTransport(asyncio.Transport):
    """A connection that is not closed before the body of its request has come."""

    def __init__(self, protocol: StrictProtocol) -> None:
        super().__init__()
        self._protocol = protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write as the connection does."""
        self._protocol.transport.write(data)

    def is_closing(self) -> bool:
        """Say whether the connection is being closed."""
        return self._protocol.transport.is_closing()

    def close(self) -> None:
        """Close the connection once the body has come."""
        self._protocol.close_after_body()


def _due_time(waiting: tuple[float, StrictProtocol]) -> float:
    return waiting[0]


def _new_parser(protocol: StrictProtocol) -> httptools.HttpRequestParser:
    parser = httptools.HttpRequestParser(protocol)
    # As the server's own: an answer may still be due when the client has said that it leaves.
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def write_whole_response(
    cycle: RequestResponseCycle, status: int, headers: Headers, body: bytes
) -> bool:
    """Write an answer at once, where the server would write its head and then its body.

    Each of these takes as long as the rest of a short answer, and wakes the client. False when
    it has to be done the long way: the client is slow to read, or has left, or gets no body.
    """
    if (
        cycle.response_started
        or cycle.disconnected
        or cycle.flow.write_paused
        or status in _BODILESS_STATUSES
        or cycle.scope["method"] == "HEAD"
    ):
        return False
    lines = [b"%b: %b\r\n" % header for header in (*cycle.default_headers, *headers)]
    head = b"".join(lines)
    if len(head) - len(head.translate(None, _CONTROL_CHARS)) != len(_LINE_END) * len(lines):
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
