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

from memplane.clock import milli_stamp
from memplane.errors import InvalidRequest
from memplane.observations import views
from memplane.observations.by_day import MOVING
from memplane.observations.by_day import by_day as counted_by_day
from memplane.observations.confidence import Profile
from memplane.observations.contract import (
    MOST_DAYS,
    MOST_LISTED,
    ActsAsked,
    ActView,
    ChangeTold,
    DayView,
    ListAsked,
    MemoryPage,
    ServiceView,
    Stats,
)
from memplane.observations.events import decoded
from memplane.observations.model import State
from memplane.observations.rows import COLUMNS, observation_of, since_1970
from memplane.records.store import Connection, Value

GENERAL: Final = "general"
ANY: Final = "any"
TRASH: Final = frozenset({State.RETIRED, State.SUPERSEDED, State.PURGED})

SOON: Final = timedelta(days=7)
_LONGEST_SEARCH: Final = 200
_FAR: Final = 1 << 47
_LARGEST: Final = 1 << 62
_EFFECTIVE: Final = (
    "CASE WHEN pinned THEN confidence_c ELSE MAX(0, confidence_c - ? * "
    "MAX(0, MAX(0, (? - supported_ms) / ?) - weeks_charged)) END"
)
"""What confidence is worth: given the decay, the moment less the grace, and the period."""
_FOUND: Final = (
    "(id IN (SELECT rowid FROM memories_text WHERE memories_text MATCH ?) "
    "OR ' ' || observation LIKE ? OR service LIKE ?)"
)
"""The index knows words by their stems: `starting` is found there, `startin` only by its letters.
"""
_FROM_ENTRY: Final = (
    "EXISTS (SELECT 1 FROM memory_events AS told WHERE told.agent = memories.agent "
    "AND told.entry = ? AND told.entry <> '' AND told.memory_id = memories.id)"
)
_KEYS: Final[Mapping[str, str]] = {
    "confidence": "effective",
    "updated": "updated_at",
    "created": "created_at",
    "service": "COALESCE(service, char(0x10ffff))",
    "category": "category",
    "observation": "observation",
    "state": "state",
    "id": "id",
}


class _Cursor(msgspec.Struct, frozen=True, array_like=True):
    """Behind which row to go on, in which order, as of when."""

    sort: str
    descending: bool
    key: int | str
    id: int
    at: int


class Where(msgspec.Struct):
    """Conditions, and what stands for their `?`."""

    conditions: list[str] = msgspec.field(default_factory=list[str])
    values: list[Value] = msgspec.field(default_factory=list[Value])

    def add(self, condition: str, *values: Value) -> None:
        self.conditions.append(condition)
        self.values += values

    def __str__(self) -> str:
        return " AND ".join(self.conditions)


def page(
    rows: Connection, agent: str | None, asked: ListAsked, *, now: datetime, profile: Profile
) -> MemoryPage:
    """Return a page of observations.

    Raises:
        InvalidRequest: There is no such state or cursor, or no page of that size.
    """
    if not 0 <= asked.limit <= MOST_LISTED or asked.offset < 0:
        raise InvalidRequest(f"a page has 0 to {MOST_LISTED} memories, from offset 0 on")
    cursor = _read(asked) if asked.cursor else None
    moment = _moment(cursor.at) if cursor else now
    where = filtered(agent, asked, now)
    counting = f"SELECT COUNT(*) FROM memories WHERE {where}"  # noqa: S608 - our own words
    total = next(iter(rows.rows(counting, where.values)))[0]
    key, order = _KEYS[asked.sort], "DESC" if asked.descending else "ASC"
    behind = Where(["1"])
    if cursor is not None:
        sign = "<" if asked.descending else ">"
        behind.add(
            f"({key} {sign} ? OR ({key} = ? AND id > ?))", cursor.key, cursor.key, cursor.id
        )
    sql = (
        f"WITH listed AS (SELECT *, {_EFFECTIVE} AS effective FROM memories WHERE {where}) "  # noqa: S608
        f"SELECT {COLUMNS}, {key} FROM listed WHERE {behind} "
        f"ORDER BY {key} {order}, id LIMIT ? OFFSET ?"
    )
    skipped = 0 if cursor else asked.offset
    values = [*_worth(moment, profile), *where.values, *behind.values, asked.limit + 1, skipped]
    found = [(observation_of(row[:-1]), row[-1]) for row in rows.rows(sql, values)]
    shown = found[: asked.limit]
    more = None
    if shown and len(found) > asked.limit:
        last, last_key = shown[-1]
        at = since_1970(moment)
        more = _written(_Cursor(asked.sort, asked.descending, last_key, last.id, at))
    return MemoryPage(
        memories=tuple(views.memory_view(one, now, profile) for one, _ in shown),
        total=total,
        next_cursor=more,
    )


