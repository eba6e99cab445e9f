"""The contract of the relational store: work inside a transaction, on rows.

Work is a plain function that is given a connection. It runs in a thread, all of it in one
transaction: what `write` did is durable when it returns, or nothing of it happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeAlias, TypeVar

Value: TypeAlias = int | float | str | bytes | None
Row: TypeAlias = tuple[Any, ...]
T = TypeVar("T")


class Connection(Protocol):
    """Runs statements. Parameters stand where `?` is."""

    def rows(self, sql: str, parameters: Sequence[Value] = ()) -> Iterator[Row]:
        """Run one statement and yield what it returns."""
        ...

    def run(self, sql: str, parameters: Sequence[Value] = ()) -> int:
        """Run one statement; returns how many rows it changed."""
        ...

    def run_many(self, sql: str, parameters: Iterable[Sequence[Value]]) -> None:
        """Run one statement for each of the parameters."""
        ...


class RecordStore(Protocol):
    """Rows that stay. There is one writer at a time, and any number of readers."""

    async def read(
        self, work: Callable[[Connection], T], *, quick: bool = False, patient: bool = False
    ) -> T:
        """Do work that only reads, on one state of the rows.

        A few lookups are `quick`: where rows are in this process, they are not worth a thread.
        Work that is `patient` may take long; nobody who is in a hurry waits behind it.

        Raises:
            RecordsError: The store cannot be read.
        """
        ...

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Do work, and make it durable; when it raises, nothing of it happened.

        Raises:
            RecordsError: The store cannot be written.
        """
        ...


class Database(RecordStore, Protocol):
    """Records that can be made anew beside themselves, and cleaned."""

    def aside(self) -> AbstractAsyncContextManager[Database]:
        """Open an empty one beside it, which is gone afterwards."""
        ...

    async def replace_tables_from(self, other: Database, tables: Sequence[str]) -> None:
        """Put the rows of the other's tables in the place of these, all at once."""
        ...

    async def wipe(self) -> None:
        """Let nothing that was deleted stay in any of its files."""
        ...

    async def holds(self, text: bytes) -> bool:
        """Say whether any of its files has these bytes, in use or not."""
        ...
