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
    ChainEnd,
    ChainRecord,
    Erasure,
    LedgerPosition,
    RecordKind,
    compute_commitment,
    compute_record_hash,
    decode_record,
    encode_record,
    read_erasure,
)
from memplane.ledger.entry_head import (
    add_missing_id,
    is_erased_line,
    make_erased_line,
    read_entry_head,
)
from memplane.ledger.file_verification import LedgerProblem, verify_lines
from memplane.ledger.folder import CHAIN_FILE_NAME, AgentFolder, open_regular_file
from memplane.ledger.line_reader import LedgerLine, read_lines

_LINE_KINDS: Final = frozenset({RecordKind.ENTRY, RecordKind.FOUND})
_ERASABLE_KINDS: Final = _LINE_KINDS | {RecordKind.DAMAGED}
_ERASURE_RECORD_PREFIX: Final = b'{"kind":"%s",' % RecordKind.ERASED.encode()
_MAX_SNAPSHOT_ATTEMPTS: Final = 5


class LedgerFinding(msgspec.Struct, frozen=True):
    """Something in a ledger that is not as it was recorded."""

    file: str
    offset: int
    problem: LedgerProblem
    found: str


class LedgerReport(msgspec.Struct):
    """What a check of one agent's ledger found.

    `unchained` entries were recorded just before a crash, or by another program, or a moment ago;
    their ids agree with their bytes, unless ids are opaque in that ledger. `repeated` are equal
    turns of another recorder, which gives them one id; a turn of ours that is there twice is a
    finding. `gaps` are turns that could not be kept, as the chain notes. `erased` lines are gone
    on purpose, as the chain says, too.
    `ledger` says of what it is: the agent's turns, what it received, or events.
    """

    agent: str
    ledger: str = "turns"
    entries: int = 0
    unchained: int = 0
    repeated: int = 0
    gaps: int = 0
    erased: int = 0
    findings: list[LedgerFinding] = msgspec.field(default_factory=list[LedgerFinding])


def verify_ledger(
    folder: AgentFolder, anchor: ChainEnd | None, *, opaque_ids: bool = False
) -> LedgerReport:
    """Check every record of the chain, every line it commits to, and what lies beside it.

    In a ledger with `opaque_ids`, which were made by others, only the chain vouches for bytes.
    """
    report, was_disturbed = _verify_once(folder, anchor, opaque_ids=opaque_ids)
    for _ in range(_MAX_SNAPSHOT_ATTEMPTS):
        # What somebody erased meanwhile looks like a change to whoever began before.
        if not (report.findings and was_disturbed):
            break
        report, was_disturbed = _verify_once(folder, anchor, opaque_ids=opaque_ids)
    return report


def _verify_once(
    folder: AgentFolder, anchor: ChainEnd | None, *, opaque_ids: bool
) -> tuple[LedgerReport, bool]:
    """Check a ledger, and say whether something was erased meanwhile."""
    report = LedgerReport(folder.agent)
    with ExitStack() as stack:
        ledger = _open_ledger_files(folder, stack)
        end = _check_chain(folder, ledger, anchor, report)
        _check_unchained_lines(ledger, end, report, opaque_ids=opaque_ids)
        _check_ids(ledger, end, report)
        return report, _erased_since(ledger.chain)


class _LedgerFile(msgspec.Struct, frozen=True):
    """A file as it was at one moment: what was added since is not looked at."""

    name: str
    file: BufferedReader
    size: int

    def lines(self, start: int = 0) -> Iterator[LedgerLine]:
        self.file.seek(start)
        return (line for line in read_lines(self.file) if line.offset + line.size <= self.size)


