"""The Turns pages: what agents said, and which memories were in each prompt.

A turn that was forgotten is not there.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from memplane.access.agents import is_agent_id
from memplane.clock import Clock
from memplane.http.dashboard.agents import agents_known
from memplane.http.dashboard.browsers import Browsers
from memplane.http.dashboard.pages import Visit
from memplane.http.dashboard.signing_in import guarded, page_endpoint
from memplane.http.endpoints import Endpoint
from memplane.ledger.folder import AgentFolder
from memplane.ledger.note import Note
from memplane.ledger.notes import Notes
from memplane.ledger.reader import open_entry, open_last
from memplane.ledger.summary import Summary, summary_of
from memplane.ledger.tombstones import Forgotten
from memplane.memory.conversation import reply_of
from memplane.memory.episode import Episode, capped, episode_of
from memplane.observations.contract import ListAsked
from memplane.observations.recalling import observations_in
from memplane.plane.contract import Plane

_PAGE: Final = 50
_CITED: Final = 5
_MOST: Final = 1000
_LONGEST_ID: Final = 128
_LONGEST_RAW: Final = 200_000


class Places(msgspec.Struct, frozen=True):
    """Where turns lie, recorded here or received from elsewhere, and where forgetting is noted."""

    ledgers: tuple[Path, ...]
    tombstones: tuple[Path, ...]

    def folders(self, agent: str) -> Iterator[AgentFolder]:
        """Yield the folders of an agent's turns."""
        return (AgentFolder(root, agent) for root in self.ledgers)

    def forgotten(self, agent: str) -> Forgotten:
        """Return what was forgotten for an agent."""
        found = Forgotten(self.tombstones, agent)
        found.refresh()
        return found


class Listed(msgspec.Struct, frozen=True):
    """A turn of a list, and what the recorder says about it."""

    id: str
    summary: Summary
    note: Note

    @property
    def told(self) -> int:
        """How many memories were in its prompt."""
        return sum(len(one.blocks) for one in self.note.injected)


class Whole(msgspec.Struct, frozen=True):
    """A turn with all that is known of it."""

    listed: Listed
    episode: Episode
    answer: str
    """What was answered, also where that repeats what the prompt was told."""
    raw: str


class TurnsPage(msgspec.Struct, frozen=True):
    """Answers for the ledgers."""

    plane: Plane
    clock: Clock
    places: Places

    async def turns(self, visit: Visit) -> Response:
        """Show the last turns of an agent, the newest first."""
        agents = await agents_known(self.plane, self.places.ledgers)
        agent = visit.query.get("agent") or next(iter(agents), "")
        count = _count(visit.query.get("count", ""))
        listed: list[Listed] = []
        if is_agent_id(agent):
            listed = await asyncio.to_thread(last_turns, self.places, agent, count)
        return visit.page(
            "turns.html",
            agents=agents,
            agent=agent,
            turns=listed,
            count=count,
            more=min(count + _PAGE, _MOST) if len(listed) >= count < _MOST else 0,
            now=self.clock(),
        )

    async def turn(self, visit: Visit) -> Response:
        """Show one turn whole, with its receipt and what was learned from it."""
        agent, entry = visit.request.path_params["agent"], visit.request.path_params["id"]
        whole = None
        if is_agent_id(agent) and len(entry) <= _LONGEST_ID:
            whole = await asyncio.to_thread(one_turn, self.places, agent, entry)
        if whole is None:
            raise HTTPException(404, "there is no such turn, or it was forgotten")
        memories = await self.plane.memories()
        learned = await memories.page(agent, ListAsked(entry=entry, state="any", sort="id"))
        blocks = [block for one in whole.listed.note.injected for block in one.blocks]
        cited = {entry for block in blocks for entry in block.entry_ids[:_CITED]}
        return visit.page(
            "turn.html",
            agent=agent,
            turn=whole,
            learned=learned.memories,
            cited=_CITED,
            said_in=await asyncio.to_thread(said_in, self.places, agent, cited),
            observation_of={one.id: next(iter(observations_in([one.id])), 0) for one in blocks},
            now=self.clock(),
        )


def last_turns(places: Places, agent: str, count: int) -> list[Listed]:
    """Read the last turns of an agent, the newest first."""
    forgotten, found = places.forgotten(agent), list[Listed]()
    for folder in places.folders(agent):
        lines: dict[str, bytes] = {}
        with open_last(folder, count) as page:
            lines = {one: line for one, line in page.identified() if one not in forgotten}
        notes = _notes(folder, lines)
        found += (
            Listed(one, summary_of(line), notes.get(one, Note())) for one, line in lines.items()
        )
    found.reverse()
    return sorted(found, key=lambda one: one.summary.ts, reverse=True)[:count]


def one_turn(places: Places, agent: str, entry: str) -> Whole | None:
    """Read a turn; None when there is none, or when it was forgotten."""
    if entry in places.forgotten(agent):
        return None
    for folder in places.folders(agent):
        with open_entry(folder, entry) as page:
            line = next((line for one, line in page.identified() if one == entry), None)
        if line is not None:
            note = _notes(folder, {entry}).get(entry, Note())
            body = _body(line)
            raw = json.dumps(body, indent=2, ensure_ascii=False)[:_LONGEST_RAW]
            answer = capped(reply_of(body.get("response")).text)
            return Whole(Listed(entry, summary_of(line), note), episode_of(body), answer, raw)
    return None


def said_in(places: Places, agent: str, entries: Iterable[str]) -> dict[str, str]:
    """Return what was asked in turns, or answered where nobody asked anything."""
    turns = {entry: one_turn(places, agent, entry) for entry in entries}
    return {entry: turn.episode.question or turn.answer for entry, turn in turns.items() if turn}


def _notes(folder: AgentFolder, wanted: Collection[str]) -> Mapping[str, Note]:
    return {one.id: one for one in Notes(folder).new_lines() if one.id in wanted}


def _body(line: bytes) -> Mapping[str, Any]:
    try:
        body: object = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", body) if isinstance(body, dict) else {}


def _count(text: str) -> int:
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(_MOST))
    return min(max(int(text), 1), _MOST) if is_number else _PAGE


def turns_pages(
    plane: Plane, browsers: Browsers, clock: Clock, places: Places
) -> Sequence[Endpoint]:
    """Make the endpoints of the ledgers."""
    page = TurnsPage(plane, clock, places)
    return [
        page_endpoint("GET", "/turns", guarded(browsers, page.turns), "The last turns"),
        page_endpoint("GET", "/turns/{agent}/{id}", guarded(browsers, page.turn), "One turn"),
    ]
