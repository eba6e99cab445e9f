"""Every statement about the events of operational memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec

from memplane.database.interface import Connection, Value
from memplane.observations.events import EventKind, ObservationEvent, decode_event
from memplane.observations.projection import filter_effective_events, sort_events


def insert_event(rows: Connection, event: ObservationEvent) -> bool:
    """Keep an event; returns whether it is new."""
    found = event.evidence
    return bool(
        rows.run(
            "INSERT INTO memory_events (id, agent, memory_id, at, kind, actor_kind, actor, "
            "session_id, batch, target, message, entry, key, end_user, view, body) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (
                *(event.id, event.agent, event.memory, event.ts, event.kind.value),
                *(event.actor.value, event.who, event.session, event.batch, event.target),
                *(found.message if found else "", found.entry if found else "", event.key),
                *(event.user, event.view),
                msgspec.json.encode(event),
            ),
        )
    )


def list_events(rows: Connection, memory: int) -> list[ObservationEvent]:
    """Return all that happened to an observation, in the order of its fold."""
    return select_events(rows, "memory_id = ? ORDER BY at, id", memory)


def list_batch_events(rows: Connection, agent: str | None, batch: str) -> list[ObservationEvent]:
    """Return what was done in one go."""
    found = select_events(rows, "batch = ? ORDER BY at, id", batch) if batch else []
    return [one for one in found if agent in {None, one.agent}]


def list_batch_memories(
    rows: Connection, agent: str | None, memory: int
) -> dict[str, tuple[int, ...]]:
    """Return the other memories that operators did something to in one go, by batch."""
    sql = (
        "SELECT DISTINCT o.batch, o.memory_id FROM memory_events e "
        "JOIN memory_events o ON o.batch = e.batch "
        "WHERE e.memory_id = ? AND e.actor_kind = 'operator' AND e.batch <> '' "
        "AND o.memory_id NOT IN (0, e.memory_id) AND ? IN ('', o.agent) ORDER BY 1, 2"
    )
    found: dict[str, tuple[int, ...]] = {}
    for batch, other in rows.rows(sql, (memory, agent or "")):
        found[batch] = (*found.get(batch, ()), other)
    return found


def list_message_events(
    rows: Connection, session: int, messages: Collection[str]
) -> list[ObservationEvent]:
    """Return what came of messages of a session, as far as it was not taken back."""
    found = select_events(rows, "session_id = ? ORDER BY at, id", session)
    gone = {one.target for one in found if one.kind is EventKind.RETRACTED}
    return [
        one
        for one in found
        if one.evidence and one.evidence.message in messages and one.id not in gone
    ]


def find_event_by_key(rows: Connection, agent: str, key: str) -> ObservationEvent | None:
    """Return the event that was asked for under a key."""
    return next(iter(select_events(rows, "agent = ? AND key = ?", agent, key)), None)


def has_ingested_entry(rows: Connection, agent: str, entry: str) -> bool:
    """Say whether anything came of a ledger's entry before."""
    sql = "SELECT 1 FROM memory_events WHERE agent = ? AND entry = ? AND entry <> '' LIMIT 1"
    return any(True for _ in rows.rows(sql, (agent, entry)))


def select_events(rows: Connection, where: str, *parameters: Value) -> list[ObservationEvent]:
    """Return the events that a condition is true of; one that this version cannot read is none."""
    sql = f"SELECT body FROM memory_events WHERE {where}"  # noqa: S608 - our own words
    found = (decode_event(body) for (body,) in rows.rows(sql, parameters))
    return [event for event in found if event is not None]


def filter_kinds(
    rows: Connection, events: Iterable[ObservationEvent], kinds: Collection[EventKind]
) -> Iterator[ObservationEvent]:
    """Yield events of some kinds, also those that an event undoes or takes back."""
    for event in events:
        if event.kind in kinds:
            yield event
        elif event.kind in {EventKind.UNDONE, EventKind.RETRACTED}:
            undone = select_events(rows, "id = ?", event.target)
            yield from filter_kinds(rows, undone, kinds)


def list_events_with_words(rows: Connection, memory: int) -> list[ObservationEvent]:
    """Return the events that may have words of an observation, but for the one that purges it.

    They are its own, what its conflicts said on their other sides, and the reject that it was.
    """
    own = select_events(rows, "memory_id = ? AND kind <> 'purged'", memory)
    conflicts = {one.target for one in own if one.kind is EventKind.CONTESTED}
    rejects = {one.target for one in own if one.kind is EventKind.TAKEN_UP}
    return [
        *own,
        *(
            one
            for key in sorted(conflicts)
            for one in select_events(rows, "target = ? AND kind = 'contested'", key)
            if one.memory != memory
        ),
        *(one for key in sorted(rejects) for one in select_events(rows, "id = ?", key)),
    ]


def list_user_events(rows: Connection, agent: str, user: str) -> list[ObservationEvent]:
    """Return what is known of a user of an agent, in order."""
    return sort_events(select_events(rows, "agent = ? AND end_user = ?", agent, user))


def list_entry_events(
    rows: Connection, agent: str, entries: Collection[str]
) -> list[ObservationEvent]:
    """Return what came of entries of an agent's ledger, in order."""
    found = (
        event
        for entry in entries
        if entry
        for event in select_events(rows, "agent = ? AND entry = ?", agent, entry)
    )
    return sort_events(found)


def is_undone(rows: Connection, event_id: str) -> bool:
    """Say whether an event was undone, and that was not undone itself."""
    return bool(list_effective_events(rows, event_id, {EventKind.UNDONE}))


def list_session_events(rows: Connection, agent: str, session: int) -> list[ObservationEvent]:
    """Return what a session of an agent said, in order."""
    return select_events(rows, "session_id = ? AND agent = ? ORDER BY at, id", session, agent)


def delete_events(rows: Connection, events: Iterable[ObservationEvent]) -> None:
    """Drop events, of which no line is left either."""
    rows.run_many("DELETE FROM memory_events WHERE id = ?", [(one.id,) for one in events])


def list_effective_events(
    rows: Connection, target: str, kinds: Collection[EventKind]
) -> list[ObservationEvent]:
    """Return the events of some kinds about a target, in order, without what was taken back."""
    found = [one for one in select_events(rows, "target = ?", target) if one.kind in kinds]
    newest = found
    while newest:
        newest = [
            event
            for one in newest
            for event in select_events(
                rows, "target = ? AND kind IN ('undone', 'retracted')", one.id
            )
        ]
        found = [*found, *newest]
    return [one for one in filter_effective_events(sort_events(found)) if one.kind in kinds]
