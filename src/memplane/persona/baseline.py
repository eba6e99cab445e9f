"""What this machine remembers of earlier syncs: one SQLite file for a folder and a container.

Whoever syncs holds the lock. What is kept is durable when `keep` returns; documents that are
synced at the same time share one commit. A new file means a new device: its name in lineages is
never used again, because the numbers that go with it are in the file.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import apsw
import msgspec

from memplane.errors import BackendUnavailable, PersonaError
from memplane.kit.ids import new_id
from memplane.kit.private_files import make_private_folder
from memplane.kit.retry_clock import RetryClock
from memplane.persona.model import NEW_STATE, DocumentState

FORMAT_VERSION: Final = "1"
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS documents (key TEXT PRIMARY KEY, state BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS waiting (
    key TEXT PRIMARY KEY, sha256 TEXT NOT NULL, since TEXT NOT NULL, attempts INTEGER NOT NULL,
    error TEXT NOT NULL, next_try TEXT NOT NULL, dead INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS held (
    key TEXT PRIMARY KEY, sha256 TEXT NOT NULL, reason TEXT NOT NULL, since TEXT NOT NULL,
    saved INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS allowed (key TEXT PRIMARY KEY) WITHOUT ROWID;
"""
# Who only looks may be just opening the file, and then this waits for a moment.
_PRAGMAS: Final = (
    "busy_timeout=5000",
    "journal_mode=WAL",
    "synchronous=FULL",
    "secure_delete=ON",
)
_LOCK_POLL_S: Final = 0.05

SqlValue: TypeAlias = str | bytes | int


class QueuedDocument(msgspec.Struct, frozen=True):
    """A document that could not be sent: tried again later, or never when it is dead (1)."""

    key: str
    sha256: str
    since: str
    attempts: int
    error: str
    next_try: str
    dead: int = 0


class HeldDocument(msgspec.Struct, frozen=True):
    """A document that is not published, and why; saved (1) when the container has a copy aside."""

    key: str
    sha256: str
    reason: str
    since: str
    saved: int = 0


class _BaselineDatabase(Protocol):
    """What is used of the library's connection, whose own types are not complete."""

    def execute(
        self, sql: str, bindings: Sequence[SqlValue] = (), /
    ) -> Iterator[tuple[Any, ...]]: ...
    def executemany(self, sql: str, bindings: Sequence[Sequence[SqlValue]], /) -> object: ...
    def close(self) -> None: ...


class _StateBatch(msgspec.Struct, frozen=True):
    """States that are committed together."""

    states: dict[str, DocumentState]
    committed: asyncio.Task[None]


