"""Changing what is said about turns that were recorded: they are shared, or their notes go.

It takes the agent's lock, so that no recorder writes notes meanwhile.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Generator, Iterable
from contextlib import contextmanager, suppress

import msgspec

from memplane.kit.clock import Clock
from memplane.kit.durable_files import open_folder, replace_file
from memplane.ledger.agent_writer import AgentWriter
from memplane.ledger.anchors import read_anchors
from memplane.ledger.folder import NOTES_FILE_NAME, AgentFolder
from memplane.ledger.segments import FileModes
from memplane.ledger.turn_note import TurnNote, encode_note, make_note_line


def share_turns(
    folder: AgentFolder, ids: Iterable[str], *, modes: FileModes, clock: Clock
) -> None:
    """Note durably that turns are shared by all users of their agent.

    Raises:
        OSError: It may not all be noted.
    """
    shared = encode_note(TurnNote(shared=True))
    with _held(folder, modes, clock) as log:
        log.write_notes([make_note_line(entry_id, shared) for entry_id in ids], durably=True)


def erase_notes(
    folder: AgentFolder, ids: Collection[str], *, modes: FileModes, clock: Clock
) -> int:
    """Erase what is said about turns; returns how many lines went.

    Raises:
        OSError: It failed, and all lines are still there.
    """
    if not folder.notes.exists():
        return 0
    gone = 0
    with _held(folder, modes, clock):
        kept: list[bytes] = []
        for line in folder.notes.read_bytes().splitlines(keepends=True):
            if _id_of(line) in ids:
                gone += 1
            else:
                kept.append(line)
        if gone:
            descriptor = open_folder(folder.path, (), create=False)
            try:
                replace_file(descriptor, NOTES_FILE_NAME, b"".join(kept))
            finally:
                os.close(descriptor)
            folder.notes.chmod(modes.file)
    return gone


def _id_of(line: bytes) -> str:
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.decode(line, type=TurnNote).id
    return ""


@contextmanager
def _held(folder: AgentFolder, modes: FileModes, clock: Clock) -> Generator[AgentWriter]:
    log = AgentWriter(folder, modes=modes, max_bytes=sys.maxsize)
    try:
        with log.open_locked(lambda: read_anchors(folder.root).get(folder.agent), clock):
            yield log
    finally:
        log.close()