class _LedgerFiles(msgspec.Struct, frozen=True):
    """The files of a ledger, and what was erased.

    `erasures` are known by the number of the line's record, `hashes` since then by the segment's.
    Segments with a line that is not erased yet are `unfinished`.
    """

    chain: _LedgerFile | None
    segments: dict[int, _LedgerFile]
    erasures: dict[int, Erasure] = msgspec.field(default_factory=dict[int, Erasure])
    hashes: dict[int, str] = msgspec.field(default_factory=dict[int, str])
    unfinished: set[int] = msgspec.field(default_factory=set[int])

    def erasure_of(self, record: ChainRecord) -> Erasure | None:
        erasure = self.erasures.get(record.seq)
        if erasure is None or record.kind not in _ERASABLE_KINDS or erasure.place != record.place:
            return None
        return erasure


def _open_ledger_files(folder: AgentFolder, stack: ExitStack) -> _LedgerFiles:
    """Open the files between two batches of whoever writes, when all of them agree."""
    with _hold_lock(folder.path / "lock"):
        chain = _open_file(folder.chain, stack) if folder.chain.exists() else None
        all_segments = folder.segments()
        segments = {
            segment.number: _open_file(segment.path, stack, end=segment.end)
            for segment in all_segments
        }
    ledger = _LedgerFiles(chain, segments)
    for erasure in _erasures(chain):
        ledger.erasures[erasure.record] = erasure
        if erasure.sha256:
            ledger.hashes[erasure.place.segment] = erasure.sha256
    return ledger


def _erasures(chain: _LedgerFile | None) -> Iterator[Erasure]:
    for line in chain.lines() if chain is not None else ():
        if line.data is not None and _is_about_erasing(line):
            record = decode_record(line.data)
            erasure = read_erasure(record) if record is not None else None
            if erasure is not None:
                yield erasure


def _is_about_erasing(line: LedgerLine) -> bool:
    return line.data is not None and line.data.startswith(_ERASURE_RECORD_PREFIX)


def _erased_since(chain: _LedgerFile | None) -> bool:
    """Say whether the chain was told of an erasure since it was opened."""
    if chain is None:
        return False
    chain.file.seek(chain.size)
    return any(map(_is_about_erasing, read_lines(chain.file)))


def _open_file(path: Path, stack: ExitStack, *, end: int | None = None) -> _LedgerFile:
    file = stack.enter_context(open_regular_file(path))
    size = os.fstat(file.fileno()).st_size
    return _LedgerFile(path.name, file, size if end is None else min(size, end))


@contextmanager
def _hold_lock(path: Path) -> Generator[None]:
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
    folder: AgentFolder, ledger: _LedgerFiles, anchor: ChainEnd | None, report: LedgerReport
) -> LedgerPosition:
    """Follow the chain from its beginning; returns the place where it ends."""
    end, anchored = GENESIS, anchor is None or anchor.seq == 0
    erased: set[int] = set()
    for offset, record in _records(ledger.chain, report):
        for problem, detail in _record_findings(end, record):
            report.findings.append(LedgerFinding(folder.chain.name, offset, problem, detail))
        _check_ledger_side(record, ledger, report)
        if ledger.erasure_of(record) is not None:
            erased.add(record.seq)
        end = record.link
        if anchor is not None and record.seq == anchor.seq:
            anchored = hmac.compare_digest(record.hash, anchor.hash)
    if not anchored and anchor is not None:
        detail = f"record {anchor.seq}, which was there once, is missing or another one"
        report.findings.append(LedgerFinding(folder.chain.name, 0, LedgerProblem.MISSING, detail))
    for number in sorted(ledger.erasures.keys() - erased):
        detail = f"record {number}, which was erased, is missing or another one"
        report.findings.append(LedgerFinding(folder.chain.name, 0, LedgerProblem.MISSING, detail))
    return end.place


def _records(chain: _LedgerFile | None, report: LedgerReport) -> Iterator[tuple[int, ChainRecord]]:
    for line in chain.lines() if chain is not None else ():
        record = decode_record(line.data) if line.data is not None and line.ended else None
        if record is not None and line.data is not None:
            # Another spelling of the same record is a change, too.
            if encode_record(record) != line.data + b"\n":
                finding = LedgerFinding(
                    CHAIN_FILE_NAME, line.offset, LedgerProblem.CHANGED, "spelled otherwise"
                )
                report.findings.append(finding)
            yield line.offset, record
            continue
        problem = LedgerProblem.DAMAGED if line.ended else LedgerProblem.TORN
        report.findings.append(
            LedgerFinding(CHAIN_FILE_NAME, line.offset, problem, "not a record")
        )


