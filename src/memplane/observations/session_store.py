"""Every statement about sessions: what they were told, what they said, what was refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from memplane.auth.memory_scope import MemoryScope
from memplane.database.interface import Connection, Row
from memplane.observations.api_types import InjectionView, RejectView, SessionView
from memplane.observations.assertion_rules import MAX_QUOTE_CHARS, SessionContext
from memplane.observations.event_store import list_effective_events, select_events
from memplane.observations.events import EventKind, ObservationEvent
from memplane.observations.model import Assertion
from memplane.observations.requests import LARGEST_NUMBER
from memplane.observations.rollback import ROLLED_BACK_SQL
from memplane.observations.views import reject_view

OTHER_SESSIONS: Final = "other sessions"
"""What the one session is called of all turns whose own sessions nobody attests."""


class SessionTrigger(StrEnum):
    """What a session was begun by, unless somebody asked for it by name."""

    HOOK = "hook"
    TOKEN = "token"  # noqa: S105 - what a turn came with
    TURN = "turn"
    """A turn that nothing attests."""


def is_begun(trigger: str) -> bool:
    """Say whether memplane has begun a session, or has seen its hook."""
    return trigger not in {SessionTrigger.TOKEN, SessionTrigger.TURN}


_ASSERTION_KINDS: Final = frozenset({EventKind.ASSERTED, EventKind.REINFORCED, EventKind.ECHOED})


def apply_session_event(rows: Connection, event: ObservationEvent) -> None:
    """Keep what an event says besides what it does to an observation."""
    match event.kind:
        case EventKind.STARTED:
            _start(rows, event)
        case EventKind.ENDED:
            _end(rows, event)
        case EventKind.INJECTED:
            _receive(rows, event)
        case EventKind.REJECTED:
            _reject(rows, event)
        case EventKind.RETRACTED:
            rows.run("DELETE FROM memory_rejects WHERE id = ?", (event.target,))
        case _:
            return


def _start(rows: Connection, event: ObservationEvent) -> None:
    facts = event.facts
    assert facts is not None  # noqa: S101 - that is what a start is about
    rows.run(
        "INSERT INTO sessions (id, agent, end_user, view, cli_session_id, tier, model, trigger, "
        "status, started_at, log_path, command, parent_session_id) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'running', ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET "
        "cli_session_id = CASE excluded.cli_session_id WHEN '' THEN cli_session_id "
        "ELSE excluded.cli_session_id END, "
        "model = CASE excluded.model WHEN '' THEN model ELSE excluded.model END",
        (
            *(event.session, event.agent, event.user, event.view),
            *(facts.cli_session, facts.tier, facts.model),
            *(facts.trigger, event.ts, facts.log, facts.command, facts.parent or None),
        ),
    )


def _end(rows: Connection, event: ObservationEvent) -> None:
    facts = event.facts
    assert facts is not None  # noqa: S101 - that is what an end is about
    rows.run(
        "UPDATE sessions SET status = ?, ended_at = ?, is_error = ?, exit_code = ?, "
        "cost_usd = ?, num_turns = ? WHERE id = ?",
        (
            *(facts.status or "ended", event.ts, facts.is_error, facts.exit_code),
            *(facts.cost_usd, facts.turns, event.session),
        ),
    )


def _receive(rows: Connection, event: ObservationEvent) -> None:
    receipt = event.receipt
    assert receipt is not None  # noqa: S101 - that is what it is about
    rows.run("DELETE FROM injection_items WHERE session_id = ?", (event.session,))
    rows.run(
        "INSERT OR REPLACE INTO receipts VALUES (?, ?, ?, ?, ?, ?)",
        (
            *(event.session, event.agent, event.ts, receipt.tokens, receipt.digest),
            msgspec.json.encode(receipt.dropped).decode(),
        ),
    )
    rows.run_many(
        "INSERT INTO injection_items VALUES (?, ?, ?)",
        [(event.session, place, memory) for place, memory in enumerate(receipt.included, 1)],
    )


def _reject(rows: Connection, event: ObservationEvent) -> None:
    view = reject_view(event)
    rows.run(
        "INSERT INTO memory_rejects (id, agent, at, reason, category, service, observation, hint, "
        "corrected_category, corrected_service, session_id, tier, source_class, end_user, view) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT DO NOTHING",
        (
            *(view.id, view.agent, view.at, view.reason, view.category, view.service),
            *(view.observation, view.hint, view.corrected_category, view.corrected_service),
            *(view.session_id, view.tier, view.source_class, view.user, view.view),
        ),
    )


def refold_rejects(rows: Connection, ids: Iterable[str]) -> None:
    """Note what rejects were accepted as, as far as that was not undone."""
    for reject_id in ids:
        taken = [
            one.memory for one in list_effective_events(rows, reject_id, {EventKind.TAKEN_UP})
        ]
        sql = "UPDATE memory_rejects SET accepted_as = ? WHERE id = ?"
        rows.run(sql, (taken[-1] if taken else None, reject_id))


def list_rejects(rows: Connection, agent: str | None, limit: int) -> list[RejectView]:
    """Return what was said and is not remembered, the newest first, but of forgotten turns."""
    sql = (
        f"SELECT {_REJECT_COLUMNS} FROM memory_rejects WHERE (? IS NULL OR agent = ?) "  # noqa: S608
        f"AND NOT {OF_FORGOTTEN_TURN_SQL} ORDER BY at DESC, id DESC LIMIT ?"
    )
    return [_reject_of(row) for row in rows.rows(sql, (agent, agent, limit))]


def get_reject(rows: Connection, agent: str | None, reject_id: str) -> RejectView | None:
    """Return one of them; one of a forgotten turn is none."""
    sql = (
        f"SELECT {_REJECT_COLUMNS} FROM memory_rejects WHERE id = ? "  # noqa: S608 - our own words
        f"AND (? IS NULL OR agent = ?) AND NOT {OF_FORGOTTEN_TURN_SQL}"
    )
    return next((_reject_of(row) for row in rows.rows(sql, (reject_id, agent, agent))), None)


_REJECT_COLUMNS: Final = (
    "id, agent, at, reason, category, service, observation, hint, corrected_category, "
    "corrected_service, session_id, tier, source_class, accepted_as, end_user, view"
)
_REJECT_FIELDS: Final = (*_REJECT_COLUMNS.split(", ")[:-2], "user", "view")
OF_FORGOTTEN_TURN_SQL: Final = (
    "(EXISTS (SELECT 1 FROM memory_events e "  # noqa: S608 - our own words
    "JOIN agents a ON a.agent = e.agent "
    "JOIN tombstones t ON t.agent = a.number AND t.id = e.entry "
    "WHERE e.id = memory_rejects.id AND e.entry <> '') "
    f"OR {ROLLED_BACK_SQL.format(event='memory_rejects')})"
)
"""Whether the turn that a reject came from was forgotten, or its session rolled back."""


def _reject_of(row: Row) -> RejectView:
    return RejectView(**dict(zip(_REJECT_FIELDS, row, strict=True)))


def load_session_context(
    rows: Connection, session: int, tool_results: Sequence[str]
) -> SessionContext:
    """Return what a session has said and was told so far."""
    events = _standing_events(rows, session)

    def about(*kinds: EventKind) -> frozenset[int]:
        return frozenset(one.memory for one in events if one.kind in kinds)

    return SessionContext(
        supported=about(EventKind.ASSERTED, EventKind.REINFORCED),
        contradicted=about(EventKind.CONTRADICTED),
        echoed=about(EventKind.ECHOED),
        told=frozenset(list_injected_memories(rows, session)),
        tool_results=tool_results,
    )


def list_injected_memories(rows: Connection, session: int) -> list[int]:
    """Return the observations that a session's prompt was given."""
    sql = "SELECT memory_id FROM injection_items WHERE session_id = ? ORDER BY position"
    return [memory for (memory,) in rows.rows(sql, (session,))]


