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
from memplane.proxy.candidate import Candidate
from memplane.proxy.headers import Header, Headers
from memplane.proxy.hiding import Hiding
from memplane.proxy.resolving import GuardedResolver
from memplane.proxy.upstream_errors import why_of
from memplane.proxy.upstream_line import CURRENT, Line, LineRequest
from memplane.proxy.upstream_watch import Watch

Body: TypeAlias = bytes | AsyncIterator[bytes]

_KEEP_ALIVE_SECONDS: Final = 15.0
_LONGEST_HEADER: Final = 64 << 10
_MOST_HEADERS: Final = 512
_LONG: Final = 1 << 20
_ERRORS: Final = 400
_FAULTS: Final = 500
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_STATUSES: Final = range(200, 600)
_NOT_ADDED: Final = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class Patience(msgspec.Struct, frozen=True):
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
class Attempt:
    """What to send to one candidate: its own model and its own key make it its own.

    Args:
        candidate: Whom to ask.
        method: Of the request.
        headers: All of them but Host and Content-Length, which follow from the rest.
        body: What to send; in pieces it is sent with that `length`, or chunked without one.
        length: Of a body that comes in pieces.
    """

    candidate: Candidate
    method: str
    headers: Headers = field(repr=False)
    body: Body = field(default=b"", repr=False)
    length: int | None = None


_PATIENCE: Final = Patience()


