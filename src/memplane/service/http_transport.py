"""Carries calls over HTTP: to the process that owns the home, or to another machine."""

from __future__ import annotations

import codecs
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, TypeVar, cast
from urllib.parse import quote

import aiohttp
import msgspec

from memplane.errors import OwnerUnavailable
from memplane.home import Home, shorten_socket_path
from memplane.secret import Secret
from memplane.service.connection import AS_LONG_AS_IT_TAKES, SECONDS, RemoteConnection
from memplane.service.operation import (
    EventStream,
    Header,
    Operation,
    Parameter,
    Place,
    TextStream,
)

OPERATOR_HEADER: Final = "X-Memplane-Operator"

R = TypeVar("R")
T = TypeVar("T")


class HttpRequest(msgspec.Struct):
    """An operation's arguments on their way."""

    path: str
    query: dict[str, str | list[str]] = {}
    headers: dict[str, str] = {}
    body: msgspec.Struct | None = None


class HttpTransport:
    """Sends operations over HTTP."""

    def __init__(self, connection: RemoteConnection, operator: str = "") -> None:
        self._connection = connection
        self._operator = operator

    async def send(self, operation: Operation[..., R], arguments: dict[str, Any]) -> R:
        request = encode_request(operation, arguments)
        if self._operator:
            request.headers[OPERATOR_HEADER] = quote(self._operator)
        if operation.response_type is TextStream:
            return cast("R", await self._open_text(request))
        if operation.event_type is not None:
            return cast("R", await self._open_events(request, operation.event_type))
        response = await self._connection.ask(
            operation.method,
            request.path,
            request.body,
            AS_LONG_AS_IT_TAKES if operation.is_slow else SECONDS,
            query=request.query,
            headers=request.headers,
        )
        if operation.response_type is None:
            return cast("R", None)
        return cast("R", msgspec.json.decode(response, type=operation.response_type))

    async def _open_text(self, request: HttpRequest) -> TextStream:
        stack, response = await self._open(request)
        disposition = response.content_disposition

        async def pieces() -> AsyncIterator[str]:
            decoder = codecs.getincrementaldecoder("utf-8")()
            async with stack:
                async for data in response.content.iter_any():
                    yield decoder.decode(data)
                yield decoder.decode(b"", final=True)

        return TextStream(
            media_type=response.headers["Content-Type"],
            filename=(disposition.filename if disposition else None) or "",
            pieces=pieces(),
        )

    async def _open_events(self, request: HttpRequest, kind: type[T]) -> EventStream[T]:
        stack, response = await self._open(request)
        after = 0
        async for line in response.content:
            if line.startswith(b"id:"):
                after = int(line.removeprefix(b"id:"))
                break

        async def events() -> AsyncIterator[T]:
            async with stack:
                async for line in response.content:
                    if line.startswith(b"data:"):
                        yield msgspec.json.decode(line.removeprefix(b"data:"), type=kind)
                raise OwnerUnavailable(
                    f"{self._connection.name} ended the stream of events. Is `memplane up` still "
                    "running?"
                )

        return EventStream(after, events())

    async def _open(self, request: HttpRequest) -> tuple[AsyncExitStack, aiohttp.ClientResponse]:
        stack = AsyncExitStack()
        response = await stack.enter_async_context(
            self._connection.open(request.path, query=request.query, headers=request.headers)
        )
        return stack, response

    async def dashboard_code(self) -> str:
        """Ask for a code that lets one browser into the dashboard, once."""
        answer = await self._connection.ask("POST", "/api/v1/dashboard/codes")
        return msgspec.json.decode(answer, type=dict[str, str])["code"]

    async def is_answered(self) -> bool:
        """Say whether the owner answers at all."""
        return await self._connection.is_there(SECONDS)


def encode_request(operation: Operation[..., Any], arguments: Mapping[str, Any]) -> HttpRequest:
    """Put the arguments of a call where they travel."""
    request = HttpRequest(operation.path)
    for parameter in operation.parameters:
        _encode(request, parameter, arguments[parameter.name])
    return request


def _encode(request: HttpRequest, parameter: Parameter, value: object) -> None:
    match parameter.place:
        case Place.PATH:
            for name in (parameter.name, f"{parameter.name}:int"):
                request.path = request.path.replace(f"{{{name}}}", str(value))
        case Place.AGENT:
            request.query |= encode_query({"agent": value})
        case Place.QUERY if isinstance(value, msgspec.Struct):
            fields = msgspec.structs.fields(value)
            given = {each.encode_name: getattr(value, each.name) for each in fields}
            request.query |= encode_query(given)
        case Place.HEADER if isinstance(parameter.mark, Header) and value not in {None, "", ()}:
            request.headers[parameter.mark.name] = _encode_header(value)
        case Place.BODY if isinstance(value, msgspec.Struct):
            request.body = value
        case _:
            pass


def _encode_header(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(f'"{version}"' for version in cast("tuple[int, ...]", value))
    return str(value)


def encode_query(values: Mapping[str, Any]) -> dict[str, str | list[str]]:
    """Put values into a query; what is None or empty is left out."""
    query: dict[str, str | list[str]] = {}
    for name, value in values.items():
        if isinstance(value, tuple | list):
            query[name] = [str(each) for each in cast("tuple[object, ...]", value)]
        elif isinstance(value, bool):
            query[name] = "true" if value else "false"
        elif value not in {None, ""}:
            query[name] = str(value)
    return query


@asynccontextmanager
async def open_owner_transport(home: Home, operator: str = "") -> AsyncGenerator[HttpTransport]:
    """Open a transport to the process that owns the home, over its socket; nothing is sent yet."""
    with shorten_socket_path(home.socket) as path:
        connector = aiohttp.UnixConnector(path)
        async with aiohttp.ClientSession(connector=connector, timeout=SECONDS) as session:
            connection = RemoteConnection(
                session,
                "http://localhost",
                home.existing_token,
                f"the process that owns {home.path}",
                "on its socket. Is `memplane up` still running?",
            )
            yield HttpTransport(connection, operator)


@asynccontextmanager
async def open_remote_transport(
    url: str, token: Secret, operator: str = ""
) -> AsyncGenerator[HttpTransport]:
    """Open a transport to a memplane on another machine; nothing is sent yet."""
    address = url.rstrip("/")
    async with aiohttp.ClientSession(timeout=SECONDS) as session:
        connection = RemoteConnection(
            session,
            address,
            lambda: token,
            f"memplane at {address}",
            "there. Check the address, and that it runs",
        )
        yield HttpTransport(connection, operator)
