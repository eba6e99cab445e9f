"""What the index has not taken in yet is kept from question to question, and never out of date."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from memplane.auth.memory_scope import MemoryScope
from memplane.database.interface import Connection
from memplane.database.migrations import load_migrations, migrate
from memplane.database.sqlite import SqliteConnection
from memplane.episodes import pending_turns
from memplane.episodes import store as table
from memplane.episodes.episode import Episode
from memplane.episodes.pending_turns import PendingIndexWork, PendingTurns
from memplane.episodes.scope_store import ScopeNumber, ScopeStats, VisibleScopes
from memplane.episodes.store import EpisodeState, StoredEpisode
from memplane.search.turn_terms import SearchTurn, extract_turn_terms

WORDS = ("kestrel", "heron", "harbour", "tower", "rollout")


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[Connection]:
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    connection = SqliteConnection(tmp_path / "memplane.db", flags, ())
    migrate(connection, load_migrations("sqlite"), where="here")
    table.set_note(connection, table.INDEX_GENERATION_NOTE, "first")
    yield connection
    connection.close()


def keep(rows: Connection, *told: str, agent: str = "analyst", first: int = 0) -> list[str]:
    ids = [f"{agent}-{first + place}" for place in range(len(told))]
    stored = [
        StoredEpisode(
            Episode(one, place, "", text), EpisodeState.SEARCHABLE, extract_turn_terms("", text)
        )
        for place, (one, text) in enumerate(zip(ids, told, strict=True), first)
    ]
    table.insert_episodes(rows, [(MemoryScope(agent), one) for one in stored])
    return ids


def look(kept: PendingTurns, rows: Connection, number: int = 1) -> PendingIndexWork:
    """Return what waits in a scope."""
    return kept.of(rows, VisibleScopes((ScopeStats(ScopeNumber(number), 0, 0, 0),)))


def said(kept: PendingTurns, rows: Connection, number: int = 1) -> dict[str, SearchTurn]:
    """Return what a question about any of the words sees of a scope."""
    found = look(kept, rows, number)
    return {one.id: one for one in (*found.find_turns(WORDS)[0], *found.uncounted)}


def fold(rows: Connection, entry_id: str) -> None:
    """Make an episode noise; its id ends with when it was."""
    key = int(entry_id.rpartition("-")[2]), entry_id
    table.change_state(rows, ScopeNumber(1), key, EpisodeState.NOISE)


def test_what_is_written_is_seen_by_the_next_question(rows: Connection) -> None:
    kept = PendingTurns()
    keep(rows, "kestrel", "heron")
    assert set(said(kept, rows)) == {"analyst-0", "analyst-1"}
    keep(rows, "tower", first=2)
    assert set(said(kept, rows)) == {"analyst-0", "analyst-1", "analyst-2"}


def test_what_is_forgotten_or_folded_is_gone_at_once(rows: Connection) -> None:
    kept = PendingTurns()
    ids = keep(rows, "kestrel", "heron", "tower")
    said(kept, rows)
    table.delete_entries(rows, "analyst", [ids[0]])
    fold(rows, ids[1])
    assert set(said(kept, rows)) == {ids[2]}
    assert look(kept, rows).changed == []


def test_what_the_index_took_in_is_let_go(rows: Connection) -> None:
    kept = PendingTurns()
    keep(rows, "kestrel", "heron")
    said(kept, rows)
    table.mark_indexed(rows, table.list_unindexed(rows, 1, 10, 1 << 20))
    assert set(said(kept, rows)) == {"analyst-1"}


def test_agents_have_tails_of_their_own(rows: Connection) -> None:
    kept = PendingTurns()
    keep(rows, "kestrel")
    keep(rows, "heron", agent="other")
    assert set(said(kept, rows, 1)) == {"analyst-0"}
    assert set(said(kept, rows, 2)) == {"other-0"}


@pytest.mark.parametrize("generation", ["second", ""])
def test_rows_that_are_numbered_anew_are_read_again(rows: Connection, generation: str) -> None:
    """The same number may be another agent's, and the same key another turn's."""
    kept = PendingTurns()
    keep(rows, "kestrel")
    table.set_note(rows, table.INDEX_GENERATION_NOTE, generation)
    said(kept, rows)
    for name in ("unindexed", "underived", "episodes", "agents", "sqlite_sequence"):
        rows.run(f"DELETE FROM {name}")  # noqa: S608
    keep(rows, "heron", agent="other")
    table.set_note(rows, table.INDEX_GENERATION_NOTE, "third" if generation else "")
    assert set(said(kept, rows)) == {"other-0"}


def test_a_very_long_tail_is_read_and_not_kept(
    rows: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_turns, "_MAX_TURNS", 2)
    kept = PendingTurns()
    keep(rows, "kestrel", "heron", "tower")
    found = look(kept, rows)
    assert (len(found.tails), len(found.uncounted)) == (0, 3)
    assert len(kept._tails) == 0


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_it_is_what_a_first_question_sees(rows: Connection, seed: int) -> None:
    some = random.Random(seed)  # noqa: S311
    kept, there = PendingTurns(), list[str]()
    for step in range(60):
        match some.randrange(5):
            case 0 | 1:
                there += keep(rows, some.choice(WORDS), first=step)
            case 2 if there:
                table.delete_entries(rows, "analyst", [there.pop(some.randrange(len(there)))])
            case 3 if there:
                fold(rows, there.pop(some.randrange(len(there))))
            case _:
                table.mark_indexed(
                    rows, table.list_unindexed(rows, some.randrange(60), 3, 1 << 20)
                )
        assert said(kept, rows) == said(PendingTurns(), rows)
        assert look(kept, rows).changed == look(PendingTurns(), rows).changed
