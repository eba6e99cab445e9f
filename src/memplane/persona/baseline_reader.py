"""What earlier syncs left behind, read beside whoever syncs: no lock is taken, nothing changed."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec

from memplane.errors import PersonaError
from memplane.persona.baseline import HeldDocument, QueuedDocument
from memplane.persona.model import DocumentState

_BUSY_TIMEOUT_MS: Final = 1000


class BaselineContents(msgspec.Struct, frozen=True):
    """What earlier syncs of a folder left behind."""

    facts: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    states: Mapping[str, DocumentState] = msgspec.field(default_factory=dict[str, DocumentState])
    waiting: Mapping[str, QueuedDocument] = msgspec.field(
        default_factory=dict[str, QueuedDocument]
    )
    held: Mapping[str, HeldDocument] = msgspec.field(default_factory=dict[str, HeldDocument])
    allowed: frozenset[str] = frozenset()


def read_baseline(memory: Path) -> BaselineContents:
    """Read what earlier syncs left behind; nothing when there was none.

    Raises:
        PersonaError: It is there, and cannot be read.
    """
    with _open_read_only(memory) as database:
        if database is None:
            return BaselineContents()
        decode = msgspec.msgpack.Decoder(DocumentState).decode
        execute = database.execute
        return BaselineContents(
            dict(execute("SELECT name, value FROM facts")),
            {key: decode(state) for key, state in execute("SELECT key, state FROM documents")},
            {row[0]: QueuedDocument(*row) for row in execute("SELECT * FROM waiting")},
            {row[0]: HeldDocument(*row) for row in execute("SELECT * FROM held")},
            frozenset(key for (key,) in execute("SELECT key FROM allowed")),
        )


def read_facts(memory: Path) -> Mapping[str, str]:
    """Read only what is known of the whole: the folder, its project, the last sync.

    Raises:
        PersonaError: It is there, and cannot be read.
    """
    with _open_read_only(memory) as database:
        rows = () if database is None else database.execute("SELECT name, value FROM facts")
        return dict(rows)


@contextmanager
def _open_read_only(memory: Path) -> Generator[Any]:
    """Hold the memory of earlier syncs open at one moment, without a lock; None without one."""
    path = memory / "baseline.db"
    if not path.is_file():
        yield None
        return
    database: Any = None
    try:
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        database = apsw.Connection(f"{path.absolute().as_uri()}?mode=ro", flags=flags)
        database.execute(f"PRAGMA busy_timeout={_BUSY_TIMEOUT_MS}")
        database.execute("BEGIN")
        yield database
    except (apsw.Error, msgspec.MsgspecError, TypeError) as error:
        raise PersonaError(
            f"the memory of earlier syncs in {path} cannot be read ({error})"
        ) from error
    finally:
        if database is not None:
            database.close()
