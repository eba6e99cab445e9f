"""Every statement about operational memory, except those that list it.

Events come in, and what they are about is folded anew: rows are never changed in any other way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from memplane.auth.memory_scope import MemoryScope, ReadScope
from memplane.database.interface import Connection, Row, Value
from memplane.kit.clock import format_milli_timestamp
from memplane.observations import confidence, session_store
from memplane.observations.assertion_rules import ExistingObservation
from memplane.observations.confidence import ConfidenceState, Profile
from memplane.observations.conflicts import Conflict, fold_conflict
from memplane.observations.event_store import (
    delete_events,
    filter_kinds,
    insert_event,
    list_effective_events,
    list_events,
)
from memplane.observations.events import EventKind, ObservationEvent
from memplane.observations.model import Category, ObservationState
from memplane.observations.projection import (
    Observation,
    filter_effective_events,
    fold_observation,
    parse_event_time,
)
from memplane.observations.requests import LARGEST_NUMBER
from memplane.observations.views import EVIDENCE_KINDS

OBSERVATION_TABLES: Final = (
    *("sessions", "memories", "evidence", "conflicts", "receipts", "injection_items"),
    *("memory_rejects", "memory_events"),
)
EVENT_LEDGER: Final = "events"
"""What the event ledger is called where it is noted how far a ledger was read."""

OBSERVATION_COLUMNS: Final = (
    "id, agent, service, category, observation, confidence_c, weeks_charged, last_supported_at, "
    "pinned, state, created_at, updated_at, session_id, tier, origin, version, valid_from, "
    "recorded_at, valid_to, retired_at, superseded_by, expires_at, contested, unsupported, "
    "reason, flags, end_user, view"
)
_CONFLICT_COLUMNS: Final = (
    "id, agent, kind, memory_a, memory_b, signals, sessions, opened_at, is_open, resolution, "
    "end_user, view"
)
_CONFLICT_KINDS: Final = frozenset({EventKind.CONTESTED, EventKind.RESOLVED})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def apply_events(rows: Connection, events: Iterable[ObservationEvent], profile: Profile) -> int:
    """Keep events that are new, and fold anew what they are about; returns how many were new."""
    new = [event for event in events if insert_event(rows, event)]
    for event in new:
        session_store.apply_session_event(rows, event)
    for memory in sorted({one.memory for one in new if one.memory}):
        refold_observation(rows, memory, profile)
    refold_targets(rows, new)
    return len(new)


# What is folded out of them.


def refold_targets(rows: Connection, events: Sequence[ObservationEvent]) -> None:
    """Fold anew the conflicts and the rejects that events are about."""
    _fold_conflicts(rows, {one.target for one in filter_kinds(rows, events, _CONFLICT_KINDS)})
    taken = {one.target for one in filter_kinds(rows, events, {EventKind.TAKEN_UP})}
    session_store.refold_rejects(rows, taken)


def erase_words(rows: Connection, events: Sequence[ObservationEvent], profile: Profile) -> None:
    """Leave nothing of what events said that were erased."""
    delete_events(rows, events)
    for one in sorted({one.memory for one in events if one.memory}):
        refold_observation(rows, one, profile)
    refold_targets(rows, events)
    rejects = [(one.id,) for one in events if one.kind is EventKind.REJECTED]
    rows.run_many("DELETE FROM memory_rejects WHERE id = ?", rejects)


def refold_observation(rows: Connection, memory: int, profile: Profile) -> Observation | None:
    """Fold an observation anew, and keep what came out."""
    events = list_events(rows, memory)
    forgotten = find_forgotten_entries(rows, events)
    found = fold_observation(events, profile, forgotten=forgotten)
    rows.run("DELETE FROM evidence WHERE memory_id = ?", (memory,))
    if found is None:
        rows.run("DELETE FROM memories WHERE id = ?", (memory,))
        return None
    _upsert_observation(rows, found, profile)
    rows.run_many(
        "INSERT INTO evidence VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            _evidence(one)
            for one in filter_effective_events(events)
            if one.evidence and one.kind in EVIDENCE_KINDS
        ],
    )
    return found


def find_forgotten_entries(rows: Connection, events: Iterable[ObservationEvent]) -> frozenset[str]:
    """Return those entries among the evidence of events that were forgotten."""
    asked = {(one.agent, one.evidence.entry) for one in events if one.evidence}
    return frozenset(entry for agent, entry in asked if entry and is_forgotten(rows, agent, entry))


def is_forgotten(rows: Connection, agent: str, entry: str) -> bool:
    """Say whether an entry of an agent's ledger was forgotten."""
    sql = (
        "SELECT 1 FROM tombstones t JOIN agents a ON a.number = t.agent "
        "WHERE a.agent = ? AND t.id = ?"
    )
    return any(True for _ in rows.rows(sql, (agent, entry)))


