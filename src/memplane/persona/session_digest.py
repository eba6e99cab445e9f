"""A session's block in the digest of its day, made of what was said, without a model (pure).

The text is extracted, never invented: what was asked, how each answer ended, which files were
written, and sentences that name what is left to do. A block that was made here is marked as a
draft. Whoever was in the session may replace it; a draft never replaces what somebody wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, tzinfo
from itertools import pairwise
from typing import Final

import msgspec
from msgspec.structs import replace

from memplane.persona.document import Document, parse, render, with_value
from memplane.persona.document_kinds import find_kind
from memplane.persona.templates import new_document

SECTIONS: Final = ("Arcs", "Relational notes", "Open threads to next session")
DRAFT_MARK: Final = "draft: true"

_MAX_ARCS: Final = 12
_MAX_NOTES: Final = 5
_MAX_THREADS: Final = 6
_MAX_FILES: Final = 8
_MAX_QUOTE_CHARS: Final = 160
_HEADING: Final = re.compile(
    r"### Session (?P<session>[\w.-]+), (?P<time>\d\d:\d\d)\b(?P<rest>.*)"
)
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_OPEN_WORDS: Final = re.compile(
    r"\b(?:todo|next steps?|remaining|remains|still (?:to|needs?|open|missing|fails?)|not yet"
    r"|follow[- ]up|left to do|later|unresolved|open question)\b",
    re.IGNORECASE,
)
_MANNER_WORDS: Final = re.compile(
    r"\b(?:please (?:don't|do not|always|never|stop)|don't|do not|never|always|prefer|instead of"
    r"|wrong|not what i|that's not|thanks|thank you|great|perfect|well done|i like)\b",
    re.IGNORECASE,
)
_MARKUP: Final = re.compile(r"^[#>*\-\s]+|[`*_]{1,3}")


class DigestTurn(msgspec.Struct, frozen=True):
    """One thing that was asked in a session, the end of the answer, and the files written."""

    at: datetime
    prompt: str
    answer: str
    files: tuple[str, ...] = ()


class SessionRecord(msgspec.Struct, frozen=True):
    """What happened in a session, from whichever record there is of it."""

    session: str
    turns: tuple[DigestTurn, ...]
    ended_at: datetime

    @property
    def started_at(self) -> datetime:
        """When its first turn was."""
        return self.turns[0].at


class DigestBlock(msgspec.Struct, frozen=True):
    """What a digest says of a session: the bullets of each section."""

    session: str
    started_at: datetime
    hours: float
    bullets: tuple[tuple[str, ...], ...]


def synthesize_block(record: SessionRecord) -> DigestBlock:
    """Make a session's block; the record has at least one turn."""
    hours = (record.ended_at - record.started_at).total_seconds() / 3600
    return DigestBlock(
        session=record.session,
        started_at=record.started_at,
        hours=max(hours, 0.0),
        bullets=(
            tuple(_describe_arcs(record.turns)),
            tuple(_find_notes(record.turns)),
            tuple(_find_threads(record.turns)),
        ),
    )


def digest_key(block: DigestBlock, zone: tzinfo) -> str:
    """Return the key of the digest that a block belongs to: that of the day it began."""
    return f"session_digest_{block.started_at.astimezone(zone):%Y-%m-%d}.md"


def has_written_block(digest: bytes | None, session: str) -> bool:
    """Say whether a digest has a block of the session that is no draft."""
    text = (digest or b"").decode(errors="replace")
    headings = (_HEADING.match(line) for line in text.splitlines())
    return any(
        heading is not None and heading["session"] == session and DRAFT_MARK not in heading["rest"]
        for heading in headings
    )


def put_block(digest: bytes | None, block: DigestBlock, zone: tzinfo) -> bytes:
    """Return the digest with the block in each of its sections, in the place of an older draft.

    What somebody wrote of the session stays, and then nothing is changed.
    """
    if digest is not None and has_written_block(digest, block.session):
        return digest
    start = block.started_at.astimezone(zone)
    document = parse(digest if digest is not None else _new_digest(start))
    body = document.body
    for section, bullets in zip(SECTIONS, block.bullets, strict=True):
        body = _put_in_section(body, section, _render(block, start, bullets))
    return render(_with_fields(replace(document, body=body), block, zone))


def _new_digest(start: datetime) -> bytes:
    kind = find_kind("session_digest")
    assert kind is not None  # noqa: S101 - it is in the table
    return new_document(kind, now=start)[1]


def _with_fields(document: Document, block: DigestBlock, zone: tzinfo) -> Document:
    known = document.value("sessions")
    sessions = list(known) if isinstance(known, tuple) else []
    if block.session in sessions:
        return document
    hours = document.text_of("duration_hours") or "0"
    total = block.hours + (float(hours) if re.fullmatch(r"\d+(\.\d+)?", hours) else 0.0)
    named = ", ".join([*(str(session) for session in sessions), block.session])
    document = with_value(document, "duration_hours", f"{total:.1f}")
    document = with_value(document, "tz", str(zone))
    return _with_line(document, "sessions", f"[{named}]")