class Baseline:
    """The memory of one folder and one container. Open it with `open_baseline`."""

    def __init__(self, database: _BaselineDatabase) -> None:
        self._database = database
        self._numbers = int(self.fact("last_number") or 0)
        rows = database.execute("SELECT key, state FROM documents")
        self._states = {
            key: msgspec.msgpack.decode(state, type=DocumentState) for key, state in rows
        }
        self._next: _StateBatch | None = None
        self._turn = asyncio.Lock()
        self.device = self.fact("device") or ""
        self._troubled = {document.key for document in self.waiting()}
        self._troubled |= {document.key for document in self.held()}

    def states(self) -> Mapping[str, DocumentState]:
        """Return all that is remembered, by key."""
        return self._states

    def known(self, key: str) -> DocumentState:
        """Return what is remembered of one document."""
        return self._states.get(key, NEW_STATE)

    def next_number(self) -> int:
        """Return a number that this device never used; it is kept with what uses it."""
        self._numbers += 1
        return self._numbers

    async def keep(self, key: str, state: DocumentState) -> None:
        """Remember a document's state. It is durable when this returns."""
        if self._next is None:
            self._next = _StateBatch({}, asyncio.create_task(self._commit_next()))
        batch = self._next
        batch.states[key] = state
        await asyncio.shield(batch.committed)
        self._states[key] = state

    async def _commit_next(self) -> None:
        async with self._turn:  # while one batch is written, the next one gathers
            batch, self._next = self._next, None
            if batch is not None:
                await asyncio.to_thread(self._write, batch.states)

    async def close(self) -> None:
        """Wait for what is being written, and let go of the file."""
        if self._next is not None:
            await asyncio.shield(self._next.committed)
        async with self._turn:
            self._database.close()

    def _write(self, batch: Mapping[str, DocumentState]) -> None:
        rows = [(key, msgspec.msgpack.encode(state)) for key, state in batch.items()]
        try:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.executemany("INSERT OR REPLACE INTO documents VALUES (?, ?)", rows)
            self.note("last_number", str(self._numbers))
            self._database.execute("COMMIT")
        except apsw.Error as error:
            with suppress(apsw.Error):  # it may have ended by itself
                self._database.execute("ROLLBACK")
            raise BackendUnavailable(
                f"what was synced could not be noted ({error}). Is the disk full?"
            ) from error

    def adopt(self, files: Mapping[str, bytes]) -> None:
        """Begin anew with the files that were found where an earlier memory is lost."""
        states = dict.fromkeys(self._states, NEW_STATE)
        states |= {key: DocumentState(adopted=text) for key, text in files.items()}
        self._write(states)
        self._states |= states

    def fact(self, name: str) -> str | None:
        """Return something that is known of the whole, such as the project."""
        rows = self._database.execute("SELECT value FROM facts WHERE name = ?", (name,))
        return next((value for (value,) in rows), None)

    def note(self, name: str, value: str) -> None:
        """Remember something of the whole."""
        self._database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    def waiting(self) -> list[QueuedDocument]:
        """Return what could not be sent, by key."""
        rows = self._database.execute("SELECT * FROM waiting ORDER BY key")
        return [QueuedDocument(*row) for row in rows]

    def find_queued(self, key: str) -> QueuedDocument | None:
        """Return a document's row in the queue."""
        rows = self._database.execute("SELECT * FROM waiting WHERE key = ?", (key,))
        return next((QueuedDocument(*row) for row in rows), None)

    def wait(self, row: QueuedDocument) -> None:
        """Put a document in the queue; one row for each, the latest."""
        self._troubled.add(row.key)
        values = (row.key, row.sha256, row.since, row.attempts, row.error, row.next_try, row.dead)
        self._database.execute(
            "INSERT OR REPLACE INTO waiting VALUES (?, ?, ?, ?, ?, ?, ?)", values
        )

    def sent(self, key: str) -> None:
        """Take a document out of the queue."""
        self._database.execute("DELETE FROM waiting WHERE key = ?", (key,))

    def settled(self, key: str) -> None:
        """Take a document out of the queue, and out of what is held."""
        if key not in self._troubled:
            return
        self.sent(key)
        self._database.execute("DELETE FROM held WHERE key = ?", (key,))
        self._troubled.discard(key)

    def held(self) -> list[HeldDocument]:
        """Return what is not published, by key."""
        rows = self._database.execute("SELECT * FROM held ORDER BY key")
        return [HeldDocument(*row) for row in rows]

    def hold(self, row: HeldDocument) -> None:
        """Note that a document is not published."""
        self._troubled.add(row.key)
        values = (row.key, row.sha256, row.reason, row.since, row.saved)
        self._database.execute("INSERT OR REPLACE INTO held VALUES (?, ?, ?, ?, ?)", values)

    def holds(self, key: str) -> HeldDocument | None:
        """Return why a document is not published; None when it is not held."""
        if key not in self._troubled:
            return None
        rows = self._database.execute("SELECT * FROM held WHERE key = ?", (key,))
        return next((HeldDocument(*row) for row in rows), None)

    def allowed(self) -> set[str]:
        """Name the documents that may be published although they look as if they held secrets."""
        return {key for (key,) in self._database.execute("SELECT key FROM allowed")}

    def allow(self, key: str, *, may_go: bool) -> None:
        """Let a document be published although it looks as if it held a secret, or no longer."""
        if may_go:
            self._database.execute("INSERT OR REPLACE INTO allowed VALUES (?)", (key,))
        else:
            self._database.execute("DELETE FROM allowed WHERE key = ?", (key,))


@asynccontextmanager
async def open_baseline(
    folder: Path, *, pacing: RetryClock, patience: float = 60.0
) -> AsyncGenerator[Baseline]:
    """Open the memory of earlier syncs, alone.

    Raises:
        PersonaError: Another process syncs and does not end, or the file cannot be used.
    """
    make_private_folder(folder)
    lock = await _acquire_lock(folder / "lock", pacing, patience)
    try:
        baseline = _open_file(folder / "baseline.db")
        try:
            yield baseline
        finally:
            await baseline.close()
    finally:
        os.close(lock)


async def _acquire_lock(path: Path, pacing: RetryClock, patience: float) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    lock = os.open(path, flags, 0o600)
    until = pacing.elapsed() + patience
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if pacing.elapsed() >= until:
                os.close(lock)
                raise PersonaError(
                    f"another process has been syncing this folder for {patience:.0f} seconds. "
                    "Wait for it, or look for a `memplane` that hangs"
                ) from None
            await pacing.sleep(_LOCK_POLL_S)
        else:
            return lock


def _open_file(path: Path) -> Baseline:
    try:
        database = _connect(path)
        for pragma in _PRAGMAS:
            database.execute(f"PRAGMA {pragma}")
        database.execute(_SCHEMA)
        _check_format(database)
        baseline = Baseline(database)
    except (apsw.Error, msgspec.DecodeError) as error:
        raise PersonaError(
            f"the memory of earlier syncs in {path} cannot be used ({error}). Move the file away: "
            "documents that differ from the container's are then kept as conflict copies"
        ) from error
    path.chmod(0o600)
    return baseline


def _connect(path: Path) -> _BaselineDatabase:
    return apsw.Connection(str(path))


def _check_format(database: _BaselineDatabase) -> None:
    """Give a new file a device name of its own; refuse one of another version."""
    rows = dict(database.execute("SELECT name, value FROM facts"))
    if not rows:
        database.executemany(
            "INSERT INTO facts VALUES (?, ?)", [("format", FORMAT_VERSION), ("device", new_id())]
        )
    elif rows.get("format") != FORMAT_VERSION:
        raise PersonaError(
            f"the memory of earlier syncs has format {rows.get('format')}, and this memplane "
            f"knows {FORMAT_VERSION}. Use a newer memplane"
        )
