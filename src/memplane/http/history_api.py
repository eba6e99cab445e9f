"""`GET /history` and `GET /history/<agent>`: an agent's ledger, one entry a line.

Their tokens, statuses and words are a contract of their own, so that tools written for another
recorder read this one; cursors and their headers are ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Send
from starlette.types import Scope as Asgi

from memplane.access.agents import is_agent_id
from memplane.access.history import (
    Known,
    Reader,
    Refused,
    claimed_agent,
    may_read_history_of,
    may_read_own_history,
)
from memplane.access.pods import read_pod_context
from memplane.access.tokens import TokenStore
from memplane.errors import InvalidCursor
from memplane.http.endpoints import Endpoint, OwnRules
from memplane.http.principals import grant_if_any, token_given
from memplane.ledger.cursor import BEGINNING, Cursor, decode_cursor, encode_cursor
from memplane.ledger.folder import AgentFolder
from memplane.ledger.heads import instant
from memplane.ledger.notes import Notes
from memplane.ledger.reader import LARGEST_PAGE, PAGE, Page, open_page
from memplane.ledger.redacting import redact_line
from memplane.ledger.tombstones import Forgotten, mirror_of
from memplane.memory.withheld import without_memory
from memplane.plane.recording import Recording

_DIGITS: Final = 9
_CHUNK: Final = 256 * 1024
_MEDIA_TYPE: Final = "application/x-ndjson"
_Shown: TypeAlias = Callable[[str, bytes], bytes | None]
"""How an entry is shown; None is not at all."""
_RULES: Final = OwnRules("the read API's contract fixes its tokens and its answers")


class HistoryQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which page of a history."""

    after: Annotated[
        str, msgspec.Meta(description="Only entries with a later time, in RFC 3339.")
    ] = ""
    limit: Annotated[
        int, msgspec.Meta(ge=1, description="How many entries at most; never more than 1000.")
    ] = PAGE
    cursor: Annotated[
        str,
        msgspec.Meta(
            description="Go on behind an earlier page; X-Memplane-Next-Cursor of its answer."
        ),
    ] = ""


class _Places(msgspec.Struct, frozen=True):
    """Where histories lie, who may read them, what was forgotten, and how a replay is redacted."""

    ledger: Path
    context_root: Path | None
    tokens: TokenStore
    redact: Callable[[bytes], bytes]
    tombstones: tuple[Path, ...]
    notes: dict[str, Notes] = msgspec.field(default_factory=dict[str, Notes])

    def notes_of(self, folder: AgentFolder) -> Notes:
        """Return what the recorder says about an agent's turns, read as far as before."""
        return self.notes.setdefault(folder.agent, Notes(folder))


class _Asked(msgspec.Struct, frozen=True):
    cursor: Cursor
    after: datetime | None
    limit: int


def history_endpoints(
    recording: Recording, tokens: TokenStore, *, context_root: Path | None, tombstones: Path
) -> list[Endpoint]:
    """Return the two endpoints."""
    places = _Places(
        recording.root,
        context_root,
        tokens,
        lambda line: redact_line(recording.redactor(), line).value,
        (tombstones, mirror_of(recording.root)),
    )

    async def get_own(request: Request) -> Response:
        agent = claimed_agent(token_given(request.scope))
        known = await asyncio.to_thread(_known, places, agent, request)
        return await _answer(
            places, may_read_own_history(token_given(request.scope), known), request
        )

    async def get_of_agent(request: Request) -> Response:
        agent = request.path_params["agent"]
        known = await asyncio.to_thread(_known, places, agent, request)
        decision = may_read_history_of(agent, token_given(request.scope), known)
        return await _answer(places, decision, request)

    return [
        Endpoint(
            method="GET",
            path="/history",
            handler=get_own,
            needs=_RULES,
            media_type=_MEDIA_TYPE,
            query=HistoryQuery,
            plain_refusals=True,
            summary="The history of the agent whose token it is",
        ),
        Endpoint(
            method="GET",
            path="/history/{agent}",
            handler=get_of_agent,
            needs=_RULES,
            media_type=_MEDIA_TYPE,
            query=HistoryQuery,
            plain_refusals=True,
            summary="The history of an agent",
        ),
    ]


