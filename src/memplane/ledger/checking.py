"""Checking a whole ledger against its chain and its anchor, without changing anything."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from io import BufferedReader
from typing import Final

from memplane.ledger.chain import (
    GENESIS,
    Kind,
    Link,
    Place,
    Record,
    commitment_of,
    decode,
    hash_of,
)
from memplane.ledger.folder import AgentFolder
from memplane.ledger.lines import lines_of
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
    their ids agree with their bytes. `gaps` are turns that could not be kept, as the chain notes.
    """

    agent: str
    entries: int = 0
    unchained: int = 0
    gaps: int = 0
    findings: list[LedgerFinding] = field(default_factory=list[LedgerFinding])


def verify_ledger(folder: AgentFolder, anchor: Link | None) -> LedgerReport:
    """Check every record of the chain, every line it commits to, and what lies beside it."""
    report = LedgerReport(folder.agent)
    with ExitStack() as stack:
        files = {
            one.number: (one.path.name, stack.enter_context(one.path.open("rb")))
            for one in folder.segments()
        }
        end = _check_chain(folder, files, anchor, report)
        _check_rest(files, end, report)
    return report


_Files = dict[int, tuple[str, BufferedReader]]


def _check_chain(
    folder: AgentFolder, files: _Files, anchor: Link | None, report: LedgerReport
) -> Place:
    """Follow the chain from its beginning; returns the place where it ends."""
    end, anchored = GENESIS, anchor is None or anchor.seq == 0
    for offset, record in _records(folder, report):
        for problem, found in _record_findings(end, record):
            report.findings.append(LedgerFinding(folder.chain.name, offset, problem, found))
        _check_ledger_side(record, files, report)
        end = record.link
        if anchor is not None and record.seq == anchor.seq:
            anchored = hmac.compare_digest(record.hash, anchor.hash)
    if not anchored and anchor is not None:
        found = f"record {anchor.seq}, which was there once, is missing or another one"
        report.findings.append(LedgerFinding(folder.chain.name, 0, Problem.MISSING, found))
    return end.place


def _records(folder: AgentFolder, report: LedgerReport) -> Iterator[tuple[int, Record]]:
    if not folder.chain.exists():
        return
    with folder.chain.open("rb") as file:
        for line in lines_of(file):
            record = decode(line.data) if line.data is not None and line.ended else None
            if record is not None:
                yield line.offset, record
                continue
            problem = Problem.DAMAGED if line.ended else Problem.TORN
            finding = LedgerFinding(folder.chain.name, line.offset, problem, "not a record")
            report.findings.append(finding)


def _record_findings(before: Link, record: Record) -> Iterator[tuple[Problem, str]]:
    """Compare a record with the one before it."""
    if record.seq != before.seq + 1:
        yield Problem.MISSING, f"record {record.seq} follows record {before.seq}"
    elif not hmac.compare_digest(hash_of(before.hash, record), record.hash):
        yield Problem.CHANGED, f"record {record.seq} does not follow from the one before it"
    elif record.place != before.place and record.place.offset:
        where = f"byte {before.place.offset} of segment {before.place.segment}"
        yield Problem.CHANGED, f"record {record.seq} leaves out what is at {where}"


def _check_ledger_side(record: Record, files: _Files, report: LedgerReport) -> None:
    """Compare a record with the bytes that it is about."""
    name, file = files.get(record.place.segment, (f"segment {record.place.segment}", None))
    found = [
        LedgerFinding(name, record.place.offset, problem, words)
        for problem, words in _ledger_findings(record, file)
    ]
    report.findings += found
    report.entries += record.kind in _LINES and not found
    if record.kind == Kind.GAP:
        report.gaps += int(record.more.get("count", 0))


def _ledger_findings(record: Record, file: BufferedReader | None) -> Iterator[tuple[Problem, str]]:
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


def _is_intact(record: Record, file: BufferedReader) -> bool:
    file.seek(record.place.offset)
    data = file.read(record.size)
    if len(data) != record.size or not data.endswith(b"\n"):
        return False
    return hmac.compare_digest(commitment_of(record.salt, data[:-1]), record.commitment)


def _is_as_sealed(record: Record, file: BufferedReader) -> bool:
    expected = record.more.get("sha256")
    file.seek(0)
    found = hashlib.file_digest(file, "sha256").hexdigest()
    return not expected or hmac.compare_digest(found, str(expected))


def _check_rest(files: _Files, end: Place, report: LedgerReport) -> None:
    """Check the lines that the chain does not know, by their ids."""
    for number, (name, file) in sorted(files.items()):
        if number < end.segment:
            continue
        file.seek(end.offset if number == end.segment else 0)
        rest = verify_lines(lines_of(file))
        report.unchained += rest.entries
        report.findings += [
            LedgerFinding(name, one.offset, one.problem, one.found) for one in rest.findings
        ]