def _worth(moment: datetime, profile: Profile) -> tuple[int, int, int]:
    """Return what confidence at a moment is worked out from."""
    millisecond = timedelta(milliseconds=1)
    return profile.decay, since_1970(moment - profile.grace), profile.period // millisecond


def filtered(agent: str | None, asked: ListAsked, now: datetime) -> Where:
    """Write what is asked for as conditions.

    Raises:
        InvalidRequest: There is no such state.
    """
    where = Where()
    where.add("(? IS NULL OR agent = ?)", agent, agent)
    where.add(_states(asked.state))
    if asked.service == GENERAL:
        where.add("service IS NULL")
    elif asked.service is not None:
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
    if asked.entry:
        where.add(_FROM_ENTRY, asked.entry)
    if asked.stale is not None:
        soon = milli_stamp(now + SOON)
        where.add(f"{'' if asked.stale else 'NOT '}(active AND COALESCE(fades_at <= ?, 0))", soon)
    _search(where, asked)
    return where


def _search(where: Where, asked: ListAsked) -> None:
    words = _words(asked.q)
    for word in words:
        where.add(_FOUND, f'"{word}"*', f"% {word}%", f"%{word}%")
    if asked.q.strip() and not words:
        where.add("0")  # nothing is found by signs alone


def _states(state: str | None) -> str:
    if state == ANY:
        return "1"
    if state is None:
        return f"state NOT IN ({_quoted(TRASH)})"
    if state == "trash":
        return f"state IN ({_quoted(TRASH - {State.PURGED})})"
    if state not in {one.value for one in State}:
        named = ", ".join([*State, "trash", ANY])
        raise InvalidRequest(f"there is no state {state!r}: it is one of {named}")
    return f"state = '{state}'"


def _quoted(states: Iterable[State]) -> str:
    return ", ".join(f"'{one}'" for one in sorted(states))


def _words(text: str) -> list[str]:
    """Return the words of a search: each has to be there, or begin a word that is."""
    return "".join(one if one.isalnum() else " " for one in text[:_LONGEST_SEARCH]).split()


def _written(cursor: _Cursor) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode().rstrip("=")


def _read(asked: ListAsked) -> _Cursor:
    text = asked.cursor
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        cursor = msgspec.json.decode(raw, type=_Cursor)
    except (ValueError, msgspec.DecodeError) as error:
        raise InvalidRequest("the cursor is not one that a list gave") from error
    if (cursor.sort, cursor.descending) != (asked.sort, asked.descending):
        raise InvalidRequest("the cursor belongs to a list in another order")
    if not 0 <= cursor.at < _FAR or abs(cursor.id) >= _LARGEST:
        raise InvalidRequest("the cursor is not one that a list gave")
    return cursor


def _moment(milliseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)


# Counts.


def services(rows: Connection, agent: str | None) -> list[ServiceView]:
    """Return what observations are about; general comes last."""
    sql = (
        "SELECT name, SUM(memories), SUM(active) FROM services WHERE (? IS NULL OR agent = ?) "
        "GROUP BY name ORDER BY name IS NULL, name"
    )
    return [
        ServiceView(service=name, memories=memories, active=active)
        for name, memories, active in rows.rows(sql, (agent, agent))
    ]