def _record_findings(before: ChainEnd, record: ChainRecord) -> Iterator[tuple[LedgerProblem, str]]:
    """Compare a record with the one before it."""
    if record.seq != before.seq + 1:
        yield LedgerProblem.MISSING, f"record {record.seq} follows record {before.seq}"
    elif not hmac.compare_digest(compute_record_hash(before.hash, record), record.hash):
        yield LedgerProblem.CHANGED, f"record {record.seq} does not follow from the one before it"
    elif record.place != before.place and record.place.offset:
        location = f"byte {before.place.offset} of segment {before.place.segment}"
        yield LedgerProblem.CHANGED, f"record {record.seq} leaves out what is at {location}"


def _check_ledger_side(record: ChainRecord, ledger: _LedgerFiles, report: LedgerReport) -> None:
    """Compare a record with the bytes that it is about."""
    file = ledger.segments.get(record.place.segment)
    name = file.name if file is not None else f"segment {record.place.segment}"
    erasure = ledger.erasure_of(record)
    if erasure is None:
        findings = list(_ledger_findings(record, file, ledger))
        report.entries += record.kind in _LINE_KINDS and not findings
    else:
        findings = list(_erasure_findings(record, file, erasure, report.agent))
        report.erased += not findings
        if any(problem is LedgerProblem.UNFINISHED for problem, _ in findings):
            ledger.unfinished.add(record.place.segment)
        if record.kind == RecordKind.DAMAGED:
            findings += _ledger_findings(record, file, ledger)
    report.findings += [
        LedgerFinding(name, record.place.offset, problem, detail) for problem, detail in findings
    ]
    if record.kind == RecordKind.GAP:
        count = record.more.get("count")
        report.gaps += count if isinstance(count, int) else 0


def _ledger_findings(
    record: ChainRecord, file: _LedgerFile | None, ledger: _LedgerFiles
) -> Iterator[tuple[LedgerProblem, str]]:
    explanation = f"noted in record {record.seq}: {record.more.get('why')}"
    match record.kind:
        case RecordKind.BROKEN:
            yield LedgerProblem.MISSING, explanation
        case RecordKind.DAMAGED:
            yield LedgerProblem.DAMAGED, explanation
        case RecordKind.SEALED | RecordKind.ENTRY | RecordKind.FOUND if file is None:
            yield (
                LedgerProblem.MISSING,
                f"record {record.seq} is about a segment that is not there",
            )
        case RecordKind.SEALED if file is not None and not _is_as_sealed(record, file, ledger):
            yield LedgerProblem.CHANGED, f"segment {record.place.segment} is not what was sealed"
        case RecordKind.ENTRY | RecordKind.FOUND if file is not None and not _is_intact(
            record, file
        ):
            yield (
                LedgerProblem.CHANGED,
                f"the line of record {record.seq} is not what was recorded",
            )
        case _:
            return


def _erasure_findings(
    record: ChainRecord, file: _LedgerFile | None, erasure: Erasure, agent: str
) -> Iterator[tuple[LedgerProblem, str]]:
    """Compare what is left of an erased line with what should be.

    While its salt is there the erasure goes on, and the line may be as it was, or half gone.
    """
    erased_line = make_erased_line(agent, erasure.id, erasure.ts, record.size - 1) + b"\n"
    is_already_erased = file is not None and hmac.compare_digest(
        _bytes_of(record, file), erased_line
    )
    if record.salt == ERASED_SALT and not is_already_erased:
        yield LedgerProblem.CHANGED, f"the line of record {record.seq} is not what erasing it left"
    elif record.salt != ERASED_SALT and (record.salt or not is_already_erased):
        advice = "run the same `memplane forget --purge` again"
        yield (
            LedgerProblem.UNFINISHED,
            f"the line of record {record.seq} is not erased yet: {advice}",
        )


