"""Records in a SQLite file: one thread writes, others read.

A write is durable when it returns (synchronous=FULL). What is deleted is overwritten in the
file, so that forgetting leaves no bytes behind.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, Protocol, Self, TypeVar, cast

import apsw

from memplane.database.interface import Connection, Database, Row, Value
from memplane.database.migrations import load_migrations, migrate
from memplane.errors import RecordsError
from memplane.kit.durable_files import file_contains
from memplane.kit.private_files import make_private_folder

_BUSY_TIMEOUT_MS: Final = 10_000
_WRITER_FLAGS: Final = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
_WRITER_PRAGMAS: Final = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA secure_delete=ON",
    "PRAGMA foreign_keys=ON",
    "PRAGMA cache_size=-16384",
    "PRAGMA temp_store=MEMORY",
)
# The file is not mapped: after each commit of another's it would be unmapped and mapped anew, and
# where turns are recorded there is one before every question.
_READER_PRAGMAS: Final = ("PRAGMA query_only=ON", "PRAGMA cache_size=-16384")

_T = TypeVar("_T")


class _ApswConnection(Protocol):
    """What is used of the library's connection, whose own types are not complete."""

    def execute(self, statements: str, bindings: Sequence[Value] = ()) -> Iterator[Row]: ...
    def executemany(self, statements: str, bindings: Iterable[Sequence[Value]]) -> object: ...
    def changes(self) -> int: ...
    def setbusytimeout(self, milliseconds: int) -> None: ...
    def config(self, option: int, value: int) -> int: ...
    def close(self) -> None: ...


class SqliteConnection:
    """One connection; statements are kept prepared."""

    def __init__(self, path: Path, flags: int, settings: Iterable[str]) -> None:
        opened: Any = apsw.Connection(str(path), flags=flags, statementcachesize=256)
        self._database: _ApswConnection = opened
        self._database.setbusytimeout(_BUSY_TIMEOUT_MS)
        # Otherwise a statement that compares with a parameter and has an order is made anew each
        # time, because another value might call for another plan.
        self._database.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        for setting in settings:
            self._database.execute(setting)

    def rows(self, sql: str, parameters: Sequence[Value] = ()) -> Iterator[Row]:
        return self._database.execute(sql, parameters)

    def run(self, sql: str, parameters: Sequence[Value] = ()) -> int:
        self._database.execute(sql, parameters)
        return self._database.changes()

    def run_many(self, sql: str, parameters: Iterable[Sequence[Value]]) -> None:
        self._database.executemany(sql, parameters)

    def close(self) -> None:
        self._database.close()


