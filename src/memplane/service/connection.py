"""A connection to another memplane: its requests, and the errors that it answers with."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import aiohttp
import msgspec

from memplane import errors
from memplane.errors import InvalidRequest, MemplaneError, OwnerUnavailable, RecordsError
from memplane.secret import Secret

SECONDS: Final = aiohttp.ClientTimeout(total=30, sock_connect=5)
AS_LONG_AS_IT_TAKES: Final = aiohttp.ClientTimeout(sock_connect=5)
_WRONG_REQUEST: Final = frozenset({400, 413, 422})
_STREAMING: Final = aiohttp.ClientTimeout(sock_connect=5, sock_read=120)

Query: TypeAlias = Mapping[str, str | list[str]]
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RemoteConnection:
    """A connection to another memplane.

    Whatever it refuses is raised here as the error that it was there.

    Args:
        session: Sends the requests.
        address: What paths are put behind.
        read_token: Returns the token.
        name: What to call the other side in errors.
        hint: How the sentence goes on that it does not answer, and what to do.
    """

    session: aiohttp.ClientSession
    address: str
    read_token: Callable[[], Secret]
    name: str
    hint: str

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
        """Send a request with the token, and return the body of the response.

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
                method,
                f"{self.address}{path}",
                headers=headers,
                data=body,
                timeout=timeout,
                params=query,
            ) as reply:
                answer = await reply.read()
        if not reply.ok:
            raise self._error(reply.status, path, answer)
        return answer

    async def is_there(self, timeout: aiohttp.ClientTimeout) -> bool:  # noqa: ASYNC109
        """Say whether the owner answers at all, also that it is not well."""
        try:
            async with self.session.get(f"{self.address}/health", timeout=timeout):
                return True
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False

    @asynccontextmanager
    async def open(
        self, path: str, *, query: Query = _NOTHING, headers: Mapping[str, str] = _NOTHING
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """Open a response that is read piece by piece, as it comes."""
        given = {**headers, **self._token()}
        with self._reached():
            async with self.session.get(
                f"{self.address}{path}", headers=given, timeout=_STREAMING, params=query
            ) as reply:
                if not reply.ok:
                    raise self._error(reply.status, path, await reply.read())
                yield reply

    def _token(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.read_token().reveal()}"}

    @contextmanager
    def _reached(self) -> Generator[None]:
        try:
            yield
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise OwnerUnavailable(f"{self.name} does not answer {self.hint}") from error

    def _error(self, status: int, path: str, answer: bytes) -> MemplaneError:
        if (named := error_in(answer)) is not None:
            return named
        complaint = _complaint_in(answer)
        if status in _WRONG_REQUEST and complaint is not None:
            return InvalidRequest(complaint.message, fields=complaint.fields)
        reason = f": {complaint.message}" if complaint is not None else ""
        return OwnerUnavailable(f"{self.name} answered {status} to {path}{reason}")


class _Complaint(msgspec.Struct):
    message: str
    type: str = ""
    fields: dict[str, str] = {}


class _Refusal(msgspec.Struct):
    error: _Complaint


def _complaint_in(answer: bytes) -> _Complaint | None:
    try:
        return msgspec.json.decode(answer, type=_Refusal).error
    except msgspec.DecodeError:
        return None


def error_in(answer: bytes) -> MemplaneError | None:
    """Return the error that the owner raised, when it says which one that was."""
    complaint = _complaint_in(answer)
    if complaint is None:
        return None
    kind = vars(errors).get(complaint.type)
    if kind is InvalidRequest:
        return InvalidRequest(complaint.message, fields=complaint.fields)
    if kind is RecordsError:
        return RecordsError("the database failed in the process that owns the home; see its log")
    if isinstance(kind, type) and issubclass(kind, MemplaneError):
        return kind(complaint.message)
    return None
