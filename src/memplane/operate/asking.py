"""Asking a proxy for one page of an agent's history, over HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import aiohttp

from memplane.clock import stamp
from memplane.operate.paging import Place
from memplane.operate.splitting import Splitter
from memplane.secret import Secret

TakeLine: TypeAlias = Callable[[bytes | None], Awaitable[None]]
"""Takes a line of the page; None is one that is too long."""

TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=60)

_OK: Final = 200
_NOT_SO: Final = 400
_PASSING: Final = frozenset({408, 425, 429})
_FAULTS: Final = 500
_SAID: Final = 200


@dataclass(frozen=True, slots=True)
class Came:
    """A page came whole. Without a cursor the proxy is a plain cllama."""

    next_cursor: str
    has_more: bool | None
    skipped: int


@dataclass(frozen=True, slots=True)
class CursorUnknown:
    """The proxy does not know the cursor: its ledger is another one now."""


@dataclass(frozen=True, slots=True)
class Again:
    """No whole page came; it may come later."""

    why: str
    at_least: float = 0.0


@dataclass(frozen=True, slots=True)
class Never:
    """No page comes, however often one asks."""

    why: str


Answer: TypeAlias = Came | CursorUnknown | Again | Never


def history_address(url: str, agent: str) -> str | None:
    """Return where an agent's history is read; None when the address cannot be used."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and parts.hostname and (parts.port or True)
    except ValueError:
        return None
    if not usable or parts.username or parts.password or parts.query or parts.fragment:
        return None
    return f"{url.rstrip('/')}/{agent}"


async def ask_page(
    session: aiohttp.ClientSession, url: str, place: Place, *, token: Secret, take: TakeLine
) -> Answer:
    """Ask for the page at a place, and hand its lines on as they come.

    The token goes to no other host: a redirect is not followed.
    """
    headers = {"Authorization": f"Bearer {token.reveal()}"}
    try:
        async with session.get(
            url, params=_query(place), headers=headers, allow_redirects=False
        ) as reply:
            if reply.status != _OK:
                return await _refusal(reply, place)
            await _take_lines(reply, take)
            return _came(reply)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return Again(f"{url} does not answer: {str(error) or type(error).__name__}")


def _query(place: Place) -> dict[str, str]:
    query = {"limit": str(place.limit)}
    if place.cursor:
        query["cursor"] = place.cursor
    elif place.after is not None:
        query["after"] = stamp(place.after)
    return query


async def _take_lines(reply: aiohttp.ClientResponse, take: TakeLine) -> None:
    splitter = Splitter()
    async for piece in reply.content.iter_any():
        for line in splitter.lines(piece):
            await take(line)
    rest = splitter.rest()
    if rest is not None and not rest.strip():
        return
    if rest is not None and not rest.rstrip().endswith(b"}"):
        raise aiohttp.ClientPayloadError("the last line is cut off")
    await take(rest)


def _came(reply: aiohttp.ClientResponse) -> Came:
    more = reply.headers.get("X-Memplane-Has-More", "")
    skipped = reply.headers.get("X-Memplane-Skipped-Lines", "")
    return Came(
        next_cursor=reply.headers.get("X-Memplane-Next-Cursor", ""),
        has_more=more == "true" if more else None,
        skipped=int(skipped) if skipped.isascii() and skipped.isdigit() else 0,
    )


async def _refusal(reply: aiohttp.ClientResponse, place: Place) -> Answer:
    said = (await reply.content.read(_SAID)).decode("utf-8", "replace").strip()
    if reply.status == _NOT_SO and place.cursor and "cursor" in said:
        return CursorUnknown()
    what = f"{reply.url.with_query(None)} answered {reply.status} {said}".strip()
    if reply.status in _PASSING or reply.status >= _FAULTS:
        return Again(what, at_least=_pause(reply.headers.get("Retry-After", "")))
    if reply.status < _NOT_SO:
        return Never(f"{what}: it leads elsewhere, and the token is not sent there")
    return Never(what)


def _pause(text: str) -> float:
    """Read how long to wait; a date is not understood, and then the usual pause will do."""
    return float(text) if text.isascii() and text.isdigit() else 0.0
