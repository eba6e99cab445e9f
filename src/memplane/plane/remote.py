"""A plane in another process: the one that owns the home, asked over its socket."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import aiohttp
import msgspec

from memplane.errors import OwnerUnavailable
from memplane.home import Home, short_path
from memplane.plane.contract import Status

_SECONDS: Final = aiohttp.ClientTimeout(total=30, sock_connect=5)
_OK: Final = 200


class RemotePlane:
    """Keeps the Plane contract by asking the owner."""

    def __init__(self, session: aiohttp.ClientSession, home: Home) -> None:
        self._session = session
        self._home = home

    async def status(self) -> Status:
        token = self._home.existing_token().reveal()
        return msgspec.json.decode(await self._get("/api/v1/status", token), type=Status)

    async def answers(self) -> bool:
        """Say whether the owner answers at all."""
        try:
            await self._get("/health", "")
        except OwnerUnavailable:
            return False
        return True

    async def _get(self, path: str, token: str) -> bytes:
        try:
            async with self._session.get(
                f"http://localhost{path}", headers={"Authorization": f"Bearer {token}"}
            ) as reply:
                body = await reply.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise OwnerUnavailable(
                f"the process that owns {self._home.path} does not answer on its socket. "
                "Is `memplane up` still running?"
            ) from error
        if reply.status != _OK:
            raise OwnerUnavailable(
                f"the process that owns {self._home.path} answered {reply.status} to {path}"
            )
        return body


@asynccontextmanager
async def open_remote_plane(home: Home) -> AsyncGenerator[RemotePlane]:
    """Open a connection to the owner; nothing is sent yet."""
    with short_path(home.socket) as path:
        connector = aiohttp.UnixConnector(path)
        async with aiohttp.ClientSession(connector=connector, timeout=_SECONDS) as session:
            yield RemotePlane(session, home)
