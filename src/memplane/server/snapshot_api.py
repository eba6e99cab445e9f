"""`GET /internal/context/<agent>/snapshot`: the memory in an agent's newest prompt that had some.

It is read from the ledger, which is what was really sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from memplane.auth.agent_id import is_agent_id
from memplane.auth.grants import Scope
from memplane.episodes.ledger_view import LedgerView
from memplane.exchange.prompt_cleanup import find_injected_blocks
from memplane.ledger.folder import AgentFolder
from memplane.ledger.note_reader import NoteReader
from memplane.ledger.tombstones import get_mirror_root
from memplane.ledger.turn_note import MessageInjection, TurnNote
from memplane.server.endpoints import Endpoint, ScopeAuth
from memplane.server.system_api import json_response


class InjectedText(msgspec.Struct, frozen=True, kw_only=True):
    """A text in a prompt, and where it stood; message -1 is one of its own, beside the last."""

    message: int
    service: str
    bytes: int
    replayed: bool
    text: str


class PromptSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What was put into a prompt."""

    agent: str
    entry_id: str
    session: str
    injected: tuple[InjectedText, ...]


class _RecordedRequest(msgspec.Struct, frozen=True):
    request_effective: msgspec.Raw = msgspec.Raw(b"null")


def snapshot_endpoints(ledgers: Path, tombstones: Path) -> list[Endpoint]:
    """Return the endpoint."""
    places = (tombstones, get_mirror_root(ledgers))

    async def get_snapshot(request: Request) -> Response:
        agent = request.path_params["agent"]
        found = None
        if is_agent_id(agent):
            folder = AgentFolder(ledgers, agent)
            found = await asyncio.to_thread(lambda: _read_newest(LedgerView(folder, places)))
        if found is None:
            raise HTTPException(404, "no prompt of that agent has had any memory yet")
        return json_response(found)

    return [
        Endpoint(
            method="GET",
            path="/internal/context/{agent}/snapshot",
            handler=get_snapshot,
            needs=ScopeAuth(Scope.ADMIN),
            gives=PromptSnapshot,
            summary="The memory in an agent's newest prompt that had some, and its place",
        )
    ]


def _read_newest(view: LedgerView) -> PromptSnapshot | None:
    newest: TurnNote | None = None
    for note in NoteReader(view.folder).new_lines():
        newest = note if note.injected and not view.hides(note.id) else newest
    if newest is None:
        return None
    with view.entry(newest.id) as page:
        line = next((view.line(*found) for found in page.with_ids()), b"{}")
    sent: object = msgspec.json.decode(
        msgspec.json.decode(line, type=_RecordedRequest).request_effective
    )
    texts = [block for text in _strings(sent) for block in find_injected_blocks(text)]
    return PromptSnapshot(
        agent=view.folder.agent,
        entry_id=newest.id,
        session=newest.session,
        injected=tuple(
            _make_injected_text(one, texts, at) for at, one in enumerate(newest.injected)
        ),
    )


def _make_injected_text(one: MessageInjection, texts: list[str], at: int) -> InjectedText:
    return InjectedText(
        message=one.message,
        service=one.service,
        bytes=one.bytes,
        replayed=one.replayed,
        text=texts[at] if at < len(texts) else "",
    )


def _strings(value: object) -> Iterator[str]:
    """Yield every text of a decoded document, in its order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in cast("dict[str, object]", value).values():
            yield from _strings(one)
    elif isinstance(value, list):
        for one in cast("list[object]", value):
            yield from _strings(one)
