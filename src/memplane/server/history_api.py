"""`GET /history` and `GET /history/<agent>`: an agent's ledger, one entry a line.

Their tokens, statuses and words are a contract of their own, so that tools written for another
recorder read this one; cursors and their headers are ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Send
from starlette.types import Scope as Asgi

from memplane.auth.agent_id import is_agent_id
from memplane.auth.history_access import (
    HistoryCredentials,
    HistoryReader,
    HistoryRefusal,
    ReaderRole,
    authorise_agent_history,
    authorise_own_history,
    parse_claimed_agent,
)
from memplane.auth.pod_files import read_pod_context
from memplane.auth.token_store import TokenStore
from memplane.episodes.ledger_view import (
    DEFAULT_PAGE_ENTRIES,
    MAX_PAGE_ENTRIES,
    Citations,
    EntryPage,
    LedgerView,
)
from memplane.errors import InvalidCursor
from memplane.ledger.cursor import BEGINNING, Cursor, decode_cursor, encode_cursor
from memplane.ledger.entry_head import parse_rfc3339
from memplane.ledger.folder import AgentFolder
from memplane.ledger.note_reader import NoteReader
from memplane.ledger.tombstones import get_mirror_root
from memplane.ledger.turn_redaction import redact_entry_line
from memplane.server.endpoints import Endpoint, HandlerAuth
from memplane.server.request_auth import find_grant, read_token
from memplane.service.ledger_service import LedgerService

_MAX_LIMIT_DIGITS: Final = 9
_CHUNK_BYTES: Final = 256 * 1024
_MEDIA_TYPE: Final = "application/x-ndjson"
_EntryRenderer: TypeAlias = Callable[[str, bytes], bytes]
"""How an entry is shown, given its id and its line."""
_ADMINS_ONLY: Final = "only an admin may see what was forgotten: leave out forgotten=include"
_HISTORY_AUTH: Final = HandlerAuth("the read API's contract fixes its tokens and its answers")


class HistoryQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which page of a history."""

    after: Annotated[
        str, msgspec.Meta(description="Only entries with a later time, in RFC 3339.")
    ] = ""
    limit: Annotated[
        int, msgspec.Meta(ge=1, description="How many entries at most; never more than 1000.")
    ] = DEFAULT_PAGE_ENTRIES
    cursor: Annotated[
        str,
        msgspec.Meta(
            description="Go on behind an earlier page; X-Memplane-Next-Cursor of its answer."
        ),
    ] = ""
    forgotten: Annotated[
        Literal["include"] | None,
        msgspec.Meta(description="`include` shows forgotten entries too, marked; for an admin."),
    ] = None


class _HistorySources(msgspec.Struct, frozen=True):
    """Where histories lie, who may read them, what was forgotten, and how a replay is redacted."""

    ledger: Path
    context_root: Path | None
    tokens: TokenStore
    redact: Callable[[bytes], bytes]
    tombstones: tuple[Path, ...]
    notes: dict[str, NoteReader] = msgspec.field(default_factory=dict[str, NoteReader])
    citations: dict[str, Citations] = msgspec.field(default_factory=dict[str, Citations])

    def notes_of(self, folder: AgentFolder) -> NoteReader:
        """Return what the recorder says about an agent's turns, read as far as before."""
        return self.notes.setdefault(folder.agent, NoteReader(folder))

    def citations_of(self, folder: AgentFolder) -> Citations:
        """Return which of an agent's turns were told of forgotten ones, as far as was read."""
        return self.citations.setdefault(folder.agent, Citations(folder))


class _HistoryPageQuery(msgspec.Struct, frozen=True):
    cursor: Cursor
    after: datetime | None
    limit: int
    include_forgotten: bool


def history_endpoints(
    recording: LedgerService, tokens: TokenStore, *, context_root: Path | None, tombstones: Path
) -> list[Endpoint]:
    """Return the two endpoints."""
    places = _HistorySources(
        recording.root,
        context_root,
        tokens,
        lambda line: redact_entry_line(recording.redactor(), line).value,
        (tombstones, get_mirror_root(recording.root)),
    )

    async def get_own(request: Request) -> Response:
        agent = parse_claimed_agent(read_token(request.scope))
        known = await asyncio.to_thread(_collect_known, places, agent, request)
        return await _answer(
            places, authorise_own_history(read_token(request.scope), known), request
        )

    async def get_of_agent(request: Request) -> Response:
        agent = request.path_params["agent"]
        known = await asyncio.to_thread(_collect_known, places, agent, request)
        decision = authorise_agent_history(agent, read_token(request.scope), known)
        return await _answer(places, decision, request)

    return [
        Endpoint(
            method="GET",
            path="/history",
            handler=get_own,
            needs=_HISTORY_AUTH,
            media_type=_MEDIA_TYPE,
            query=HistoryQuery,
            plain_refusals=True,
            summary="The history of the agent whose token it is",
        ),
        Endpoint(
            method="GET",
            path="/history/{agent}",
            handler=get_of_agent,
            needs=_HISTORY_AUTH,
            media_type=_MEDIA_TYPE,
            query=HistoryQuery,
            plain_refusals=True,
            summary="The history of an agent",
        ),
    ]