def find_observations_of_entries(
    rows: Connection, agent: str, entries: Collection[str]
) -> list[int]:
    """Return the observations whose evidence is in some entries of a ledger."""
    sql = "SELECT DISTINCT memory_id FROM memory_events WHERE agent = ? AND entry = ?"
    found = {memory for entry in entries if entry for (memory,) in rows.rows(sql, (agent, entry))}
    return sorted(found - {0})


def refold_forgotten(rows: Connection, profile: Profile) -> None:
    """Fold anew what has evidence in an entry that was forgotten."""
    sql = (
        "SELECT DISTINCT e.memory_id FROM memory_events e JOIN agents a ON a.agent = e.agent "
        "JOIN tombstones t ON t.agent = a.number AND t.id = e.entry WHERE e.entry <> ''"
    )
    for memory in sorted(memory for (memory,) in rows.rows(sql) if memory):
        refold_observation(rows, memory, profile)


def refold_all(rows: Connection, profile: Profile) -> None:
    """Fold everything anew, as under another profile."""
    sql = "SELECT DISTINCT memory_id FROM memory_events WHERE memory_id > 0"
    for memory in sorted(memory for (memory,) in rows.rows(sql)):
        refold_observation(rows, memory, profile)


def list_unfinished_purges(rows: Connection) -> list[tuple[str, int]]:
    """Return the observations whose purge was begun and whose words are not all gone."""
    sql = (
        "SELECT DISTINCT p.agent, p.memory_id FROM memory_events p "
        "JOIN memory_events o ON o.memory_id = p.memory_id AND o.kind <> 'purged' "
        "WHERE p.kind = 'purged'"
    )
    return [(agent, memory) for agent, memory in rows.rows(sql)]


def _evidence(event: ObservationEvent) -> tuple[Value, ...]:
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


def _upsert_observation(rows: Connection, found: Observation, profile: Profile) -> None:
    standing = found.standing
    values: dict[str, Value] = {
        "id": found.id,
        "agent": found.agent,
        "service": found.service,
        "category": found.category.value,
        "observation": found.text,
        "confidence_c": standing.value,
        "active": found.is_active,
        "created_at": format_milli_timestamp(found.created),
        "updated_at": format_milli_timestamp(found.updated),
        "session_id": found.session or None,
        "tier": found.tier,
        "last_supported_at": format_milli_timestamp(standing.last_supported),
        "state": found.state.value,
        "pinned": standing.pinned,
        "contested": found.contested,
        "unsupported": found.unsupported,
        "version": found.version,
        "valid_from": format_milli_timestamp(found.valid_from),
        "valid_to": _stamped(found.valid_to),
        "recorded_at": format_milli_timestamp(found.recorded),
        "retired_at": _stamped(found.retired),
        "superseded_by": found.superseded_by or None,
        "expires_at": _stamped(found.expires),
        "norm_hash": found.norm_hash,
        "origin": found.origin,
        "reason": found.reason,
        "flags": "\n".join(found.flags),
        "end_user": found.user,
        "view": found.view,
        "weeks_charged": standing.weeks_charged,
        "supported_ms": epoch_ms(standing.last_supported),
        "fades_at": _stamped(_next_decay_at(found, profile)),
    }
    names = ", ".join(values)
    places = ", ".join("?" * len(values))
    changes = ", ".join(f"{name} = excluded.{name}" for name in values if name != "id")
    rows.run(
        f"INSERT INTO memories ({names}) VALUES ({places}) "  # noqa: S608 - our own names
        f"ON CONFLICT (id) DO UPDATE SET {changes}",
        tuple(values.values()),
    )


def _next_decay_at(found: Observation, profile: Profile) -> datetime | None:
    """Return when an observation will have to be looked at again, if nothing else happens."""
    if found.state not in {ObservationState.ACTIVE, ObservationState.INACTIVE}:
        return None
    decays = confidence.predict_inactive_at(found.standing, profile) if found.is_active else None
    return min((one for one in (decays, found.expires) if one is not None), default=None)


def parse_observation_row(row: Row) -> Observation:
    """Read an observation from its row; the columns are `COLUMNS`."""
    (number, agent, service, category, text, value, weeks, supported, pinned, state), rest = (
        row[:10],
        row[10:],
    )
    (created, updated, session, tier, origin, version, valid_from, recorded), rest = (
        rest[:8],
        rest[8:],
    )
    (valid_to, retired, superseded_by, expires, contested, unsupported), rest = rest[:6], rest[6:]
    reason, flags, user, view = rest
    return Observation(
        id=number,
        agent=agent,
        service=service,
        category=Category(category),
        text=text,
        standing=ConfidenceState(
            value=value,
            last_supported=parse_event_time(supported),
            weeks_charged=weeks,
            pinned=bool(pinned),
        ),
        state=ObservationState(state),
        created=parse_event_time(created),
        updated=parse_event_time(updated),
        session=session or 0,
        tier=tier,
        origin=origin,
        version=version,
        valid_from=parse_event_time(valid_from),
        recorded=parse_event_time(recorded),
        valid_to=_moment(valid_to),
        retired=_moment(retired),
        superseded_by=superseded_by or 0,
        expires=_moment(expires),
        contested=bool(contested),
        unsupported=bool(unsupported),
        reason=reason,
        flags=tuple(flags.split("\n")) if flags else (),
        user=user,
        view=view,
    )