class Answer:
    """What a provider answers: its head, and the body while it comes.

    `headers` are as they were sent. The body is read once, by `chunks`. Neither shows a key of
    ours, except in a body that came compressed.
    """

    def __init__(
        self, candidate: Candidate, reply: aiohttp.ClientResponse, line: Line, watch: Watch
    ) -> None:
        self.candidate = candidate
        self.status = reply.status
        self._hiding = Hiding(candidate.key, in_error=reply.status >= _ERRORS)
        self.headers: list[Header] = [
            (name, self._hiding.whole(value)) for name, value in reply.raw_headers
        ]
        self._content = reply.content
        self._line = line
        self._watch = watch

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Give the body as it comes, piece by piece.

        Raises:
            UpstreamStalled: Nothing came for too long.
            UpstreamCut: It ended early; what came before was given.
        """
        content, hiding = self._content, self._hiding
        watch = self._watch
        why = ""
        while True:
            watch.begin()
            try:
                piece = await content.readany()
            except (aiohttp.ClientError, OSError) as error:
                why = why_of(error)
                break
            except RuntimeError:
                # So says the library when the connection was gone before it was read from.
                why = "it closed the connection"
                break
            watch.end()
            if not piece:
                why = "the connection was reset" if self._line.broken() else ""
                break
            if shown := hiding.feed(piece):
                yield shown
        rest = hiding.feed(_rest(content)) if why else b""
        if rest := rest + hiding.end():
            yield rest
        if why:
            raise UpstreamCut(f"{_shown(self.candidate)} broke off: {why}")


class Upstream:
    """Sends to providers, over connections that are kept."""

    def __init__(self, session: aiohttp.ClientSession, patience: Patience) -> None:
        self._session = session
        self._patience = patience

    @asynccontextmanager
    async def send(self, attempts: Sequence[Attempt]) -> AsyncGenerator[Answer]:
        """Ask one candidate after the other, until one answers with less than 500.

        What the last one answers is the answer, whatever it is. Leaving before the body was read
        closes the connection at once.

        Raises:
            UpstreamUnreachable: The last one gave no answer that could be used.
            UpstreamStalled: The last one took too long to begin.
        """
        loop = asyncio.get_running_loop()
        line = Line()
        watch = Watch(loop, self._patience.first_byte, self._patience.idle)
        try:
            reply, attempt = await self._answered(attempts, line, watch)
            watch.start(reply.content, _shown(attempt.candidate))
            yield Answer(attempt.candidate, reply, line, watch)
        finally:
            watch.stop()
            line.drop()

    async def _answered(
        self, attempts: Sequence[Attempt], line: Line, watch: Watch
    ) -> tuple[aiohttp.ClientResponse, Attempt]:
        *others, last = attempts
        for attempt in others:
            reply = await self._asked(attempt, line, watch, self._patience.candidate)
            if isinstance(reply, aiohttp.ClientResponse) and reply.status < _FAULTS:
                return reply, attempt
            line.drop()
        reply = await self._asked(last, line, watch, self._patience.first_byte)
        if isinstance(reply, UpstreamError):
            raise reply
        return reply, last

    async def _asked(
        self, attempt: Attempt, line: Line, watch: Watch, seconds: float
    ) -> aiohttp.ClientResponse | UpstreamError:
        """Ask one candidate, and wait for the head of its answer."""
        who = _shown(attempt.candidate)
        CURRENT.set(line)
        watch.restart()
        try:
            async with asyncio.timeout(min(seconds, self._patience.first_byte)):
                reply = await self._session.request(
                    attempt.method,
                    URL(attempt.candidate.url, encoded=True),
                    headers=_sent(attempt),
                    data=_data(attempt.body),
                    allow_redirects=False,
                )
        except (aiohttp.ClientError, ValueError) as error:
            # The library's error goes no further: it may hold the request with its key.
            return UpstreamUnreachable(f"{who} cannot be asked: {why_of(error)}")
        except TimeoutError:
            return UpstreamStalled(f"{who} did not begin to answer in time", "head")
        except OSError as error:
            return UpstreamUnreachable(f"{who} cannot be asked: {why_of(error)}")
        line.answers(reply)
        if reply.status not in _STATUSES:
            return UpstreamUnreachable(f"{who} answered {reply.status}, which says nothing")
        if reply.status in _REDIRECTS:
            return UpstreamUnreachable(
                f"{who} answered {reply.status}: it leads elsewhere, and is not followed"
            )
        return reply


@asynccontextmanager
async def open_upstream(
    *, patience: Patience = _PATIENCE, allowed: Collection[str] = ()
) -> AsyncGenerator[Upstream]:
    """Open the connections to providers; `allowed` names may lead to private addresses."""
    resolver = GuardedResolver(allowed)
    connector = aiohttp.TCPConnector(
        limit=0, keepalive_timeout=_KEEP_ALIVE_SECONDS, resolver=resolver
    )
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=patience.connect)
    try:
        async with aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=timeout,
            trust_env=False,
            auto_decompress=False,
            skip_auto_headers=_NOT_ADDED,
            request_class=LineRequest,
            max_line_size=_LONGEST_HEADER,
            max_field_size=_LONGEST_HEADER,
            max_headers=_MOST_HEADERS,
        ) as session:
            yield Upstream(session, patience)
    finally:
        await resolver.close()


def _sent(attempt: Attempt) -> CIMultiDict[str]:
    # The library writes UTF-8, so that bytes which are none cannot be sent as they are.
    headers = CIMultiDict(
        (name.decode("latin-1"), value.decode("utf-8", "replace"))
        for name, value in attempt.headers
    )
    if attempt.length is not None and not isinstance(attempt.body, bytes):
        headers["Content-Length"] = str(attempt.length)
    return headers


def _data(body: Body) -> bytes | io.BytesIO | AsyncIterator[bytes] | None:
    if not isinstance(body, bytes):
        return body
    # A long body is sent in pieces, so that others are not kept waiting.
    return (io.BytesIO(body) if len(body) >= _LONG else body) or None


def _rest(content: aiohttp.StreamReader) -> bytes:
    """Return what came before the answer broke off, and was not read yet."""
    # The library gives nothing more once there is an error, so the error is taken away.
    content.set_exception(cast("BaseException", None))
    return content.read_nowait()


def _shown(candidate: Candidate) -> str:
    """Name a candidate without anything that a request brought along."""
    return f"{candidate.provider} at {urlsplit(candidate.url).netloc.rpartition('@')[2]}"
