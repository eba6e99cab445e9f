"""The rows that say where the words of turns come from, each of an agent or of visible scopes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from memplane.database.interface import Connection
from memplane.episodes import store as table
from memplane.episodes.episode import Episode
from memplane.episodes.provenance import (
    OWN_WORDS,
    Provenance,
    decode_provenance,
    encode_provenance,
    matches_source,
)
from memplane.episodes.scope_store import (
    AgentNumber,
    VisibleScopes,
    ensure_agent_number,
    get_agent_number,
    in_parts,
    make_placeholders,
    make_scope_condition,
)


def has_repeating(rows: Connection, seen: VisibleScopes) -> bool:
    """Say whether any visible turn repeats a source."""
    scopes = make_scope_condition(seen)
    sql = f"SELECT 1 FROM episodes WHERE scope {scopes.sql} AND origins <> '' LIMIT 1"  # noqa: S608
    return any(True for _ in rows.rows(sql, scopes.parameters))


def find_provenance(
    rows: Connection, seen: VisibleScopes, keys: Sequence[int]
) -> dict[int, Provenance]:
    """Return where the words of visible turns come from, by key, for those that repeat any."""
    scopes = make_scope_condition(seen)
    found: dict[int, Provenance] = {}
    for some in in_parts(keys):
        sql = (
            f"SELECT key, origins FROM episodes WHERE +scope {scopes.sql} "  # noqa: S608
            f"AND +origins <> '' AND key IN ({make_placeholders(some)})"
        )
        read = rows.rows(sql, (*scopes.parameters, *some))
        found.update((key, decode_provenance(origins)) for key, origins in read)
    return found


def count_sources(rows: Connection, agent: str) -> Counter[str]:
    """Count for each source how many turns of an agent repeat it."""
    counts: Counter[str] = Counter()
    sql = "SELECT origins FROM episodes WHERE agent = ? AND origins <> ''"
    for (origins,) in rows.rows(sql, (get_agent_number(rows, agent),)):
        counts.update(decode_provenance(origins).sources)
    return counts


def find_entries_of_source(
    rows: Connection, number: AgentNumber, wanted: Collection[str]
) -> list[str]:
    """Return the entries that have words of some sources, or of their kinds, in their order."""
    sql = "SELECT id, origins FROM episodes WHERE agent = ? AND origins <> '' ORDER BY at, id"
    return [
        entry_id
        for entry_id, origins in rows.rows(sql, (number,))
        if any(matches_source(one, wanted) for one in decode_provenance(origins).sources)
    ]


def get_episode(rows: Connection, number: AgentNumber, entry_id: str) -> Episode | None:
    """Return the episode of an entry; None when it was forgotten, or never known."""
    sql = "SELECT id, at, question, answer, origins FROM episodes WHERE agent = ? AND id = ?"
    for found, at, question, answer, origins in rows.rows(sql, (number, entry_id)):
        provenance = decode_provenance(origins or "")
        return Episode(found, at, question, answer, provenance=provenance)
    return None


def has_unattributed(rows: Connection, agent: str) -> bool:
    """Say whether it is yet to be derived where the words of some turns come from."""
    sql = "SELECT 1 FROM episodes WHERE agent = ? AND origins IS NULL LIMIT 1"
    return any(True for _ in rows.rows(sql, (get_agent_number(rows, agent),)))


def is_unattributed(rows: Connection, agent: str, entry_id: str) -> bool:
    """Say whether it is yet to be derived where the words of a turn come from."""
    sql = "SELECT 1 FROM episodes WHERE agent = ? AND id = ? AND origins IS NULL"
    return any(True for _ in rows.rows(sql, (get_agent_number(rows, agent), entry_id)))


def save_provenance(
    rows: Connection, agent: str, derived: Iterable[tuple[str, Provenance]]
) -> None:
    """Keep where the words of known turns come from; what was made of repeated ones is made anew.

    Nothing changes for a turn of which it is known.
    """
    sql = (
        "UPDATE episodes SET origins = ? WHERE agent = ? AND id = ? AND origins IS NULL "
        "RETURNING scope, at, state"
    )
    number = ensure_agent_number(rows, agent)
    for entry_id, provenance in derived:
        values = (encode_provenance(provenance), number, entry_id)
        for scope, at, state in list(rows.rows(sql, values)):
            if provenance != OWN_WORDS and state == table.EpisodeState.SEARCHABLE:
                table.mark_underived(rows, scope, (at, entry_id))