def _with_line(document: Document, key: str, value: str) -> Document:
    """Set a value that is no text; the writer of single values would quote it."""
    fields = tuple(
        replace(field, text=f"{key}: {value}{document.eol}", fields=())
        if field.key == key
        else field
        for field in document.fields
    )
    return parse(render(replace(document, fields=fields)))


# The text


def _describe_arcs(turns: Sequence[DigestTurn]) -> Iterator[str]:
    shown = turns if len(turns) <= _MAX_ARCS else [*turns[:4], *turns[4 - _MAX_ARCS :]]
    for turn in shown:
        outcome = _last_sentence(turn.answer)
        yield f"Asked: {_quote(turn.prompt)}" + (f" Outcome: {outcome}" if outcome else "")
    if len(shown) < len(turns):
        yield f"{len(turns) - len(shown)} more turns between these."
    files = list(dict.fromkeys(_short_path(path) for turn in turns for path in turn.files))
    if files:
        more = f" and {len(files) - _MAX_FILES} more" if len(files) > _MAX_FILES else ""
        yield f"Files written: {', '.join(files[:_MAX_FILES])}{more}"


def _find_notes(turns: Iterable[DigestTurn]) -> Iterator[str]:
    """Find where the user spoke about how the work is done."""
    found = [
        f"The user said: {_quote(sentence)}"
        for turn in turns
        for sentence in _sentences(turn.prompt)
        if _MANNER_WORDS.search(sentence)
    ]
    yield from list(dict.fromkeys(found))[-_MAX_NOTES:] or ["None noted."]


def _find_threads(turns: Sequence[DigestTurn]) -> Iterator[str]:
    """Find what is left to do: what the last answers name, and what nobody answered."""
    found = [
        _shorten(sentence)
        for turn in turns[-3:]
        for sentence in _sentences(turn.answer)
        if _OPEN_WORDS.search(sentence)
    ]
    if not turns[-1].answer.strip():
        found.append(f"Not answered: {_quote(turns[-1].prompt)}")
    yield from list(dict.fromkeys(found))[-_MAX_THREADS:] or ["None noted."]


def _short_path(path: str) -> str:
    """Return the end of a path: where a project lies differs from machine to machine."""
    return "/".join(path.replace("\\", "/").split("/")[-2:])


def _last_sentence(text: str) -> str:
    sentences = _sentences(text)
    return _shorten(sentences[-1]) if sentences else ""


def _sentences(text: str) -> list[str]:
    cleaned = (_MARKUP.sub("", part).strip() for part in _SENTENCE_END.split(text))
    return [part for part in cleaned if part]


def _quote(text: str) -> str:
    return f"“{_shorten(' '.join(_sentences(text)))}”"


def _shorten(text: str) -> str:
    line = " ".join(text.split()).replace("<!--", "< !--")
    return line if len(line) <= _MAX_QUOTE_CHARS else line[: _MAX_QUOTE_CHARS - 1].rstrip() + "…"


# Its place


def _render(block: DigestBlock, start: datetime, bullets: Sequence[str]) -> str:
    mark = (
        f"<!-- start: {block.started_at.astimezone(start.tzinfo):%Y-%m-%dT%H:%M}, {DRAFT_MARK} -->"
    )
    lines = [f"### Session {block.session}, {start:%H:%M} {mark}", ""]
    lines += [f"- {bullet}" for bullet in bullets]
    return "\n".join(lines) + "\n"


def _put_in_section(body: str, section: str, block: str) -> str:
    """Put a block into its section, which is added when it is missing, ordered by start."""
    lines = body.splitlines(keepends=True)
    titles = [number for number, line in enumerate(lines) if line.startswith("## ")]
    begin = next((at for at in titles if lines[at][3:].strip() == section), None)
    if begin is None:
        gap = "" if not body or body.endswith("\n\n") else "\n" if body.endswith("\n") else "\n\n"
        return f"{body}{gap}## {section}\n\n{block}"
    end = next((at for at in titles if at > begin), len(lines))
    head, blocks = _split_blocks(lines[begin + 1 : end])
    mine = _read_heading(block)
    others = [other for other in blocks if _read_heading(other)[0] != mine[0]]
    ordered = sorted([*others, block], key=lambda other: _read_heading(other)[1])
    parts = [part.strip("\n") for part in (head, *ordered) if part.strip()]
    inside = "".join(f"\n{part}\n" for part in parts)
    rest = "".join(lines[end:])
    return "".join(lines[: begin + 1]).rstrip("\n") + "\n" + inside + ("\n" + rest if rest else "")


def _split_blocks(lines: Sequence[str]) -> tuple[str, list[str]]:
    """Return what stands before the first block of a section, and the blocks."""
    starts = [number for number, line in enumerate(lines) if line.startswith("### ")]
    edges = [*starts, len(lines)]
    blocks = ["".join(lines[begin:end]) for begin, end in pairwise(edges)]
    return "".join(lines[: edges[0]]), blocks


def _read_heading(block: str) -> tuple[str, str]:
    """Return which session a block is of, and when that began."""
    heading = _HEADING.match(block)
    return (heading["session"], heading["time"]) if heading else (block, "")
