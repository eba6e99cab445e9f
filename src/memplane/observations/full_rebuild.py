"""Making every memory again from its events, and comparing it with what is there."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from memplane.database.interface import Connection, Row
from memplane.observations import store
from memplane.observations.api_types import RebuildReceipt
from memplane.observations.confidence import Profile
from memplane.observations.event_writer import iterate_events

_OTHER_TABLE_QUERIES: Final = (
    "SELECT * FROM sessions ORDER BY id",
    "SELECT * FROM evidence ORDER BY id",
    "SELECT * FROM conflicts ORDER BY id",
    "SELECT * FROM receipts ORDER BY session_id",
    "SELECT * FROM injection_items ORDER BY session_id, position",
    "SELECT * FROM memory_rejects ORDER BY id",
)


def rebuild_observations(on: Connection, root: Path, profile: Profile) -> RebuildReceipt:
    """Make every row again from the event ledgers, in one transaction."""
    before, others = _memories(on), _others(on)
    on.run("PRAGMA defer_foreign_keys=ON")
    for table in store.OBSERVATION_TABLES:
        on.run(f"DELETE FROM {table}")  # noqa: S608 - our own names
    events = store.apply_events(on, iterate_events(root), profile)
    after = _memories(on)
    differing = sorted(
        number
        for number in before.keys() | after.keys()
        if before.get(number) != after.get(number)
    )
    return RebuildReceipt(
        memories=len(after),
        before=len(before),
        events=events,
        digest=hashlib.sha256(repr(sorted(after.items())).encode()).hexdigest(),
        same=not differing and others == _others(on),
        differing=tuple(differing),
    )


def _memories(on: Connection) -> dict[int, Row]:
    sql = f"SELECT {store.OBSERVATION_COLUMNS} FROM memories"  # noqa: S608 - our own words
    return {row[0]: row for row in on.rows(sql)}


def _others(on: Connection) -> list[list[Row]]:
    return [list(on.rows(sql)) for sql in _OTHER_TABLE_QUERIES]
