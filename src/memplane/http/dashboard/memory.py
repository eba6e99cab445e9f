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

from memplane.clock import Clock
from memplane.http.dashboard import shown
from memplane.http.dashboard.browsers import Browsers
from memplane.http.dashboard.charts import course_chart
from memplane.http.dashboard.memories import found_in
from memplane.http.dashboard.pages import Visit
from memplane.http.dashboard.shown import Piece
from memplane.http.dashboard.signing_in import guarded, page_endpoint
from memplane.http.endpoints import Endpoint
from memplane.observations.contract import (
    ConflictView,
    EventView,
    ListAsked,
    MemoryView,
    OperationalMemory,
    SessionView,
)
from memplane.observations.views import still_saying
from memplane.plane.contract import Plane

_AROUND: Final = 40
_LONGEST_LINE: Final = 4000


class Step(msgspec.Struct, frozen=True):
    """An event, and what it changed in the words."""

    event: EventView
    changed: tuple[Piece, ...]


class LogLine(msgspec.Struct, frozen=True):
    """A line of a session's log."""

    number: int
    text: str


class MemoryPage(msgspec.Struct, frozen=True):
    """Answers for one memory, and for the session it came from."""

    plane: Plane
    clock: Clock
    logs: Path

    async def memory(self, visit: Visit) -> Response:
        """Show all that is known of a memory."""
        memories = await self.plane.memories()
        found = await found_in(memories, visit)
        number = found.id
        history = await memories.history(None, number)
        evidence = await memories.evidence(None, number)
        turns, sessions = still_saying(evidence)
        conflicts = [
            one
            for one in await _conflicts_of(memories, found, history)
            if number in {one.a.id, one.b.id if one.b else 0}
        ]
        return visit.page(
            "memory.html",
            memory=found,
            chart=course_chart(await memories.course(None, number)),
            steps=list(reversed([*_steps(history)])),
            evidence=evidence,
            still_in_turns=turns,
            still_in_sessions=sessions,
            undone_with=_undone_with(history),
            injections=await memories.injections(None, number),
            conflicts=conflicts,
            now=self.clock(),
        )

    async def session(self, visit: Visit) -> Response:
        """Show a session: what it learned, what it was told, and the line of its log."""
        number = visit.request.path_params["id"]
        if not (number.isascii() and number.isdecimal() and len(number) < 19):  # noqa: PLR2004
            raise HTTPException(404, "there is no such session")
        memories = await self.plane.memories()
        found = await memories.session(None, int(number))
        learned = await memories.page(None, ListAsked(session=found.id, state="any", sort="id"))
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
        first = max(around - _AROUND, 1)
        try:
            with path.open("rb") as file:
                lines = islice(file, first - 1, first - 1 + 2 * _AROUND)
                return [
                    LogLine(number, line[:_LONGEST_LINE].decode("utf-8", "replace").rstrip("\n"))
                    for number, line in enumerate(lines, first)
                ]
        except (FileNotFoundError, IsADirectoryError):
            return []


async def _conflicts_of(
    memories: OperationalMemory, memory: MemoryView, history: Sequence[EventView]
) -> Sequence[ConflictView]:
    """Look conflicts up, also those that are over, where there ever was one."""
    if not any(one.kind == "contested" for one in history):
        return ()
    return await memories.conflicts(memory.agent, resolved=True)


def _undone_with(history: Sequence[EventView]) -> tuple[int, ...]:
    """Return the memories that an undo of the last change would change too."""
    for event in reversed(history):
        if event.actor_kind == "operator" and not event.undone and event.kind != "undone":
            return event.together
    return ()


def _steps(history: Sequence[EventView]) -> Iterator[Step]:
    words = ""
    for event in history:
        changed: tuple[Piece, ...] = ()
        if event.observation is not None:
            if words and event.observation != words:
                changed = tuple(shown.word_diff(words, event.observation))
            words = event.observation
        yield Step(event, changed)


def memory_pages(plane: Plane, browsers: Browsers, clock: Clock, logs: Path) -> list[Endpoint]:
    """Make the endpoints of one memory and one session."""
    page = MemoryPage(plane, clock, logs)
    return [
        page_endpoint(
            "GET", "/memories/{id}", guarded(browsers, page.memory), "The page of a memory"
        ),
        page_endpoint(
            "GET", "/sessions/{id}", guarded(browsers, page.session), "The page of a session"
        ),
    ]
