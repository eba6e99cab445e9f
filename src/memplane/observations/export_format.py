"""Memories as text that others read: lines of JSON, and back; Markdown; CSV (pure)."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from typing import Final, cast

import msgspec

from memplane.errors import InvalidRequest
from memplane.observations.api_types import MemoryView
from memplane.observations.model import ObservationState
from memplane.observations.requests import ImportedLine

EXPORT_COLUMNS: Final = tuple(one.name for one in msgspec.structs.fields(MemoryView))
_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")
_TAG: Final = re.compile(r"<(?=[!/?A-Za-z])")
_GENERAL: Final = "general"


class ExportLine(ImportedLine, frozen=True, kw_only=True):
    """A line of an export: what an import takes, and whose it was."""

    id: int
    agent: str


def format_jsonl(memories: Iterable[MemoryView]) -> str:
    """Write memories as lines that an import reads.

    Those of which only forgotten turns speak stand in an envelope, which an import refuses.
    """
    return "".join(_jsonl(one) + "\n" for one in memories)


def _jsonl(one: MemoryView) -> str:
    line = msgspec.json.encode(_line(one)).decode()
    return f'{{"forgotten":true,"memory":{line}}}' if one.unsupported else line


def _line(one: MemoryView) -> ExportLine:
    return ExportLine(
        id=one.id,
        agent=one.agent,
        category=one.category,
        observation=one.observation,
        service=one.service,
        confidence=one.confidence,
        state=one.state,
        pinned=one.pinned,
        created_at=one.created_at,
        updated_at=one.updated_at,
        last_supported_at=one.last_supported_at,
        expires_at=one.expires_at,
        sessions=() if one.session_id is None else (str(one.session_id),),
        tier=one.tier,
    )


def parse_jsonl(lines: Iterable[bytes]) -> Iterator[ImportedLine]:
    """Read lines of JSON as memories to take in; empty ones are passed over.

    Raises:
        InvalidRequest: A line is no such memory; it says which one.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield msgspec.json.decode(line, type=ImportedLine)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            why = f"line {number} is no memory: {error}"
            raise InvalidRequest(why, fields={f"line {number}": str(error)}) from error


def format_csv(memories: Iterable[MemoryView], *, head: bool) -> str:
    """Write memories as rows of a table, as RFC 4180 has it; the first row may name the columns.

    A spreadsheet would run what begins like a formula, so that gets an apostrophe before it.
    """
    written = io.StringIO()
    rows = csv.writer(written, lineterminator="\r\n")
    if head:
        rows.writerow(EXPORT_COLUMNS)
    for one in memories:
        rows.writerow(_cell(getattr(one, name)) for name in EXPORT_COLUMNS)
    return written.getvalue()


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = " ".join(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else str(value)
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def format_markdown(memories: Iterable[MemoryView], *, below: str = "") -> tuple[str, str]:
    """Write memories as lists, one for each service; they come in the order of their services.

    Returns the text, and the heading that what follows stands below.
    """
    lines: list[str] = []
    for one in memories:
        heading = _heading(one.service)
        if heading != below:
            lines += ["", heading, ""] if below else [heading, ""]
            below = heading
        lines.append(_item(one))
    return "".join(f"{line}\n" for line in lines), below


def _heading(service: str | None) -> str:
    if service is None:
        return f"## {_GENERAL}"
    return f"## {_GENERAL} (service)" if service == _GENERAL else f"## {service}"


def _item(one: MemoryView) -> str:
    text = _TAG.sub(r"\\<", " ".join(one.observation.split()))
    marks = [f"confidence: {one.effective_confidence}"]
    marks += [one.state] if one.state is not ObservationState.ACTIVE else []
    marks += [name for name in ("pinned", "contested", "unsupported") if getattr(one, name)]
    return f"- [{one.category}] {text} ({', '.join(marks)})"
