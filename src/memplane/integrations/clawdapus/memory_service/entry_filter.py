"""Which entries of a ledger are replayed, and reading them one after the other."""

from __future__ import annotations

from collections.abc import Container, Generator, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from memplane.ledger.cursor import Cursor
from memplane.ledger.folder import AgentFolder
from memplane.ledger.note_reader import NoteReader
from memplane.ledger.reader import open_page

_PAGE_ENTRIES: Final = 100
_FAILED_STATUS: Final = "error"


class SkipReason(StrEnum):
    """Why an entry is not replayed."""

    FORGOTTEN = "forgotten"
    FAILED = "failed"
    NOT_A_TURN = "not a turn"


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """Which entries an operator wants replayed; a limit of 0 is none."""

    after: datetime | None = None
    limit: int = 0
    include_errors: bool = False

    def left_out(self, entry: ReplayEntry, forgotten: Container[str]) -> SkipReason | None:
        """Decide whether an entry is replayed: None when it is (pure).

        The limit counts entries that are, so it is not asked here.
        """
        if entry.id in forgotten:
            return SkipReason.FORGOTTEN
        if entry.left_out:
            return SkipReason.NOT_A_TURN
        if entry.status == _FAILED_STATUS and not self.include_errors:
            return SkipReason.FAILED
        return None

    def is_enough(self, taken: int) -> bool:
        """Say whether the limit is reached (pure)."""
        return bool(self.limit) and taken >= self.limit


@dataclass(frozen=True, slots=True)
class ReplayEntry:
    """An entry of a ledger; `before` is where reading has to start to find it again.

    The recorder's notes say that it is `left_out` of memory, such as a request for a title, and
    how many secrets were `removed` before it was written.
    """

    id: str
    status: str
    line: bytes
    cursor: Cursor
    before: Cursor
    left_out: bool = False
    removed: int = 0


class LedgerWalk:
    """Reads a ledger's entries behind a cursor, with one line in memory at a time.

    Iterating raises InvalidCursor when the cursor is not this ledger's. `unreadable` counts the
    lines that were passed so far and are no entries.
    """

    def __init__(self, folder: AgentFolder, cursor: Cursor, after: datetime | None) -> None:
        self.unreadable = 0
        self._folder = folder
        self._after = after
        self._entries = self._read(cursor)

    def __iter__(self) -> Iterator[ReplayEntry]:
        return self._entries

    def close(self) -> None:
        """Let go of the files."""
        self._entries.close()

    def _read(self, cursor: Cursor) -> Generator[ReplayEntry, None, None]:
        before, has_more, notes = cursor, True, NoteReader(self._folder)
        while has_more:
            with open_page(
                self._folder, cursor=cursor, after=self._after, limit=_PAGE_ENTRIES
            ) as page:
                for location, (entry_id, line) in zip(page.entries, page.with_ids(), strict=True):
                    position = Cursor(location.segment, location.offset, entry_id)
                    yield ReplayEntry(
                        id=entry_id,
                        status=location.head.status,
                        line=line,
                        cursor=position,
                        before=before,
                        left_out=notes.omits_response(entry_id),
                        removed=notes.removed_count(entry_id),
                    )
                    before = position
            self.unreadable += page.skipped
            cursor, has_more = page.next, page.has_more