def _known(places: _Places, agent: str, request: Request) -> Known:
    """Collect what is known about an agent and the token that was given."""
    grant = grant_if_any(request)
    if not is_agent_id(agent):
        return Known(grant=grant, context=None)
    context = read_pod_context(places.context_root, agent)
    has_token = places.tokens.knows_agent(agent)
    has_ledger = bool(AgentFolder(places.ledger, agent).segments())
    return Known(grant=grant, context=context, elsewhere=has_token or has_ledger)


async def _answer(places: _Places, decision: Reader | Refused, request: Request) -> Response:
    if isinstance(decision, Refused):
        return PlainTextResponse(decision.text, decision.status)
    asked = _asked(request)
    if isinstance(asked, str):
        return PlainTextResponse(asked, 400)
    stack = ExitStack()
    folder = AgentFolder(places.ledger, decision.agent)
    try:
        page = await asyncio.to_thread(
            stack.enter_context,
            open_page(folder, cursor=asked.cursor, after=asked.after, limit=asked.limit),
        )
    except InvalidCursor as error:
        return PlainTextResponse(str(error), 400)
    if not decision.redacted:
        return _PageResponse(stack, page, _as_recorded)
    shown = await asyncio.to_thread(_replayed, places, folder)
    removed = await asyncio.to_thread(_removed, page, places.notes_of(folder))
    return _PageResponse(stack, page, shown, removed)


def _as_recorded(_identifier: str, line: bytes) -> bytes:
    return line


def _replayed(places: _Places, folder: AgentFolder) -> _Shown:
    """Return how entries are shown to a memory service: redacted, and only what is to be known.

    What was forgotten is not, nor are requests that clients made for themselves. The memory in
    the prompts of others may cite what was.
    """
    forgotten, notes = Forgotten(places.tombstones, folder.agent), places.notes_of(folder)
    forgotten.refresh()

    def shown(identifier: str, line: bytes) -> bytes | None:
        left_out = identifier in forgotten or notes.leaves_out(identifier)
        if left_out:
            return None
        return places.redact(line if forgotten.is_empty else without_memory(line))

    return shown


def _removed(page: Page, notes: Notes) -> int:
    """Count the secrets that were taken out of a page's entries before they were written."""
    return sum(notes.removed(found.cursor.id) for found in page.entries)


def _asked(request: Request) -> _Asked | str:
    """Read the query; what is wrong with it comes back as words."""
    query = request.query_params
    if "cursor" in query and "after" in query:
        return "cursor and after are mutually exclusive"
    after = instant(query["after"]) if query.get("after") else None
    if after is None and query.get("after"):
        return "after must be RFC3339"
    limit = _limit(query.get("limit", ""))
    if isinstance(limit, str):
        return limit
    try:
        cursor = decode_cursor(query["cursor"]) if "cursor" in query else BEGINNING
    except InvalidCursor as error:
        return str(error)
    return _Asked(cursor, after, limit)


def _limit(text: str) -> int | str:
    if not text:
        return PAGE
    digits = text.removeprefix("-").removeprefix("+")
    if not (digits.isascii() and digits.isdigit()):
        return "limit must be an integer"
    number = digits.lstrip("0")
    if text.startswith("-") or not number:
        return "limit must be > 0"
    return LARGEST_PAGE if len(number) > _DIGITS else min(int(number), LARGEST_PAGE)


class _PageResponse(StreamingResponse):
    """A page as it is read; its files are closed however it ends."""

    def __init__(self, stack: ExitStack, page: Page, shown: _Shown, removed: int = 0) -> None:
        headers = {
            "X-Memplane-Next-Cursor": encode_cursor(page.next),
            "X-Memplane-Has-More": "true" if page.has_more else "false",
        }
        if page.skipped:
            headers["X-Memplane-Skipped-Lines"] = str(page.skipped)
        if removed:
            headers["X-Memplane-Policy-Removed"] = str(removed)
        super().__init__(_chunks(page, shown), headers=headers, media_type=_MEDIA_TYPE)
        self._stack = stack

    async def __call__(self, scope: Asgi, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._stack.close()


def _chunks(page: Page, shown: _Shown) -> Iterator[bytes]:
    """Join lines until there is enough to send."""
    waiting: list[bytes] = []
    size = 0
    for identifier, line in page.identified():
        if (kept := shown(identifier, line)) is None:
            continue
        waiting += (kept, b"\n")
        size += len(kept)
        if size >= _CHUNK:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)
