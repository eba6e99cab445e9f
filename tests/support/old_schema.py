"""A database as an older version left it: its schema, and the rows that it had room for."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw

from memplane.database.migrations import load_migrations, migrate
from memplane.database.sqlite import SqliteConnection, database_files

_FLAGS = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
_BEFORE_SCOPES = 7
_AGENTS = (
    "INSERT INTO agents (number, agent, episodes, terms, noise) "
    "SELECT s.number, a.agent, s.episodes, s.terms, s.noise FROM now.agents a "
    "JOIN now.scopes s ON s.agent = a.number"
)


def take_back_schema(path: Path, step: int) -> None:
    """Give a closed database the schema of an older step; all of its memory must be shared."""
    assert step <= _BEFORE_SCOPES
    current = path.with_name("current.db")
    path.rename(current)
    for one in database_files(path):
        one.unlink(missing_ok=True)
    with closing(SqliteConnection(path, _FLAGS, ())) as old:
        migrate(old, load_migrations("sqlite")[:step], where=str(path))
        old.run("ATTACH ? AS now", (str(current),))
        old.run(_AGENTS)
        tables = "SELECT name FROM {}.sqlite_master WHERE type = 'table' AND sql NOT LIKE '%fts5%'"
        kept = {name for (name,) in old.rows(tables.format("now"))} - {"agents", "migrations"}
        for (name,) in list(old.rows(tables.format("main"))):
            if name in kept and not name.startswith(("sqlite_", "memories_text")):
                _copy(old, name)
    current.unlink()


def _copy(old: SqliteConnection, name: str) -> None:
    columns = [row[1] for row in old.rows(f"PRAGMA main.table_info({name})")]
    now = {row[1] for row in old.rows(f"PRAGMA now.table_info({name})")}
    taken = {one: "scope" if one == "agent" and "scope" in now else one for one in columns}
    known = {one: source for one, source in taken.items() if source in now}
    old.run(
        f"INSERT OR REPLACE INTO main.{name} ({', '.join(known)}) "  # noqa: S608 - our own names
        f"SELECT {', '.join(known.values())} FROM now.{name}"
    )
