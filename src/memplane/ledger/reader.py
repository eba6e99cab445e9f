"""Reading an agent's ledger: pages by cursor or by time, over every segment, losing nothing.

A page is found first and read afterwards, so that its size in memory is that of one line. Files
may be sealed, renamed or appended to meanwhile: an open file keeps its bytes, and a page ends
before a last line that has no newline yet.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from io import BufferedReader
from typing import Final

from memplane.errors import InvalidCursor
from memplane.ledger.cursor import BEGINNING, Cursor
from memplane.ledger.folder import AgentFolder, Segment
from memplane.ledger.heads import Head, head_of, hydrated, instant
from memplane.ledger.index import first_place_after
from memplane.ledger.lines import LONGEST, Line, lines_of

PAGE: Final = 100
LARGEST_PAGE: Final = 1000


@dataclass(frozen=True, slots=True)
class Found:
    """An entry of a page: the file it lies in, its place there, and its id."""

    file: BufferedReader
    segment: int
    line: Line
    head: Head

    def read(self) -> tuple[str, bytes]:
        """Return the id and the whole line; a legacy line gets the id that its bytes have."""
        self.file.seek(self.line.offset)
        return hydrated(self.file.read(self.line.size).rstrip(b"\n"), self.head)


@dataclass(slots=True)
class Page:
    """Entries in the order they were recorded, and where to go on."""

    entries: list[Found] = field(default_factory=list[Found])
    next: Cursor = BEGINNING
    has_more: bool = False
    skipped: int = 0

    def lines(self) -> Iterator[bytes]:
        """Read the entries, one at a time."""
        for found in self.entries:
            yield found.read()[1]


@contextmanager
def open_page(
    folder: AgentFolder,
    *,
    cursor: Cursor = BEGINNING,
    after: datetime | None = None,
    limit: int = PAGE,
) -> Generator[Page]:
    """Find the entries that follow a cursor, or those later than a moment, at most `limit`.

    Their files are open while the block runs.

    Raises:
        InvalidCursor: The cursor's entry is not there.
    """
    with _all_open(folder) as files:
        page = Page(next=cursor)
        passed, last = 0, None
        for found in _found(_from(folder, files, cursor, after)):
            if found is None:
                passed += 1
                continue
            if after is None or _is_later(found.head, after):
                if len(page.entries) == limit:
                    page.has_more = True
                    break
                page.entries.append(found)
                page.skipped, passed = page.skipped + passed, 0
            last = found
        if not page.has_more:
            page.skipped += passed
            last = last or (_last(files) if after is not None and not cursor.id else None)
        if last is not None:
            page.next = _cursor_at(last)
        yield page


def _found(files: Iterator[tuple[Segment, BufferedReader]]) -> Iterator[Found | None]:
    """Yield the entries of files; None is a line that cannot be read."""
    for segment, file in files:
        for line in lines_of(file, longest=LONGEST):
            if segment.end is not None and line.offset >= segment.end:
                break
            if not line.ended or (line.data is not None and not line.data.strip()):
                continue
            head = head_of(line.data) if line.data is not None else None
            if head is None:
                yield None
            else:
                place = Line(line.number, line.offset, line.size, None)
                yield Found(file, segment.number, place, head)


def _last(files: list[tuple[Segment, BufferedReader]]) -> Found | None:
    """Find the last entry of all."""
    for segment, file in reversed(files):
        file.seek(0)
        here = deque(filter(None, _found(iter([(segment, file)]))), maxlen=1)
        if here:
            return here[0]
    return None


def entries(
    folder: AgentFolder, *, cursor: Cursor = BEGINNING, after: datetime | None = None
) -> Iterator[tuple[str, bytes]]:
    """Read every entry from a start on, each with its id, page by page."""
    more = True
    while more:
        with open_page(folder, cursor=cursor, after=after, limit=LARGEST_PAGE) as page:
            yield from (found.read() for found in page.entries)
        cursor, more = page.next, page.has_more


@contextmanager
def open_last(folder: AgentFolder, count: int) -> Generator[Page]:
    """Find the last entries, at most `count`; they come in the order they were recorded."""
    with _all_open(folder) as files:
        page = Page()
        for one in reversed(files):
            left = count - len(page.entries)
            page.entries[:0] = deque(filter(None, _found(iter([one]))), maxlen=left)
            if len(page.entries) == count:
                break
        yield page


@contextmanager
def open_entry(folder: AgentFolder, start_of_id: str) -> Generator[Page]:
    """Find the entries whose id begins so; more than one when too little of it was given."""
    with _all_open(folder) as files:
        page = Page()
        for found in filter(None, _found(iter(files))):
            identifier = found.head.id or found.read()[0]
            if identifier.startswith(start_of_id):
                page.entries.append(found)
        yield page


@contextmanager
def _all_open(folder: AgentFolder) -> Generator[list[tuple[Segment, BufferedReader]]]:
    """Open every segment, as they were at one moment: none twice, none left out."""
    while True:
        listed = folder.segments()
        with ExitStack() as stack:
            try:
                files = _opened(stack, listed)
                unchanged = folder.segments() == listed and all(
                    os.path.samestat(one.path.stat(), os.fstat(file.fileno()))
                    for one, file in files
                )
            except FileNotFoundError:
                unchanged, files = False, []  # renamed between listing and opening
            if unchanged:
                yield files
                return


def _opened(stack: ExitStack, segments: list[Segment]) -> list[tuple[Segment, BufferedReader]]:
    return [(one, stack.enter_context(one.path.open("rb"))) for one in segments]


def _from(
    folder: AgentFolder,
    files: list[tuple[Segment, BufferedReader]],
    cursor: Cursor,
    after: datetime | None,
) -> Iterator[tuple[Segment, BufferedReader]]:
    """Yield the files to read, each at the byte to read from."""
    if cursor.id:
        yield from files[_resume(files, cursor) :]
    elif after is not None:
        place = first_place_after(folder, files, after)
        for segment, file in files:
            if segment.number >= place.segment:
                file.seek(place.offset if segment.number == place.segment else 0)
                yield segment, file
    else:
        yield from files


def _resume(files: list[tuple[Segment, BufferedReader]], cursor: Cursor) -> int:
    """Place the cursor's file behind the cursor's entry, and return which file it is.

    Another recorder renames its file without a number, so the entry may lie in any of them.
    """
    likely = sorted(range(len(files)), key=lambda at: (files[at][0].number != cursor.segment, -at))
    for at in likely:
        file = files[at][1]
        file.seek(cursor.offset)
        line = next(lines_of(file), None)
        if line is not None and _id_of(line) == cursor.id:
            return at
        file.seek(0)
    raise InvalidCursor("cursor is invalid")


def _id_of(line: Line) -> str | None:
    head = head_of(line.data) if line.data is not None else None
    return hydrated(line.data or b"", head)[0] if head is not None else None


def _is_later(head: Head, moment: datetime) -> bool:
    told = instant(head.ts)
    return told is not None and told > moment


def _cursor_at(found: Found) -> Cursor:
    identifier = found.head.id or found.read()[0]
    return Cursor(found.segment, found.line.offset, identifier)
