"""Every statement about operational memory, except those that list it.

Events come in, and what they are about is folded anew: rows are never changed in any other way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from memplane.clock import milli_stamp
from memplane.observations import confidence, session_rows
from memplane.observations.confidence import Profile, Standing
from memplane.observations.conflicts import Conflict, conflict_of
from memplane.observations.deciding import Known
from memplane.observations.event_rows import (
    drop,
    events_of,
    keep,
    of_kinds,
    standing_about,
)
from memplane.observations.events import Event, Kind
from memplane.observations.folding import Observation, counted, moment_of, observed
from memplane.observations.model import Category, State
from memplane.observations.views import BEARING
from memplane.records.store import Connection, Row, Value

TABLES: Final = (
    *("sessions", "memories", "evidence", "conflicts", "receipts", "injection_items"),
    *("memory_rejects", "memory_events"),
)
LEDGER: Final = "events"
"""What the event ledger is called where it is noted how far a ledger was read."""

COLUMNS: Final = (
    "id, agent, service, category, observation, confidence_c, weeks_charged, last_supported_at, "
    "pinned, state, created_at, updated_at, session_id, tier, origin, version, valid_from, "
    "recorded_at, valid_to, retired_at, superseded_by, expires_at, contested, unsupported, "
    "reason, flags"
)
_ABOUT_CONFLICTS: Final = frozenset({Kind.CONTESTED, Kind.RESOLVED})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def take_in(rows: Connection, events: Iterable[Event], profile: Profile) -> int:
    """Keep events that are new, and fold anew what they are about; returns how many were new."""
    new = [event for event in events if keep(rows, event)]
    for event in new:
        session_rows.note(rows, event)
    for memory in sorted({one.memory for one in new if one.memory}):
        fold(rows, memory, profile)
    fold_about(rows, new)
    return len(new)


# What is folded out of them.


def fold_about(rows: Connection, events: Sequence[Event]) -> None:
    """Fold anew the conflicts and the rejects that events are about."""
    _fold_conflicts(rows, {one.target for one in of_kinds(rows, events, _ABOUT_CONFLICTS)})
    taken = {one.target for one in of_kinds(rows, events, {Kind.TAKEN_UP})}
    session_rows.fold_rejects(rows, taken)


def forget_words(rows: Connection, memory: int, events: Sequence[Event], profile: Profile) -> None:
    """Leave nothing of what events said of an observation that was purged."""
    drop(rows, events)
    for one in sorted({memory, *(one.memory for one in events if one.memory)}):
        fold(rows, one, profile)
    fold_about(rows, events)
    rejects = [(one.id,) for one in events if one.kind is Kind.REJECTED]
    rows.run_each("DELETE FROM memory_rejects WHERE id = ?", rejects)


def fold(rows: Connection, memory: int, profile: Profile) -> Observation | None:
    """Fold an observation anew, and keep what came out."""
    events = events_of(rows, memory)
    forgotten = forgotten_entries(rows, events)
    found = observed(events, profile, forgotten=forgotten)
    rows.run("DELETE FROM evidence WHERE memory_id = ?", (memory,))
    if found is None:
        rows.run("DELETE FROM memories WHERE id = ?", (memory,))
        return None
    _put(rows, found, profile)
    rows.run_each(
        "INSERT INTO evidence VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [_evidence(one) for one in counted(events) if one.evidence and one.kind in BEARING],
    )
    return found


def forgotten_entries(rows: Connection, events: Iterable[Event]) -> frozenset[str]:
    """Return those entries among the evidence of events that were forgotten."""
    asked = {(one.agent, one.evidence.entry) for one in events if one.evidence}
    sql = (
        "SELECT 1 FROM tombstones t JOIN agents a ON a.number = t.agent "
        "WHERE a.agent = ? AND t.id = ?"
    )
    return frozenset(
        entry
        for agent, entry in asked
        if entry and any(True for _ in rows.rows(sql, (agent, entry)))
    )


def resting_on(rows: Connection, agent: str, entries: Collection[str]) -> list[int]:
    """Return the observations whose evidence is in some entries of a ledger."""
    sql = "SELECT DISTINCT memory_id FROM memory_events WHERE agent = ? AND entry = ?"
    found = {memory for entry in entries if entry for (memory,) in rows.rows(sql, (agent, entry))}
    return sorted(found - {0})


def fold_forgotten(rows: Connection, profile: Profile) -> None:
    """Fold anew what has evidence in an entry that was forgotten."""
    sql = (
        "SELECT DISTINCT e.memory_id FROM memory_events e JOIN agents a ON a.agent = e.agent "
        "JOIN tombstones t ON t.agent = a.number AND t.id = e.entry WHERE e.entry <> ''"
    )
    for memory in sorted(memory for (memory,) in rows.rows(sql) if memory):
        fold(rows, memory, profile)


def fold_all(rows: Connection, profile: Profile) -> None:
    """Fold everything anew, as under another profile."""
    sql = "SELECT DISTINCT memory_id FROM memory_events WHERE memory_id > 0"
    for memory in sorted(memory for (memory,) in rows.rows(sql)):
        fold(rows, memory, profile)


def half_purged(rows: Connection) -> list[tuple[str, int]]:
    """Return the observations whose purge was begun and whose words are not all gone."""
    sql = (
        "SELECT DISTINCT p.agent, p.memory_id FROM memory_events p "
        "JOIN memory_events o ON o.memory_id = p.memory_id AND o.kind <> 'purged' "
        "WHERE p.kind = 'purged'"
    )
    return [(agent, memory) for agent, memory in rows.rows(sql)]


def _evidence(event: Event) -> tuple[Value, ...]:
    found = event.evidence
    assert found is not None  # noqa: S101 - asked before
    return (
        *(event.id, event.memory, event.session or None, event.tier, found.message),
        *(found.line or None, found.offset if found.line else None, found.digest, found.entry),
        found.quote,
        "supports" if found.supports else "contradicts",
        found.source.value,
        event.ts,
    )


def _put(rows: Connection, found: Observation, profile: Profile) -> None:
    standing = found.standing
    values: dict[str, Value] = {
        "id": found.id,
        "agent": found.agent,
        "service": found.service,
        "category": found.category.value,
        "observation": found.text,
        "confidence_c": standing.value,
        "active": found.is_active,
        "created_at": milli_stamp(found.created),
        "updated_at": milli_stamp(found.updated),
        "session_id": found.session or None,
        "tier": found.tier,
        "last_supported_at": milli_stamp(standing.last_supported),
        "state": found.state.value,
        "pinned": standing.pinned,
        "contested": found.contested,
        "unsupported": found.unsupported,
        "version": found.version,
        "valid_from": milli_stamp(found.valid_from),
        "valid_to": _stamped(found.valid_to),
        "recorded_at": milli_stamp(found.recorded),
        "retired_at": _stamped(found.retired),
        "superseded_by": found.superseded_by or None,
        "expires_at": _stamped(found.expires),
        "norm_hash": found.norm_hash,
        "origin": found.origin,
        "reason": found.reason,
        "flags": "\n".join(found.flags),
        "weeks_charged": standing.weeks_charged,
        "supported_ms": since_1970(standing.last_supported),
        "fades_at": _stamped(_fades(found, profile)),
    }
    names = ", ".join(values)
    places = ", ".join("?" * len(values))
    changes = ", ".join(f"{name} = excluded.{name}" for name in values if name != "id")
    rows.run(
        f"INSERT INTO memories ({names}) VALUES ({places}) "  # noqa: S608 - our own names
        f"ON CONFLICT (id) DO UPDATE SET {changes}",
        tuple(values.values()),
    )


def _fades(found: Observation, profile: Profile) -> datetime | None:
    """Return when an observation will have to be looked at again, if nothing else happens."""
    if found.state not in {State.ACTIVE, State.INACTIVE}:
        return None
    decays = confidence.goes_inactive_at(found.standing, profile) if found.is_active else None
    return min((one for one in (decays, found.expires) if one is not None), default=None)


def observation_of(row: Row) -> Observation:
    """Read an observation from its row; the columns are `COLUMNS`."""
    (number, agent, service, category, text, value, weeks, supported, pinned, state), rest = (
        row[:10],
        row[10:],
    )
    (created, updated, session, tier, origin, version, valid_from, recorded), rest = (
        rest[:8],
        rest[8:],
    )
    valid_to, retired, superseded_by, expires, contested, unsupported, reason, flags = rest
    return Observation(
        id=number,
        agent=agent,
        service=service,
        category=Category(category),
        text=text,
        standing=Standing(
            value=value,
            last_supported=moment_of(supported),
            weeks_charged=weeks,
            pinned=bool(pinned),
        ),
        state=State(state),
        created=moment_of(created),
        updated=moment_of(updated),
        session=session or 0,
        tier=tier,
        origin=origin,
        version=version,
        valid_from=moment_of(valid_from),
        recorded=moment_of(recorded),
        valid_to=_moment(valid_to),
        retired=_moment(retired),
        superseded_by=superseded_by or 0,
        expires=_moment(expires),
        contested=bool(contested),
        unsupported=bool(unsupported),
        reason=reason,
        flags=tuple(flags.split("\n")) if flags else (),
    )


def one(rows: Connection, agent: str | None, memory: int) -> Observation | None:
    """Return an observation; None when there is none for that agent."""
    sql = f"SELECT {COLUMNS} FROM memories WHERE id = ? AND (? IS NULL OR agent = ?)"  # noqa: S608
    return next((observation_of(row) for row in rows.rows(sql, (memory, agent, agent))), None)


def with_text(
    rows: Connection, agent: str, category: Category, service: str | None
) -> list[Observation]:
    """Return what is known about a service in a category, whatever state it is in."""
    sql = (
        f"SELECT {COLUMNS} FROM memories WHERE agent = ? AND category = ? "  # noqa: S608
        "AND service IS ? AND state <> 'purged' ORDER BY id"
    )
    return [observation_of(row) for row in rows.rows(sql, (agent, category.value, service))]


def known(found: Iterable[Observation], now: datetime, profile: Profile) -> list[Known]:
    """Return observations as something new is held against them."""
    return [
        Known(
            id=one.id,
            text=one.text,
            state=one.state,
            confidence=confidence.at(one.standing, now, profile),
            last_supported=one.standing.last_supported,
            valid_from=one.valid_from,
            merged_into=one.superseded_by if one.reason == Kind.MERGED.value else 0,
        )
        for one in found
    ]


def tellable(rows: Connection, agent: str) -> list[Observation]:
    """Return what may be told, as far as its row says."""
    sql = (
        f"SELECT {COLUMNS} FROM memories WHERE agent = ? AND state = 'active' "  # noqa: S608
        "AND unsupported = 0"
    )
    return [observation_of(row) for row in rows.rows(sql, (agent,))]


def tellable_about(
    rows: Connection, agent: str, services: Sequence[str], words: str
) -> list[Observation]:
    """Return what may be told about services, or has some of the words of a search."""
    of_services = (
        f"SELECT {COLUMNS} FROM memories WHERE agent = ? AND state = 'active' "  # noqa: S608
        f"AND unsupported = 0 AND service IN ({', '.join('?' * len(services))}) "
        "ORDER BY confidence_c DESC, id LIMIT 20"
    )
    with_words = (
        f"SELECT {COLUMNS} FROM memories WHERE id IN (SELECT rowid FROM memories_text "  # noqa: S608
        "WHERE memories_text MATCH ? ORDER BY rank LIMIT 40) "
        "AND agent = ? AND state = 'active' AND unsupported = 0"
    )
    found = {row[0]: row for row in rows.rows(of_services, (agent, *services))}
    if words:
        found |= {row[0]: row for row in rows.rows(with_words, (words, agent))}
    return [observation_of(row) for row in found.values()]


def told_of_forgotten(rows: Connection, agent: str) -> list[int]:
    """Return what may be told although everything that speaks for it was forgotten; there is none.

    It looks at evidence and tombstones, and not at what the fold made of them.
    """
    sql = (
        "SELECT m.id FROM memories m WHERE m.agent = ? AND m.state = 'active' "
        "AND m.unsupported = 0 AND EXISTS (SELECT 1 FROM evidence e WHERE e.memory_id = m.id) "
        "AND NOT EXISTS (SELECT 1 FROM evidence e WHERE e.memory_id = m.id "
        "AND e.polarity = 'supports' AND (e.ledger_entry_id = '' OR e.ledger_entry_id NOT IN "
        "(SELECT t.id FROM tombstones t JOIN agents a ON a.number = t.agent "
        "WHERE a.agent = m.agent)))"
    )
    return [memory for (memory,) in rows.rows(sql, (agent,))]


def has_any(rows: Connection, agent: str) -> bool:
    """Say whether an agent has anything that may be told."""
    sql = "SELECT 1 FROM memories WHERE agent = ? AND state = 'active' LIMIT 1"
    return any(True for _ in rows.rows(sql, (agent,)))


def entries_of(rows: Connection, memory: int) -> tuple[str, ...]:
    """Return the entries of ledgers that speak for an observation."""
    sql = (
        "SELECT DISTINCT ledger_entry_id FROM evidence WHERE memory_id = ? "
        "AND polarity = 'supports' AND ledger_entry_id <> '' ORDER BY 1 LIMIT 12"
    )
    return tuple(entry for (entry,) in rows.rows(sql, (memory,)))


def fading(rows: Connection, now: datetime) -> list[Observation]:
    """Return the observations whose time has come to be looked at."""
    sql = f"SELECT {COLUMNS} FROM memories WHERE fades_at <= ? ORDER BY id"  # noqa: S608
    return [observation_of(row) for row in rows.rows(sql, (milli_stamp(now),))]


def highest_memory(rows: Connection) -> int:
    """Return the highest number that an observation ever had."""
    return _highest(rows, "SELECT MAX(memory_id) FROM memory_events")


def highest_session(rows: Connection) -> int:
    """Return the highest number that a session ever had."""
    return _highest(rows, "SELECT MAX(session_id) FROM memory_events")


def _highest(rows: Connection, sql: str) -> int:
    return next(iter(rows.rows(sql)))[0] or 0


# Conflicts.


def _fold_conflicts(rows: Connection, keys: Iterable[str]) -> None:
    for key in keys:
        found = conflict_of(key, standing_about(rows, key, _ABOUT_CONFLICTS))
        rows.run("DELETE FROM conflicts WHERE id = ?", (key,))
        if found is not None:
            rows.run(
                "INSERT INTO conflicts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(found.key, found.agent, found.kind, found.a, found.b or None),
                    msgspec.json.encode(found.signals).decode(),
                    msgspec.json.encode(found.sessions).decode(),
                    *(found.opened, found.is_open, found.resolution),
                ),
            )


def conflicts(
    rows: Connection, agent: str | None, *, is_open: bool | None = True
) -> list[Conflict]:
    """Return conflicts, the oldest first."""
    sql = (
        "SELECT id, agent, kind, memory_a, memory_b, signals, sessions, opened_at, is_open, "
        "resolution FROM conflicts WHERE (? IS NULL OR agent = ?) AND (? IS NULL OR is_open = ?) "
        "ORDER BY opened_at, id"
    )
    return [_conflict(row) for row in rows.rows(sql, (agent, agent, is_open, is_open))]


def conflicts_of(rows: Connection, memory: int, *, is_open: bool | None = True) -> list[Conflict]:
    """Return the conflicts of an observation."""
    sql = (
        "SELECT id, agent, kind, memory_a, memory_b, signals, sessions, opened_at, is_open, "
        "resolution FROM conflicts WHERE (? IS NULL OR is_open = ?) "
        "AND (memory_a = ? OR memory_b = ?) ORDER BY opened_at, id"
    )
    return [_conflict(row) for row in rows.rows(sql, (is_open, is_open, memory, memory))]


def _conflict(row: Row) -> Conflict:
    key, agent, kind, a, b, signals, sessions, opened, is_open, resolution = row
    return Conflict(
        key=key,
        agent=agent,
        kind=kind,
        a=a,
        b=b or 0,
        signals=msgspec.json.decode(signals, type=tuple[str, ...]),
        opened=opened,
        sessions=msgspec.json.decode(sessions, type=tuple[int, ...]),
        is_open=bool(is_open),
        resolution=resolution,
    )


def since_1970(moment: datetime) -> int:
    """Return a moment in milliseconds, as rows are compared by."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else moment_of(text)


def _stamped(moment: datetime | None) -> str | None:
    return None if moment is None else milli_stamp(moment)
