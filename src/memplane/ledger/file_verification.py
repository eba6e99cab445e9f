"""Checking a ledger file: is every line what was recorded? (pure)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any, cast

import msgspec

from memplane.ledger.entry import recompute_entry_id
from memplane.ledger.entry_head import is_erased_line, read_entry_head
from memplane.ledger.line_reader import LedgerLine


class LedgerProblem(StrEnum):
    """What can be wrong with a line."""

    DAMAGED = "damaged"
    CHANGED = "changed"
    REPEATED = "repeated"
    MISSING = "missing"
    TORN = "torn"
    TOO_LONG = "too long"
    UNFINISHED = "unfinished"
    """It is to be erased, and is not yet; no damage."""


class LineFinding(msgspec.Struct, frozen=True):
    """A line that is not as it should be."""

    line: int
    offset: int
    problem: LedgerProblem
    found: str


class FileReport(msgspec.Struct):
    """What a check of one file found. Legacy lines have no id that could be compared.

    `erased` lines say that they were; whether that is so, only the chain can tell.
    """

    entries: int = 0
    legacy: int = 0
    erased: int = 0
    findings: list[LineFinding] = msgspec.field(default_factory=list[LineFinding])


def verify_lines(lines: Iterable[LedgerLine], *, opaque_ids: bool = False) -> FileReport:
    """Check ids, damage and repetition; not the order of timestamps, which may differ.

    `opaque_ids` were made by somebody else, from other bytes: they vouch for nothing.
    """
    report = FileReport()
    first_seen: dict[str, int] = {}
    for line in lines:
        if line.data is not None and not line.data.strip() and line.ended:
            continue
        if line.data is not None and is_erased_line(line.data, read_entry_head(line.data)):
            report.erased += 1
            continue
        findings = list(_findings(line, first_seen, report, opaque_ids=opaque_ids))
        report.findings += findings
        report.entries += not findings
    return report


def _findings(
    line: LedgerLine, first_seen: dict[str, int], report: FileReport, *, opaque_ids: bool
) -> Iterator[LineFinding]:
    def make_finding(problem: LedgerProblem, detail: str) -> LineFinding:
        return LineFinding(line.number, line.offset, problem, detail)

    if line.data is None:
        yield make_finding(LedgerProblem.TOO_LONG, f"{line.size} bytes")
        return
    entry = _parse(line.data)
    if entry is None:
        torn = LedgerProblem.DAMAGED if line.ended else LedgerProblem.TORN
        yield make_finding(torn, "not a JSON object")
        return
    stated_id = entry.get("id")
    computed_id = (
        str(stated_id) if opaque_ids and stated_id is not None else recompute_entry_id(line.data)
    )
    if stated_id is None and any(map(_looks_like_an_id, entry.values())):
        yield make_finding(LedgerProblem.CHANGED, "its id stands under another name")
        return
    if stated_id is None:
        report.legacy += 1
    elif stated_id != computed_id:
        yield make_finding(
            LedgerProblem.CHANGED, f"its bytes have the id {computed_id}, not {stated_id}"
        )
        return
    if (before := first_seen.setdefault(computed_id, line.number)) != line.number:
        yield make_finding(LedgerProblem.REPEATED, f"the same as line {before}")


def _looks_like_an_id(value: object) -> bool:
    return isinstance(value, str) and value.startswith("hist1_")


def _parse(data: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
