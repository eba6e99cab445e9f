"""A plane in another process: the one that owns the home, asked over its socket."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import aiohttp
import msgspec

from memplane import errors
from memplane.access.grants import TokenWanted
from memplane.access.tokens import no_such_token
from memplane.errors import MemplaneError, OwnerUnavailable
from memplane.home import Home, short_path
from memplane.memory.contract import (
    Ask,
    ForgetAsked,
    ForgetReceipt,
    Rebuilt,
    Recalled,
    RetainAsked,
    RetainReceipt,
)
from memplane.plane.contract import IssuedToken, Status, Token, TokenAnswer
from memplane.secret import Secret

_SECONDS: Final = aiohttp.ClientTimeout(total=30, sock_connect=5)
_AS_LONG_AS_IT_TAKES: Final = aiohttp.ClientTimeout(sock_connect=5)


class RemotePlane:
    """Keeps the Plane contract by asking the owner."""

    def __init__(self, session: aiohttp.ClientSession, home: Home) -> None:
        self._session = session
        self._home = home

    async def status(self) -> Status:
        return msgspec.json.decode(await self._ask("GET", "/api/v1/status"), type=Status)

    async def tokens(self) -> tuple[Token, ...]:
        body = await self._ask("GET", "/api/v1/tokens")
        return msgspec.json.decode(body, type=tuple[Token, ...])

    async def issue_token(self, wanted: TokenWanted) -> IssuedToken:
        return _issued(await self._ask("POST", "/api/v1/tokens", wanted))

    async def revoke_token(self, token_id: str) -> None:
        await self._ask("DELETE", f"/api/v1/tokens/{_part(token_id)}")

    async def rotate_token(self, token_id: str) -> IssuedToken:
        return _issued(await self._ask("POST", f"/api/v1/tokens/{_part(token_id)}/rotate"))

    async def retain(self, agent: str, entry: bytes) -> RetainReceipt:
        asked = RetainAsked(agent=agent, entry=msgspec.Raw(entry))
        answer = await self._ask("POST", "/api/v1/memory/retain", asked)
        return msgspec.json.decode(answer, type=RetainReceipt)

    async def recall(self, ask: Ask) -> Recalled:
        answer = await self._ask("POST", "/api/v1/memory/recall", ask)
        return msgspec.json.decode(answer, type=Recalled)

    async def forget(self, asked: ForgetAsked) -> ForgetReceipt:
        answer = await self._ask("POST", "/api/v1/memory/forget", asked, _AS_LONG_AS_IT_TAKES)
        return msgspec.json.decode(answer, type=ForgetReceipt)

    async def rebuild(self) -> Rebuilt:
        answer = await self._ask("POST", "/api/v1/memory/rebuild", None, _AS_LONG_AS_IT_TAKES)
        return msgspec.json.decode(answer, type=Rebuilt)

    async def answers(self) -> bool:
        """Say whether the owner answers at all."""
        try:
            await self._send("GET", "/health", {}, None, _SECONDS)
        except OwnerUnavailable:
            return False
        return True

    async def _ask(
        self,
        method: str,
        path: str,
        body: msgspec.Struct | None = None,
        timeout: aiohttp.ClientTimeout = _SECONDS,  # noqa: ASYNC109 - what aiohttp calls it
    ) -> bytes:
        headers = {"Authorization": f"Bearer {self._home.existing_token().reveal()}"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        sent = msgspec.json.encode(body) if body is not None else None
        return await self._send(method, path, headers, sent, timeout)

    async def _send(  # noqa: PLR0917 - one request
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes | None,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109
    ) -> bytes:
        url = f"http://localhost{path}"
        asking = self._session.request(method, url, headers=headers, data=body, timeout=timeout)
        try:
            async with asking as reply:
                answer = await reply.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise OwnerUnavailable(
                f"the process that owns {self._home.path} does not answer on its socket. "
                "Is `memplane up` still running?"
            ) from error
        if not reply.ok:
            raise _error_in(answer) or OwnerUnavailable(
                f"the process that owns {self._home.path} answered {reply.status} to {path}"
            )
        return answer


class _Complaint(msgspec.Struct):
    message: str
    type: str = ""


class _Refusal(msgspec.Struct):
    error: _Complaint


def _error_in(answer: bytes) -> MemplaneError | None:
    """Return the error that the owner raised, when it says which one that was."""
    try:
        complaint = msgspec.json.decode(answer, type=_Refusal).error
    except msgspec.DecodeError:
        return None
    kind = vars(errors).get(complaint.type)
    if isinstance(kind, type) and issubclass(kind, MemplaneError):
        return kind(complaint.message)
    return None


def _issued(answer: bytes) -> IssuedToken:
    new = msgspec.json.decode(answer, type=TokenAnswer)
    return IssuedToken(new.about, Secret(new.token))


def _part(token_id: str) -> str:
    """Let an id be a part of a path; what does not look like one is no token's."""
    if not (token_id.isascii() and token_id.isalnum()):
        raise no_such_token(token_id)
    return token_id


@asynccontextmanager
async def open_remote_plane(home: Home) -> AsyncGenerator[RemotePlane]:
    """Open a connection to the owner; nothing is sent yet."""
    with short_path(home.socket) as path:
        connector = aiohttp.UnixConnector(path)
        async with aiohttp.ClientSession(connector=connector, timeout=_SECONDS) as session:
            yield RemotePlane(session, home)
