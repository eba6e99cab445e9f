"""Opening an agent's ledger: what is in its files, and is that what the chain says?

Whatever is found is kept. A last line that was cut off is moved into quarantine. Whole lines
that the chain does not know yet are added to it. Lines that cannot be read stay where they are
and are copied. What the chain knows and the files have lost is noted in the chain for good, and
writing goes on in a new segment.
"""

from __future__ import annotations

import hashlib
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from memplane.home import make_private
from memplane.ids import new_id
from memplane.ledger.chain import Kind, Link
from memplane.ledger.chain_file import ChainFile
from memplane.ledger.folder import FOREIGN_INDEX, OPEN, ROTATED, SEGMENTS, AgentFolder
from memplane.ledger.heads import head_of
from memplane.ledger.lines import Line, lines_of
from memplane.objects.files import open_folder, replace_file, sync_file, sync_folder

_log = logging.getLogger(__name__)
_AT_ONCE: Final = 512
_PIECE: Final = 1 << 20


@dataclass(slots=True)
class Recovered:
    """What opening found; all zero for a ledger that was closed in order."""

    found: int = 0
    torn: int = 0
    damaged: int = 0
    broken: int = 0


@dataclass(frozen=True, slots=True)
class Modes:
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


def recover(folder: AgentFolder, chain: ChainFile, anchor: Link | None, modes: Modes) -> Recovered:
    """Bring the chain up to date with the files; afterwards its end is the open file's end.

    The caller holds the agent's lock.
    """
    result = Recovered()
    if torn := chain.load():
        _quarantine(folder, torn, "chain")
        result.torn += 1
    _compare_with_anchor(folder, chain, anchor, result)
    adopt_rotated(folder, modes)
    _drop_doubtful_end(folder, chain, result)
    for segment in folder.sealed():
        if segment.number >= chain.end.place.segment:
            if segment.number > chain.end.place.segment:
                _skip_to(chain, segment.number, result)
            _catch_up(folder, chain, segment.path, result)
            note_sealed(chain, segment.path)
    path = folder.path / OPEN
    number = chain.end.place.segment
    size = path.stat().st_size if path.exists() else 0
    if size < chain.end.place.offset:
        _note_broken(chain, result, f"segment {number} ends at byte {size}")
        create_file(path, modes)
        seal(folder, chain, modes)
    create_file(path, modes)
    _catch_up(folder, chain, path, result)
    return result


def _compare_with_anchor(
    folder: AgentFolder, chain: ChainFile, anchor: Link | None, result: Recovered
) -> None:
    if anchor is None:
        return
    record = chain.find(anchor.seq)
    if record is None or record.hash != anchor.hash:
        what = "is missing" if record is None else "is another one"
        _note_broken(chain, result, f"record {anchor.seq} of {folder.chain.name} {what}")


def _skip_to(chain: ChainFile, number: int, result: Recovered) -> None:
    if chain.end.place.offset:
        _note_broken(chain, result, f"segment {chain.end.place.segment} is missing")
    chain.skip_to(number)


def _note_broken(chain: ChainFile, result: Recovered, why: str) -> None:
    result.broken += 1
    _log.warning("the ledger has lost something that was recorded: %s", why)
    chain.add_note(Kind.BROKEN, {"why": why})


def adopt_rotated(folder: AgentFolder, modes: Modes) -> None:
    """Make another recorder's rotated file the next sealed segment."""
    rotated = folder.path / ROTATED
    if not rotated.is_file() or rotated.is_symlink():
        return
    sealed = folder.sealed()
    _move_to_segments(folder, rotated, sealed[-1].number + 1 if sealed else 1, modes)


def _drop_doubtful_end(folder: AgentFolder, chain: ChainFile, result: Recovered) -> None:
    """Cut off what a failed sync left at the end of the last sealed segment.

    Those lines were written again into the segment after it.
    """
    last = chain.find_last(Kind.SEALED)
    if last is None or not last.more.get("doubtful"):
        return
    path, size = folder.sealed_path(last.place.segment), last.place.offset
    if path.stat().st_size > size:
        path.chmod(0o600)
        with path.open("r+b") as file:
            file.seek(size)
            _quarantine(folder, file.read(), "doubtful")
            file.truncate(size)
            sync_file(file.fileno())
        path.chmod(0o400)
        result.torn += 1