class SqliteDatabase:
    """Keeps the Records contract."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="records-write")
        # One thread, because two would hand the interpreter's lock to and fro at every row.
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="records-read")
        self._patient = ThreadPoolExecutor(1, thread_name_prefix="records-patient")
        self._mine = threading.local()
        self._writing: SqliteConnection | None = None
        self._opened: list[SqliteConnection] = []

    async def open(self) -> None:
        """Open the file, make it when there is none, and bring its schema up to date."""
        await self._in(self._writer, self._open)

    async def read(
        self, work: Callable[[Connection], _T], *, quick: bool = False, patient: bool = False
    ) -> _T:
        if quick:
            with _translate_errors(self.path):
                return _in_transaction(self._reader(), work)
        pool = self._patient if patient else self._reading
        return await self._in(pool, lambda: _in_transaction(self._reader(), work))

    async def write(self, work: Callable[[Connection], _T]) -> _T:
        return await self._in(self._writer, lambda: self._write(work))

    async def wipe(self) -> None:
        await self._in(self._writer, self._wipe)

    @asynccontextmanager
    async def aside(self) -> AsyncGenerator[SqliteDatabase]:
        path = self.path.with_name(f"{self.path.name}.aside")
        _remove(path)
        try:
            async with open_sqlite(path) as other:
                yield other
        finally:
            _remove(path)

    async def replace_tables_from(self, other: Database, tables: Sequence[str]) -> None:
        assert isinstance(other, SqliteDatabase)  # noqa: S101 - `aside` made it
        await self._in(self._writer, lambda: self._replace_by(other.path, tables))

    async def holds(self, text: bytes) -> bool:
        await self._in(self._writer, self._checkpoint)
        there = [one for one in database_files(self.path) if one.exists()]
        return await asyncio.to_thread(lambda: any(file_contains(one, text) for one in there))

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    async def _in(self, pool: ThreadPoolExecutor, work: Callable[[], _T]) -> _T:
        with _translate_errors(self.path):
            return await asyncio.get_running_loop().run_in_executor(pool, work)

    def _open(self) -> None:
        make_private_folder(self.path.parent)
        self.path.touch(0o600)
        self._writing = SqliteConnection(self.path, _WRITER_FLAGS, _WRITER_PRAGMAS)
        steps = load_migrations("sqlite")
        self._write(lambda rows: migrate(rows, steps, where=str(self.path)))

    def _write(self, work: Callable[[Connection], _T]) -> _T:
        assert self._writing is not None  # noqa: S101 - it was opened first
        return _in_transaction(self._writing, work, "BEGIN IMMEDIATE")

    def _reader(self) -> SqliteConnection:
        if not hasattr(self._mine, "connection"):
            self._mine.connection = SqliteConnection(
                self.path, apsw.SQLITE_OPEN_READWRITE, _READER_PRAGMAS
            )
            self._opened.append(self._mine.connection)
        return cast("SqliteConnection", self._mine.connection)

    def _replace_by(self, other: Path, tables: Sequence[str]) -> None:
        assert self._writing is not None  # noqa: S101 - it was opened first
        self._writing.run("ATTACH ? AS other", (str(other),))
        try:
            self._write(lambda rows: _copy_tables(rows, tables))
        finally:
            self._writing.run("DETACH other")

    def _wipe(self) -> None:
        assert self._writing is not None  # noqa: S101 - it was opened first
        self._checkpoint()
        self._writing.run("VACUUM")
        self._checkpoint()

    def _checkpoint(self) -> None:
        """Move everything out of the log, and empty it."""
        assert self._writing is not None  # noqa: S101 - it was opened first
        self._writing.run("PRAGMA wal_checkpoint(TRUNCATE)")

    def _close(self) -> None:
        for pool in (self._reading, self._patient, self._writer):
            pool.shutdown()
        for connection in (*self._opened, self._writing):
            if connection is not None:
                connection.close()


class ReadOnlyDatabase:
    """Reads the file in a process of its own, in the thread that asks."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = SqliteConnection(path, apsw.SQLITE_OPEN_READWRITE, _READER_PRAGMAS)

    def read(self, work: Callable[[Connection], _T]) -> _T:
        """Do work that only reads, on one state of the rows.

        Raises:
            RecordsError: The store cannot be read.
        """
        with _translate_errors(self._path):
            return _in_transaction(self._connection, work)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


@contextmanager
def _translate_errors(path: Path) -> Generator[None]:
    try:
        yield
    except apsw.Error as error:
        raise RecordsError(
            f"{path} cannot be used: {error}. Is the disk full? If the file is damaged, "
            "move it away: it is made anew from the ledgers at the next start"
        ) from error


def _in_transaction(
    connection: SqliteConnection, work: Callable[[Connection], _T], begin: str = "BEGIN"
) -> _T:
    connection.run(begin)
    try:
        outcome = work(connection)
    except BaseException:
        connection.run("ROLLBACK")
        raise
    connection.run("COMMIT")
    return outcome


def database_files(path: Path) -> list[Path]:
    """Return the files that a database consists of; the last two are there while it is open."""
    return [path.with_name(path.name + end) for end in ("", "-wal", "-shm")]


def _remove(path: Path) -> None:
    for one in database_files(path):
        one.unlink(missing_ok=True)


def _copy_tables(rows: Connection, tables: Sequence[str]) -> None:
    rows.run("PRAGMA defer_foreign_keys=ON")
    for name in tables:
        rows.run(f"DELETE FROM main.{name}")  # noqa: S608 - our own names
    for name in tables:
        rows.run(f"INSERT INTO main.{name} SELECT * FROM other.{name}")  # noqa: S608


@asynccontextmanager
async def open_sqlite(path: Path) -> AsyncGenerator[SqliteDatabase]:
    """Open a database, and close it again.

    Raises:
        RecordsError: It cannot be opened, or was made by a newer version.
    """
    records = SqliteDatabase(path)
    try:
        await records.open()
        yield records
    finally:
        await records.close()