def count_assertions(rows: Connection, session: int) -> int:
    """Return how many assertions a session has made that were taken."""
    return sum(one.kind in _ASSERTION_KINDS for one in _standing_events(rows, session))


def has_asserted(rows: Connection, session: int, said: Assertion) -> bool:
    """Say whether a session has said something in these words before, and it was taken."""
    quote = said.text[:MAX_QUOTE_CHARS]
    sql = "SELECT 1 FROM memories WHERE id = ? AND category = ? AND service IS ?"
    return any(
        any(True for _ in rows.rows(sql, (one.memory, said.category, said.service or None)))
        for one in _standing_events(rows, session)
        if one.evidence is not None and one.evidence.quote == quote
    )


def list_rejection_keys(rows: Connection, session: int) -> set[tuple[str, str, str, str]]:
    """Return what a session was refused before, so that it is not refused twice."""
    sql = "SELECT reason, category, service, observation FROM memory_rejects WHERE session_id = ?"
    return {(row[0], row[1], row[2], row[3]) for row in rows.rows(sql, (session,))}


def _standing_events(rows: Connection, session: int) -> list[ObservationEvent]:
    if not session:
        return []
    events = select_events(rows, "session_id = ? ORDER BY at, id", session)
    gone = {one.target for one in events if one.kind is EventKind.RETRACTED}
    return [one for one in events if one.id not in gone]


