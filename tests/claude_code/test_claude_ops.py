"""Memories out of a database of Claude Ops."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from memplane.errors import InvalidRequest
from memplane.integrations.claude_code.claude_ops_import import _rows, is_database, read_memories
from memplane.observations.requests import ImportedLine

SCHEMA = """
CREATE TABLE memories (
    id INTEGER PRIMARY KEY AUTOINCREMENT, service TEXT, category TEXT NOT NULL,
    observation TEXT NOT NULL, confidence REAL NOT NULL DEFAULT 0.7,
    active INTEGER NOT NULL DEFAULT 1, created_at TEXT NOT NULL, updated_at TEXT NOT NULL,
    session_id INTEGER, tier INTEGER NOT NULL DEFAULT 1)
"""
THEN, LATER = "2026-02-01 10:00:00", "2026-02-20T08:30:00Z"


def database(path: Path, *rows: dict[str, Any]) -> Path:
    with closing(sqlite3.connect(path)) as made, made:
        made.execute(SCHEMA)
        for row in rows:
            full = {
                "service": "jellyfin",
                "category": "timing",
                "observation": "Takes 60s to start",
                "created_at": THEN,
                "updated_at": THEN,
            } | row
            names = ", ".join(full)
            marks = ", ".join("?" for _ in full)
            sql = f"INSERT INTO memories ({names}) VALUES ({marks})"  # noqa: S608
            made.execute(sql, tuple(full.values()))
    return path


def test_a_memory_is_read_with_all_that_is_known_of_it(tmp_path: Path) -> None:
    path = database(
        tmp_path / "ops.db",
        {"confidence": 0.85, "updated_at": LATER, "session_id": 42, "tier": 3, "active": 0},
    )
    assert is_database(path.read_bytes())
    assert read_memories(path) == (
        ImportedLine(
            category="timing",
            observation="Takes 60s to start",
            service="jellyfin",
            confidence=0.85,
            state="inactive",
            created_at="2026-02-01T10:00:00.000Z",
            updated_at="2026-02-20T08:30:00.000Z",
            last_supported_at="2026-02-20T08:30:00.000Z",
            sessions=("42",),
            tier=3,
        ),
    )


def test_the_same_said_twice_is_one_memory_with_both_sessions(tmp_path: Path) -> None:
    path = database(
        tmp_path / "ops.db",
        {"session_id": 1, "confidence": 0.7},
        {"session_id": 2, "confidence": 0.9, "updated_at": LATER},
        {"session_id": 2, "active": 0},
        {"session_id": None, "service": None},
    )
    first, second = read_memories(path)
    assert first.sessions == ("1", "2")
    assert (first.confidence, first.state) == (0.9, "active")
    assert first.updated_at == "2026-02-20T08:30:00.000Z"
    assert (second.service, second.sessions) == (None, ())


def test_categories_are_left_as_they_were_written(tmp_path: Path) -> None:
    path = database(tmp_path / "ops.db", {"category": "known-issue"}, {"category": "jellyfin"})
    assert [one.category for one in read_memories(path)] == ["known-issue", "jellyfin"]


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("2026-02-01 10:00:00", "2026-02-01T10:00:00.000Z"),
        ("2026-02-01T10:00:00Z", "2026-02-01T10:00:00.000Z"),
        ("2026-02-01T10:00:00.123456789Z", "2026-02-01T10:00:00.123Z"),
        ("2026-02-01T12:00:00+02:00", "2026-02-01T10:00:00.000Z"),
        ("2026-02-01 12:00:00.5 +0200 CEST", "2026-02-01T10:00:00.500Z"),
        ("0001-01-01T00:00:00Z", ""),
        ("2026-02-31 10:00:00", ""),
        ("yesterday", ""),
        ("", ""),
    ],
)
def test_times_are_read_in_every_way_they_were_written(
    tmp_path: Path, written: str, told: str
) -> None:
    (found,) = read_memories(database(tmp_path / "ops.db", {"created_at": written}))
    assert found.created_at == told


def test_reading_leaves_no_trace(tmp_path: Path) -> None:
    path = database(tmp_path / "ops.db", {})
    with closing(sqlite3.connect(path)) as made:
        made.execute("PRAGMA journal_mode = WAL")
    before = path.read_bytes()
    rows = _rows(path)
    assert next(rows)
    while_reading = [one.name for one in tmp_path.iterdir() if one.name.startswith("ops")]
    assert (while_reading, list(rows)) == (["ops.db"], [])
    assert path.read_bytes() == before


def test_another_database_is_said_to_be_none(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as made, made:
        made.execute("CREATE TABLE things (id INTEGER)")
    with pytest.raises(InvalidRequest, match="no database of Claude Ops: no such table"):
        read_memories(path)
