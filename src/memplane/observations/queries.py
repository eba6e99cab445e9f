"""Listing observations: filters, search, order, pages and counts.

A page goes on behind the last row of the one before it, as of the moment of the first page, so
that no row is shown twice because its confidence fell meanwhile.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from memplane.auth.memory_scope import check_user
from memplane.database.interface import Connection, Value
from memplane.errors import InvalidRequest
from memplane.kit.clock import format_milli_timestamp
from memplane.observations import views
from memplane.observations.api_types import (
    ActionView,
    ChangeEvent,
    DayView,
    MemoryPage,
    ServiceView,
    Stats,
)
from memplane.observations.confidence import Profile
from memplane.observations.daily_counts import STATE_CHANGE_KINDS
from memplane.observations.daily_counts import count_states_by_day as counted_by_day
from memplane.observations.events import decode_event
from memplane.observations.model import ObservationState
from memplane.observations.requests import (
    MOST_DAYS,
    MOST_LISTED,
    ActQuery,
    MemoryFilter,
    MemoryQuery,
)
from memplane.observations.rollback import ROLLED_BACK_SQL
from memplane.observations.session_store import OF_FORGOTTEN_TURN_SQL
from memplane.observations.store import OBSERVATION_COLUMNS, epoch_ms, parse_observation_row

GENERAL_SERVICE: Final = "general"
ANY_STATE: Final = "any"
TRASH_STATES: Final = frozenset(
    {ObservationState.RETIRED, ObservationState.SUPERSEDED, ObservationState.PURGED}
)

STALE_SOON: Final = timedelta(days=7)
_MAX_SEARCH_CHARS: Final = 200
_MAX_CURSOR_TIME_MS: Final = 1 << 47
_MAX_CURSOR_ID: Final = 1 << 62
_EFFECTIVE_CONFIDENCE_SQL: Final = (
    "CASE WHEN pinned THEN confidence_c ELSE MAX(0, confidence_c - ? * "
    "MAX(0, MAX(0, (? - supported_ms) / ?) - weeks_charged)) END"
)
"""What confidence is worth: given the decay, the moment less the grace, and the period."""
_TEXT_MATCH_SQL: Final = (
    "(id IN (SELECT rowid FROM memories_text WHERE memories_text MATCH ?) "
    "OR ' ' || observation LIKE ? OR service LIKE ?)"
)
"""The index knows words by their stems: `starting` is found there, `startin` only by its letters.
"""
_FROM_ENTRY_SQL: Final = (
    "EXISTS (SELECT 1 FROM memory_events AS told WHERE told.agent = memories.agent "
    "AND told.entry = ? AND told.entry <> '' AND told.memory_id = memories.id)"
)
_SORT_COLUMNS: Final[Mapping[str, str]] = {
    "confidence": "effective",
    "updated": "updated_at",
    "created": "created_at",
    "service": "COALESCE(service, char(0x10ffff))",
    "category": "category",
    "observation": "observation",
    "state": "state",
    "id": "id",
}


_OF_HIDDEN_MEMORY_SQL: Final = (
    "EXISTS (SELECT 1 FROM memories m WHERE m.id IN (conflicts.memory_a, conflicts.memory_b) "
    "AND m.unsupported = 1)"
)
_ABOUT_FORGOTTEN_SQL: Final = (
    "((entry <> '' AND EXISTS (SELECT 1 FROM agents a "  # noqa: S608 - our own words
    "JOIN tombstones t ON t.agent = a.number "
    "WHERE a.agent = memory_events.agent AND t.id = memory_events.entry)) "
    "OR EXISTS (SELECT 1 FROM memories m WHERE m.id = memory_events.memory_id "
    f"AND m.unsupported = 1) OR {ROLLED_BACK_SQL.format(event='memory_events')})"
)
"""Whether an event comes from a forgotten turn, or is about what only forgotten turns said."""


class _ListCursor(msgspec.Struct, frozen=True, array_like=True):
    """Behind which row to go on, in which order, as of when."""

    sort: str
    descending: bool
    key: int | str
    id: int
    at: int


class WhereClause(msgspec.Struct):
    """Conditions, and what stands for their `?`."""

    conditions: list[str] = msgspec.field(default_factory=list[str])
    values: list[Value] = msgspec.field(default_factory=list[Value])

    def add(self, condition: str, *values: Value) -> None:
        self.conditions.append(condition)
        self.values += values

    def __str__(self) -> str:
        return " AND ".join(self.conditions)


def list_memories(
    rows: Connection, agent: str | None, asked: MemoryQuery, *, now: datetime, profile: Profile
) -> MemoryPage:
    """Return a page of observations.

    Raises:
        InvalidRequest: There is no such state or cursor, or no page of that size.
    """
    if not 0 <= asked.limit <= MOST_LISTED or asked.offset < 0:
        raise InvalidRequest(f"a page has 0 to {MOST_LISTED} memories, from offset 0 on")
    cursor = _decode_cursor(asked) if asked.cursor else None
    moment = _moment(cursor.at) if cursor else now
    where = build_filter(agent, asked, now)
    counting = f"SELECT COUNT(*) FROM memories WHERE {where}"  # noqa: S608 - our own words
    total = next(iter(rows.rows(counting, where.values)))[0]
    key, order = _SORT_COLUMNS[asked.sort], "DESC" if asked.order == "desc" else "ASC"
    behind = WhereClause(["1"])
    if cursor is not None:
        sign = "<" if asked.order == "desc" else ">"
        behind.add(
            f"({key} {sign} ? OR ({key} = ? AND id > ?))", cursor.key, cursor.key, cursor.id
        )
    sql = (
        f"WITH listed AS (SELECT *, {_EFFECTIVE_CONFIDENCE_SQL} AS effective FROM memories "  # noqa: S608
        f"WHERE {where}) "
        f"SELECT {OBSERVATION_COLUMNS}, {key} FROM listed WHERE {behind} "
        f"ORDER BY {key} {order}, id LIMIT ? OFFSET ?"
    )
    skipped = 0 if cursor else asked.offset
    values = [
        *_decay_parameters(moment, profile),
        *where.values,
        *behind.values,
        asked.limit + 1,
        skipped,
    ]
    found = [(parse_observation_row(row[:-1]), row[-1]) for row in rows.rows(sql, values)]
    shown = found[: asked.limit]
    more = None
    if shown and len(found) > asked.limit:
        last, last_key = shown[-1]
        at = epoch_ms(moment)
        more = _encode_cursor(
            _ListCursor(asked.sort, asked.order == "desc", last_key, last.id, at)
        )
    return MemoryPage(
        memories=tuple(views.memory_view(one, now, profile) for one, _ in shown),
        total=total,
        next_cursor=more,
    )


def _decay_parameters(moment: datetime, profile: Profile) -> tuple[int, int, int]:
    """Return what confidence at a moment is worked out from."""
    millisecond = timedelta(milliseconds=1)
    return profile.decay, epoch_ms(moment - profile.grace), profile.period // millisecond


def build_filter(agent: str | None, asked: MemoryFilter, now: datetime) -> WhereClause:
    """Write what is asked for as conditions.

    Raises:
        InvalidRequest: There is no such state.
    """
    where = WhereClause()
    where.add("(? IS NULL OR agent = ?)", agent, agent)
    where.add(_states(asked.state))
    if asked.forgotten is None:
        where.add("unsupported = 0")
    if asked.service == GENERAL_SERVICE:
        where.add("service IS NULL")
    elif asked.service:
        where.add("service = ?", asked.service)
    plain: dict[str, Value] = {
        "category": asked.category.value if asked.category else None,
        "tier": asked.tier,
        "origin": asked.origin,
        "contested": asked.contested,
        "pinned": asked.pinned,
        "session_id": asked.session,
    }
    for name, value in plain.items():
        if value is not None:
            where.add(f"{name} = ?", value)
    _add_scope(where, asked)
    if asked.entry:
        where.add(_FROM_ENTRY_SQL, asked.entry)
    if asked.stale is not None:
        soon = format_milli_timestamp(now + STALE_SOON)
        where.add(f"{'' if asked.stale else 'NOT '}(active AND COALESCE(fades_at <= ?, 0))", soon)
    _search(where, asked)
    return where


def _add_scope(where: WhereClause, asked: MemoryFilter) -> None:
    for name, visible in (("end_user", asked.user), ("view", asked.view)):
        if visible is not None:
            where.add(f"{name} IN ('', ?)", check_user(visible))


def _search(where: WhereClause, asked: MemoryFilter) -> None:
    words = _words(asked.q)
    for word in words:
        where.add(_TEXT_MATCH_SQL, f'"{word}"*', f"% {word}%", f"%{word}%")
    if asked.q.strip() and not words:
        where.add("0")  # nothing is found by signs alone


def _states(state: str | None) -> str:
    if state == ANY_STATE:
        return "1"
    if state is None:
        return f"state NOT IN ({_quoted(TRASH_STATES)})"
    if state == "trash":
        return f"state IN ({_quoted(TRASH_STATES - {ObservationState.PURGED})})"
    if state not in {one.value for one in ObservationState}:
        named = ", ".join([*ObservationState, "trash", ANY_STATE])
        raise InvalidRequest(f"there is no state {state!r}: it is one of {named}")
    return f"state = '{state}'"


def _quoted(states: Iterable[ObservationState]) -> str:
    return ", ".join(f"'{one}'" for one in sorted(states))


def _words(text: str) -> list[str]:
    """Return the words of a search: each has to be there, or begin a word that is."""
    return "".join(one if one.isalnum() else " " for one in text[:_MAX_SEARCH_CHARS]).split()


def _encode_cursor(cursor: _ListCursor) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode().rstrip("=")


def _decode_cursor(asked: MemoryQuery) -> _ListCursor:
    text = asked.cursor
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        cursor = msgspec.json.decode(raw, type=_ListCursor)
    except (ValueError, msgspec.DecodeError) as error:
        raise InvalidRequest("the cursor is not one that a list gave") from error
    if (cursor.sort, cursor.descending) != (asked.sort, asked.order == "desc"):
        raise InvalidRequest("the cursor belongs to a list in another order")
    if not 0 <= cursor.at < _MAX_CURSOR_TIME_MS or abs(cursor.id) >= _MAX_CURSOR_ID:
        raise InvalidRequest("the cursor is not one that a list gave")
    return cursor


def _moment(milliseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)


# Counts.


def list_services(rows: Connection, agent: str | None) -> list[ServiceView]:
    """Return what observations are about; general comes last."""
    sql = (
        "SELECT service, COUNT(*), SUM(active) FROM memories WHERE unsupported = 0 "
        "AND state IN ('active', 'inactive') AND (? IS NULL OR agent = ?) "
        "GROUP BY service ORDER BY service IS NULL, service"
    )
    return [
        ServiceView(service=name, memories=memories, active=active)
        for name, memories, active in rows.rows(sql, (agent, agent))
    ]


def count_stats(rows: Connection, agent: str | None, *, now: datetime, profile: Profile) -> Stats:
    """Count everything that is not purged, and of which not only forgotten turns speak."""

    def by(column: str) -> dict[str, int]:
        sql = (
            f"SELECT {column}, COUNT(*) FROM memories WHERE (? IS NULL OR agent = ?) "  # noqa: S608
            "AND state <> 'purged' AND unsupported = 0 GROUP BY 1 ORDER BY 1"
        )
        return {str(name): number for name, number in rows.rows(sql, (agent, agent))}

    def counted(what: str, *values: Value) -> int:
        sql = f"SELECT COUNT(*) FROM {what} AND (? IS NULL OR agent = ?)"  # noqa: S608
        return int(next(iter(rows.rows(sql, (*values, agent, agent))))[0])

    live = "memories WHERE state = 'active' AND unsupported = 0"
    soon = format_milli_timestamp(now + STALE_SOON)
    return Stats(
        by_state=by("state"),
        by_category=by("category"),
        by_tier=by("tier"),
        by_origin=by("origin"),
        histogram=_histogram(rows, agent, now, profile),
        injectable=counted(live),
        contested=counted(
            "memories WHERE contested = 1 AND unsupported = 0 AND state IN ('active', 'inactive')"
        ),
        conflicts=counted(f"conflicts WHERE is_open = 1 AND NOT {_OF_HIDDEN_MEMORY_SQL}"),
        quarantined=counted("memories WHERE state = 'quarantined' AND unsupported = 0"),
        rejects=counted(
            f"memory_rejects WHERE accepted_as IS NULL AND NOT {OF_FORGOTTEN_TURN_SQL}"
        ),
        stale=counted(f"{live} AND fades_at <= ?", soon),
    )


def _histogram(
    rows: Connection, agent: str | None, now: datetime, profile: Profile
) -> tuple[int, ...]:
    sql = (
        f"SELECT MIN(9, {_EFFECTIVE_CONFIDENCE_SQL} / 10), COUNT(*) FROM memories "  # noqa: S608
        "WHERE state = 'active' AND unsupported = 0 AND (? IS NULL OR agent = ?) GROUP BY 1"
    )
    found: dict[int, int] = dict(rows.rows(sql, (*_decay_parameters(now, profile), agent, agent)))
    return tuple(found.get(tenth, 0) for tenth in range(10))


def count_by_day(
    rows: Connection, agent: str | None, days: int, *, now: datetime
) -> list[DayView]:
    """Count observations by their states at the end of each of the last days.

    Raises:
        InvalidRequest: That is no number of days.
    """
    if not 1 <= days <= MOST_DAYS:
        raise InvalidRequest(f"memories are counted for 1 to {MOST_DAYS} days")
    kinds = ", ".join(f"'{kind}'" for kind in STATE_CHANGE_KINDS)
    sql = (
        "SELECT memory_id, at, kind FROM memory_events WHERE memory_id > 0 "  # noqa: S608
        "AND memory_id NOT IN (SELECT id FROM memories WHERE unsupported = 1) "
        f"AND (? IS NULL OR agent = ?) AND kind IN ({kinds}) ORDER BY memory_id, at, id"
    )
    states = rows.rows("SELECT id, state FROM memories")
    known = {memory: ObservationState(state) for memory, state in states}
    return counted_by_day(rows.rows(sql, (agent, agent)), known, now.date(), days)


def list_actions(rows: Connection, agent: str | None, asked: ActQuery) -> list[ActionView]:
    """Return what happened, the newest first.

    Raises:
        InvalidRequest: There is no page of that size.
    """
    if not 0 <= asked.limit <= MOST_LISTED:
        raise InvalidRequest(f"a page has 0 to {MOST_LISTED} events")
    where = WhereClause(["(? IS NULL OR agent = ?)"], [agent, agent])
    for name, value in (("actor_kind", asked.actor), ("kind", asked.kind)):
        if value:
            where.add(f"{name} = ?", value)
    if asked.before > 0:
        where.add("seq < ?", asked.before)
    if asked.forgotten is None:
        where.add(f"NOT {_ABOUT_FORGOTTEN_SQL}")
    sql = (
        f"SELECT seq, body, {_ABOUT_FORGOTTEN_SQL} FROM memory_events WHERE {where} "  # noqa: S608
        "ORDER BY seq DESC LIMIT ?"
    )
    found = (
        (seq, decode_event(body), bool(is_forgotten))
        for seq, body, is_forgotten in rows.rows(sql, (*where.values, asked.limit))
    )
    return [
        ActionView(
            seq=seq,
            agent=event.agent,
            event=msgspec.structs.replace(views.event_view(event), forgotten=is_forgotten),
        )
        for seq, event, is_forgotten in found
        if event is not None
    ]


def list_changes(rows: Connection, agent: str | None, after: int, limit: int) -> list[ChangeEvent]:
    """Return what happened after a place, in the order in which it was taken in."""
    sql = (
        "SELECT seq, kind, agent, memory_id, session_id, at FROM memory_events "
        "WHERE seq > ? AND (? IS NULL OR agent = ?) ORDER BY seq LIMIT ?"
    )
    return [
        ChangeEvent(
            seq=seq,
            kind=kind,
            agent=whose,
            memory_id=memory or None,
            session_id=session or None,
            at=at,
        )
        for seq, kind, whose, memory, session, at in rows.rows(sql, (after, agent, agent, limit))
    ]


def get_newest_change(rows: Connection) -> int:
    """Return the place of the last thing that happened."""
    return next(iter(rows.rows("SELECT MAX(seq) FROM memory_events")))[0] or 0
