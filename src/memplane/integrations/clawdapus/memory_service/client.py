"""Asking a memory service: one POST, what came of it, and whether to try again.

Nothing here raises because a service failed: what it answered, or why it did not, is a value.
"""

from __future__ import annotations

import asyncio
import io
import math
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final, TypeAlias
from urllib.parse import SplitResult, urljoin, urlsplit

import aiohttp
import msgspec

from memplane.kit.clock import Clock
from memplane.kit.retry_clock import RetryAttempts, RetryClock
from memplane.secret import Secret

_MAX_ERROR_BYTES: Final = 2048
_MAX_REDIRECTS: Final = 5
_PORTS: Final = {"http": 80, "https": 443}
_REDIRECT_STATUSES: Final = frozenset({307, 308})
_RETRYABLE_STATUSES: Final = frozenset({408, 425, 429})
_FIRST_SERVER_ERROR_STATUS: Final = 500
_DRAIN_TIMEOUT_S: Final = 1.0
_MAX_DRAINED_BYTES: Final = 1 << 16
_LONG_BODY_BYTES: Final = 1 << 20
_MAX_RETRIES: Final = 5
_FIRST_RETRY_PAUSE_S: Final = 0.5
_MAX_RETRY_PAUSE_S: Final = 30.0
_MAX_RETRY_AFTER_S: Final = 300.0


class ServiceAddress(msgspec.Struct, frozen=True):
    """Where an operation answers, the token that it wants, and how long it may take."""

    url: str
    token: Secret | None = None
    seconds: float = 10.0

    @property
    def shown(self) -> str:
        """The address without a password that may stand in it."""
        parts = urlsplit(self.url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


@dataclass(frozen=True, slots=True)
class ServiceResponse:
    """What a service answered; of a failure's body at most 2048 bytes."""

    status: int
    body: bytes = b""
    retry_after: str = ""

    @property
    def ok(self) -> bool:
        """Whether it did what it was asked."""
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES

    @property
    def is_retryable(self) -> bool:
        """Whether it is worth trying again."""
        return self.status in _RETRYABLE_STATUSES or self.status >= _FIRST_SERVER_ERROR_STATUS


class NoServiceResponse(msgspec.Struct, frozen=True):
    """Why a service did not answer; `late` when it may only have been too slow."""

    why: str
    late: bool = False
    ok: bool = False
    is_retryable: bool = True


ServiceResult: TypeAlias = ServiceResponse | NoServiceResponse


class ServiceClient:
    """Posts to memory services, over connections that are kept."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def post(self, address: ServiceAddress, body: bytes, *, keep: int = 0) -> ServiceResult:
        """Send a JSON body; `keep` bytes of a good answer are returned, and none by default.

        The time of the address covers everything, redirects and the answer's body too.
        """
        try:
            async with asyncio.timeout(address.seconds):
                return await self._post_following_redirects(address, body, keep)
        except TimeoutError:
            return NoServiceResponse(f"no answer within {address.seconds:g} s", late=True)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return NoServiceResponse(_describe_client_error(error))

    async def _post_following_redirects(
        self, address: ServiceAddress, body: bytes, keep: int
    ) -> ServiceResult:
        url = address.url
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if address.token:
            headers["Authorization"] = f"Bearer {address.token.reveal()}"
        for _ in range(_MAX_REDIRECTS):
            # A long body is sent in pieces, so that others are not kept waiting.
            data = body if len(body) < _LONG_BODY_BYTES else io.BytesIO(body)
            async with self._session.post(
                url, data=data, headers=headers, allow_redirects=False
            ) as reply:
                target = _find_redirect(reply)
                if target is None:
                    return await _read_response(reply, keep)
            if not is_same_host(url, target):
                # Neither the token nor what an agent said is another host's business.
                message = f"it redirects to another host, {urlsplit(target).hostname}".encode()
                return ServiceResponse(reply.status, message)
            url = target
        return ServiceResponse(HTTPStatus.TEMPORARY_REDIRECT, b"it redirects without an end")


@asynccontextmanager
async def open_service_client() -> AsyncGenerator[ServiceClient]:
    """Open a client, with as many connections as it is asked for."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        trust_env=False,
    ) as session:
        yield ServiceClient(session)


