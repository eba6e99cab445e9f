"""How to reach a container: an address, credentials, and one connection pool."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, TypeAlias, cast
from urllib.parse import urlsplit

import aiohttp
from azure.core.pipeline.transport import AioHttpTransport, AsyncHttpTransport
from azure.core.rest import AsyncHttpResponse, HttpRequest
from azure.storage.blob import ContainerSasPermissions, generate_container_sas
from azure.storage.blob.aio import ContainerClient

from memplane.clock import system_clock
from memplane.errors import BackendMisconfigured
from memplane.objects.azure_errors import NotAzure, means_token_refused
from memplane.secret import Secret

API_VERSION: Final = "2021-08-06"
_CONNECT_SECONDS: Final = 5
_READ_SECONDS: Final = 15
_CONNECTIONS: Final = 64
_SIGNATURE_LASTS: Final = timedelta(hours=1)
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_ERROR: Final = 400
_Transport: TypeAlias = AsyncHttpTransport[HttpRequest, AsyncHttpResponse]


class TokenSource(Protocol):
    """Hands out bearer tokens for the storage service."""

    async def token(self) -> str:
        """Return a token that should be accepted now.

        Raises:
            AuthError: There is none to be had.
        """
        ...

    def refused(self, token: str) -> None:
        """Learn that the service refused this token: the next one must be fresh."""
        ...


@dataclass(frozen=True, slots=True)
class WithConnectionString:
    """An account's connection string; the container is created when it is absent."""

    connection_string: Secret
    container: str
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True)
class WithSas:
    """A container's address that carries its own signature."""

    url: Secret
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True)
class WithTokens:
    """An address, and tokens from somewhere else."""

    endpoint: str
    container: str
    tokens: TokenSource
    ca_file: Path | None = None


Access: TypeAlias = WithConnectionString | WithSas | WithTokens


@dataclass(frozen=True, slots=True)
class Container:
    """An open container: the SDK's client, and what plain requests need."""

    client: ContainerClient
    session: aiohttp.ClientSession
    tokens: TokenSource | None
    account_key: Secret | None

    @property
    def place(self) -> str:
        """The container's address, without a signature."""
        parts = urlsplit(self.client.url)
        return f"{parts.scheme}://{parts.netloc}{parts.path}"

    def signature(self) -> str:
        """Return the query that lets one read and list, where no token does."""
        if self.account_key is None:
            return urlsplit(self.client.url).query
        return generate_container_sas(
            self.client.account_name or "",
            self.client.container_name,
            account_key=self.account_key.reveal(),
            permission=ContainerSasPermissions(read=True, list=True),
            expiry=system_clock() + _SIGNATURE_LASTS,
        )


@asynccontextmanager
async def open_container(access: Access) -> AsyncGenerator[Container]:
    """Open the SDK's client on a pool of our own.

    The SDK would open a connection per request when given a certificate file, would wait 39
    seconds over two failures and would follow redirects with the token; so it gets a session, no
    retries (`memplane.objects.retrying` has them) and no redirects.
    """
    trusted: ssl.SSLContext | bool = True
    if access.ca_file:
        trusted = ssl.create_default_context(cafile=str(access.ca_file))
    connector = aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=trusted)
    async with aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        timeout=aiohttp.ClientTimeout(sock_connect=_CONNECT_SECONDS, sock_read=_READ_SECONDS),
    ) as session:
        tokens = access.tokens if isinstance(access, WithTokens) else None
        pooled = AioHttpTransport(
            session=session,
            session_owner=False,
            connection_timeout=_CONNECT_SECONDS,
            read_timeout=_READ_SECONDS,
        )
        client = _client(access, _CheckedTransport(cast("_Transport", pooled), tokens))
        _require_privacy(client.url, tokens)
        # With a connection string the SDK has the key, and signs with it.
        key = getattr(client.credential, "account_key", None)
        async with client:
            yield Container(client, session, tokens, Secret(key) if key else None)


def _client(access: Access, transport: _Transport) -> ContainerClient:
    options: dict[str, Any] = {
        "transport": transport,
        "api_version": API_VERSION,
        "retry_total": 0,
        "permit_redirects": False,
    }
    try:
        match access:
            case WithConnectionString(connection_string, container):
                return ContainerClient.from_connection_string(
                    connection_string.reveal(), container, **options
                )
            case WithSas(url):
                return ContainerClient.from_container_url(url.reveal(), **options)
            case WithTokens(endpoint, container):
                return ContainerClient(endpoint, container, **options)
    except ValueError:
        # Not as the cause: the SDK's message may repeat the secret.
        raise BackendMisconfigured(
            f"the blob {type(access).__name__.removeprefix('With')} cannot be used: "
            "it does not have the form Azure gives it"
        ) from None


def _require_privacy(url: str, tokens: TokenSource | None) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" and tokens is not None:
        raise BackendMisconfigured("a bearer token is only sent over https")
    if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        raise BackendMisconfigured(
            f"{parts.scheme}://{parts.netloc} would send memories unencrypted. Use https"
        )


class _CheckedTransport(_Transport):
    """Adds our token, asks once for a fresh one, and refuses answers that are not Azure's."""

    def __init__(self, inner: _Transport, tokens: TokenSource | None) -> None:
        # The SDK signs a path as aiohttp will send it, if it finds aiohttp under this name.
        self._transport = inner
        self._tokens = tokens

    async def send(self, request: HttpRequest, **options: Any) -> AsyncHttpResponse:  # noqa: ANN401
        response = await self._sent_with_token(request, options)
        if response.status_code >= _ERROR and options.get("stream"):
            await response.read()  # or the connection could not be used again
        if "x-ms-request-id" not in response.headers:
            await response.close()
            raise NotAzure(response.status_code)
        return response

    async def open(self) -> None:
        await self._transport.open()

    async def close(self) -> None:
        await self._transport.close()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self.close()

    async def _sent_with_token(
        self, request: HttpRequest, options: dict[str, Any]
    ) -> AsyncHttpResponse:
        if self._tokens is None:
            return await self._transport.send(request, **options)
        token = await self._tokens.token()
        request.headers["Authorization"] = f"Bearer {token}"
        response = await self._transport.send(request, **options)
        if means_token_refused(response.status_code, response.headers):
            self._tokens.refused(token)
            request.headers["Authorization"] = f"Bearer {await self._tokens.token()}"
            response = await self._transport.send(request, **options)
        return response
