"""The Turns pages: what agents said, and which memories were in each prompt.

A turn that was forgotten is not there.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from memplane.auth.agent_id import is_agent_id
from memplane.episodes.episode import Episode, build_episode, cap_text
from memplane.episodes.ledger_view import LedgerView
from memplane.exchange.conversation_parser import extract_last_question, parse_reply
from memplane.kit.clock import Clock
from memplane.ledger.entry_summary import EntrySummary, summarise_entry
from memplane.ledger.folder import AgentFolder
from memplane.ledger.note_reader import read_notes
from memplane.ledger.turn_note import TurnNote
from memplane.observations.relevance import parse_observation_ids
from memplane.observations.requests import MemoryQuery
from memplane.server.dashboard.agent_list import list_agents
from memplane.server.dashboard.browser_sessions import BrowserSessions
from memplane.server.dashboard.renderer import PageRequest
from memplane.server.dashboard.sign_in import page_endpoint, require_session
from memplane.server.endpoints import Endpoint
from memplane.service.client import Client
from memplane.service.operations.observations import list_memories

_PAGE_ROWS: Final = 50
_MAX_CITATIONS: Final = 5
_MAX_ROWS: Final = 1000
_MAX_ID_CHARS: Final = 128
_MAX_RAW_CHARS: Final = 200_000


class TurnSources(msgspec.Struct, frozen=True):
    """Where turns lie, recorded here or received from elsewhere, and where forgetting is noted."""

    ledgers: tuple[Path, ...]
    tombstones: tuple[Path, ...]

    def views(self, agent: str) -> Iterator[LedgerView]:
        """Yield what may be shown of each of an agent's ledgers."""
        return (LedgerView(AgentFolder(root, agent), self.tombstones) for root in self.ledgers)


class TurnRow(msgspec.Struct, frozen=True):
    """A turn of a list, and what the recorder says about it."""

    id: str
    summary: EntrySummary
    note: TurnNote

    @property
    def question(self) -> str:
        """What a user said last, on one line; empty when nobody said anything."""
        return extract_last_question(self.summary)

    @property
    def told(self) -> int:
        """How many memories were in its prompt."""
        return sum(len(one.blocks) for one in self.note.injected)


class TurnDetail(msgspec.Struct, frozen=True):
    """A turn with all that is known of it."""

    listed: TurnRow
    episode: Episode
    answer: str
    """What was answered, also where that repeats what the prompt was told."""
    raw: str


class TurnsPage(msgspec.Struct, frozen=True):
    """Answers for the ledgers."""

    client: Client
    clock: Clock
    places: TurnSources

    async def turns(self, visit: PageRequest) -> Response:
        """Show the last turns of an agent, the newest first."""
        agents = await list_agents(self.client, self.places.ledgers)
        agent = visit.query.get("agent") or next(iter(agents), "")
        count, user = _parse_count(visit.query.get("count", "")), visit.query.get("user", "")
        listed: list[TurnRow] = []
        if is_agent_id(agent):
            listed = await asyncio.to_thread(read_last_turns, self.places, agent, count, user)
        return visit.page(
            "turns.html",
            agents=agents,
            agent=agent,
            turns=listed,
            count=count,
            user=user,
            more=min(count + _PAGE_ROWS, _MAX_ROWS) if len(listed) >= count < _MAX_ROWS else 0,
            now=self.clock(),
        )

    async def turn(self, visit: PageRequest) -> Response:
        """Show one turn whole, with its receipt and what was learned from it."""
        agent, entry = visit.request.path_params["agent"], visit.request.path_params["id"]
        whole = None
        if is_agent_id(agent) and len(entry) <= _MAX_ID_CHARS:
            whole = await asyncio.to_thread(read_turn, self.places, agent, entry)
        if whole is None:
            raise HTTPException(404, "there is no such turn, or it was forgotten")
        query = MemoryQuery(entry=entry, state="any", sort="id")
        learned = await self.client.call(list_memories, agent, query)
        blocks = [block for one in whole.listed.note.injected for block in one.blocks]
        cited = {entry for block in blocks for entry in block.entry_ids[:_MAX_CITATIONS]}
        return visit.page(
            "turn.html",
            agent=agent,
            turn=whole,
            learned=learned.memories,
            cited=_MAX_CITATIONS,
            said_in=await asyncio.to_thread(read_questions, self.places, agent, cited),
            observation_of={
                one.id: next(iter(parse_observation_ids([one.id])), 0) for one in blocks
            },
            now=self.clock(),
        )


def read_last_turns(places: TurnSources, agent: str, count: int, user: str = "") -> list[TurnRow]:
    """Read the last turns of an agent, or of one of its users, the newest first."""
    found: list[TurnRow] = []
    for view in places.views(agent):
        with view.last_of(user, count) if user else view.last(count) as page:
            lines = dict(page.with_ids())
        notes = read_notes(view.folder, lines)
        found += (
            TurnRow(one, summarise_entry(line), notes.get(one, TurnNote()))
            for one, line in lines.items()
        )
    found.reverse()
    return sorted(found, key=lambda one: one.summary.ts, reverse=True)[:count]


def read_turn(places: TurnSources, agent: str, entry: str) -> TurnDetail | None:
    """Read a turn; None when there is none, or when it was forgotten."""
    for view in places.views(agent):
        with view.entry(entry) as page:
            found = next((line for one, line in page.with_ids() if one == entry), None)
        if found is not None:
            line, note = (
                view.line(entry, found),
                read_notes(view.folder, {entry}).get(entry, TurnNote()),
            )
            body = _parse_line(line)
            raw = json.dumps(body, indent=2, ensure_ascii=False)[:_MAX_RAW_CHARS]
            answer = cap_text(parse_reply(body.get("response")).text)
            return TurnDetail(
                TurnRow(entry, summarise_entry(line), note), build_episode(body), answer, raw
            )
    return None


def read_questions(places: TurnSources, agent: str, entries: Iterable[str]) -> dict[str, str]:
    """Return what was asked in turns, or answered where nobody asked anything."""
    turns = {entry: read_turn(places, agent, entry) for entry in entries}
    return {entry: turn.episode.question or turn.answer for entry, turn in turns.items() if turn}


def _parse_line(line: bytes) -> Mapping[str, Any]:
    try:
        body: object = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", body) if isinstance(body, dict) else {}


def _parse_count(text: str) -> int:
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(_MAX_ROWS))
    return min(max(int(text), 1), _MAX_ROWS) if is_number else _PAGE_ROWS


def turns_pages(
    client: Client, browsers: BrowserSessions, clock: Clock, places: TurnSources
) -> Sequence[Endpoint]:
    """Make the endpoints of the ledgers."""
    page = TurnsPage(client, clock, places)
    return [
        page_endpoint("GET", "/turns", require_session(browsers, page.turns), "The last turns"),
        page_endpoint(
            "GET", "/turns/{agent}/{id}", require_session(browsers, page.turn), "One turn"
        ),
    ]
