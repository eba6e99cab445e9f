"""Bringing a database to the schema that this version needs, one numbered step after another."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from importlib import resources
from typing import Final, TypeAlias

import msgspec

from memplane.database.interface import Connection, Row
from memplane.errors import RecordsError

_NAME: Final = re.compile(r"(\d{4})_([a-z_]+)\.sql")
_CREATE_MIGRATIONS_TABLE: Final = """
CREATE TABLE IF NOT EXISTS migrations (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL
)
"""


_RunQuery: TypeAlias = Callable[[str], Iterable[Row]]
"""Answers a statement with rows."""


class Migration(msgspec.Struct, frozen=True):
    """One step: the statements that lead from the schema before it to the next."""

    number: int
    name: str
    statements: tuple[str, ...]


def load_migrations(dialect: str) -> list[Migration]:
    """Read the steps for a dialect, in their order."""
    folder = resources.files("memplane.database") / "sql" / dialect
    found = ((_NAME.fullmatch(one.name), one) for one in folder.iterdir())
    steps = (
        Migration(int(name[1]), name[2], _statements(one.read_text("utf-8")))
        for name, one in found
        if name is not None
    )
    return sorted(steps, key=lambda step: step.number)


def migrate(connection: Connection, steps: list[Migration], *, where: str) -> None:
    """Take the steps that a database has not taken yet.

    Raises:
        RecordsError: The database was made by a newer version, or a step is missing.
    """
    connection.run(_CREATE_MIGRATIONS_TABLE)
    taken = _read_applied(connection.rows, steps, where)
    for step in steps[len(taken) :]:
        for statement in step.statements:
            connection.run(statement)
        connection.run("INSERT INTO migrations VALUES (?, ?)", (step.number, step.name))


def check_schema(rows: _RunQuery, steps: list[Migration], *, where: str) -> int:
    """Return the number of the last step that a database has taken, and write nothing.

    Raises:
        RecordsError: It is no database of memplane's, or one of a newer version.
    """
    sql = "SELECT COUNT(*) FROM sqlite_master WHERE name = 'migrations'"
    if next(iter(rows(sql))) == (0,):
        raise RecordsError(f"{where} is a database, but none of memplane's")
    return max(_read_applied(rows, steps, where), default=0)


def _read_applied(rows: _RunQuery, steps: list[Migration], where: str) -> list[int]:
    taken = [number for (number,) in rows("SELECT number FROM migrations ORDER BY 1")]
    known = [step.number for step in steps]
    if taken != known[: len(taken)]:
        raise RecordsError(
            f"{where} was made by a newer version of memplane (its schema is {taken[-1]}, this "
            f"version knows {known[-1]}). Install that version again, or move the file away: it "
            "is made anew from the ledgers at the next start"
        )
    return taken


def _statements(text: str) -> tuple[str, ...]:
    """Split a file into its statements; each ends with a semicolon at the end of a line."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("--"))
    parts = "\n".join(lines).split(";\n")
    return tuple(part.strip().removesuffix(";") for part in parts if part.strip())