_SESSION_COLUMNS: Final = (
    "id, agent, end_user AS user, view, cli_session_id, tier, model, trigger, status, "
    "started_at, ended_at, is_error, exit_code, cost_usd, num_turns, log_path, command"
)
_SESSION_COUNTS_SQL: Final = (
    "(SELECT COUNT(*) FROM memories m WHERE m.session_id = s.id AND m.unsupported = 0), "
    "(SELECT COUNT(*) FROM injection_items i WHERE i.session_id = s.id)"
)


def list_sessions(rows: Connection, agent: str | None, limit: int) -> list[SessionView]:
    """Return the last sessions, the newest first."""
    sql = (
        f"SELECT {_SESSION_COLUMNS}, {_SESSION_COUNTS_SQL} FROM sessions s "  # noqa: S608
        "WHERE (? IS NULL OR agent = ?) ORDER BY started_at DESC, id DESC LIMIT ?"
    )
    return [_session_of(row) for row in rows.rows(sql, (agent, agent, limit))]


def get_session(rows: Connection, agent: str | None, number: int) -> SessionView | None:
    """Return a session; None when there is none for that agent."""
    if not 0 < number <= LARGEST_NUMBER:
        return None
    sql = (
        f"SELECT {_SESSION_COLUMNS}, {_SESSION_COUNTS_SQL} FROM sessions s "  # noqa: S608
        "WHERE id = ? AND (? IS NULL OR agent = ?)"
    )
    return next((_session_of(row) for row in rows.rows(sql, (number, agent, agent))), None)


def find_named_sessions(rows: Connection, agent: str, name: str) -> list[int]:
    """Return the sessions of an agent that a client calls so, or that have that number."""
    sql = (
        "SELECT id FROM sessions WHERE agent = ? AND (cli_session_id = ? OR CAST(id AS TEXT) = ?) "
        "AND cli_session_id <> ? ORDER BY id"
    )
    return [number for (number,) in rows.rows(sql, (agent, name, name, OTHER_SESSIONS))]


def find_client_session(
    rows: Connection, scope: MemoryScope, cli_session: str, *, is_wanted: Callable[[str], bool]
) -> int:
    """Return the newest session of that name with a wanted trigger; 0 when there is none."""
    sql = (
        "SELECT id, trigger FROM sessions WHERE agent = ? AND end_user = ? AND view = ? "
        "AND cli_session_id = ? AND cli_session_id <> '' ORDER BY id DESC"
    )
    found = rows.rows(sql, (scope.agent, scope.user, scope.view, cli_session))
    return next((number for number, trigger in found if is_wanted(trigger)), 0)


def _session_of(row: Row) -> SessionView:
    names = [*_SESSION_COLUMNS.replace("end_user AS ", "").split(", "), "learned", "told"]
    found: dict[str, Any] = dict(zip(names, row, strict=True))
    found["is_error"] = bool(found["is_error"])
    return SessionView(**found)


def delete_user_sessions(rows: Connection, agent: str, user: str) -> None:
    """Drop the sessions of a user, whose events are gone, and what their prompts were given."""
    sql = "SELECT id FROM sessions WHERE agent = ? AND end_user = ?"
    gone = [(number,) for (number,) in rows.rows(sql, (agent, user))]
    rows.run_many("DELETE FROM injection_items WHERE session_id = ?", gone)
    rows.run_many("DELETE FROM receipts WHERE session_id = ?", gone)
    rows.run("DELETE FROM sessions WHERE agent = ? AND end_user = ?", (agent, user))


def list_injections(rows: Connection, memory: int) -> list[InjectionView]:
    """Return the prompts that an observation was told in, the newest first."""
    sql = (
        "SELECT i.session_id, r.at, i.position, "
        "(SELECT COUNT(*) FROM injection_items o WHERE o.session_id = i.session_id), r.tokens, "
        "COALESCE(s.tier, 1), COALESCE(s.status, ''), COALESCE(s.is_error, 0) "
        "FROM injection_items i JOIN receipts r ON r.session_id = i.session_id "
        "LEFT JOIN sessions s ON s.id = i.session_id WHERE i.memory_id = ? "
        "ORDER BY r.at DESC, i.session_id DESC LIMIT 200"
    )
    return [
        InjectionView(
            session_id=number,
            at=at,
            position=position,
            of=of,
            tokens=tokens,
            tier=tier,
            status=status,
            is_error=bool(is_error),
        )
        for number, at, position, of, tokens, tier, status, is_error in rows.rows(sql, (memory,))
    ]
