"""A plane in another process: the one that owns the home, asked over its socket."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
import msgspec

from memplane.access.grants import TokenWanted
from memplane.access.tokens import no_such_token
from memplane.errors import OwnerUnavailable
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
from memplane.observations.contract import OperationalMemory
from memplane.plane.contract import IssuedToken, Status, Token, TokenAnswer
from memplane.plane.owner import AS_LONG_AS_IT_TAKES, SECONDS, Owner
from memplane.plane.remote_memories import RemoteMemories
from memplane.secret import Secret


class RemotePlane:
    """Keeps the Plane contract by asking the owner."""

    def __init__(self, session: aiohttp.ClientSession, home: Home) -> None:
        self._owner = Owner(session, home)

    async def status(self) -> Status:
        return msgspec.json.decode(await self._owner.ask("GET", "/api/v1/status"), type=Status)

    async def tokens(self) -> tuple[Token, ...]:
        body = await self._owner.ask("GET", "/api/v1/tokens")
        return msgspec.json.decode(body, type=tuple[Token, ...])

    async def issue_token(self, wanted: TokenWanted) -> IssuedToken:
        return _issued(await self._owner.ask("POST", "/api/v1/tokens", wanted))

    async def revoke_token(self, token_id: str) -> None:
        await self._owner.ask("DELETE", f"/api/v1/tokens/{_part(token_id)}")

    async def rotate_token(self, token_id: str) -> IssuedToken:
        return _issued(await self._owner.ask("POST", f"/api/v1/tokens/{_part(token_id)}/rotate"))

    async def retain(self, agent: str, entry: bytes) -> RetainReceipt:
        asked = RetainAsked(agent=agent, entry=msgspec.Raw(entry))
        answer = await self._owner.ask("POST", "/api/v1/memory/retain", asked)
        return msgspec.json.decode(answer, type=RetainReceipt)

    async def recall(self, ask: Ask) -> Recalled:
        answer = await self._owner.ask("POST", "/api/v1/memory/recall", ask)
        return msgspec.json.decode(answer, type=Recalled)

    async def forget(self, asked: ForgetAsked) -> ForgetReceipt:
        answer = await self._owner.ask("POST", "/api/v1/memory/forget", asked, AS_LONG_AS_IT_TAKES)
        return msgspec.json.decode(answer, type=ForgetReceipt)

    async def rebuild(self) -> Rebuilt:
        answer = await self._owner.ask("POST", "/api/v1/memory/rebuild", None, AS_LONG_AS_IT_TAKES)
        return msgspec.json.decode(answer, type=Rebuilt)

    async def memories(self) -> OperationalMemory:
        return RemoteMemories(self._owner)

    async def dashboard_code(self) -> str:
        """Ask for a code that lets one browser into the dashboard, once."""
        answer = await self._owner.ask("POST", "/api/v1/dashboard/codes")
        return msgspec.json.decode(answer, type=dict[str, str])["code"]

    async def answers(self) -> bool:
        """Say whether the owner answers at all."""
        try:
            await self._owner.send("GET", "/health", {}, None, SECONDS)
        except OwnerUnavailable:
            return False
        return True


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
        async with aiohttp.ClientSession(connector=connector, timeout=SECONDS) as session:
            yield RemotePlane(session, home)
