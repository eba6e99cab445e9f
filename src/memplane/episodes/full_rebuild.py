"""Deriving everything again from the ledgers, and comparing it with what is there."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

import msgspec

from memplane.database.interface import Connection, RecordStore
from memplane.episodes.api_types import RebuildResult, TableRebuild
from memplane.episodes.derivation import derive_pending
from memplane.episodes.ledger_follower import (
    MemorySources,
    apply_all_tombstones,
    follow_ledger,
    list_ledgers,
)

# What is derived, without the numbers that say in which order it came.
_TABLE_QUERIES: Final[Mapping[str, str]] = {
    "episodes": """
        SELECT a.agent, e.id, e.at, e.state, e.question, e.answer, e.calls, e.length,
            e.speaker, e.signs, e.asked, e.told, e.origins, s.end_user, s.view
        FROM episodes e JOIN scopes s ON s.number = e.scope JOIN agents a ON a.number = s.agent
        ORDER BY a.agent, e.id
    """,
    "markers": """
        SELECT a.agent, m.entry, m.position, m.category, m.service, m.text
        FROM markers m JOIN agents a ON a.number = m.agent
        ORDER BY a.agent, m.entry, m.position
    """,
    "stretches": """
        SELECT a.agent, s.end_user, s.view, t.at, t.id, t.last_at, t.last_id, t.turns
        FROM stretches t JOIN scopes s ON s.number = t.scope JOIN agents a ON a.number = s.agent
        ORDER BY a.agent, s.end_user, s.view, t.at, t.id
    """,
    "artefacts": """
        SELECT a.agent, s.end_user, s.view, f.stretch_at, f.stretch_id, f.position, f.kind, f.text,
            f.at, f.sources, f.salience, f.valence, f.arousal, f.feeling, f.origins
        FROM artefacts f JOIN scopes s ON s.number = f.scope JOIN agents a ON a.number = s.agent
        ORDER BY a.agent, s.end_user, s.view, f.stretch_at, f.stretch_id, f.position
    """,
    "tombstones": """
        SELECT a.agent, t.id FROM tombstones t JOIN agents a ON a.number = t.agent
        ORDER BY a.agent, t.id
    """,
    "statistics": """
        SELECT a.agent, s.end_user, s.view, s.episodes, s.terms, s.noise
        FROM scopes s JOIN agents a ON a.number = s.agent
        WHERE s.episodes > 0 OR s.noise > 0 ORDER BY a.agent, s.end_user, s.view
    """,
}


class TableDigest(msgspec.Struct, frozen=True):
    """What a table holds: how many rows, and a digest of them all."""

    rows: int
    digest: str


async def rebuild_database(records: RecordStore, places: MemorySources) -> None:
    """Make an empty database what the ledgers and the tombstones say."""
    await apply_all_tombstones(records, places)
    for ledger, agent in await list_ledgers(places):
        while (await follow_ledger(records, places, ledger, agent)).has_more:
            pass
    while await records.write(derive_pending):
        pass


def digest_tables(rows: Connection) -> dict[str, TableDigest]:
    """Digest what was derived, table by table."""
    found: dict[str, TableDigest] = {}
    for name, sql in _TABLE_QUERIES.items():
        count, digest = 0, hashlib.sha256()
        for row in rows.rows(sql):
            count += 1
            digest.update(repr(row).encode("utf-8", "surrogatepass"))
        found[name] = TableDigest(count, digest.hexdigest())
    return found


def compare_digests(
    live: Mapping[str, TableDigest], again: Mapping[str, TableDigest]
) -> RebuildResult:
    """Say which tables are the same."""
    return RebuildResult(
        tables=tuple(
            TableRebuild(
                name=name,
                rows=again[name].rows,
                before=live[name].rows,
                digest=again[name].digest,
                same=live[name] == again[name],
            )
            for name in _TABLE_QUERIES
        )
    )
