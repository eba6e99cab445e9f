"""An agent's ledger as interfaces show it: without what was forgotten.

The ledger keeps the bytes of a forgotten turn until a purge. Whatever shows turns to a person or
a program reads them through here, so that no interface shows a forgotten one by accident.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Final

from memplane.exchange.outgoing_entry import strip_memory
from memplane.ledger.cursor import BEGINNING, Cursor
from memplane.ledger.folder import AgentFolder
from memplane.ledger.note_reader import NoteReader
from memplane.ledger.reader import (
    DEFAULT_PAGE_ENTRIES,
    MAX_PAGE_ENTRIES,
    EntryPage,
    open_entries_by_id,
    open_last_entries,
    open_page,
)
from memplane.ledger.tombstones import ForgottenIds
from memplane.ledger.turn_note import TurnNote

__all__ = ["DEFAULT_PAGE_ENTRIES", "MAX_PAGE_ENTRIES", "Citations", "EntryPage", "LedgerView"]

_ENVELOPE: Final = b'{"forgotten":true,"entry":%s}'


class Citations:
    """Which of an agent's turns were told of forgotten entries, as the recorder's notes say.

    Whoever reads page after page keeps it: only notes that are new are read, until something else
    is forgotten.
    """

    def __init__(self, folder: AgentFolder) -> None:
        self._folder = folder
        self._notes = NoteReader(folder)
        self._reading = Lock()
        self._forgotten = 0
        self._turns: set[str] = set()

    def find_turns_citing(self, forgotten: ForgottenIds) -> Collection[str]:
        """Return the turns whose prompts had memory of forgotten entries, or may have had."""
        with self._reading:
            if len(forgotten) != self._forgotten:
                self._forgotten, self._turns = len(forgotten), set()
                self._notes = NoteReader(self._folder)
            for note in self._notes.new_lines():
                if _may_cite(note, forgotten):
                    self._turns.add(note.id)
            return self._turns


def _may_cite(note: TurnNote, forgotten: ForgottenIds) -> bool:
    """Say whether a prompt had memory of forgotten entries, or of entries that are not named."""
    return any(
        not one.blocks
        or any(
            not block.entry_ids or any(entry in forgotten for entry in block.entry_ids)
            for block in one.blocks
        )
        for one in note.injected
    )


class LedgerView:
    """Reads an agent's ledger as of now, without the entries that were forgotten.

    With `include_forgotten` they are there, each marked by an envelope around its line. With
    `replay`, the recorder's notes, it is read for a memory service: requests that clients made
    for themselves are left out, too.
    """

    def __init__(
        self,
        folder: AgentFolder,
        tombstones: Iterable[Path],
        *,
        include_forgotten: bool = False,
        replay: NoteReader | None = None,
        citations: Citations | None = None,
    ) -> None:
        self.folder = folder
        self._forgotten = ForgottenIds(tombstones, folder.agent)
        self._forgotten.refresh()
        self._includes_forgotten = include_forgotten
        self._replay = replay
        nothing_is_hidden = replay is None and (include_forgotten or self._forgotten.is_empty)
        # A line of an old recorder has to be read to know its id, so nobody asks in vain.
        self._hides = None if nothing_is_hidden else self.hides
        self._told_of_forgotten: Collection[str] = ()
        if not (self._forgotten.is_empty or include_forgotten or replay):
            self._told_of_forgotten = (citations or Citations(folder)).find_turns_citing(
                self._forgotten
            )

    def hides(self, entry_id: str) -> bool:
        """Say whether an entry is not shown."""
        if self._replay is not None and self._replay.omits_response(entry_id):
            return True
        return not self._includes_forgotten and self.is_forgotten(entry_id)

    def hides_any(self, start_of_id: str) -> bool:
        """Say whether an entry whose id begins so was forgotten and is not shown."""
        return not self._includes_forgotten and self._forgotten.has_prefix(start_of_id)

    def is_forgotten(self, entry_id: str) -> bool:
        """Say whether an entry was forgotten, shown or not."""
        return entry_id in self._forgotten

    def page(
        self,
        *,
        cursor: Cursor = BEGINNING,
        after: datetime | None = None,
        limit: int = DEFAULT_PAGE_ENTRIES,
    ) -> AbstractContextManager[EntryPage]:
        """Open a page of entries; hidden ones do not count towards its limit.

        Raises:
            InvalidCursor: The cursor's entry is not there.
        """
        read = partial(open_page, self.folder, cursor=cursor, after=after, limit=limit)
        return read(hides=self._hides)

    def last(self, count: int) -> AbstractContextManager[EntryPage]:
        """Open the last entries, at most `count`, in the order they were recorded."""
        return open_last_entries(self.folder, count, hides=self._hides)

    def last_of(self, user: str, count: int) -> AbstractContextManager[EntryPage]:
        """Open the last entries of an end user, at most `count`."""
        return self.entry(*NoteReader(self.folder).list_turns_of(user)[-count:])

    def entry(self, *starts_of_ids: str) -> AbstractContextManager[EntryPage]:
        """Open the entries whose ids begin so."""
        return open_entries_by_id(self.folder, *starts_of_ids, hides=self._hides)

    def line(self, entry_id: str, line: bytes) -> bytes:
        """Return an entry's line as it is shown.

        A forgotten entry's own bytes stand in an envelope. Where the prompt of another entry was
        told of a forgotten one, the memory in that prompt is left out.
        """
        if entry_id in self._forgotten:
            return _ENVELOPE % line
        if self._replay is not None and not self._forgotten.is_empty:
            return strip_memory(line)
        return strip_memory(line) if entry_id in self._told_of_forgotten else line
