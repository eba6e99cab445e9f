"""Checking a whole ledger against its chain and its anchor, without changing anything."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Final

from memplane.ledger.chain import (
    GENESIS,
    Kind,
    Link,
    Place,
    Record,
    commitment_of,
    decode,
    encode,
    hash_of,
)
from memplane.ledger.folder import CHAIN, AgentFolder, open_ordinary
from memplane.ledger.heads import head_of, hydrated
from memplane.ledger.lines import Line, lines_of
from memplane.ledger.verify import Problem, verify_lines

_LINES: Final = frozenset({Kind.ENTRY, Kind.FOUND})


@dataclass(frozen=True, slots=True)
class LedgerFinding:
    """Something in a ledger that is not as it was recorded."""

    file: str
    offset: int
    problem: Problem
    found: str


@dataclass(slots=True)
class LedgerReport:
    """What a check of one agent's ledger found.

    `unchained` entries were recorded just before a crash, or by another program, or a moment ago;
    their ids agree with their bytes. `repeated` are equal turns of another recorder, which gives
    them one id; a turn of ours that is there twice is a finding. `gaps` are turns that could not
    be kept, as the chain notes.
    """

    agent: str
    entries: int = 0
    unchained: int = 0
    repeated: int = 0
    gaps: int = 0
    findings: list[LedgerFinding] = field(default_factory=list[LedgerFinding])


def verify_ledger(folder: AgentFolder, anchor: Link | None) -> LedgerReport:
    """Check every record of the chain, every line it commits to, and what lies beside it."""
    report = LedgerReport(folder.agent)
    with ExitStack() as stack:
        ledger = _opened(folder, stack)
        end = _check_chain(folder, ledger, anchor, report)
        _check_rest(ledger, end, report)
        _check_repetition(ledger, end, report)
    return report


@dataclass(frozen=True, slots=True)
class _File:
    """A file as it was at one moment: what was added since is not looked at."""

    name: str
    file: BufferedReader
    size: int

    def lines(self, start: int = 0) -> Iterator[Line]:
        self.file.seek(start)
        return (line for line in lines_of(self.file) if line.offset + line.size <= self.size)


@dataclass(frozen=True, slots=True)
class _Opened:
    chain: _File | None
    segments: dict[int, _File]


def _opened(folder: AgentFolder, stack: ExitStack) -> _Opened:
    """Open the files between two batches of whoever writes, when all of them agree."""
    with _locked(folder.path / "lock"):
        chain = _open(folder.chain, stack) if folder.chain.exists() else None
        found = folder.segments()
        segments = {one.number: _open(one.path, stack, end=one.end) for one in found}
    return _Opened(chain, segments)


def _open(path: Path, stack: ExitStack, *, end: int | None = None) -> _File:
    file = stack.enter_context(open_ordinary(path))
    size = os.fstat(file.fileno()).st_size
    return _File(path.name, file, size if end is None else min(size, end))


@contextmanager
def _locked(path: Path) -> Generator[None]:
    """Hold the agent's lock; a ledger that nobody here writes to has none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def _check_chain(
    folder: AgentFolder, ledger: _Opened, anchor: Link | None, report: LedgerReport
) -> Place:
    """Follow the chain from its beginning; returns the place where it ends."""
    end, anchored = GENESIS, anchor is None or anchor.seq == 0
    for offset, record in _records(ledger.chain, report):
        for problem, found in _record_findings(end, record):
            report.findings.append(LedgerFinding(folder.chain.name, offset, problem, found))
        _check_ledger_side(record, ledger.segments, report)
        end = record.link
        if anchor is not None and record.seq == anchor.seq:
            anchored = hmac.compare_digest(record.hash, anchor.hash)
    if not anchored and anchor is not None:
        found = f"record {anchor.seq}, which was there once, is missing or another one"
        report.findings.append(LedgerFinding(folder.chain.name, 0, Problem.MISSING, found))
    return end.place


def _records(chain: _File | None, report: LedgerReport) -> Iterator[tuple[int, Record]]:
    for line in chain.lines() if chain is not None else ():
        record = decode(line.data) if line.data is not None and line.ended else None
        if record is not None and line.data is not None:
            # Another spelling of the same record is a change, too.
            if encode(record) != line.data + b"\n":
                finding = LedgerFinding(CHAIN, line.offset, Problem.CHANGED, "spelled otherwise")
                report.findings.append(finding)
            yield line.offset, record
            continue
        problem = Problem.DAMAGED if line.ended else Problem.TORN
        report.findings.append(LedgerFinding(CHAIN, line.offset, problem, "not a record"))