def stats(rows: Connection, agent: str | None, *, now: datetime, profile: Profile) -> Stats:
    """Count everything that is not purged."""

    def by(column: str) -> dict[str, int]:
        sql = (
            f"SELECT {column}, COUNT(*) FROM memories WHERE (? IS NULL OR agent = ?) "  # noqa: S608
            "AND state <> 'purged' GROUP BY 1 ORDER BY 1"
        )
        return {str(name): number for name, number in rows.rows(sql, (agent, agent))}

    def counted(what: str, *values: Value) -> int:
        sql = f"SELECT COUNT(*) FROM {what} AND (? IS NULL OR agent = ?)"  # noqa: S608
        return int(next(iter(rows.rows(sql, (*values, agent, agent))))[0])

    live = "memories WHERE state = 'active' AND unsupported = 0"
    soon = milli_stamp(now + SOON)
    return Stats(
        by_state=by("state"),
        by_category=by("category"),
        by_tier=by("tier"),
        by_origin=by("origin"),
        histogram=_histogram(rows, agent, now, profile),
        injectable=counted(live),
        contested=counted("memories WHERE contested = 1 AND state IN ('active', 'inactive')"),
        conflicts=counted("conflicts WHERE is_open = 1"),
        quarantined=counted("memories WHERE state = 'quarantined'"),
        rejects=counted("memory_rejects WHERE accepted_as IS NULL"),
        stale=counted(f"{live} AND fades_at <= ?", soon),
    )


def _histogram(
    rows: Connection, agent: str | None, now: datetime, profile: Profile
) -> tuple[int, ...]:
    sql = (
        f"SELECT MIN(9, {_EFFECTIVE} / 10), COUNT(*) FROM memories "  # noqa: S608
        "WHERE state = 'active' AND (? IS NULL OR agent = ?) GROUP BY 1"
    )
    found: dict[int, int] = dict(rows.rows(sql, (*_worth(now, profile), agent, agent)))
    return tuple(found.get(tenth, 0) for tenth in range(10))


def by_day(rows: Connection, agent: str | None, days: int, *, now: datetime) -> list[DayView]:
    """Count observations by their states at the end of each of the last days.

    Raises:
        InvalidRequest: That is no number of days.
    """
    if not 1 <= days <= MOST_DAYS:
        raise InvalidRequest(f"memories are counted for 1 to {MOST_DAYS} days")
    kinds = ", ".join(f"'{kind}'" for kind in MOVING)
    sql = (
        "SELECT memory_id, at, kind FROM memory_events WHERE memory_id > 0 "  # noqa: S608
        f"AND (? IS NULL OR agent = ?) AND kind IN ({kinds}) ORDER BY memory_id, at, id"
    )
    states = rows.rows("SELECT id, state FROM memories")
    known = {memory: State(state) for memory, state in states}
    return counted_by_day(rows.rows(sql, (agent, agent)), known, now.date(), days)


def acts(rows: Connection, agent: str | None, asked: ActsAsked) -> list[ActView]:
    """Return what happened, the newest first.

    Raises:
        InvalidRequest: There is no page of that size.
    """
    if not 0 <= asked.limit <= MOST_LISTED:
        raise InvalidRequest(f"a page has 0 to {MOST_LISTED} events")
    where = Where(["(? IS NULL OR agent = ?)"], [agent, agent])
    for name, value in (("actor_kind", asked.actor), ("kind", asked.kind)):
        if value:
            where.add(f"{name} = ?", value)
    if asked.before > 0:
        where.add("seq < ?", asked.before)
    sql = f"SELECT seq, body FROM memory_events WHERE {where} ORDER BY seq DESC LIMIT ?"  # noqa: S608
    found = ((seq, decoded(body)) for seq, body in rows.rows(sql, (*where.values, asked.limit)))
    return [
        ActView(seq=seq, agent=event.agent, event=views.event_view(event))
        for seq, event in found
        if event is not None
    ]


def changes(rows: Connection, agent: str | None, after: int, limit: int) -> list[ChangeTold]:
    """Return what happened after a place, in the order in which it was taken in."""
    sql = (
        "SELECT seq, kind, agent, memory_id, session_id, at FROM memory_events "
        "WHERE seq > ? AND (? IS NULL OR agent = ?) ORDER BY seq LIMIT ?"
    )
    return [
        ChangeTold(
            seq=seq,
            kind=kind,
            agent=whose,
            memory_id=memory or None,
            session_id=session or None,
            at=at,
        )
        for seq, kind, whose, memory, session, at in rows.rows(sql, (after, agent, agent, limit))
    ]


def newest_change(rows: Connection) -> int:
    """Return the place of the last thing that happened."""
    return next(iter(rows.rows("SELECT MAX(seq) FROM memory_events")))[0] or 0