def get_observation(rows: Connection, agent: str | None, memory: int) -> Observation | None:
    """Return an observation; None when there is none for that agent."""
    if not 0 < memory <= LARGEST_NUMBER:
        return None
    sql = f"SELECT {OBSERVATION_COLUMNS} FROM memories WHERE id = ? AND (? IS NULL OR agent = ?)"  # noqa: S608
    return next(
        (parse_observation_row(row) for row in rows.rows(sql, (memory, agent, agent))), None
    )


def list_by_service(
    rows: Connection, scope: MemoryScope, category: Category, service: str | None
) -> list[Observation]:
    """Return what is known in a scope about a service in a category, whatever state it is in."""
    sql = (
        f"SELECT {OBSERVATION_COLUMNS} FROM memories WHERE agent = ? "  # noqa: S608
        "AND end_user = ? AND view = ? AND category = ? AND service IS ? AND state <> 'purged' "
        "ORDER BY id"
    )
    whose = (scope.agent, scope.user, scope.view)
    found = rows.rows(sql, (*whose, category.value, service))
    return [parse_observation_row(row) for row in found]


def to_existing_observations(
    rows: Connection, found: Sequence[Observation], now: datetime, profile: Profile
) -> list[ExistingObservation]:
    """Return observations as something new is held against them."""
    reconciled = _reconciled(rows, found[0].agent) if found else {}
    return [
        ExistingObservation(
            id=one.id,
            text=one.text,
            state=one.state,
            confidence=confidence.value_at(one.standing, now, profile),
            last_supported=one.standing.last_supported,
            valid_from=one.valid_from,
            merged_into=one.superseded_by if one.reason == EventKind.MERGED.value else 0,
            reconciled=frozenset(reconciled.get(one.id, ())),
        )
        for one in found
    ]


def _reconciled(rows: Connection, agent: str) -> dict[int, set[int]]:
    """Return which observations an operator has said to go together."""
    sql = (
        "SELECT memory_a, memory_b FROM conflicts WHERE agent = ? AND is_open = 0 "
        "AND resolution IN ('both', 'dismiss') AND memory_b IS NOT NULL"
    )
    found: dict[int, set[int]] = {}
    for first, second in rows.rows(sql, (agent,)):
        found.setdefault(first, set()).add(second)
        found.setdefault(second, set()).add(first)
    return found


class ScopeFilter(msgspec.Struct, frozen=True):
    """The condition that a row is one that a read may see, and its parameters."""

    sql: str
    parameters: tuple[str, ...]


def make_scope_filter(scope: ReadScope) -> ScopeFilter:
    """Return the condition on rows: those of the user and the view, and what is shared."""
    if isinstance(scope, MemoryScope):
        sql = "agent = ? AND end_user IN ('', ?) AND view IN ('', ?)"
        return ScopeFilter(sql, (scope.agent, scope.user, scope.view))
    return ScopeFilter("agent = ?", (scope.agent,))


def list_services(rows: Connection, scope: ReadScope) -> frozenset[str]:
    """Return the services that something is known about in what a read may see."""
    seen = make_scope_filter(scope)
    sql = (
        f"SELECT DISTINCT service FROM memories WHERE {seen.sql} "  # noqa: S608 - our own words
        "AND service IS NOT NULL AND state IN ('active', 'inactive')"
    )
    return frozenset(name for (name,) in rows.rows(sql, seen.parameters))


def list_injectable(rows: Connection, scope: ReadScope) -> list[Observation]:
    """Return what may be told in a scope, as far as its row says."""
    seen = make_scope_filter(scope)
    sql = (
        f"SELECT {OBSERVATION_COLUMNS} FROM memories WHERE {seen.sql} "  # noqa: S608
        "AND state = 'active' AND unsupported = 0"
    )
    return [parse_observation_row(row) for row in rows.rows(sql, seen.parameters)]


