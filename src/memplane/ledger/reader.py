"""Reading an agent's ledger: pages by cursor or by time, over every segment, losing nothing.

A page is found first and read afterwards, so that its size in memory is that of one line. Files
may be sealed, renamed or appended to meanwhile, and a page ends before a last line that has no
newline yet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Final

from memplane.errors import InvalidCursor
from memplane.ledger.chain import Place
from memplane.ledger.cursor import BEGINNING, Cursor
from memplane.ledger.folder import AgentFolder
from memplane.ledger.heads import Head, head_of, hydrated, instant
from memplane.ledger.index import first_place_after
from memplane.ledger.lines import Line
from memplane.ledger.sources import Source, open_sources

PAGE: Final = 100
LARGEST_PAGE: Final = 1000


@dataclass(frozen=True, slots=True)
class Found:
    """An entry of a page: where it lies, and its head."""

    source: Source
    offset: int
    size: int
    head: Head

    @property
    def segment(self) -> int:
        """The number of the segment that it lies in."""
        return self.source.segment.number


@dataclass(slots=True)
class Page:
    """Entries in the order they were recorded, and where to go on."""

    entries: list[Found] = field(default_factory=list[Found])
    next: Cursor = BEGINNING
    has_more: bool = False
    skipped: int = 0

    def identified(self) -> Iterator[tuple[str, bytes]]:
        """Read the entries, one at a time, each with its id; a legacy line is given its own."""
        for source, group in groupby(self.entries, key=lambda found: found.source):
            with source.opened() as file:
                for found in group:
                    file.seek(found.offset)
                    yield hydrated(file.read(found.size).rstrip(b"\n"), found.head)

    def lines(self) -> Iterator[bytes]:
        """Read the entries, one at a time."""
        return (line for _, line in self.identified())


@contextmanager
def open_page(
    folder: AgentFolder,
    *,
    cursor: Cursor = BEGINNING,
    after: datetime | None = None,
    limit: int = PAGE,
) -> Generator[Page]:
    """Find the entries that follow a cursor, or those later than a moment, at most `limit`.

    A cursor goes on with the moment that its page began with, until there are no more. The page
    can be read while the block runs.

    Raises:
        InvalidCursor: The cursor's entry is not there.
    """
    after = after or cursor.after
    with open_sources(folder) as sources:
        page = Page(next=cursor)
        passed, last = 0, None
        for found in _found(_from(folder, sources, cursor, after)):
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
            last = last or (_last(sources) if after is not None and not cursor.id else None)
        if last is not None:
            # Behind the last page there are only new entries, and their times may be older.
            page.next = _cursor_at(last, after if page.has_more else None)
        yield page


def entries(
    folder: AgentFolder, *, cursor: Cursor = BEGINNING, after: datetime | None = None
) -> Iterator[tuple[str, bytes]]:
    """Read every entry from a start on, each with its id, page by page."""
    more = True
    while more:
        with open_page(folder, cursor=cursor, after=after, limit=LARGEST_PAGE) as page:
            yield from page.identified()
        cursor, more = page.next, page.has_more


def lines_since(folder: AgentFolder, place: Place) -> Iterator[bytes]:
    """Read the lines that were added behind a place."""
    with open_sources(folder) as sources:
        for source in sources:
            if source.segment.number >= place.segment:
                here = source.segment.number == place.segment
                for line in source.lines(place.offset if here else 0):
                    if line.data is not None:
                        yield line.data


@contextmanager
def open_last(folder: AgentFolder, count: int) -> Generator[Page]:
    """Find the last entries, at most `count`; they come in the order they were recorded."""
    with open_sources(folder) as sources:
        page = Page()
        for source in reversed(sources):
            left = count - len(page.entries)
            page.entries[:0] = deque(filter(None, _found(iter([(source, 0)]))), maxlen=left)
            if len(page.entries) == count:
                break
        yield page


@contextmanager
def open_entry(folder: AgentFolder, start_of_id: str) -> Generator[Page]:
    """Find the entries whose id begins so; more than one when too little of it was given."""
    with open_sources(folder) as sources:
        page = Page()
        for found in filter(None, _found((source, 0) for source in sources)):
            if _id_of(found).startswith(start_of_id):
                page.entries.append(found)
        yield page


def _found(sources: Iterator[tuple[Source, int]]) -> Iterator[Found | None]:
    """Yield the entries of sources, each from a byte on; None is a line that cannot be read."""
    for source, start in sources:
        for line in source.lines(start):
            if line.data is not None and not line.data.strip():
                continue
            head = head_of(line.data) if line.data is not None else None
            yield Found(source, line.offset, line.size, head) if head is not None else None


def _last(sources: list[Source]) -> Found | None:
    """Find the last entry of all."""
    for source in reversed(sources):
        here = deque(filter(None, _found(iter([(source, 0)]))), maxlen=1)
        if here:
            return here[0]
    return None


def _from(
    folder: AgentFolder, sources: list[Source], cursor: Cursor, after: datetime | None
) -> Iterator[tuple[Source, int]]:
    """Yield the sources to read, each with the byte to read from."""
    if cursor.id:
        yield from _behind(sources, cursor)
    elif after is not None:
        place = first_place_after(folder, sources, after)
        for source in sources:
            if source.segment.number >= place.segment:
                here = source.segment.number == place.segment
                yield source, place.offset if here else 0
    else:
        yield from ((source, 0) for source in sources)


def _behind(sources: list[Source], cursor: Cursor) -> Iterator[tuple[Source, int]]:
    """Find the cursor's entry, and go on behind it.

    Another recorder renames its file without a number, so the entry may lie in any of them.
    """
    likely = sorted(
        range(len(sources)),
        key=lambda at: (sources[at].segment.number != cursor.segment, -at),
    )
    for at in likely:
        line = next(sources[at].lines(cursor.offset), None)
        if line is not None and _id_in(line) == cursor.id:
            yield sources[at], line.offset + line.size
            yield from ((source, 0) for source in sources[at + 1 :])
            return
    raise InvalidCursor("cursor is invalid")


def _id_in(line: Line) -> str | None:
    head = head_of(line.data) if line.data is not None else None
    return hydrated(line.data or b"", head)[0] if head is not None else None


def _id_of(found: Found) -> str:
    return found.head.id or next(Page([found]).identified())[0]


def _is_later(head: Head, moment: datetime) -> bool:
    told = instant(head.ts)
    return told is not None and told > moment


def _cursor_at(found: Found, after: datetime | None) -> Cursor:
    return Cursor(found.segment, found.offset, _id_of(found), after)
