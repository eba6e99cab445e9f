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

from memplane.access.agents import is_agent_id
from memplane.access.grants import Scope
from memplane.http.api import answer_json
from memplane.http.endpoints import Endpoint, Needs
from memplane.ledger.folder import AgentFolder
from memplane.ledger.note import Injected, Note
from memplane.ledger.notes import Notes
from memplane.ledger.reader import open_entry
from memplane.memory.injected import injected_in


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """A text in a prompt, and where it stood; message -1 is one of its own, beside the last."""

    message: int
    service: str
    bytes: int
    replayed: bool
    text: str


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What was put into a prompt."""

    agent: str
    entry_id: str
    session: str
    injected: tuple[Placed, ...]


class _Entry(msgspec.Struct, frozen=True):
    request_effective: msgspec.Raw = msgspec.Raw(b"null")


def snapshot_endpoints(ledgers: Path) -> list[Endpoint]:
    """Return the endpoint."""

    async def get_snapshot(request: Request) -> Response:
        agent = request.path_params["agent"]
        found = None
        if is_agent_id(agent):
            found = await asyncio.to_thread(_newest, AgentFolder(ledgers, agent))
        if found is None:
            raise HTTPException(404, "no prompt of that agent has had any memory yet")
        return answer_json(found)

    return [
        Endpoint(
            method="GET",
            path="/internal/context/{agent}/snapshot",
            handler=get_snapshot,
            needs=Needs(Scope.ADMIN),
            gives=Snapshot,
            summary="The memory in an agent's newest prompt that had some, and its place",
        )
    ]


def _newest(folder: AgentFolder) -> Snapshot | None:
    newest: Note | None = None
    for note in Notes(folder).new_lines():
        newest = note if note.injected else newest
    if newest is None:
        return None
    with open_entry(folder, newest.id) as page:
        line = next(page.lines(), b"{}")
    sent: object = msgspec.json.decode(msgspec.json.decode(line, type=_Entry).request_effective)
    texts = [block for text in _strings(sent) for block in injected_in(text)]
    return Snapshot(
        agent=folder.agent,
        entry_id=newest.id,
        session=newest.session,
        injected=tuple(_placed(one, texts, at) for at, one in enumerate(newest.injected)),
    )


def _placed(one: Injected, texts: list[str], at: int) -> Placed:
    return Placed(
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
