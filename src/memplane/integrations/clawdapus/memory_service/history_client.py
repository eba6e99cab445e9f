"""Asking a proxy for one page of an agent's history, over HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import aiohttp

from memplane.integrations.clawdapus.memory_service.history_pagination import PageStart
from memplane.kit.clock import format_timestamp
from memplane.kit.line_splitter import LineSplitter
from memplane.secret import Secret

LineHandler: TypeAlias = Callable[[bytes | None], Awaitable[None]]
"""Takes a line of the page; None is one that is too long."""

HISTORY_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=60)

_STATUS_OK: Final = 200
_STATUS_BAD_REQUEST: Final = 400
_RETRYABLE_STATUSES: Final = frozenset({408, 425, 429})
_MIN_SERVER_ERROR_STATUS: Final = 500
_MAX_MESSAGE_BYTES: Final = 200


@dataclass(frozen=True, slots=True)
class PageReceived:
    """A page came whole. Without a cursor the proxy is a plain cllama."""

    next_cursor: str
    has_more: bool | None
    skipped: int


@dataclass(frozen=True, slots=True)
class UnknownCursor:
    """The proxy does not know the cursor: its ledger is another one now."""


@dataclass(frozen=True, slots=True)
class TemporaryFailure:
    """No whole page came; it may come later."""

    why: str
    at_least: float = 0.0


@dataclass(frozen=True, slots=True)
class PermanentFailure:
    """No page comes, however often one asks."""

    why: str


PageOutcome: TypeAlias = PageReceived | UnknownCursor | TemporaryFailure | PermanentFailure


def build_history_url(url: str, agent: str) -> str | None:
    """Return where an agent's history is read; None when the address cannot be used."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and parts.hostname and (parts.port or True)
    except ValueError:
        return None
    if not usable or parts.username or parts.password or parts.query or parts.fragment:
        return None
    return f"{url.rstrip('/')}/{agent}"


async def fetch_page(
    session: aiohttp.ClientSession, url: str, start: PageStart, *, token: Secret, take: LineHandler
) -> PageOutcome:
    """Ask for the page at a place, and hand its lines on as they come.

    The token goes to no other host: a redirect is not followed.
    """
    headers = {"Authorization": f"Bearer {token.reveal()}"}
    try:
        async with session.get(
            url, params=_query(start), headers=headers, allow_redirects=False
        ) as reply:
            if reply.status != _STATUS_OK:
                return await _classify_refusal(reply, start)
            await _read_lines(reply, take)
            return _read_page_headers(reply)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return TemporaryFailure(f"{url} does not answer: {str(error) or type(error).__name__}")


def _query(start: PageStart) -> dict[str, str]:
    query = {"limit": str(start.limit)}
    if start.cursor:
        query["cursor"] = start.cursor
    elif start.after is not None:
        query["after"] = format_timestamp(start.after)
    return query


async def _read_lines(reply: aiohttp.ClientResponse, take: LineHandler) -> None:
    splitter = LineSplitter()
    async for chunk in reply.content.iter_any():
        for line in splitter.lines(chunk):
            await take(line)
    rest = splitter.take_rest()
    if rest is not None and not rest.strip():
        return
    if rest is not None and not rest.rstrip().endswith(b"}"):
        raise aiohttp.ClientPayloadError("the last line is cut off")
    await take(rest)


def _read_page_headers(reply: aiohttp.ClientResponse) -> PageReceived:
    more = reply.headers.get("X-Memplane-Has-More", "")
    skipped = reply.headers.get("X-Memplane-Skipped-Lines", "")
    return PageReceived(
        next_cursor=reply.headers.get("X-Memplane-Next-Cursor", ""),
        has_more=more == "true" if more else None,
        skipped=int(skipped) if skipped.isascii() and skipped.isdigit() else 0,
    )


async def _classify_refusal(reply: aiohttp.ClientResponse, start: PageStart) -> PageOutcome:
    message = (await reply.content.read(_MAX_MESSAGE_BYTES)).decode("utf-8", "replace").strip()
    if reply.status == _STATUS_BAD_REQUEST and start.cursor and "cursor" in message:
        return UnknownCursor()
    problem = f"{reply.url.with_query(None)} answered {reply.status} {message}".strip()
    if reply.status in _RETRYABLE_STATUSES or reply.status >= _MIN_SERVER_ERROR_STATUS:
        return TemporaryFailure(
            problem, at_least=_parse_retry_after(reply.headers.get("Retry-After", ""))
        )
    if reply.status < _STATUS_BAD_REQUEST:
        return PermanentFailure(f"{problem}: it leads elsewhere, and the token is not sent there")
    return PermanentFailure(problem)


def _parse_retry_after(text: str) -> float:
    """Read how long to wait; a date is not understood, and then the usual pause will do."""
    return float(text) if text.isascii() and text.isdigit() else 0.0
