"""Asking a provider: candidates in turn until one answers, and its bytes as they come.

A redirect is not followed, nothing of the environment or of earlier answers is used, and bodies
are not decoded. An answer that ends early never looks like one that ended well.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias, cast
from urllib.parse import urlsplit

import aiohttp
import msgspec
from multidict import CIMultiDict
from yarl import URL

from memplane.errors import UpstreamCut, UpstreamError, UpstreamStalled, UpstreamUnreachable
from memplane.exchange.sse import SseParser
from memplane.proxy.dns_resolver import GuardedResolver
from memplane.proxy.headers import Header, Headers, header_value
from memplane.proxy.provider import UpstreamCandidate
from memplane.proxy.provider_key_mask import ProviderKeyMask
from memplane.proxy.upstream_connection import (
    CURRENT_CONNECTION,
    TrackedRequest,
    UpstreamConnection,
    is_close_delimited,
)
from memplane.proxy.upstream_errors import describe_error
from memplane.proxy.upstream_timeout import BodyTimeout

AttemptBody: TypeAlias = bytes | AsyncIterator[bytes]

_KEEP_ALIVE_S: Final = 15.0
_MAX_HEADER_BYTES: Final = 64 << 10
_MAX_HEADERS: Final = 512
_LONG_BODY_BYTES: Final = 1 << 20
_FIRST_ERROR_STATUS: Final = 400
_FIRST_SERVER_ERROR_STATUS: Final = 500
_REDIRECT_STATUSES: Final = frozenset({301, 302, 303, 307, 308})
_VALID_STATUSES: Final = range(200, 600)
_EVENT_STREAM: Final = "text/event-stream"
_SKIPPED_AUTO_HEADERS: Final = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class UpstreamTimeouts(msgspec.Struct, frozen=True):
    """How many seconds are waited.

    Args:
        connect: For a connection to one address.
        candidate: For the head of an answer, while there is another candidate.
        first_byte: For the first byte of an answer's body, from the beginning.
        idle: For each further byte.
    """

    connect: float = 15.0
    candidate: float = 60.0
    first_byte: float = 300.0
    idle: float = 120.0


@dataclass(frozen=True, slots=True)
class UpstreamAttempt:
    """What to send to one candidate: its own model and its own key make it its own.

    Args:
        candidate: Whom to ask.
        method: Of the request.
        headers: All of them but Host and Content-Length, which follow from the rest.
        body: What to send; in pieces it is sent with that `length`, or chunked without one.
        length: Of a body that comes in pieces.
    """

    candidate: UpstreamCandidate
    method: str
    headers: Headers = field(repr=False)
    body: AttemptBody = field(default=b"", repr=False)
    length: int | None = None


_DEFAULT_TIMEOUTS: Final = UpstreamTimeouts()


class UpstreamResponse:
    """What a provider answers: its head, and the body while it comes.

    `headers` are as they were sent. The body is read once, by `chunks`. Neither shows a key of
    ours, except in a body that came compressed.
    """

    def __init__(
        self,
        candidate: UpstreamCandidate,
        reply: aiohttp.ClientResponse,
        line: UpstreamConnection,
        watch: BodyTimeout,
    ) -> None:
        self.candidate = candidate
        self.status = reply.status
        self._hiding = ProviderKeyMask(candidate.key, in_error=reply.status >= _FIRST_ERROR_STATUS)
        self.headers: list[Header] = [
            (name, self._hiding.whole(value)) for name, value in reply.raw_headers
        ]
        self.ends_with_connection = is_close_delimited(reply)
        """Whether nothing says how long the body is: only its content can show that it was cut."""
        self._content = reply.content
        self._line = line
        self._watch = watch

    def cut(self, why: str) -> UpstreamCut:
        """Make the error for a body that ended early."""
        return UpstreamCut(f"{_format_candidate(self.candidate)} broke off: {why}")

    def _events(self) -> SseParser | None:
        """Return what tells whether the body ends inside an event, where nothing else does."""
        is_stream = _EVENT_STREAM in header_value(self.headers, b"content-type").lower()
        is_readable = is_stream and not header_value(self.headers, b"content-encoding")
        return SseParser() if self.ends_with_connection and is_readable else None

    def _why_cut(self, events: SseParser | None) -> str:
        """Say how a body was cut that looks whole; empty when it is."""
        if self._line.broken():
            return "the connection was reset"
        is_cut = events is not None and events.is_cut()
        return "the connection was closed inside an event" if is_cut else ""

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Give the body as it comes, piece by piece.

        Raises:
            UpstreamStalled: Nothing came for too long.
            UpstreamCut: It ended early; what came before was given.
        """
        content, hiding = self._content, self._hiding
        watch, events = self._watch, self._events()
        note = _ignore_piece if events is None else events.feed
        why = ""
        while True:
            watch.begin()
            try:
                piece = await content.readany()
            except (aiohttp.ClientError, OSError) as error:
                why = describe_error(error)
                break
            except RuntimeError:
                # So says the library when the connection was gone before it was read from.
                why = "it closed the connection"
                break
            watch.end()
            if not piece:
                why = self._why_cut(events)
                break
            note(piece)
            if shown := hiding.feed(piece):
                yield shown
        rest = hiding.feed(_read_rest(content)) if why else b""
        if rest := rest + hiding.end():
            yield rest
        if why:
            raise self.cut(why)