def _is_intact(record: ChainRecord, file: _LedgerFile) -> bool:
    data = _bytes_of(record, file)
    if len(data) != record.size or not data.endswith(b"\n"):
        return False
    return hmac.compare_digest(compute_commitment(record.salt, data[:-1]), record.commitment)


def _bytes_of(record: ChainRecord, file: _LedgerFile) -> bytes:
    file.file.seek(record.place.offset)
    return file.file.read(record.size)


def _is_as_sealed(record: ChainRecord, file: _LedgerFile, ledger: _LedgerFiles) -> bool:
    number = record.place.segment
    expected = ledger.hashes.get(number) or record.more.get("sha256")
    if not expected or number in ledger.unfinished:
        return True
    file.file.seek(0)
    digest = hashlib.file_digest(file.file, "sha256").hexdigest()
    return hmac.compare_digest(digest, str(expected))


def _check_unchained_lines(
    ledger: _LedgerFiles, end: LedgerPosition, report: LedgerReport, *, opaque_ids: bool
) -> None:
    """Check the lines that the chain does not know, by their ids where these are hashes."""
    for number, file in sorted(ledger.segments.items()):
        if number < end.segment:
            continue
        lines = file.lines(end.offset if number == end.segment else 0)
        remainder = verify_lines(lines, opaque_ids=opaque_ids)
        report.unchained += remainder.entries
        report.findings += [
            LedgerFinding(file.name, finding.offset, finding.problem, finding.found)
            for finding in remainder.findings
            if finding.problem is not LedgerProblem.REPEATED
        ]


def _check_ids(ledger: _LedgerFiles, end: LedgerPosition, report: LedgerReport) -> None:
    """Find turns that are there twice, and lines that only look erased.

    Eight bytes of each id tell turns apart.
    """
    ours: set[int] = set()
    other_erasures: set[int] = set()
    erased = {erasure.place for erasure in ledger.erasures.values()}

    def add_finding(position: LedgerPosition, problem: LedgerProblem, detail: str) -> None:
        name = ledger.segments[position.segment].name
        report.findings.append(LedgerFinding(name, position.offset, problem, detail))

    for place, kind, line in _every_line(ledger, end):
        head = read_entry_head(line)
        if head is None:
            continue
        if is_erased_line(line, head):
            if place not in erased:
                add_finding(place, LedgerProblem.CHANGED, "erased, and no record says so")
            continue
        identifier = add_missing_id(line, head)[0].encode("utf-8", "surrogatepass")
        short = int.from_bytes(hashlib.sha256(identifier).digest()[:8], "big")
        if short in ours or (kind == RecordKind.ENTRY and short in other_erasures):
            add_finding(place, LedgerProblem.REPEATED, "a turn that is there already")
        elif short in other_erasures:
            report.repeated += 1
        (ours if kind == RecordKind.ENTRY else other_erasures).add(short)


def _every_line(
    ledger: _LedgerFiles, end: LedgerPosition
) -> Iterator[tuple[LedgerPosition, str, bytes]]:
    """Yield every line with its place and who recorded it; the chain's lines first."""
    for chain_line in ledger.chain.lines() if ledger.chain is not None else ():
        record = decode_record(chain_line.data) if chain_line.data is not None else None
        file = ledger.segments.get(record.place.segment) if record is not None else None
        if record is not None and file is not None and record.kind in _LINE_KINDS:
            yield record.place, record.kind, _bytes_of(record, file)[:-1]
    for number, file in sorted(ledger.segments.items()):
        if number >= end.segment:
            for line in file.lines(end.offset if number == end.segment else 0):
                yield LedgerPosition(number, line.offset), RecordKind.FOUND, line.data or b""
