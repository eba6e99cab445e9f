"""Reading an agent's ledger: pages by cursor or by time, over every segment, losing nothing.

A page is found first and read afterwards, so that its size in memory is that of one line. Files
may be sealed, renamed or appended to meanwhile, and a page ends before a last line that has no
newline yet.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from enum import Enum
from itertools import groupby
from typing import Final

import msgspec

from memplane.errors import InvalidCursor
from memplane.ledger.chain import Place
from memplane.ledger.cursor import BEGINNING, Cursor
from memplane.ledger.folder import AgentFolder
from memplane.ledger.heads import Head, head_of, hydrated, instant, is_erased
from memplane.ledger.index import first_place_after
from memplane.ledger.lines import Line
from memplane.ledger.sources import Source, open_sources

PAGE: Final = 100
LARGEST_PAGE: Final = 1000
_NO_ID: Final = "erased"


class _Passed(Enum):
    """Why a line is passed over."""

    DAMAGED = "damaged"
    ERASED = "erased"


class Found(msgspec.Struct, frozen=True):
    """An entry of a page: where it lies, and its head."""

    source: Source
    offset: int
    size: int
    head: Head

    @property
    def segment(self) -> int:
        """The number of the segment that it lies in."""
        return self.source.segment.number

    @property
    def cursor(self) -> Cursor:
        """The cursor of whoever has read it."""
        return Cursor(self.segment, self.offset, _id_of(self))


class Page(msgspec.Struct):
    """Entries in the order they were recorded, and where to go on.

    `skipped` lines cannot be read; `erased` ones were purged.
    """

    entries: list[Found] = msgspec.field(default_factory=list[Found])
    next: Cursor = BEGINNING
    has_more: bool = False
    skipped: int = 0
    erased: int = 0

    def identified(self) -> Iterator[tuple[str, bytes]]:
        """Read the entries, one at a time, each with its id; a legacy line is given its own."""
        for source, group in groupby(self.entries, key=lambda found: found.source):
            with source.opened() as file:
                for found in group:
                    file.seek(found.offset)
                    line = file.read(found.size).rstrip(b"\n")
                    # It may have been erased since it was found, or be just now.
                    if isinstance(_head_or_not(line), Head):
                        yield hydrated(line, found.head)

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
        passed, last = Counter[_Passed](), None
        for found in _found(_from(folder, sources, cursor, after)):
            if isinstance(found, _Passed):
                passed[found] += 1
                continue
            if after is None or _is_later(found.head, after):
                if len(page.entries) == limit:
                    page.has_more = True
                    break
                page.entries.append(found)
                _count(page, passed)
            last = found
        if not page.has_more:
            _count(page, passed)
            last = last or (_last(sources) if after is not None and not cursor.id else None)
        if last is not None:
            # Behind the last page there are only new entries, and their times may be older.
            page.next = _cursor_at(last, after if page.has_more else None)
        yield page


def _count(page: Page, passed: Counter[_Passed]) -> None:
    page.skipped += passed[_Passed.DAMAGED]
    page.erased += passed[_Passed.ERASED]
    passed.clear()


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
    """Read the lines that were added behind a place, also what is left of erased ones."""
    with open_sources(folder) as sources:
        yield from _lines_from(sources, place)


def lines_later_than(folder: AgentFolder, moment: datetime) -> Iterator[bytes]:
    """Read the lines that say a later time, also what is left of erased ones."""
    with open_sources(folder) as sources:
        for line in _lines_from(sources, first_place_after(folder, sources, moment)):
            head = head_of(line)
            if head is not None and _is_later(head, moment):
                yield line


def _lines_from(sources: Sequence[Source], place: Place) -> Iterator[bytes]:
    for source, start in _from_place(sources, place):
        for line in source.lines(start):
            if line.data is not None:
                yield line.data


@contextmanager
def open_last(folder: AgentFolder, count: int) -> Generator[Page]:
    """Find the last entries, at most `count`; they come in the order they were recorded."""
    with open_sources(folder) as sources:
        page = Page()
        for source in reversed(sources):
            left = count - len(page.entries)
            page.entries[:0] = deque(_entries_in([source]), maxlen=left)
            if len(page.entries) == count:
                break
        yield page


@contextmanager
def open_entry(folder: AgentFolder, *starts_of_ids: str) -> Generator[Page]:
    """Find the entries whose id begins so; more than one when too little of it was given."""
    with open_sources(folder) as sources:
        page = Page()
        for found in _entries_in(sources):
            if _id_of(found).startswith(starts_of_ids):
                page.entries.append(found)
        yield page


def _entries_in(sources: Sequence[Source]) -> Iterator[Found]:
    """Yield the entries of whole sources."""
    for found in _found((source, 0) for source in sources):
        if isinstance(found, Found):
            yield found


def _found(sources: Iterable[tuple[Source, int]]) -> Iterator[Found | _Passed]:
    """Yield the entries of sources, each from a byte on, and what is passed over."""
    for source, start in sources:
        for line in source.lines(start):
            if line.data is not None and not line.data.strip():
                continue
            head = _head_or_not(line.data)
            if isinstance(head, Head):
                yield Found(source, line.offset, line.size, head)
            else:
                yield head


def _head_or_not(line: bytes | None) -> Head | _Passed:
    """Read the head of an entry, or why it is none."""
    head = head_of(line) if line is not None else None
    if line is None or head is None:
        return _Passed.DAMAGED
    return _Passed.ERASED if is_erased(line, head) else head


def _last(sources: list[Source]) -> Found | None:
    """Find the last entry of all."""
    for source in reversed(sources):
        here = deque(_entries_in([source]), maxlen=1)
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
        yield from _from_place(sources, first_place_after(folder, sources, after))
    else:
        yield from ((source, 0) for source in sources)


def _from_place(sources: Sequence[Source], place: Place) -> Iterator[tuple[Source, int]]:
    for source in sources:
        if source.segment.number >= place.segment:
            yield source, place.offset if source.segment.number == place.segment else 0


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
        is_there = line is not None and (
            _id_in(line) == cursor.id
            or (sources[at].segment.number == cursor.segment and _has_lost_its_id(line))
        )
        if line is not None and is_there:
            yield sources[at], line.offset + line.size
            yield from ((source, 0) for source in sources[at + 1 :])
            return
    raise InvalidCursor("cursor is invalid")


def _id_in(line: Line) -> str | None:
    head = head_of(line.data) if line.data is not None else None
    return hydrated(line.data or b"", head)[0] if head is not None else None


def _has_lost_its_id(line: Line) -> bool:
    """Say whether a line was erased that had no room for its id."""
    data = line.data or b""
    head = head_of(data)
    return not data.strip() or (head is not None and not head.id and is_erased(data, head))


def _id_of(found: Found) -> str:
    if found.head.id:
        return found.head.id
    with found.source.opened() as file:
        file.seek(found.offset)
        line = file.read(found.size).rstrip(b"\n")
    # It may have been erased since it was found; then its place must do.
    head = head_of(line)
    return hydrated(line, head)[0] if head is not None else _NO_ID


def _is_later(head: Head, moment: datetime) -> bool:
    told = instant(head.ts)
    return told is not None and told > moment


def _cursor_at(found: Found, after: datetime | None) -> Cursor:
    return Cursor(found.segment, found.offset, _id_of(found), after)
