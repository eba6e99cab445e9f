"""The Audit page: who did what to memories, and what memplane tells of its own doing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from memplane.clock import Clock
from memplane.http.dashboard.agents import agents_known
from memplane.http.dashboard.browsers import Browsers
from memplane.http.dashboard.pages import Visit
from memplane.http.dashboard.signing_in import guarded, page_endpoint
from memplane.http.endpoints import Endpoint
from memplane.observations.contract import ActsAsked
from memplane.observations.events import Kind
from memplane.operate.audit import Event, Wanted, read_event, shown_time
from memplane.plane.contract import Plane

_PAGE: Final = 100
_TAIL: Final = 256 * 1024
_MOST_DIGITS: Final = 18
LOG: Final = "log"
WHO: Final = (
    ("operator", "Operators"),
    ("system", "memplane itself"),
    ("agent", "Agents"),
    ("import", "Imports"),
    ("", "Everybody"),
    (LOG, "Turns and recalls"),
)


class Noted(msgspec.Struct, frozen=True):
    """An event of the log, as a row."""

    at: str
    agent: str
    type: str
    words: str


class AuditPage(msgspec.Struct, frozen=True):
    """Answers for what happened."""

    plane: Plane
    clock: Clock
    ledgers: tuple[Path, ...]
    logs: Sequence[Path]

    async def audit(self, visit: Visit) -> Response:
        """Show what happened, the newest first."""
        query = visit.query
        who = query["who"] if query.get("who") in {one for one, _ in WHO} else "operator"
        agent, kind = query.get("agent") or None, query.get("kind", "")
        memories = await self.plane.memories()
        acts, noted = [], list[Noted]()
        if who == LOG:
            noted = await asyncio.to_thread(last_noted, self.logs, Wanted(claw=agent or ""))
        else:
            asked = ActsAsked(actor=who, kind=kind, before=_before(query), limit=_PAGE + 1)
            acts = [*await memories.acts(agent, asked)]
        said = {"who": who, "agent": agent or "", "kind": kind}
        older = {**said, "before": str(acts[_PAGE - 1].seq)} if len(acts) > _PAGE else {}
        return visit.page(
            "audit.html",
            who=who,
            tabs=[
                (f"/audit?{urlencode({**said, 'who': one})}", name, one == who)
                for one, name in WHO
            ],
            agent=agent,
            agents=await agents_known(self.plane, self.ledgers),
            kind=kind,
            kinds=sorted(one.value for one in Kind),
            acts=acts[:_PAGE],
            noted=noted,
            older=f"/audit?{urlencode(older)}" if older else "",
            now=self.clock(),
        )


def _before(query: Mapping[str, str]) -> int:
    text = query.get("before", "")
    is_place = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
    return int(text) if is_place else 0


def last_noted(paths: Sequence[Path], wanted: Wanted) -> list[Noted]:
    """Read the last events of the logs, the newest first; any of them may not be there."""
    events = [one for path in paths for one in _last_events(path) if wanted.includes(one)]
    return [noted(one) for one in sorted(events, key=lambda one: one.at, reverse=True)[:_PAGE]]


def _last_events(path: Path) -> list[Event]:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(size - _TAIL, 0))
            lines = file.read(_TAIL).split(b"\n")
    except FileNotFoundError:
        return []
    # The first line may have begun before what was read.
    whole = lines[1:] if size > _TAIL else lines
    return [event for line in reversed(whole) if (event := read_event(line)) is not None]


def noted(event: Event) -> Noted:
    """Put an event into a row."""
    words = ", ".join(
        f"{name.removeprefix('memory_').replace('_', ' ')} {value}"
        for name, value in event.members.items()
    )
    return Noted(shown_time(event.at), event.claw, event.type, words)


def audit_pages(
    plane: Plane,
    browsers: Browsers,
    clock: Clock,
    *,
    ledgers: tuple[Path, ...],
    logs: Sequence[Path],
) -> list[Endpoint]:
    """Make the endpoint of the page."""
    page = AuditPage(plane, clock, ledgers, logs)
    return [page_endpoint("GET", "/audit", guarded(browsers, page.audit), "Who did what")]