def find_injectable(
    rows: Connection, scope: ReadScope, services: Sequence[str], words: str
) -> list[Observation]:
    """Return what may be told about services, or has some of the words of a search."""
    seen = make_scope_filter(scope)
    of_services = (
        f"SELECT {OBSERVATION_COLUMNS} FROM memories WHERE {seen.sql} AND state = 'active' "  # noqa: S608
        f"AND unsupported = 0 AND service IN ({', '.join('?' * len(services))}) "
        "ORDER BY confidence_c DESC, id LIMIT 20"
    )
    with_words = (
        # Found first and cut off then: what others know must not push out what may be told here.
        f"SELECT {OBSERVATION_COLUMNS} FROM memories WHERE {seen.sql} AND state = 'active' "  # noqa: S608
        "AND unsupported = 0 AND id IN (SELECT rowid FROM memories_text "
        "WHERE memories_text MATCH ?) ORDER BY confidence_c DESC, id LIMIT 200"
    )
    found = {row[0]: row for row in rows.rows(of_services, (*seen.parameters, *services))}
    if words:
        found |= {row[0]: row for row in rows.rows(with_words, (*seen.parameters, words))}
    return [parse_observation_row(row) for row in found.values()]


def list_unsupported_injectable(rows: Connection, agent: str) -> list[int]:
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


def has_injectable(rows: Connection, scope: ReadScope) -> bool:
    """Say whether there is anything that may be told in a scope."""
    seen = make_scope_filter(scope)
    sql = f"SELECT 1 FROM memories WHERE {seen.sql} AND state = 'active' LIMIT 1"  # noqa: S608
    return any(True for _ in rows.rows(sql, seen.parameters))


def list_evidence_entries(rows: Connection, memory: int) -> tuple[str, ...]:
    """Return the entries of ledgers that speak for an observation."""
    sql = (
        "SELECT DISTINCT ledger_entry_id FROM evidence WHERE memory_id = ? "
        "AND polarity = 'supports' AND ledger_entry_id <> '' ORDER BY 1 LIMIT 12"
    )
    return tuple(entry for (entry,) in rows.rows(sql, (memory,)))


def list_due_for_decay(rows: Connection, now: datetime) -> list[Observation]:
    """Return the observations whose time has come to be looked at."""
    sql = f"SELECT {OBSERVATION_COLUMNS} FROM memories WHERE fades_at <= ? ORDER BY id"  # noqa: S608
    return [parse_observation_row(row) for row in rows.rows(sql, (format_milli_timestamp(now),))]


def max_memory_id(rows: Connection) -> int:
    """Return the highest number that an observation ever had."""
    return _highest(rows, "SELECT MAX(memory_id) FROM memory_events")


def max_session_id(rows: Connection) -> int:
    """Return the highest number that a session ever had."""
    return _highest(rows, "SELECT MAX(session_id) FROM memory_events")


def _highest(rows: Connection, sql: str) -> int:
    return next(iter(rows.rows(sql)))[0] or 0


# Conflicts.


def _fold_conflicts(rows: Connection, keys: Iterable[str]) -> None:
    for key in keys:
        found = fold_conflict(key, list_effective_events(rows, key, _CONFLICT_KINDS))
        rows.run("DELETE FROM conflicts WHERE id = ?", (key,))
        if found is not None:
            rows.run(
                "INSERT INTO conflicts (id, agent, kind, memory_a, memory_b, signals, sessions, "
                "opened_at, is_open, resolution, end_user, view) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(found.key, found.agent, found.kind, found.a, found.b or None),
                    msgspec.json.encode(found.signals).decode(),
                    msgspec.json.encode(found.sessions).decode(),
                    *(found.opened, found.is_open, found.resolution, found.user, found.view),
                ),
            )


def list_conflicts(
    rows: Connection, agent: str | None, *, is_open: bool | None = True
) -> list[Conflict]:
    """Return conflicts, the oldest first."""
    sql = (
        f"SELECT {_CONFLICT_COLUMNS} FROM conflicts WHERE (? IS NULL OR agent = ?) "  # noqa: S608
        "AND (? IS NULL OR is_open = ?) ORDER BY opened_at, id"
    )
    return [_conflict(row) for row in rows.rows(sql, (agent, agent, is_open, is_open))]


def list_conflicts_of(
    rows: Connection, memory: int, *, is_open: bool | None = True
) -> list[Conflict]:
    """Return the conflicts of an observation."""
    sql = (
        f"SELECT {_CONFLICT_COLUMNS} FROM conflicts WHERE (? IS NULL OR is_open = ?) "  # noqa: S608
        "AND (memory_a = ? OR memory_b = ?) ORDER BY opened_at, id"
    )
    return [_conflict(row) for row in rows.rows(sql, (is_open, is_open, memory, memory))]


def _conflict(row: Row) -> Conflict:
    key, agent, kind, a, b, signals, sessions, opened, is_open, resolution, user, view = row
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
        user=user,
        view=view,
    )


def epoch_ms(moment: datetime) -> int:
    """Return a moment in milliseconds, as rows are compared by."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else parse_event_time(text)


def _stamped(moment: datetime | None) -> str | None:
    return None if moment is None else format_milli_timestamp(moment)