class UpstreamClient:
    """Sends to providers, over connections that are kept."""

    def __init__(self, session: aiohttp.ClientSession, patience: UpstreamTimeouts) -> None:
        self._session = session
        self._patience = patience

    @asynccontextmanager
    async def send(self, attempts: Sequence[UpstreamAttempt]) -> AsyncGenerator[UpstreamResponse]:
        """Ask one candidate after the other, until one answers with less than 500.

        What the last one answers is the answer, whatever it is. Leaving before the body was read
        closes the connection at once.

        Raises:
            UpstreamUnreachable: The last one gave no answer that could be used.
            UpstreamStalled: The last one took too long to begin.
        """
        loop = asyncio.get_running_loop()
        line = UpstreamConnection()
        watch = BodyTimeout(loop, self._patience.first_byte, self._patience.idle)
        try:
            reply, attempt = await self._answered(attempts, line, watch)
            watch.start(reply.content, _format_candidate(attempt.candidate))
            yield UpstreamResponse(attempt.candidate, reply, line, watch)
        finally:
            watch.stop()
            line.drop()

    async def _answered(
        self, attempts: Sequence[UpstreamAttempt], line: UpstreamConnection, watch: BodyTimeout
    ) -> tuple[aiohttp.ClientResponse, UpstreamAttempt]:
        *others, last = attempts
        for attempt in others:
            reply = await self._asked(attempt, line, watch, self._patience.candidate)
            if (
                isinstance(reply, aiohttp.ClientResponse)
                and reply.status < _FIRST_SERVER_ERROR_STATUS
            ):
                return reply, attempt
            line.drop()
        reply = await self._asked(last, line, watch, self._patience.first_byte)
        if isinstance(reply, UpstreamError):
            raise reply
        return reply, last

    async def _asked(
        self,
        attempt: UpstreamAttempt,
        line: UpstreamConnection,
        watch: BodyTimeout,
        seconds: float,
    ) -> aiohttp.ClientResponse | UpstreamError:
        """Ask one candidate, and wait for the head of its answer."""
        who = _format_candidate(attempt.candidate)
        CURRENT_CONNECTION.set(line)
        watch.restart()
        try:
            async with asyncio.timeout(min(seconds, self._patience.first_byte)):
                reply = await self._session.request(
                    attempt.method,
                    URL(attempt.candidate.url, encoded=True),
                    headers=_make_headers(attempt),
                    data=_make_body(attempt.body),
                    allow_redirects=False,
                )
        except (aiohttp.ClientError, ValueError) as error:
            # The library's error goes no further: it may hold the request with its key.
            return UpstreamUnreachable(f"{who} cannot be asked: {describe_error(error)}")
        except TimeoutError:
            return UpstreamStalled(f"{who} did not begin to answer in time", "head")
        except OSError as error:
            return UpstreamUnreachable(f"{who} cannot be asked: {describe_error(error)}")
        line.answers(reply)
        if reply.status not in _VALID_STATUSES:
            return UpstreamUnreachable(f"{who} answered {reply.status}, which says nothing")
        if reply.status in _REDIRECT_STATUSES:
            return UpstreamUnreachable(
                f"{who} answered {reply.status}: it leads elsewhere, and is not followed"
            )
        return reply


@asynccontextmanager
async def open_upstream(
    *, patience: UpstreamTimeouts = _DEFAULT_TIMEOUTS, allowed: Collection[str] = ()
) -> AsyncGenerator[UpstreamClient]:
    """Open the connections to providers; `allowed` names may lead to private addresses."""
    resolver = GuardedResolver(allowed)
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_S, resolver=resolver)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=patience.connect)
    try:
        async with aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=timeout,
            trust_env=False,
            auto_decompress=False,
            skip_auto_headers=_SKIPPED_AUTO_HEADERS,
            request_class=TrackedRequest,
            max_line_size=_MAX_HEADER_BYTES,
            max_field_size=_MAX_HEADER_BYTES,
            max_headers=_MAX_HEADERS,
        ) as session:
            yield UpstreamClient(session, patience)
    finally:
        await resolver.close()


def _ignore_piece(_piece: bytes) -> None:
    """Take a piece of a body whose end shows by itself."""


def _make_headers(attempt: UpstreamAttempt) -> CIMultiDict[str]:
    # The library writes UTF-8, so that bytes which are none cannot be sent as they are.
    headers = CIMultiDict(
        (name.decode("latin-1"), value.decode("utf-8", "replace"))
        for name, value in attempt.headers
    )
    if attempt.length is not None and not isinstance(attempt.body, bytes):
        headers["Content-Length"] = str(attempt.length)
    return headers


def _make_body(body: AttemptBody) -> bytes | io.BytesIO | AsyncIterator[bytes] | None:
    if not isinstance(body, bytes):
        return body
    # A long body is sent in pieces, so that others are not kept waiting.
    return (io.BytesIO(body) if len(body) >= _LONG_BODY_BYTES else body) or None


def _read_rest(content: aiohttp.StreamReader) -> bytes:
    """Return what came before the answer broke off, and was not read yet."""
    # The library gives nothing more once there is an error, so the error is taken away.
    content.set_exception(cast("BaseException", None))
    return content.read_nowait()


def _format_candidate(candidate: UpstreamCandidate) -> str:
    """Name a candidate without anything that a request brought along."""
    return f"{candidate.provider} at {urlsplit(candidate.url).netloc.rpartition('@')[2]}"