def _collect_known(places: _HistorySources, agent: str, request: Request) -> HistoryCredentials:
    """Collect what is known about an agent and the token that was given."""
    grant = find_grant(request)
    if not is_agent_id(agent):
        return HistoryCredentials(grant=grant, context=None)
    context = read_pod_context(places.context_root, agent)
    has_token = places.tokens.knows_agent(agent)
    has_ledger = bool(AgentFolder(places.ledger, agent).segments())
    return HistoryCredentials(grant=grant, context=context, elsewhere=has_token or has_ledger)


async def _answer(
    places: _HistorySources, decision: HistoryReader | HistoryRefusal, request: Request
) -> Response:
    if isinstance(decision, HistoryRefusal):
        return PlainTextResponse(decision.text, decision.status)
    asked = _parse_query(request)
    if isinstance(asked, str):
        return PlainTextResponse(asked, 400)
    if asked.include_forgotten and decision.role is not ReaderRole.ADMIN:
        return PlainTextResponse(_ADMINS_ONLY, 403)
    folder, stack = AgentFolder(places.ledger, decision.agent), ExitStack()
    replay = places.notes_of(folder) if decision.role is ReaderRole.REPLAY else None
    open_view = partial(
        LedgerView,
        folder,
        places.tombstones,
        include_forgotten=asked.include_forgotten,
        replay=replay,
        citations=places.citations_of(folder),
    )
    view = await asyncio.to_thread(open_view)
    try:
        page = await asyncio.to_thread(
            stack.enter_context,
            view.page(cursor=asked.cursor, after=asked.after, limit=asked.limit),
        )
    except InvalidCursor as error:
        return PlainTextResponse(str(error), 400)
    if replay is None:
        return _PageResponse(stack, page, view.line)
    removed = await asyncio.to_thread(_count_removed, page, replay)
    return _PageResponse(stack, page, _make_redacting_renderer(places, view), removed)


def _make_redacting_renderer(places: _HistorySources, view: LedgerView) -> _EntryRenderer:
    """Return how entries are shown to a memory service."""
    return lambda identifier, line: places.redact(view.line(identifier, line))


def _count_removed(page: EntryPage, notes: NoteReader) -> int:
    """Count the secrets that were taken out of a page's entries before they were written."""
    return sum(notes.removed_count(found.cursor.id) for found in page.entries)


def _parse_query(request: Request) -> _HistoryPageQuery | str:
    """Read the query; what is wrong with it comes back as words."""
    query = request.query_params
    if "cursor" in query and "after" in query:
        return "cursor and after are mutually exclusive"
    after = parse_rfc3339(query["after"]) if query.get("after") else None
    if after is None and query.get("after"):
        return "after must be RFC3339"
    if query.get("forgotten", "") not in {"", "include"}:
        return "forgotten must be include"
    limit = _parse_limit(query.get("limit", ""))
    if isinstance(limit, str):
        return limit
    try:
        cursor = decode_cursor(query["cursor"]) if "cursor" in query else BEGINNING
    except InvalidCursor as error:
        return str(error)
    return _HistoryPageQuery(cursor, after, limit, query.get("forgotten") == "include")


def _parse_limit(text: str) -> int | str:
    if not text:
        return DEFAULT_PAGE_ENTRIES
    digits = text.removeprefix("-").removeprefix("+")
    if not (digits.isascii() and digits.isdigit()):
        return "limit must be an integer"
    number = digits.lstrip("0")
    if text.startswith("-") or not number:
        return "limit must be > 0"
    return (
        MAX_PAGE_ENTRIES if len(number) > _MAX_LIMIT_DIGITS else min(int(number), MAX_PAGE_ENTRIES)
    )


class _PageResponse(StreamingResponse):
    """A page as it is read; its files are closed however it ends."""

    def __init__(
        self, stack: ExitStack, page: EntryPage, shown: _EntryRenderer, removed: int = 0
    ) -> None:
        headers = {
            "X-Memplane-Next-Cursor": encode_cursor(page.next),
            "X-Memplane-Has-More": "true" if page.has_more else "false",
        }
        if page.skipped:
            headers["X-Memplane-Skipped-Lines"] = str(page.skipped)
        if removed:
            headers["X-Memplane-Policy-Removed"] = str(removed)
        super().__init__(_join_lines(page, shown), headers=headers, media_type=_MEDIA_TYPE)
        self._stack = stack

    async def __call__(self, scope: Asgi, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._stack.close()


def _join_lines(page: EntryPage, shown: _EntryRenderer) -> Iterator[bytes]:
    """Join lines until there is enough to send."""
    waiting: list[bytes] = []
    size = 0
    for identifier, line in page.with_ids():
        told = shown(identifier, line)
        waiting += (told, b"\n")
        size += len(told)
        if size >= _CHUNK_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)
