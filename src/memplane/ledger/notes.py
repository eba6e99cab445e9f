"""What the recorder says about its turns, beside the ledger: which memories each was given.

A turn's note is durable before the turn is, so nobody can read the one without the other. It
names memories and holds none of their words.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from memplane.ledger.folder import AgentFolder


class InjectedBlock(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory in a prompt: its own id, and the entries that it was made of."""

    id: str = ""
    entry_ids: tuple[str, ...] = ()
    kind: str = ""
    score: float | None = None


class Injected(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was put into one message of a prompt; `replayed` says that it stood there before."""

    message: int
    service: str
    bytes: int
    blocks: tuple[InjectedBlock, ...] = ()
    replayed: bool = False


class DroppedBlock(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory that was recalled and not put into the prompt, and why."""

    why: str
    id: str = ""
    entry_ids: tuple[str, ...] = ()


class Note(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is said about one turn.

    `left_out` is why nothing is to be remembered of it; `recall` is how that went, if it was
    asked for. The turn's id is known once it is written.
    """

    id: str = ""
    session: str = ""
    left_out: str = ""
    recall: str = ""
    injected: tuple[Injected, ...] = ()
    dropped: tuple[DroppedBlock, ...] = ()


def encoded(note: Note) -> bytes:
    """Write a note as a turn carries it; one that says nothing is empty."""
    return b"" if note == Note() else msgspec.json.encode(note)


def line_of(entry_id: str, note: bytes) -> bytes:
    """Write a note's line."""
    return b'{"id":"%s",%s' % (entry_id.encode(), note[1:])


def note_of(folder: AgentFolder, entry_id: str) -> Note | None:
    """Return what is said about a turn; None when nothing is."""
    found = None
    for line in Notes(folder).new_lines():
        if line.id == entry_id:
            found = line
    return found


class Notes:
    """An agent's notes; each question reads on where the last one ended."""

    def __init__(self, folder: AgentFolder) -> None:
        self._folder = folder
        self._read = 0
        self._left_out: set[str] = set()

    def leaves_out(self, entry_id: str) -> bool:
        """Say whether nothing is to be remembered of a turn."""
        if not entry_id:
            return False
        for line in self.new_lines():
            if line.left_out:
                self._left_out.add(line.id)
        return entry_id in self._left_out

    def new_lines(self) -> Iterator[Note]:
        """Yield the lines that came since the last time; one that is no note is passed over."""
        path = self._folder.notes
        try:
            if path.stat().st_size <= self._read:
                return
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with os.fdopen(os.open(path, flags), "rb") as handle:
                handle.seek(self._read)
                for line in handle:
                    if not line.endswith(b"\n"):
                        return  # it is still being written
                    self._read += len(line)
                    with suppress(msgspec.DecodeError, UnicodeDecodeError):
                        yield msgspec.json.decode(line, type=Note)
        except FileNotFoundError:
            return
