"""Looking at a database file as somebody who only wants to know whether it is sound."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from memplane.database.migrations import check_schema, load_migrations
from memplane.errors import RecordsError


def check_database(path: Path) -> int:
    """Look whether a file is a database of memplane's that can be used; returns its schema.

    Nothing is written and nobody is held up. Without a file, or with an empty one, it is 0.

    Raises:
        RecordsError: It is none, it is damaged, or a newer version made it.
    """
    try:
        with path.open("rb") as file:
            if not file.read(1):
                return 0
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise RecordsError(f"{path} cannot be read: {error.strerror}") from error
    try:
        return _schema_of(path)
    except apsw.Error as error:
        raise RecordsError(f"{path} cannot be used: {error}") from error


def _schema_of(path: Path) -> int:
    # Without a journal nobody has it open, and to look for one would make it.
    is_open = path.with_name(f"{path.name}-wal").exists()
    address = f"file:{quote(str(path))}?mode=ro{'' if is_open else '&immutable=1'}"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    opened: Any = apsw.Connection(address, flags=flags)
    with closing(opened) as database:
        ((said,),) = database.execute("PRAGMA quick_check(1)")
        if said != "ok":
            raise RecordsError(f"{path} is damaged: {said}")
        return check_schema(database.execute, load_migrations("sqlite"), where=str(path))