def _catch_up(folder: AgentFolder, chain: ChainFile, path: Path, result: Recovered) -> None:
    """Chain the lines of a file that the chain does not know yet; mend its last line."""
    whole: list[bytes] = []
    with path.open("rb") as file:
        file.seek(chain.end.place.offset)
        for line in lines_of(file):
            if not line.ended:
                result.torn += 1
                whole += _mended(folder, path, line)
            elif line.data is not None and (head_of(line.data) or not line.data.strip()):
                whole.append(line.data)
            else:
                _flush(chain, whole, result)
                _note_damaged(folder, chain, path, line)
                result.damaged += 1
            if len(whole) >= _AT_ONCE:
                _flush(chain, whole, result)
    _flush(chain, whole, result)


def _flush(chain: ChainFile, whole: list[bytes], result: Recovered) -> None:
    if whole:
        chain.add_lines(Kind.FOUND, whole)
        result.found += len(whole)
        whole.clear()


def _mended(folder: AgentFolder, path: Path, line: Line) -> list[bytes]:
    """Give a whole last line its newline and return it; one that was cut off is moved away."""
    mode = path.stat().st_mode & 0o777
    path.chmod(mode | 0o200)
    whole = [line.data] if line.data is not None and head_of(line.data) is not None else []
    with path.open("r+b") as file:
        if whole:
            file.seek(line.offset + line.size)
            file.write(b"\n")
        else:
            file.seek(line.offset)
            _quarantine(folder, file.read(), "torn")
            file.truncate(line.offset)
        file.flush()
        sync_file(file.fileno())
    path.chmod(mode)
    return whole


def _note_damaged(folder: AgentFolder, chain: ChainFile, path: Path, line: Line) -> None:
    _log.warning("%s has a line at byte %d that cannot be read", path, line.offset)
    if line.data is None:
        why = "longer than any reader takes"
    else:
        _quarantine(folder, line.data, "damaged")
        why = "not an entry"
    chain.add_note(Kind.DAMAGED, {"why": why, "sha256": _sha256(path, line)}, size=line.size)


def _sha256(path: Path, line: Line) -> str:
    digest, left = hashlib.sha256(), line.size
    with path.open("rb") as file:
        file.seek(line.offset)
        while left and (piece := file.read(min(left, _PIECE))):
            digest.update(piece)
            left -= len(piece)
    return digest.hexdigest()


def _quarantine(folder: AgentFolder, data: bytes, why: str) -> None:
    """Keep bytes that are about to be cut off or passed over."""
    make_private(folder.quarantine)
    descriptor = open_folder(folder.quarantine, (), create=False)
    try:
        replace_file(descriptor, f"{why}-{new_id()}", data)
    finally:
        os.close(descriptor)


def create_file(path: Path, modes: Modes) -> None:
    """Make an empty file, durably; one that is there is left as it is."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, modes.file)
    except FileExistsError:
        return
    try:
        os.fchmod(descriptor, modes.file)
        sync_file(descriptor)
    finally:
        os.close(descriptor)
    sync_folder(path.parent)


def seal(folder: AgentFolder, chain: ChainFile, modes: Modes, *, doubtful: bool = False) -> None:
    """End the open segment: it keeps its bytes under its number, and a new one begins."""
    number = chain.end.place.segment
    _move_to_segments(folder, folder.path / OPEN, number, modes)
    (folder.path / FOREIGN_INDEX).unlink(missing_ok=True)
    note_sealed(chain, folder.sealed_path(number), doubtful=doubtful)
    create_file(folder.path / OPEN, modes)


def _move_to_segments(folder: AgentFolder, path: Path, number: int, modes: Modes) -> None:
    segments = folder.path / SEGMENTS
    if not segments.exists():
        segments.mkdir(modes.folder)
        segments.chmod(modes.folder)
        sync_folder(folder.path)
    target = folder.sealed_path(number)
    if target.exists():
        raise FileExistsError(17, "a sealed segment is already there", str(target))
    path.rename(target)
    target.chmod(modes.sealed)
    sync_folder(segments)
    sync_folder(folder.path)


def note_sealed(chain: ChainFile, path: Path, *, doubtful: bool = False) -> None:
    """End a segment in the chain: how many records it has, and the hash of the whole file."""
    before = chain.find_last(Kind.SEALED)
    first = before.seq + 1 if before is not None else 1
    more: dict[str, object] = {"first": first, "last": chain.end.seq}
    if doubtful:
        more["doubtful"] = True
    else:
        with path.open("rb") as file:
            more["sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
    chain.add_note(Kind.SEALED, more)
    chain.sync()
