"""Asking the process that owns the home, over its socket."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import aiohttp
import msgspec

from memplane import errors
from memplane.errors import InvalidRequest, MemplaneError, OwnerUnavailable, RecordsError
from memplane.home import Home

SECONDS: Final = aiohttp.ClientTimeout(total=30, sock_connect=5)
AS_LONG_AS_IT_TAKES: Final = aiohttp.ClientTimeout(sock_connect=5)
_STREAMING: Final = aiohttp.ClientTimeout(sock_connect=5, sock_read=120)

Query: TypeAlias = Mapping[str, str | list[str]]
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that owns the home.

    Whatever it refuses is raised here as the error that it was there.
    """

    session: aiohttp.ClientSession
    home: Home

    async def ask(
        self,
        method: str,
        path: str,
        body: msgspec.Struct | None = None,
        timeout: aiohttp.ClientTimeout = SECONDS,  # noqa: ASYNC109 - what aiohttp calls it
        *,
        query: Query = _NOTHING,
        headers: Mapping[str, str] = _NOTHING,
    ) -> bytes:
        """Ask with the home's token, and return the answer.

        Raises:
            OwnerUnavailable: There was no answer, or one that says nothing about itself.
        """
        given = {**headers, **self._token()}
        sent = None
        if body is not None:
            given["Content-Type"] = "application/json"
            sent = msgspec.json.encode(body)
        return await self.send(method, path, given, sent, timeout, query=query)

    async def send(  # noqa: PLR0917 - one request
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109
        *,
        query: Query = _NOTHING,
    ) -> bytes:
        """Send a request as it is."""
        with self._reached():
            async with self.session.request(
                method, _url(path), headers=headers, data=body, timeout=timeout, params=query
            ) as reply:
                answer = await reply.read()
        if not reply.ok:
            raise self._error(reply.status, path, answer)
        return answer

    @asynccontextmanager
    async def lines(
        self, path: str, *, query: Query = _NOTHING, headers: Mapping[str, str] = _NOTHING
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Open an answer that goes on, and yield its lines as they come."""
        given = {**headers, **self._token()}
        with self._reached():
            async with self.session.get(
                _url(path), headers=given, timeout=_STREAMING, params=query
            ) as reply:
                if not reply.ok:
                    raise self._error(reply.status, path, await reply.read())
                yield aiter(reply.content)

    def _token(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.home.existing_token().reveal()}"}

    @contextmanager
    def _reached(self) -> Generator[None]:
        try:
            yield
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise OwnerUnavailable(
                f"the process that owns {self.home.path} does not answer on its socket. "
                "Is `memplane up` still running?"
            ) from error

    def _error(self, status: int, path: str, answer: bytes) -> MemplaneError:
        return error_in(answer) or OwnerUnavailable(
            f"the process that owns {self.home.path} answered {status} to {path}"
        )


def _url(path: str) -> str:
    return f"http://localhost{path}"


class _Complaint(msgspec.Struct):
    message: str
    type: str = ""
    fields: dict[str, str] = {}


class _Refusal(msgspec.Struct):
    error: _Complaint


def error_in(answer: bytes) -> MemplaneError | None:
    """Return the error that the owner raised, when it says which one that was."""
    try:
        complaint = msgspec.json.decode(answer, type=_Refusal).error
    except msgspec.DecodeError:
        return None
    kind = vars(errors).get(complaint.type)
    if kind is InvalidRequest:
        return InvalidRequest(complaint.message, fields=complaint.fields)
    if kind is RecordsError:
        return RecordsError("the database failed in the process that owns the home; see its log")
    if isinstance(kind, type) and issubclass(kind, MemplaneError):
        return kind(complaint.message)
    return None