def _describe_client_error(error: Exception) -> str:
    """Say what happened; of an answer that is no HTTP, the library repeats what it says."""
    if isinstance(error, aiohttp.ClientResponseError | aiohttp.ClientPayloadError):
        return "its answer is not HTTP, or ended early"
    return str(error) or type(error).__name__


def _find_redirect(reply: aiohttp.ClientResponse) -> str | None:
    location = reply.headers.get("Location", "")
    if reply.status not in _REDIRECT_STATUSES or not location:
        return None
    return urljoin(str(reply.url), location)


def is_same_host(url: str, target: str) -> bool:
    """Say whether a redirect stays with the same service: its host and port, or their TLS."""
    before, after = urlsplit(url), urlsplit(target)
    if before.hostname != after.hostname:
        return False
    way = (before.scheme, _port(before), after.scheme, _port(after))
    return way[:2] == way[2:] or way == ("http", 80, "https", 443)


def _port(parts: SplitResult) -> int | None:
    return parts.port or _PORTS.get(parts.scheme)


async def _read_response(reply: aiohttp.ClientResponse, keep: int) -> ServiceResponse:
    response = ServiceResponse(reply.status, retry_after=reply.headers.get("Retry-After", ""))
    if not response.ok:
        with suppress(aiohttp.ClientError):
            return replace(response, body=await _read(reply, _MAX_ERROR_BYTES))
        return response
    if keep:
        return replace(response, body=await _read(reply, keep))
    # A good answer is good whatever its body is; it is only read to keep the connection.
    with suppress(aiohttp.ClientError, TimeoutError):
        async with asyncio.timeout(_DRAIN_TIMEOUT_S):
            await _read(reply, _MAX_DRAINED_BYTES)
    return response


async def _read(reply: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    body = b""
    while len(body) < max_bytes and (chunk := await reply.content.read(max_bytes - len(body))):
        body += chunk
    return body


def explain_failure(operation: str, outcome: ServiceResult, secret: Secret | None = None) -> str:
    """Say on one line why an operation was not done; the secret is taken out of it."""
    text = _explain(operation, outcome)
    return text.replace(secret.reveal(), "[redacted]") if secret else text


def _explain(operation: str, outcome: ServiceResult) -> str:
    match outcome:
        case NoServiceResponse(why):
            return f"send {operation} request: {why}"
        case ServiceResponse(status, body):
            message = " ".join(body.decode("utf-8", "replace").split()) or _phrase(status)
            return f"{operation} returned status {status}: {message}"


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "no reason given"


def parse_retry_after(text: str, now: datetime) -> float:
    """Read a Retry-After header, in seconds or as a date: how long to wait, 0 when it is neither.

    More than five minutes are cut to five.
    """
    try:
        seconds = float(text) if text.strip().isdecimal() else _seconds_until(text, now)
    except (ValueError, OverflowError):
        return 0.0
    return min(max(seconds, 0.0), _MAX_RETRY_AFTER_S)


def _seconds_until(text: str, now: datetime) -> float:
    at = parsedate_to_datetime(text)
    return (at.replace(tzinfo=at.tzinfo or UTC) - now).total_seconds()


async def post_with_retries(
    client: ServiceClient,
    address: ServiceAddress,
    body: bytes,
    *,
    pacing: RetryClock,
    clock: Clock,
    is_wanted: Callable[[], bool],
) -> ServiceResult | None:
    """Post up to six times, until an outcome is final; None when it is not wanted any more."""
    attempts = RetryAttempts(
        pacing,
        until=math.inf,
        wait=_FIRST_RETRY_PAUSE_S,
        max_wait_s=_MAX_RETRY_PAUSE_S,
        left=_MAX_RETRIES,
    )
    while is_wanted():
        outcome = await client.post(address, body)
        if outcome.ok or not outcome.is_retryable:
            return outcome
        retry_after = outcome.retry_after if isinstance(outcome, ServiceResponse) else ""
        if not await attempts.wait_for_next(at_least=parse_retry_after(retry_after, clock())):
            return outcome
    return None
