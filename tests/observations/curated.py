"""Operational memory on a real database and ledger, under a clock that a test turns."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from memplane.database.sqlite import SqliteDatabase, open_sqlite
from memplane.kit.clock import format_milli_timestamp
from memplane.ledger.entry import Turn
from memplane.ledger.segments import FileModes
from memplane.ledger.writer import open_ledger
from memplane.observations.api_types import IngestReceipt, MemoryView
from memplane.observations.confidence import Profile
from memplane.observations.event_writer import EventWriter
from memplane.observations.events import EventKind, ObservationContent, ObservationEvent
from memplane.observations.gate import GateRules
from memplane.observations.ingest import IngestPolicy
from memplane.observations.prompt_block import ContestedPolicy
from memplane.observations.requests import (
    Act,
    ActAsked,
    Heard,
    HeardText,
    MemoryCreate,
    MemoryPatch,
    MemoryQuery,
    PromptQuery,
    SessionWanted,
)
from memplane.observations.service import ObservationService, open_observation_service
from memplane.observations.sessions import PromptPolicy
from memplane.redaction.redactor import Redactor

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
AGENT = "ops"
OPERATOR = "operator"


@dataclass(slots=True)
class Hands:
    """A clock's hands, which only a test moves."""

    now: datetime = START

    def __call__(self) -> datetime:
        return self.now

    def forward(self, **by: float) -> None:
        self.now += timedelta(**by)


@dataclass(slots=True)
class Curated:
    """An open memory, with the clock it goes by and short ways to talk to it."""

    curator: ObservationService
    records: SqliteDatabase
    events: Path
    hands: Hands
    writer: EventWriter
    sessions: list[int] = field(default_factory=list[int])

    async def session(self, **wanted: Any) -> int:
        """Begin a session of the agent; it is told nothing unless the test wants that."""
        asked = SessionWanted(**{"agent": AGENT, "tell": False, **wanted})
        begun = await self.curator.begin(asked)
        self.sessions.append(begun.session)
        return begun.session

    async def say(self, *lines: str, session: int | None = None, **heard: Any) -> IngestReceipt:
        """Let a session say something; without one, in a session of its own."""
        number = session if session is not None else await self.session()
        agent = (await self.curator.session(None, number)).agent
        texts = (HeardText(text="\n".join(lines)),) if lines else ()
        return await self.curator.hear(agent, number, Heard(texts=texts, **heard))

    async def told(self, **wanted: Any) -> int:
        """Begin a session that is told what is known."""
        return await self.session(tell=True, **wanted)

    async def add(self, observation: str, **wanted: Any) -> MemoryView:
        """Let the operator write a memory down."""
        given = {"category": "timing", "service": "jellyfin", "observation": observation}
        asked = MemoryCreate(**{**given, **wanted})
        return await self.curator.add(AGENT, asked, by=OPERATOR)

    async def change(self, memory: int, **change: Any) -> MemoryView:
        """Let the operator change a memory."""
        return await self.curator.change(AGENT, memory, MemoryPatch(**change), by=OPERATOR)

    async def act(self, memory: int, act: Act, **asked: Any) -> MemoryView:
        """Let the operator do something to a memory."""
        return await self.curator.act(AGENT, memory, ActAsked(act=act, **asked), by=OPERATOR)

    async def one(self, memory: int) -> MemoryView:
        """Look at a memory, in the trash too."""
        return await self.curator.one(AGENT, memory, trash=True)

    async def kinds(self, memory: int) -> list[str]:
        """Tell what happened to a memory, in order."""
        return [one.kind for one in await self.curator.history(AGENT, memory)]

    async def fill(self, memories: Iterable[ObservationContent], **each: Any) -> None:
        """Begin with many memories at once, said by nobody in particular."""
        events = [
            ObservationEvent(
                id="", ts="", kind=EventKind.ASSERTED, agent=AGENT, memory=place, said=said, **each
            )
            for place, said in enumerate(memories, 1)
        ]

        def at(now: datetime) -> list[ObservationEvent]:
            return [msgspec.structs.replace(one, ts=format_milli_timestamp(now)) for one in events]

        await self.writer.decide(lambda _, now: at(now))

    async def late(self, session: int, line: str, at: str) -> IngestReceipt:
        """Let a session say something that it said at another time."""
        heard = Heard(texts=(HeardText(text=line, at=at),))
        return await self.curator.hear(AGENT, session, heard)

    async def all(self, **asked: Any) -> list[MemoryView]:
        """List what there is, the oldest first."""
        listed = MemoryQuery(**{"sort": "id", "order": "asc", **asked})
        return list((await self.curator.page(AGENT, listed)).memories)

    async def only(self) -> MemoryView:
        (found,) = await self.all()
        return found

    async def block(self, **asked: Any) -> str:
        """Return what a prompt would be told now."""
        agent = asked.pop("agent", AGENT)
        return (await self.curator.preview(agent, PromptQuery(**asked))).block


@asynccontextmanager
async def curated(
    folder: Path,
    hands: Hands | None = None,
    *,
    profile: Profile | None = None,
    rules: GateRules | None = None,
    budget: int = 2000,
    contested: ContestedPolicy = ContestedPolicy.MARK,
) -> AsyncGenerator[Curated]:
    """Open operational memory in a folder; opening it again finds what was there."""
    hands, profile = hands or Hands(), profile or Profile()
    async with (
        open_sqlite(folder / "memplane.db") as records,
        open_ledger(folder / "events", scrub=_as_it_is, clock=hands) as ledger,
    ):
        writer = EventWriter(
            records=records,
            ledger=ledger,
            root=folder / "events",
            profile=profile,
            clock=hands,
            modes=FileModes(),
        )
        listening = IngestPolicy(
            redact=Redactor(key=b"k").text, profile=profile, rules=rules or GateRules()
        )
        telling = PromptPolicy(budget=budget, contested=contested, key=b"a key of this test's")
        async with open_observation_service(
            ObservationService(records, writer, listening, telling)
        ) as curator:
            yield Curated(curator, records, folder / "events", hands, writer)


def _as_it_is(turn: Turn) -> Turn:
    return turn