def _record_findings(before: Link, record: Record) -> Iterator[tuple[Problem, str]]:
    """Compare a record with the one before it."""
    if record.seq != before.seq + 1:
        yield Problem.MISSING, f"record {record.seq} follows record {before.seq}"
    elif not hmac.compare_digest(hash_of(before.hash, record), record.hash):
        yield Problem.CHANGED, f"record {record.seq} does not follow from the one before it"
    elif record.place != before.place and record.place.offset:
        where = f"byte {before.place.offset} of segment {before.place.segment}"
        yield Problem.CHANGED, f"record {record.seq} leaves out what is at {where}"


def _check_ledger_side(record: Record, files: dict[int, _File], report: LedgerReport) -> None:
    """Compare a record with the bytes that it is about."""
    file = files.get(record.place.segment)
    name = file.name if file is not None else f"segment {record.place.segment}"
    found = [
        LedgerFinding(name, record.place.offset, problem, words)
        for problem, words in _ledger_findings(record, file)
    ]
    report.findings += found
    report.entries += record.kind in _LINES and not found
    if record.kind == Kind.GAP:
        count = record.more.get("count")
        report.gaps += count if isinstance(count, int) else 0


def _ledger_findings(record: Record, file: _File | None) -> Iterator[tuple[Problem, str]]:
    noted = f"noted in record {record.seq}: {record.more.get('why')}"
    match record.kind:
        case Kind.BROKEN:
            yield Problem.MISSING, noted
        case Kind.DAMAGED:
            yield Problem.DAMAGED, noted
        case Kind.SEALED | Kind.ENTRY | Kind.FOUND if file is None:
            yield Problem.MISSING, f"record {record.seq} is about a segment that is not there"
        case Kind.SEALED if file is not None and not _is_as_sealed(record, file):
            yield Problem.CHANGED, f"segment {record.place.segment} is not what was sealed"
        case Kind.ENTRY | Kind.FOUND if file is not None and not _is_intact(record, file):
            yield Problem.CHANGED, f"the line of record {record.seq} is not what was recorded"
        case _:
            return


def _is_intact(record: Record, file: _File) -> bool:
    file.file.seek(record.place.offset)
    data = file.file.read(record.size)
    if len(data) != record.size or not data.endswith(b"\n"):
        return False
    return hmac.compare_digest(commitment_of(record.salt, data[:-1]), record.commitment)


def _is_as_sealed(record: Record, file: _File) -> bool:
    expected = record.more.get("sha256")
    file.file.seek(0)
    found = hashlib.file_digest(file.file, "sha256").hexdigest()
    return not expected or hmac.compare_digest(found, str(expected))


def _check_rest(ledger: _Opened, end: Place, report: LedgerReport) -> None:
    """Check the lines that the chain does not know, by their ids."""
    for number, file in sorted(ledger.segments.items()):
        if number < end.segment:
            continue
        rest = verify_lines(file.lines(end.offset if number == end.segment else 0))
        report.unchained += rest.entries
        report.findings += [
            LedgerFinding(file.name, one.offset, one.problem, one.found)
            for one in rest.findings
            if one.problem is not Problem.REPEATED
        ]


def _check_repetition(ledger: _Opened, end: Place, report: LedgerReport) -> None:
    """Find turns that are there twice; eight bytes of each id tell them apart."""
    ours: set[int] = set()
    others: set[int] = set()
    for file, offset, kind, line in _every_line(ledger, end):
        head = head_of(line)
        if head is None:
            continue
        identifier = hydrated(line, head)[0].encode()
        short = int.from_bytes(hashlib.sha256(identifier).digest()[:8], "big")
        if short in ours or (kind == Kind.ENTRY and short in others):
            words = "a turn that is there already"
            report.findings.append(LedgerFinding(file.name, offset, Problem.REPEATED, words))
        elif short in others:
            report.repeated += 1
        (ours if kind == Kind.ENTRY else others).add(short)


def _every_line(ledger: _Opened, end: Place) -> Iterator[tuple[_File, int, str, bytes]]:
    """Yield every line with its file, its place and who recorded it; the chain's lines first."""
    for one in ledger.chain.lines() if ledger.chain is not None else ():
        record = decode(one.data) if one.data is not None else None
        file = ledger.segments.get(record.place.segment) if record is not None else None
        if record is not None and file is not None and record.kind in _LINES:
            file.file.seek(record.place.offset)
            yield file, record.place.offset, record.kind, file.file.read(record.size)[:-1]
    for number, file in sorted(ledger.segments.items()):
        if number >= end.segment:
            for line in file.lines(end.offset if number == end.segment else 0):
                yield file, line.offset, Kind.FOUND, line.data or b""
