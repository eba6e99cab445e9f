"""Where an agent's ledger lies, and in which order its segments were written.

<root>/<agent>/history.jsonl             the open segment
<root>/<agent>/segments/00000001.jsonl   sealed ones, all kept
<root>/<agent>/history.jsonl.1           another recorder's one rotated generation
<root>/<agent>/chain.jsonl, index.jsonl, notes.jsonl, lock
<root>/.memplane/anchors.jsonl           how long each chain was, told outside it
<root>/.memplane/quarantine/<agent>/     damaged bytes, as they were found
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import os
import stat
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Final

import msgspec

from memplane.auth.agent_id import is_agent_id
from memplane.errors import UnknownAgent

OPEN_SEGMENT_NAME: Final = "history.jsonl"
ROTATED_SEGMENT_NAME: Final = "history.jsonl.1"
FOREIGN_INDEX_NAME: Final = "history.index.json"
SEGMENTS_FOLDER_NAME: Final = "segments"
CHAIN_FILE_NAME: Final = "chain.jsonl"
NOTES_FILE_NAME: Final = "notes.jsonl"
STATE_FOLDER_NAME: Final = ".memplane"

_SEGMENT_NUMBER_DIGITS: Final = 8


class Segment(msgspec.Struct, frozen=True):
    """One file of the ledger. The open one has the number that it will be sealed under.

    `end` is set after a failed sync: what lies behind it was written again elsewhere.
    """

    number: int
    path: Path
    end: int | None = None


@dataclass(frozen=True, slots=True)
class AgentFolder:
    """The folder of one agent below a ledger's root."""

    root: Path
    agent: str

    def __post_init__(self) -> None:
        """Refuse a name that would lead elsewhere.

        Raises:
            UnknownAgent: It is no agent's name.
        """
        if not is_agent_id(self.agent):
            raise make_invalid_agent(self.agent)

    @property
    def path(self) -> Path:
        """The folder itself."""
        return self.root / self.agent

    @property
    def chain(self) -> Path:
        """The side file with sequence, offsets and commitments."""
        return self.path / CHAIN_FILE_NAME

    @property
    def index(self) -> Path:
        """The times of blocks of entries; a cache."""
        return self.path / "index.jsonl"

    @property
    def notes(self) -> Path:
        """What is said about turns beside them."""
        return self.path / NOTES_FILE_NAME

    @property
    def quarantine(self) -> Path:
        """Where damaged bytes are kept."""
        return self.root / STATE_FOLDER_NAME / "quarantine" / self.agent

    def list_sealed(self) -> list[Segment]:
        """Return the sealed segments, oldest first; what is no ordinary file is none."""
        folder = self.path / SEGMENTS_FOLDER_NAME
        if self.path.is_symlink() or folder.is_symlink() or not folder.is_dir():
            return []
        return sorted(
            (
                Segment(int(path.stem), path, _read_end(path.with_suffix(".end")))
                for path in folder.glob("*.jsonl")
                if path.stem.isdecimal()
                and len(path.stem) == _SEGMENT_NUMBER_DIGITS
                and _is_regular_file(path)
            ),
            key=lambda segment: segment.number,
        )

    def segments(self) -> list[Segment]:
        """Return every file that holds entries, oldest first; some may not exist any more."""
        segments = self.list_sealed()
        next_number = segments[-1].number + 1 if segments else 1
        if self.path.is_symlink():
            return segments
        for name in (ROTATED_SEGMENT_NAME, OPEN_SEGMENT_NAME):
            if _is_regular_file(self.path / name):
                segments.append(Segment(next_number, self.path / name))
                next_number += 1
        return segments

    def sealed_path(self, number: int) -> Path:
        """Return where a segment lies once it is sealed."""
        return self.path / SEGMENTS_FOLDER_NAME / f"{number:0{_SEGMENT_NUMBER_DIGITS}}.jsonl"

    def end_path(self, number: int) -> Path:
        """Return the file that says where a segment ends whose last sync failed."""
        return self.sealed_path(number).with_suffix(".end")


def make_invalid_agent(name: str) -> UnknownAgent:
    """Make the error for a name that no agent can have."""
    return UnknownAgent(f"{name[:80]!r} is not an agent's name")


def open_regular_file(path: Path) -> BufferedReader:
    """Open a file to read it; a link, a pipe or a folder is refused as a link is (ELOOP)."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags)
    file = os.fdopen(descriptor, "rb")
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        file.close()
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return file


def _is_regular_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def encode_end(offset: int) -> bytes:
    """Write where a segment ends, with a hash, since a wrong number would hide entries."""
    return b"%d %s\n" % (offset, hashlib.sha256(b"%d" % offset).hexdigest()[:16].encode())


def _read_end(path: Path) -> int | None:
    """Read where a segment ends; None when it is not said, or not to be trusted."""
    try:
        data = path.read_bytes()
        offset = int(data.split(b" ")[0])
    except (FileNotFoundError, ValueError):
        return None
    return offset if hmac.compare_digest(data, encode_end(offset)) else None


def list_ledger_agents(root: Path) -> list[str]:
    """Name the agents that have a ledger below the root, sorted."""
    if not root.is_dir():
        return []
    return sorted(
        entry.name
        for entry in root.iterdir()
        if is_agent_id(entry.name) and AgentFolder(root, entry.name).segments()
    )
