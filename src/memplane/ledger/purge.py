"""Erasing entries for good, while the chain still verifies and every cursor holds.

The order makes a crash harmless. First the chain says, durably, which lines will be erased. Then
they are overwritten at equal length. Only when that is durable do their salts go, without which
nobody can guess a line from its commitment. While a salt is there its erasure is unfinished: a
check says so, and the next purge completes it, whatever the crash left of the line.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BufferedReader
from itertools import groupby
from pathlib import Path
from typing import Final

import msgspec

from memplane.errors import LedgerError
from memplane.kit.clock import Clock
from memplane.kit.durable_files import sync_file, sync_folder
from memplane.ledger.agent_writer import AgentWriter
from memplane.ledger.anchors import read_anchors, write_anchors
from memplane.ledger.chain import (
    ERASED_SALT,
    ChainRecord,
    Erasure,
    LedgerPosition,
    RecordKind,
    decode_record,
    read_erasure,
)
from memplane.ledger.entry_head import (
    add_missing_id,
    make_erased_line,
    parse_rfc3339,
    read_entry_head,
)
from memplane.ledger.folder import AgentFolder, Segment, open_regular_file
from memplane.ledger.line_reader import LedgerLine, read_lines
from memplane.ledger.recovery import open_writable
from memplane.ledger.segments import FileModes, quarantine_bytes

_CHUNK_BYTES: Final = 1 << 20
_LINE_KINDS: Final = frozenset({RecordKind.ENTRY, RecordKind.FOUND, RecordKind.DAMAGED})
_SALT_MEMBER: Final = b',"salt":"'
_ERASING_FILE_PREFIX: Final = "erasing-"
_MAX_TIMESTAMP_CHARS: Final = 40
_PLAIN_ID_PATTERN: Final = re.compile(r"[ !#-%'-;=?-\[\]-~]{1,256}", re.ASCII)
"""Ids that are spelled alike in every JSON."""
_ID_PATTERN: Final = re.compile(rb'"id"\s*:\s*"([^"\\]{1,256})"')
_POSITION_PATTERN: Final = re.compile(rb'"segment":(\d{1,18}),"offset":(\d{1,18})\b')


class PurgeReport(msgspec.Struct, frozen=True):
    """What a purge did.

    `erased` lines had one of the ids. `completed` ones an earlier purge had begun with and not
    got to. `fragments` lay in quarantine. Nothing was or is known of an id that is `missing`.
    """

    erased: int = 0
    completed: int = 0
    fragments: int = 0
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _ErasureTarget:
    """A line to erase: its file, its position, its length without the newline, its id and time.

    `is_already_erased` says that an earlier run replaced it. `salt_at` is the offset of its salt
    in the chain.
    """

    path: Path
    inode: int
    place: LedgerPosition
    size: int
    id: str
    ts: str
    is_already_erased: bool = False
    record: ChainRecord | None = None
    salt_at: int = 0

    def erased_line(self, agent: str) -> bytes:
        """Return what erasing leaves."""
        return make_erased_line(agent, _plain_id(self.id), _plain_ts(self.ts), self.size)

    def erasure(self, record: ChainRecord, sha256: str) -> Erasure:
        """Return what the chain is told."""
        return Erasure(record.seq, self.place, _plain_id(self.id), _plain_ts(self.ts), sha256)


class _ChainIndex(msgspec.Struct, frozen=True):
    """What the chain knows: the records of lines, each with where its salt is, and the seals."""

    records: Mapping[LedgerPosition, tuple[ChainRecord, int]]
    sealed: frozenset[int]


def purge_ledger(
    folder: AgentFolder, ids: Collection[str], *, modes: FileModes, clock: Clock
) -> PurgeReport:
    """Erase every line that has one of the ids, and complete what an earlier purge began with.

    It takes the agent's lock. Whoever holds that already uses `purge_open_ledger`.

    Raises:
        LedgerError: Another recorder moved the files meanwhile. The same purge again goes on.
        OSError: It failed, and some may be left. The same purge again goes on.
    """
    if not folder.segments():
        return PurgeReport(missing=tuple(sorted(set(ids))))
    log = AgentWriter(folder, modes=modes, max_bytes=sys.maxsize)
    try:
        with log.open_locked(
            lambda: read_anchors(folder.root).get(folder.agent), clock
        ) as recovery:
            if recovery is not None and recovery.broken:
                write_anchors(folder.root, {folder.agent: log.end}, modes=modes, anew=True)
            return purge_open_ledger(log, ids, modes=modes)
    finally:
        log.close()


def purge_open_ledger(log: AgentWriter, ids: Collection[str], *, modes: FileModes) -> PurgeReport:
    """Do what `purge` does while the log is held.

    Raises:
        LedgerError: Another recorder moved the files meanwhile. The same purge again goes on.
        OSError: It failed, and some may be left. The same purge again goes on.
    """
    folder, wanted_ids = log.folder, frozenset(ids)
    segments = {item.number: item for item in folder.segments()}
    started = {item.place: item for item in _erasures(folder)}
    targets = [
        item for segment in segments.values() for item in _with_ids(folder, segment, wanted_ids)
    ]
    chain_index = _index_chain(folder, {*started, *(item.place for item in targets)})

    by_id = [item for item in _with_records(targets, chain_index) if not _is_done(item, started)]
    other_positions = started.keys() - {item.place for item in targets}
    unfinished = list(
        _find_unfinished(
            folder, [started[item] for item in other_positions], chain_index, segments
        )
    )
    all_targets = sorted(
        [*by_id, *unfinished], key=lambda item: (item.place.segment, item.place.offset)
    )

    _record_erasures(log, all_targets, chain_index)
    fragments = _erase_fragments(
        folder,
        ids=wanted_ids | {item.id for item in unfinished},
        positions={*started, *(item.place for item in all_targets)},
    )
    _erase_lines(folder, all_targets)
    _erase_salts(folder, all_targets)
    if all_targets:
        write_anchors(folder.root, {folder.agent: log.end}, modes=modes)
    known = {item.id for item in targets} | {item.id for item in started.values()}
    return PurgeReport(len(by_id), len(unfinished), fragments, tuple(sorted(wanted_ids - known)))


def list_erased_ids(folder: AgentFolder) -> frozenset[str]:
    """Name the entries that were erased, or are being; one whose id was not kept has no name."""
    if not folder.chain.exists():
        return frozenset()
    return frozenset(erasure.id for erasure in _erasures(folder) if erasure.id)


# What must go


def _erasures(folder: AgentFolder) -> Iterator[Erasure]:
    """Yield what the chain says is erased, or to be."""
    for _, record in _records(folder):
        erasure = read_erasure(record)
        if erasure is not None:
            yield erasure


def _index_chain(folder: AgentFolder, positions: Collection[LedgerPosition]) -> _ChainIndex:
    """Find the records of lines at places, and which segments have a hash."""
    records: dict[LedgerPosition, tuple[ChainRecord, int]] = {}
    sealed: set[int] = set()
    for line, record in _records(folder):
        if record.kind in _LINE_KINDS and record.place in positions:
            salt_at = line.offset + (line.data or b"").rfind(_SALT_MEMBER) + len(_SALT_MEMBER)
            records[record.place] = record, salt_at
        elif record.kind == RecordKind.SEALED and record.more.get("sha256"):
            sealed.add(record.place.segment)
    return _ChainIndex(records, frozenset(sealed))


def _records(folder: AgentFolder) -> Iterator[tuple[LedgerLine, ChainRecord]]:
    with open_regular_file(folder.chain) as file:
        for line in read_lines(file):
            record = decode_record(line.data) if line.data is not None and line.ended else None
            if record is not None:
                yield line, record


def _with_ids(
    folder: AgentFolder, segment: Segment, ids: Collection[str]
) -> Iterator[_ErasureTarget]:
    """Find the lines of a segment that have one of the ids, also those that nobody reads."""
    with open_regular_file(segment.path) as file:
        inode = os.fstat(file.fileno()).st_ino
        for line in read_lines(file):
            if line.data is None or (id_and_time := _find_named_id(line.data, ids)) is None:
                continue
            position = LedgerPosition(segment.number, line.offset)
            target = _ErasureTarget(segment.path, inode, position, len(line.data), *id_and_time)
            yield replace(target, is_already_erased=line.data == target.erased_line(folder.agent))


def _find_named_id(line: bytes, ids: Collection[str]) -> tuple[str, str] | None:
    """Return the id and the time of a line that has one of the ids; of a damaged one, its id."""
    head = read_entry_head(line)
    if head is not None:
        identifier = add_missing_id(line, head)[0]
        return (identifier, head.ts) if identifier in ids else None
    within = (match.decode("utf-8", "replace") for match in _ID_PATTERN.findall(line))
    return next(((match, "") for match in within if match in ids), None)


def _with_records(
    targets: Iterable[_ErasureTarget], chain_index: _ChainIndex
) -> Iterator[_ErasureTarget]:
    """Join lines with their records; one that the chain does not know can be erased all the same.

    Such lines are behind the end of a segment whose last sync failed, or in a ledger that has
    been damaged.
    """
    for target in targets:
        record, salt_at = chain_index.records.get(target.place, (None, 0))
        fits = record is not None and record.size == target.size + 1
        yield replace(target, record=record, salt_at=salt_at) if fits else target


def _is_done(target: _ErasureTarget, started: Mapping[LedgerPosition, Erasure]) -> bool:
    """Say whether nothing is left to do: the line is gone, the chain says so, and the salt is."""
    if target.record is None or not target.is_already_erased:
        return target.is_already_erased
    has_note = target.place in started and started[target.place].record == target.record.seq
    return has_note and target.record.salt in {ERASED_SALT, b""}


def _find_unfinished(
    folder: AgentFolder,
    started: Iterable[Erasure],
    chain_index: _ChainIndex,
    segments: Mapping[int, Segment],
) -> Iterator[_ErasureTarget]:
    """Find lines that the chain says are erased, and are not; their ids may be gone already."""
    for erasure in started:
        record, salt_at = chain_index.records.get(erasure.place, (None, 0))
        segment = segments.get(erasure.place.segment)
        if record is None or record.seq != erasure.record or record.salt == ERASED_SALT:
            continue
        if segment is None:
            continue
        with open_regular_file(segment.path) as file:
            line = _line_at(file, erasure.place.offset, record.size)
            inode = os.fstat(file.fileno()).st_ino
        if line is None:
            continue
        target = _ErasureTarget(
            segment.path, inode, erasure.place, len(line), erasure.id, erasure.ts
        )
        target = replace(
            target,
            is_already_erased=line == target.erased_line(folder.agent),
            record=record,
            salt_at=salt_at,
        )
        if record.salt or not target.is_already_erased:
            yield target


def _line_at(file: BufferedReader, offset: int, size: int) -> bytes | None:
    """Read a line that begins and ends there; None when there is no such line."""
    file.seek(max(0, offset - 1))
    before = file.read(1) if offset else b"\n"
    data = file.read(size)
    is_whole = before == b"\n" and len(data) == size and data.find(b"\n") == size - 1
    return data[:-1] if is_whole else None


def _plain_id(identifier: str) -> str:
    """Return an id that can stand in a chain; one that could hold anything is not kept."""
    return identifier if _PLAIN_ID_PATTERN.fullmatch(identifier) else ""


def _plain_ts(ts: str) -> str:
    return ts if len(ts) <= _MAX_TIMESTAMP_CHARS and parse_rfc3339(ts) is not None else ""


# Erasing it


def _record_erasures(
    log: AgentWriter, targets: Sequence[_ErasureTarget], chain_index: _ChainIndex
) -> None:
    """Say in the chain what will be erased, and which hashes sealed segments will have then."""
    notes: list[Erasure] = []
    for number, group in groupby(targets, key=lambda target: target.place.segment):
        in_segment = list(group)
        sha256 = _hash_without(log.folder, in_segment) if number in chain_index.sealed else ""
        notes += [
            target.erasure(target.record, sha256)
            for target in in_segment
            if target.record is not None
        ]
    if notes:
        log.note_erased(notes)


def _hash_without(folder: AgentFolder, targets: Sequence[_ErasureTarget]) -> str:
    """Compute the hash that a segment will have once lines of it are erased."""
    digest = hashlib.sha256()
    with open_regular_file(targets[0].path) as file:
        for target in targets:
            while chunk := file.read(min(_CHUNK_BYTES, target.place.offset - file.tell())):
                digest.update(chunk)
            digest.update(target.erased_line(folder.agent))
            file.seek(target.place.offset + target.size)
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _erase_fragments(
    folder: AgentFolder, ids: Collection[str], positions: Collection[LedgerPosition]
) -> int:
    """Erase what quarantine has of the lines, and of their records; says how many pieces.

    A fragment that is overwritten may lose its id first, so its name says what is to be done.
    """
    if folder.quarantine.is_symlink() or not folder.quarantine.is_dir():
        return 0
    count = 0
    for path in sorted(folder.quarantine.iterdir()):
        if path.is_symlink() or not path.is_file():
            continue
        if path.name.startswith(_ERASING_FILE_PREFIX):
            _destroy(path)
            continue
        with open_regular_file(path) as file:
            lines = file.read().split(b"\n")
        remaining = [
            line
            for line in lines
            if not (_find_named_id(line, ids) or _is_record_at(line, positions))
        ]
        if len(remaining) < len(lines):
            if any(remaining):
                quarantine_bytes(folder, b"\n".join(remaining), "rest")
            _destroy(path.rename(path.with_name(_ERASING_FILE_PREFIX + path.name)))
            count += len(lines) - len(remaining)
    return count


def _destroy(path: Path) -> None:
    """Overwrite a file and remove it; until that is done its name says so."""
    sync_folder(path.parent)
    size = path.stat().st_size
    blanks = ((at, b" " * min(_CHUNK_BYTES, size - at)) for at in range(0, size, _CHUNK_BYTES))
    _overwrite(path, blanks)
    path.unlink()
    sync_folder(path.parent)


def _is_record_at(line: bytes, positions: Collection[LedgerPosition]) -> bool:
    """Say whether a line is, or begins like, the record of a line at one of the places."""
    match = _POSITION_PATTERN.search(line) if _SALT_MEMBER in line else None
    return match is not None and LedgerPosition(int(match[1]), int(match[2])) in positions


def _erase_lines(folder: AgentFolder, targets: Sequence[_ErasureTarget]) -> None:
    """Overwrite lines, durably; one that looks erased may not be so on the disk."""
    for (path, inode), group in groupby(targets, key=lambda target: (target.path, target.inode)):
        patches = ((target.place.offset, target.erased_line(folder.agent)) for target in group)
        _overwrite(path, patches, inode)


def _erase_salts(folder: AgentFolder, targets: Sequence[_ErasureTarget]) -> None:
    salts = [
        (target.salt_at, ERASED_SALT.hex().encode())
        for target in targets
        if target.record is not None and len(target.record.salt) == len(ERASED_SALT)
    ]
    if salts:
        _overwrite(folder.chain, salts)


def _overwrite(path: Path, patches: Iterable[tuple[int, bytes]], inode: int | None = None) -> None:
    """Put bytes in the place of others, durably."""
    with open_writable(path) as file:
        if inode not in {None, os.fstat(file.fileno()).st_ino}:
            raise LedgerError(f"{path} was moved meanwhile; run the same purge again")
        for offset, data in patches:
            remaining, at = memoryview(data), offset
            while remaining:
                written = os.pwrite(file.fileno(), remaining, at)
                remaining, at = remaining[written:], at + written
        sync_file(file.fileno())
