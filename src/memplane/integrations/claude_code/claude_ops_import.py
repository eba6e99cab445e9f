"""The memories in a database of Claude Ops, as they can be taken in here."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from memplane.errors import InvalidRequest
from memplane.kit.clock import format_milli_timestamp
from memplane.observations.requests import ImportedLine

_SQLITE_HEADER: Final = b"SQLite format 3\0"
_COLUMNS: Final = (
    "service, category, observation, confidence, active, created_at, updated_at, session_id, tier"
)
_TIERS: Final = range(4)
_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?"
    r"\s*(Z|UTC|[+-]\d\d:?\d\d)?(?: [A-Z]{3,4})?",
    re.ASCII,
)
_YEAR_ONE: Final = 1


def is_database(beginning: bytes) -> bool:
    """Tell a database by its first bytes."""
    return beginning.startswith(_SQLITE_HEADER)


def read_memories(path: Path) -> tuple[ImportedLine, ...]:
    """Read the memories of a database; what says the same of the same service is one of them.

    Categories are as they were written there, be they any of ours or not.

    Raises:
        InvalidRequest: It is no database of Claude Ops.
    """
    told: dict[tuple[str, str, str], list[_ClaudeOpsRow]] = {}
    for row in _rows(path):
        told.setdefault((row.service, row.category, row.observation), []).append(row)
    return tuple(_merge_rows(rows) for rows in told.values())


class _ClaudeOpsRow(NamedTuple):
    service: str
    category: str
    observation: str
    confidence: float | None
    active: bool
    created_at: str
    updated_at: str
    session: str
    tier: int


def _rows(path: Path) -> Iterator[_ClaudeOpsRow]:
    """Read every row, and write nothing: not even beside a database that was not closed well."""
    try:
        with closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        ) as database:
            # Not every row of theirs is text in the encoding that it should have.
            database.text_factory = _text
            for values in database.execute(f"SELECT {_COLUMNS} FROM memories ORDER BY id"):  # noqa: S608
                yield _row(*values)
    except sqlite3.Error as error:
        raise InvalidRequest(f"{path} is no database of Claude Ops: {error}") from error


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _row(*values: object) -> _ClaudeOpsRow:
    service, category, observation, confidence, active, created, updated, session, tier = values
    return _ClaudeOpsRow(
        service=str(service or "").strip(),
        category=str(category or "").strip(),
        observation=str(observation or "").strip(),
        confidence=confidence if isinstance(confidence, int | float) else None,
        active=active in {1, None, "1"},
        created_at=_parse_time(created),
        updated_at=_parse_time(updated),
        session="" if session is None else str(session),
        tier=tier if isinstance(tier, int) and tier in _TIERS else 1,
    )


def _merge_rows(rows: list[_ClaudeOpsRow]) -> ImportedLine:
    """Make one memory of rows that say the same: as sure as the surest, as new as the newest."""
    first = rows[0]
    updated = max(one.updated_at for one in rows)
    return ImportedLine(
        category=first.category,
        observation=first.observation,
        service=first.service or None,
        confidence=max(
            (one.confidence for one in rows if one.confidence is not None), default=None
        ),
        state="active" if any(one.active for one in rows) else "inactive",
        created_at=min(filter(None, (one.created_at for one in rows)), default=""),
        updated_at=updated,
        last_supported_at=updated,
        sessions=tuple(dict.fromkeys(one.session for one in rows if one.session)),
        tier=first.tier,
    )


def _parse_time(value: object) -> str:
    """Read a time in any of the ways in which they were written; empty when it is none."""
    found = _TIME.fullmatch(str(value or "").strip())
    if found is None:
        return ""
    zone = {None: "+00:00", "Z": "+00:00", "UTC": "+00:00"}.get(found[4], found[4])
    try:
        told = datetime.fromisoformat(f"{found[1]}T{found[2]}.{(found[3] or '0'):0<6.6}{zone}")
    except ValueError:
        return ""
    return "" if told.year == _YEAR_ONE else format_milli_timestamp(told.astimezone(UTC))
