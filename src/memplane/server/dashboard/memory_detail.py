"""The page of one memory: how it came about, what speaks for it, where it was told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path, PurePath
from typing import Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from memplane.kit.clock import Clock
from memplane.observations.api_types import ConflictView, EventView, MemoryView, SessionView
from memplane.observations.requests import ConflictQuery, MemoryQuery
from memplane.observations.views import list_remaining_sources
from memplane.server.dashboard import display_format
from memplane.server.dashboard.browser_sessions import BrowserSessions
from memplane.server.dashboard.charts import draw_confidence
from memplane.server.dashboard.display_format import WordChange
from memplane.server.dashboard.memories import load_memory
from memplane.server.dashboard.renderer import PageRequest
from memplane.server.dashboard.sign_in import page_endpoint, require_session
from memplane.server.endpoints import Endpoint
from memplane.service.client import Client
from memplane.service.operations import observations
from memplane.service.operations.review import list_conflicts
from memplane.service.operations.sessions import get_session

_LINES_AROUND: Final = 40
_MAX_LINE_BYTES: Final = 4000


class HistoryStep(msgspec.Struct, frozen=True):
    """An event, and what it changed in the words."""

    event: EventView
    changed: tuple[WordChange, ...]


class LogLine(msgspec.Struct, frozen=True):
    """A line of a session's log."""

    number: int
    text: str


class MemoryDetailPage(msgspec.Struct, frozen=True):
    """Answers for one memory, and for the session it came from."""

    client: Client
    clock: Clock
    logs: Path

    async def memory(self, visit: PageRequest) -> Response:
        """Show all that is known of a memory."""
        call = self.client.call
        found = await load_memory(self.client, visit)
        number = found.id
        history = (await call(observations.get_history, None, number)).events
        evidence = (await call(observations.list_evidence, None, number)).evidence
        course = await call(observations.get_confidence_history, None, number)
        injections = (await call(observations.list_injections, None, number)).injections
        turns, sessions = list_remaining_sources(evidence)
        conflicts = [
            one
            for one in await _load_conflicts(self.client, found, history)
            if number in {one.a.id, one.b.id if one.b else 0}
        ]
        return visit.page(
            "memory.html",
            memory=found,
            chart=draw_confidence(course),
            steps=list(reversed([*_make_steps(history)])),
            evidence=evidence,
            still_in_turns=turns,
            still_in_sessions=sessions,
            undone_with=_find_undone_with(history),
            injections=injections,
            conflicts=conflicts,
            now=self.clock(),
        )

    async def session(self, visit: PageRequest) -> Response:
        """Show a session: what it learned, what it was told, and the line of its log."""
        number = visit.request.path_params["id"]
        if not (number.isascii() and number.isdecimal() and len(number) < 19):  # noqa: PLR2004
            raise HTTPException(404, "there is no such session")
        found = await self.client.call(get_session, None, int(number))
        query = MemoryQuery(session=found.id, state="any", sort="id")
        learned = await self.client.call(observations.list_memories, None, query)
        line = visit.query.get("line", "")
        hit = int(line) if line.isascii() and line.isdecimal() and len(line) < 10 else 0  # noqa: PLR2004
        return visit.page(
            "session.html",
            session=found,
            learned=learned.memories,
            hit=hit,
            lines=await asyncio.to_thread(self._log, found, hit),
            now=self.clock(),
        )

    def _log(self, session: SessionView, around: int) -> list[LogLine]:
        """Read some lines of a session's log; there is none of a turn that was captured."""
        # Whoever began the session named its log: only what lies where logs lie is read.
        path = self.logs / PurePath(session.log_path).name
        first = max(around - _LINES_AROUND, 1)
        try:
            with path.open("rb") as file:
                lines = islice(file, first - 1, first - 1 + 2 * _LINES_AROUND)
                return [
                    LogLine(number, line[:_MAX_LINE_BYTES].decode("utf-8", "replace").rstrip("\n"))
                    for number, line in enumerate(lines, first)
                ]
        except (FileNotFoundError, IsADirectoryError):
            return []


async def _load_conflicts(
    client: Client, memory: MemoryView, history: Sequence[EventView]
) -> Sequence[ConflictView]:
    """Look conflicts up, also those that are over, where there ever was one."""
    if not any(one.kind == "contested" for one in history):
        return ()
    query = ConflictQuery(resolved=True)
    return (await client.call(list_conflicts, memory.agent, query)).conflicts


def _find_undone_with(history: Sequence[EventView]) -> tuple[int, ...]:
    """Return the memories that an undo of the last change would change too."""
    for event in reversed(history):
        if event.actor_kind == "operator" and not event.undone and event.kind != "undone":
            return event.together
    return ()


def _make_steps(history: Sequence[EventView]) -> Iterator[HistoryStep]:
    words = ""
    for event in history:
        changed: tuple[WordChange, ...] = ()
        if event.observation is not None:
            if words and event.observation != words:
                changed = tuple(display_format.word_diff(words, event.observation))
            words = event.observation
        yield HistoryStep(event, changed)


def memory_detail_pages(
    client: Client, browsers: BrowserSessions, clock: Clock, logs: Path
) -> list[Endpoint]:
    """Make the endpoints of one memory and one session."""
    page = MemoryDetailPage(client, clock, logs)
    return [
        page_endpoint(
            "GET", "/memories/{id}", require_session(browsers, page.memory), "The page of a memory"
        ),
        page_endpoint(
            "GET",
            "/sessions/{id}",
            require_session(browsers, page.session),
            "The page of a session",
        ),
    ]
