"""Beginning and ending segments, durably, so that no step of it can lose a byte."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import msgspec

from memplane.kit.durable_files import open_folder, replace_file, sync_file, sync_folder
from memplane.kit.ids import new_id
from memplane.kit.private_files import make_private_folder
from memplane.ledger.chain import RecordKind
from memplane.ledger.chain_file import ChainFile
from memplane.ledger.folder import (
    FOREIGN_INDEX_NAME,
    OPEN_SEGMENT_NAME,
    SEGMENTS_FOLDER_NAME,
    AgentFolder,
    encode_end,
    open_regular_file,
)


class FileModes(msgspec.Struct, frozen=True):
    """The permissions of what is made: for this user alone unless settings say otherwise."""

    file: int = 0o600

    @property
    def folder(self) -> int:
        """A folder can be entered by whoever may read its files."""
        return self.file | (self.file & 0o444) >> 2

    @property
    def sealed(self) -> int:
        """Nobody writes to a sealed segment."""
        return self.file & 0o444


def create_file(path: Path, modes: FileModes) -> None:
    """Make an empty file, durably; one that is there is left as it is."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, modes.file)
    except FileExistsError:
        open_regular_file(path).close()
        return
    try:
        os.fchmod(descriptor, modes.file)
        sync_file(descriptor)
    finally:
        os.close(descriptor)
    sync_folder(path.parent)


def seal_open_segment(
    folder: AgentFolder, chain: ChainFile, modes: FileModes, *, doubtful: bool = False
) -> None:
    """End the open segment: it keeps its bytes under its number, and a new one begins.

    After a failed sync its end is doubtful. Then a file beside it says first where it ends.
    """
    position = chain.end.place
    _make_segments(folder, modes)
    if doubtful:
        descriptor = open_folder(folder.path / SEGMENTS_FOLDER_NAME, (), create=False)
        try:
            end = folder.end_path(position.segment).name
            replace_file(descriptor, end, encode_end(position.offset))
        finally:
            os.close(descriptor)
    move_to_segments(folder, folder.path / OPEN_SEGMENT_NAME, position.segment, modes)
    record_seal(folder, chain, position.segment)
    create_file(folder.path / OPEN_SEGMENT_NAME, modes)


def move_to_segments(folder: AgentFolder, path: Path, number: int, modes: FileModes) -> None:
    """Give a file its number among the sealed segments."""
    _make_segments(folder, modes)
    target = folder.sealed_path(number)
    if target.exists():
        raise FileExistsError(errno.EEXIST, "a sealed segment is already there", str(target))
    path.rename(target)
    target.chmod(modes.sealed)
    sync_folder(target.parent)
    sync_folder(folder.path)


def _make_segments(folder: AgentFolder, modes: FileModes) -> None:
    segments = folder.path / SEGMENTS_FOLDER_NAME
    if not segments.exists():
        segments.mkdir(modes.folder)
        segments.chmod(modes.folder)
        sync_folder(folder.path)


def record_seal(folder: AgentFolder, chain: ChainFile, number: int) -> None:
    """End a segment in the chain: which records it has, and the hash of the whole file."""
    # Another recorder's index describes the file that was open.
    (folder.path / FOREIGN_INDEX_NAME).unlink(missing_ok=True)
    before = chain.find_last(RecordKind.SEALED)
    members: dict[str, object] = {
        "first": before.seq + 1 if before is not None else 1,
        "last": chain.end.seq,
    }
    if folder.end_path(number).exists():
        members["doubtful"] = True
    else:
        with open_regular_file(folder.sealed_path(number)) as file:
            members["sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
    chain.add_note(RecordKind.SEALED, members)
    chain.sync()


def quarantine_bytes(folder: AgentFolder, data: bytes, reason: str) -> None:
    """Keep bytes that are about to be cut off or passed over."""
    make_private_folder(folder.quarantine)
    descriptor = open_folder(folder.quarantine, (), create=False)
    try:
        replace_file(descriptor, f"{reason}-{new_id()}", data)
    finally:
        os.close(descriptor)
