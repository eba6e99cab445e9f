"""Checking a whole ledger against its chain and its anchor, without changing anything."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Final

import msgspec

from memplane.ledger.chain import (
    ERASED_SALT,
    GENESIS,
    Erasure,
    Kind,
    Link,
    Place,
    Record,
    commitment_of,
    decode,
    encode,
    erasure_in,
    hash_of,
)
from memplane.ledger.folder import CHAIN, AgentFolder, open_ordinary
from memplane.ledger.heads import erased_line, head_of, hydrated, is_erased
from memplane.ledger.lines import Line, lines_of
from memplane.ledger.verify import Problem, verify_lines

_LINES: Final = frozenset({Kind.ENTRY, Kind.FOUND})
_ERASABLE: Final = _LINES | {Kind.DAMAGED}
_ERASED: Final = b'{"kind":"%s",' % Kind.ERASED.encode()
_ATTEMPTS: Final = 5


class LedgerFinding(msgspec.Struct, frozen=True):
    """Something in a ledger that is not as it was recorded."""

    file: str
    offset: int
    problem: Problem
    found: str


class LedgerReport(msgspec.Struct):
    """What a check of one agent's ledger found.

    `unchained` entries were recorded just before a crash, or by another program, or a moment ago;
    their ids agree with their bytes. `repeated` are equal turns of another recorder, which gives
    them one id; a turn of ours that is there twice is a finding. `gaps` are turns that could not
    be kept, as the chain notes. `erased` lines are gone on purpose, as the chain says, too.
    """

    agent: str
    entries: int = 0
    unchained: int = 0
    repeated: int = 0
    gaps: int = 0
    erased: int = 0
    findings: list[LedgerFinding] = msgspec.field(default_factory=list[LedgerFinding])


def verify_ledger(folder: AgentFolder, anchor: Link | None) -> LedgerReport:
    """Check every record of the chain, every line it commits to, and what lies beside it."""
    report, was_disturbed = _checked(folder, anchor)
    for _ in range(_ATTEMPTS):
        # What somebody erased meanwhile looks like a change to whoever began before.
        if not (report.findings and was_disturbed):
            break
        report, was_disturbed = _checked(folder, anchor)
    return report


def _checked(folder: AgentFolder, anchor: Link | None) -> tuple[LedgerReport, bool]:
    """Check a ledger, and say whether something was erased meanwhile."""
    report = LedgerReport(folder.agent)
    with ExitStack() as stack:
        ledger = _opened(folder, stack)
        end = _check_chain(folder, ledger, anchor, report)
        _check_rest(ledger, end, report)
        _check_ids(ledger, end, report)
        return report, _erased_since(ledger.chain)


class _File(msgspec.Struct, frozen=True):
    """A file as it was at one moment: what was added since is not looked at."""

    name: str
    file: BufferedReader
    size: int

    def lines(self, start: int = 0) -> Iterator[Line]:
        self.file.seek(start)
        return (line for line in lines_of(self.file) if line.offset + line.size <= self.size)


class _Opened(msgspec.Struct, frozen=True):
    """The files of a ledger, and what was erased.

    `erasures` are known by the number of the line's record, `hashes` since then by the segment's.
    Segments with a line that is not erased yet are `unfinished`.
    """

    chain: _File | None
    segments: dict[int, _File]
    erasures: dict[int, Erasure] = msgspec.field(default_factory=dict[int, Erasure])
    hashes: dict[int, str] = msgspec.field(default_factory=dict[int, str])
    unfinished: set[int] = msgspec.field(default_factory=set[int])

    def erasure_of(self, record: Record) -> Erasure | None:
        erasure = self.erasures.get(record.seq)
        if erasure is None or record.kind not in _ERASABLE or erasure.place != record.place:
            return None
        return erasure


def _opened(folder: AgentFolder, stack: ExitStack) -> _Opened:
    """Open the files between two batches of whoever writes, when all of them agree."""
    with _locked(folder.path / "lock"):
        chain = _open(folder.chain, stack) if folder.chain.exists() else None
        found = folder.segments()
        segments = {one.number: _open(one.path, stack, end=one.end) for one in found}
    ledger = _Opened(chain, segments)
    for erasure in _erasures(chain):
        ledger.erasures[erasure.record] = erasure
        if erasure.sha256:
            ledger.hashes[erasure.place.segment] = erasure.sha256
    return ledger


def _erasures(chain: _File | None) -> Iterator[Erasure]:
    for line in chain.lines() if chain is not None else ():
        if line.data is not None and _is_about_erasing(line):
            record = decode(line.data)
            erasure = erasure_in(record) if record is not None else None
            if erasure is not None:
                yield erasure


def _is_about_erasing(line: Line) -> bool:
    return line.data is not None and line.data.startswith(_ERASED)


def _erased_since(chain: _File | None) -> bool:
    """Say whether the chain was told of an erasure since it was opened."""
    if chain is None:
        return False
    chain.file.seek(chain.size)
    return any(map(_is_about_erasing, lines_of(chain.file)))


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
    erased: set[int] = set()
    for offset, record in _records(ledger.chain, report):
        for problem, found in _record_findings(end, record):
            report.findings.append(LedgerFinding(folder.chain.name, offset, problem, found))
        _check_ledger_side(record, ledger, report)
        if ledger.erasure_of(record) is not None:
            erased.add(record.seq)
        end = record.link
        if anchor is not None and record.seq == anchor.seq:
            anchored = hmac.compare_digest(record.hash, anchor.hash)
    if not anchored and anchor is not None:
        found = f"record {anchor.seq}, which was there once, is missing or another one"
        report.findings.append(LedgerFinding(folder.chain.name, 0, Problem.MISSING, found))
    for number in sorted(ledger.erasures.keys() - erased):
        found = f"record {number}, which was erased, is missing or another one"
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


def _check_ledger_side(record: Record, ledger: _Opened, report: LedgerReport) -> None:
    """Compare a record with the bytes that it is about."""
    file = ledger.segments.get(record.place.segment)
    name = file.name if file is not None else f"segment {record.place.segment}"
    erasure = ledger.erasure_of(record)
    if erasure is None:
        told = list(_ledger_findings(record, file, ledger))
        report.entries += record.kind in _LINES and not told
    else:
        told = list(_erasure_findings(record, file, erasure, report.agent))
        report.erased += not told
        if any(problem is Problem.UNFINISHED for problem, _ in told):
            ledger.unfinished.add(record.place.segment)
        if record.kind == Kind.DAMAGED:
            told += _ledger_findings(record, file, ledger)
    report.findings += [
        LedgerFinding(name, record.place.offset, problem, words) for problem, words in told
    ]
    if record.kind == Kind.GAP:
        count = record.more.get("count")
        report.gaps += count if isinstance(count, int) else 0


def _ledger_findings(
    record: Record, file: _File | None, ledger: _Opened
) -> Iterator[tuple[Problem, str]]:
    noted = f"noted in record {record.seq}: {record.more.get('why')}"
    match record.kind:
        case Kind.BROKEN:
            yield Problem.MISSING, noted
        case Kind.DAMAGED:
            yield Problem.DAMAGED, noted
        case Kind.SEALED | Kind.ENTRY | Kind.FOUND if file is None:
            yield Problem.MISSING, f"record {record.seq} is about a segment that is not there"
        case Kind.SEALED if file is not None and not _is_as_sealed(record, file, ledger):
            yield Problem.CHANGED, f"segment {record.place.segment} is not what was sealed"
        case Kind.ENTRY | Kind.FOUND if file is not None and not _is_intact(record, file):
            yield Problem.CHANGED, f"the line of record {record.seq} is not what was recorded"
        case _:
            return


def _erasure_findings(
    record: Record, file: _File | None, erasure: Erasure, agent: str
) -> Iterator[tuple[Problem, str]]:
    """Compare what is left of an erased line with what should be.

    While its salt is there the erasure goes on, and the line may be as it was, or half gone.
    """
    left = erased_line(agent, erasure.id, erasure.ts, record.size - 1) + b"\n"
    is_left = file is not None and hmac.compare_digest(_bytes_of(record, file), left)
    if record.salt == ERASED_SALT and not is_left:
        yield Problem.CHANGED, f"the line of record {record.seq} is not what erasing it left"
    elif record.salt != ERASED_SALT and (record.salt or not is_left):
        again = "run the same `memplane forget --purge` again"
        yield Problem.UNFINISHED, f"the line of record {record.seq} is not erased yet: {again}"


def _is_intact(record: Record, file: _File) -> bool:
    data = _bytes_of(record, file)
    if len(data) != record.size or not data.endswith(b"\n"):
        return False
    return hmac.compare_digest(commitment_of(record.salt, data[:-1]), record.commitment)


def _bytes_of(record: Record, file: _File) -> bytes:
    file.file.seek(record.place.offset)
    return file.file.read(record.size)


def _is_as_sealed(record: Record, file: _File, ledger: _Opened) -> bool:
    number = record.place.segment
    expected = ledger.hashes.get(number) or record.more.get("sha256")
    if not expected or number in ledger.unfinished:
        return True
    file.file.seek(0)
    found = hashlib.file_digest(file.file, "sha256").hexdigest()
    return hmac.compare_digest(found, str(expected))


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


def _check_ids(ledger: _Opened, end: Place, report: LedgerReport) -> None:
    """Find turns that are there twice, and lines that only look erased.

    Eight bytes of each id tell turns apart.
    """
    ours: set[int] = set()
    others: set[int] = set()
    erased = {one.place for one in ledger.erasures.values()}

    def finding(place: Place, problem: Problem, words: str) -> None:
        name = ledger.segments[place.segment].name
        report.findings.append(LedgerFinding(name, place.offset, problem, words))

    for place, kind, line in _every_line(ledger, end):
        head = head_of(line)
        if head is None:
            continue
        if is_erased(line, head):
            if place not in erased:
                finding(place, Problem.CHANGED, "erased, and no record says so")
            continue
        identifier = hydrated(line, head)[0].encode("utf-8", "surrogatepass")
        short = int.from_bytes(hashlib.sha256(identifier).digest()[:8], "big")
        if short in ours or (kind == Kind.ENTRY and short in others):
            finding(place, Problem.REPEATED, "a turn that is there already")
        elif short in others:
            report.repeated += 1
        (ours if kind == Kind.ENTRY else others).add(short)


def _every_line(ledger: _Opened, end: Place) -> Iterator[tuple[Place, str, bytes]]:
    """Yield every line with its place and who recorded it; the chain's lines first."""
    for one in ledger.chain.lines() if ledger.chain is not None else ():
        record = decode(one.data) if one.data is not None else None
        file = ledger.segments.get(record.place.segment) if record is not None else None
        if record is not None and file is not None and record.kind in _LINES:
            yield record.place, record.kind, _bytes_of(record, file)[:-1]
    for number, file in sorted(ledger.segments.items()):
        if number >= end.segment:
            for line in file.lines(end.offset if number == end.segment else 0):
                yield Place(number, line.offset), Kind.FOUND, line.data or b""
