"""An agent's notes: what the recorder says about turns, one line each.

A turn's note is durable before the turn is, so nobody can read the one without the other.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from threading import Lock

import msgspec

from memplane.auth.memory_scope import SHARED, MemoryScope
from memplane.ledger.folder import AgentFolder
from memplane.ledger.turn_note import TurnNote


def find_note(folder: AgentFolder, entry_id: str) -> TurnNote | None:
    """Return what is said about a turn; None when nothing is."""
    return read_notes(folder, {entry_id}).get(entry_id)


def read_notes(folder: AgentFolder, wanted: Collection[str]) -> dict[str, TurnNote]:
    """Return what is said about those turns of which anything is."""
    notes: dict[str, TurnNote] = {}
    for line in NoteReader(folder).new_lines():
        if line.id in wanted:
            notes[line.id] = _add_line(notes.get(line.id), line)
    return notes


def _add_line(known: TurnNote | None, line: TurnNote) -> TurnNote:
    """Return what is said about a turn with one more line: a turn's own, or that it is shared."""
    if not line.shared:
        return line
    return msgspec.structs.replace(known or line, user="", view="", shared=True)


class NoteReader:
    """An agent's notes; each question reads on where the last one ended, in any thread."""

    def __init__(self, folder: AgentFolder) -> None:
        self._folder = folder
        self._read = 0
        self._inode = 0
        self._lock = Lock()
        self._omitted_ids: set[str] = set()
        self._removed_counts: dict[str, int] = {}
        self._scopes: dict[str, tuple[str, str]] = {}
        """The user and the view of each turn that names some."""
        self._shared: set[str] = set()
        """The turns that an operator shared."""
        self._names: dict[tuple[str, str], tuple[str, str]] = {}
        """Each such pair once: a user has many turns."""

    def omits_response(self, entry_id: str) -> bool:
        """Say whether nothing is to be remembered of a turn."""
        self._read_on()
        return entry_id in self._omitted_ids

    def removed_count(self, entry_id: str) -> int:
        """Say how many secrets were taken out of a turn before it was written."""
        self._read_on()
        return self._removed_counts.get(entry_id, 0)

    def scope_of(self, entry_id: str) -> MemoryScope:
        """Say whose memory a turn is."""
        self._read_on()
        agent = self._folder.agent
        if entry_id in self._shared:
            return MemoryScope(agent)
        return MemoryScope(agent, *self._scopes.get(entry_id, (SHARED, SHARED)))

    def list_turns_of(self, user: str) -> list[str]:
        """Return the turns of a user, also those that an operator shared."""
        self._read_on()
        with self._lock:
            return [entry_id for entry_id, names in self._scopes.items() if names[0] == user]

    def _read_on(self) -> None:
        with self._lock:
            for line in self.new_lines():
                if line.id and line.left_out:
                    self._omitted_ids.add(line.id)
                if line.removed:
                    self._removed_counts[line.id] = line.removed
                if line.shared:
                    self._shared.add(line.id)
                elif line.user or line.view:
                    key = line.user, line.view
                    self._scopes[line.id] = self._names.setdefault(key, key)

    def _begin_again(self, inode: int) -> None:
        """Let go of what was read: lines were erased, and the file is another one."""
        self._inode, self._read = inode, 0
        for known in (self._omitted_ids, self._removed_counts, self._scopes, self._shared):
            known.clear()

    def new_lines(self) -> Iterator[TurnNote]:
        """Yield the lines that came since the last time; one that is no note is passed over."""
        path = self._folder.notes
        try:
            status = path.stat()
            if status.st_ino != self._inode or status.st_size < self._read:
                self._begin_again(status.st_ino)
            if status.st_size <= self._read:
                return
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with os.fdopen(os.open(path, flags), "rb") as handle:
                handle.seek(self._read)
                for line in handle:
                    if not line.endswith(b"\n"):
                        return  # it is still being written
                    self._read += len(line)
                    with suppress(msgspec.DecodeError, UnicodeDecodeError):
                        yield msgspec.json.decode(line, type=TurnNote)
        except FileNotFoundError:
            return
