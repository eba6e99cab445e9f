"""The Audit page: who did what to memories, and what memplane tells of its own doing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, cast
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from memplane.audit.events import AuditEvent, EventFilter, format_event_time, read_event
from memplane.kit.clock import Clock
from memplane.observations.events import EventKind
from memplane.observations.requests import ActorKind, ActQuery
from memplane.server.dashboard.agent_list import list_agents
from memplane.server.dashboard.browser_sessions import BrowserSessions
from memplane.server.dashboard.renderer import PageRequest
from memplane.server.dashboard.sign_in import page_endpoint, require_session
from memplane.server.endpoints import Endpoint
from memplane.service.client import Client
from memplane.service.operations.stats import list_acts

_PAGE_ROWS: Final = 100
_TAIL_BYTES: Final = 256 * 1024
_MAX_SEQ_DIGITS: Final = 18
LOG_TAB: Final = "log"
ACTOR_TABS: Final = (
    ("operator", "Operators"),
    ("system", "memplane itself"),
    ("agent", "Agents"),
    ("import", "Imports"),
    ("", "Everybody"),
    (LOG_TAB, "Turns and recalls"),
)


class LogRow(msgspec.Struct, frozen=True):
    """An event of the log, as a row."""

    at: str
    agent: str
    type: str
    words: str


class AuditPage(msgspec.Struct, frozen=True):
    """Answers for what happened."""

    client: Client
    clock: Clock
    ledgers: tuple[Path, ...]
    logs: Sequence[Path]

    async def audit(self, visit: PageRequest) -> Response:
        """Show what happened, the newest first."""
        query = visit.query
        who = query["who"] if query.get("who") in {one for one, _ in ACTOR_TABS} else "operator"
        agent, kind = query.get("agent") or None, query.get("kind", "")
        acts, noted = [], list[LogRow]()
        if who == LOG_TAB:
            noted = await asyncio.to_thread(
                read_log_rows, self.logs, EventFilter(claw=agent or "")
            )
        else:
            asked = ActQuery(
                actor=cast("ActorKind", who or None),
                kind=cast("EventKind", kind or None),
                before=_parse_before(query),
                limit=_PAGE_ROWS + 1,
            )
            acts = [*(await self.client.call(list_acts, agent, asked)).acts]
        said = {"who": who, "agent": agent or "", "kind": kind}
        older = {**said, "before": str(acts[_PAGE_ROWS - 1].seq)} if len(acts) > _PAGE_ROWS else {}
        return visit.page(
            "audit.html",
            who=who,
            tabs=[
                (f"/audit?{urlencode({**said, 'who': one})}", name, one == who)
                for one, name in ACTOR_TABS
            ],
            agent=agent,
            agents=await list_agents(self.client, self.ledgers),
            kind=kind,
            kinds=sorted(one.value for one in EventKind),
            acts=acts[:_PAGE_ROWS],
            noted=noted,
            older=f"/audit?{urlencode(older)}" if older else "",
            now=self.clock(),
        )


def _parse_before(query: Mapping[str, str]) -> int:
    text = query.get("before", "")
    is_place = text.isascii() and text.isdecimal() and len(text) <= _MAX_SEQ_DIGITS
    return int(text) if is_place else 0


def read_log_rows(paths: Sequence[Path], wanted: EventFilter) -> list[LogRow]:
    """Read the last events of the logs, the newest first; any of them may not be there."""
    events = [one for path in paths for one in _read_last_events(path) if wanted.includes(one)]
    return [
        make_log_row(one)
        for one in sorted(events, key=lambda one: one.at, reverse=True)[:_PAGE_ROWS]
    ]


def _read_last_events(path: Path) -> list[AuditEvent]:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(size - _TAIL_BYTES, 0))
            lines = file.read(_TAIL_BYTES).split(b"\n")
    except FileNotFoundError:
        return []
    # The first line may have begun before what was read.
    whole = lines[1:] if size > _TAIL_BYTES else lines
    return [event for line in reversed(whole) if (event := read_event(line)) is not None]


def make_log_row(event: AuditEvent) -> LogRow:
    """Put an event into a row."""
    words = ", ".join(
        f"{name.removeprefix('memory_').replace('_', ' ')} {value}"
        for name, value in event.members.items()
    )
    return LogRow(format_event_time(event.at), event.claw, event.type, words)


def audit_pages(
    client: Client,
    browsers: BrowserSessions,
    clock: Clock,
    *,
    ledgers: tuple[Path, ...],
    logs: Sequence[Path],
) -> list[Endpoint]:
    """Make the endpoint of the page."""
    page = AuditPage(client, clock, ledgers, logs)
    return [page_endpoint("GET", "/audit", require_session(browsers, page.audit), "Who did what")]
