"""Reading an agent's ledger: pages by cursor or by time, over every segment, losing nothing.

A page is found first and read afterwards, so that its size in memory is that of one line. Files
may be sealed, renamed or appended to meanwhile, and a page ends before a last line that has no
newline yet.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from enum import Enum
from itertools import groupby
from typing import Final, TypeAlias

import msgspec

from memplane.errors import InvalidCursor
from memplane.ledger.chain import LedgerPosition
from memplane.ledger.cursor import BEGINNING, Cursor
from memplane.ledger.entry_head import (
    EntryHead,
    add_missing_id,
    is_erased_line,
    parse_rfc3339,
    read_entry_head,
)
from memplane.ledger.folder import AgentFolder
from memplane.ledger.line_reader import LedgerLine
from memplane.ledger.segment_snapshot import SegmentFile, open_segment_files
from memplane.ledger.time_index import find_first_position_after

DEFAULT_PAGE_ENTRIES: Final = 100
MAX_PAGE_ENTRIES: Final = 1000
_LOST_ID: Final = "erased"

IsHidden: TypeAlias = Callable[[str], bool]
"""Says of an entry's id whether that entry is passed over."""


class _UnreadableReason(Enum):
    """Why a line is passed over."""

    DAMAGED = "damaged"
    ERASED = "erased"


class EntryLocation(msgspec.Struct, frozen=True):
    """An entry of a page: where it lies, and its head."""

    source: SegmentFile
    offset: int
    size: int
    head: EntryHead

    @property
    def segment(self) -> int:
        """The number of the segment that it lies in."""
        return self.source.segment.number

    @property
    def cursor(self) -> Cursor:
        """The cursor of whoever has read it."""
        return Cursor(self.segment, self.offset, _id_of(self))


class EntryPage(msgspec.Struct):
    """Entries in the order they were recorded, and where to go on.

    `skipped` lines cannot be read; `erased` ones were purged.
    """

    entries: list[EntryLocation] = msgspec.field(default_factory=list[EntryLocation])
    next: Cursor = BEGINNING
    has_more: bool = False
    skipped: int = 0
    erased: int = 0

    def with_ids(self) -> Iterator[tuple[str, bytes]]:
        """Read the entries, one at a time, each with its id; a legacy line is given its own."""
        for source, group in groupby(self.entries, key=lambda location: location.source):
            with source.open_file() as file:
                for location in group:
                    file.seek(location.offset)
                    line = file.read(location.size).rstrip(b"\n")
                    # It may have been erased since it was found, or be just now.
                    if isinstance(_read_head_or_reason(line), EntryHead):
                        yield add_missing_id(line, location.head)

    def lines(self) -> Iterator[bytes]:
        """Read the entries, one at a time."""
        return (line for _, line in self.with_ids())


@contextmanager
def open_page(
    folder: AgentFolder,
    *,
    cursor: Cursor = BEGINNING,
    after: datetime | None = None,
    limit: int = DEFAULT_PAGE_ENTRIES,
    hides: IsHidden | None = None,
) -> Generator[EntryPage]:
    """Find the entries that follow a cursor, or those later than a moment, at most `limit`.

    A cursor goes on with the moment that its page began with, until there are no more. The page
    can be read while the block runs. Hidden entries do not count towards the limit: a page that
    is not full is the last one for now.

    Raises:
        InvalidCursor: The cursor's entry is not there.
    """
    after = after or cursor.after
    with open_segment_files(folder) as sources:
        page = EntryPage(next=cursor)
        unreadable_counts, last = Counter[_UnreadableReason](), None
        for location in _locate_entries(_find_start(folder, sources, cursor, after)):
            if isinstance(location, _UnreadableReason):
                unreadable_counts[location] += 1
                continue
            is_wanted = after is None or _is_later(location.head, after)
            if is_wanted and not _is_hidden(location, hides):
                if len(page.entries) == limit:
                    page.has_more = True
                    break
                page.entries.append(location)
                _count(page, unreadable_counts)
            last = location
        if not page.has_more:
            _count(page, unreadable_counts)
            last = last or (
                _find_last_entry(sources) if after is not None and not cursor.id else None
            )
        if last is not None:
            # Behind the last page there are only new entries, and their times may be older.
            page.next = _cursor_at(last, after if page.has_more else None)
        yield page


def _is_hidden(location: EntryLocation, hides: IsHidden | None) -> bool:
    return hides is not None and hides(_id_of(location))


def _count(page: EntryPage, unreadable_counts: Counter[_UnreadableReason]) -> None:
    page.skipped += unreadable_counts[_UnreadableReason.DAMAGED]
    page.erased += unreadable_counts[_UnreadableReason.ERASED]
    unreadable_counts.clear()


def read_entries(
    folder: AgentFolder, *, cursor: Cursor = BEGINNING, after: datetime | None = None
) -> Iterator[tuple[str, bytes]]:
    """Read every entry from a start on, each with its id, page by page."""
    has_more = True
    while has_more:
        with open_page(folder, cursor=cursor, after=after, limit=MAX_PAGE_ENTRIES) as page:
            yield from page.with_ids()
        cursor, has_more = page.next, page.has_more


def read_lines_since(folder: AgentFolder, position: LedgerPosition) -> Iterator[bytes]:
    """Read the lines that were added behind a place, also what is left of erased ones."""
    with open_segment_files(folder) as sources:
        yield from _lines_from(sources, position)


def read_lines_later_than(folder: AgentFolder, after: datetime) -> Iterator[bytes]:
    """Read the lines that say a later time, also what is left of erased ones."""
    with open_segment_files(folder) as sources:
        for line in _lines_from(sources, find_first_position_after(folder, sources, after)):
            head = read_entry_head(line)
            if head is not None and _is_later(head, after):
                yield line


def _lines_from(sources: Sequence[SegmentFile], position: LedgerPosition) -> Iterator[bytes]:
    for source, start in _sources_from_position(sources, position):
        for line in source.lines(start):
            if line.data is not None:
                yield line.data


@contextmanager
def open_last_entries(
    folder: AgentFolder, count: int, *, hides: IsHidden | None = None
) -> Generator[EntryPage]:
    """Find the last entries, at most `count`; they come in the order they were recorded."""
    with open_segment_files(folder) as sources:
        page = EntryPage()
        for source in reversed(sources):
            missing_count = count - len(page.entries)
            visible = (
                location for location in _entries_in([source]) if not _is_hidden(location, hides)
            )
            page.entries[:0] = deque(visible, maxlen=missing_count)
            if len(page.entries) == count:
                break
        yield page


@contextmanager
def open_entries_by_id(
    folder: AgentFolder, *id_prefixes: str, hides: IsHidden | None = None
) -> Generator[EntryPage]:
    """Find the entries whose id begins so; more than one when too little of it was given."""
    with open_segment_files(folder) as sources:
        page = EntryPage()
        for location in _entries_in(sources):
            identifier = _id_of(location)
            if identifier.startswith(id_prefixes) and not (hides and hides(identifier)):
                page.entries.append(location)
        yield page


def _entries_in(sources: Sequence[SegmentFile]) -> Iterator[EntryLocation]:
    """Yield the entries of whole sources."""
    for location in _locate_entries((source, 0) for source in sources):
        if isinstance(location, EntryLocation):
            yield location


def _locate_entries(
    sources: Iterable[tuple[SegmentFile, int]],
) -> Iterator[EntryLocation | _UnreadableReason]:
    """Yield the entries of sources, each from a byte on, and what is passed over."""
    for source, start in sources:
        for line in source.lines(start):
            if line.data is not None and not line.data.strip():
                continue
            head = _read_head_or_reason(line.data)
            if isinstance(head, EntryHead):
                yield EntryLocation(source, line.offset, line.size, head)
            else:
                yield head


def _read_head_or_reason(line: bytes | None) -> EntryHead | _UnreadableReason:
    """Read the head of an entry, or why it is none."""
    head = read_entry_head(line) if line is not None else None
    if line is None or head is None:
        return _UnreadableReason.DAMAGED
    return _UnreadableReason.ERASED if is_erased_line(line, head) else head


def _find_last_entry(sources: list[SegmentFile]) -> EntryLocation | None:
    """Find the last entry of all."""
    for source in reversed(sources):
        last = deque(_entries_in([source]), maxlen=1)
        if last:
            return last[0]
    return None


def _find_start(
    folder: AgentFolder, sources: list[SegmentFile], cursor: Cursor, after: datetime | None
) -> Iterator[tuple[SegmentFile, int]]:
    """Yield the sources to read, each with the byte to read from."""
    if cursor.id:
        yield from _find_start_after_cursor(sources, cursor)
    elif after is not None:
        yield from _sources_from_position(
            sources, find_first_position_after(folder, sources, after)
        )
    else:
        yield from ((source, 0) for source in sources)


def _sources_from_position(
    sources: Sequence[SegmentFile], position: LedgerPosition
) -> Iterator[tuple[SegmentFile, int]]:
    for source in sources:
        if source.segment.number >= position.segment:
            yield source, position.offset if source.segment.number == position.segment else 0


def _find_start_after_cursor(
    sources: list[SegmentFile], cursor: Cursor
) -> Iterator[tuple[SegmentFile, int]]:
    """Find the cursor's entry, and go on behind it.

    Another recorder renames its file without a number, so the entry may lie in any of them.
    """
    likely = sorted(
        range(len(sources)),
        key=lambda at: (sources[at].segment.number != cursor.segment, -at),
    )
    for at in likely:
        line = next(sources[at].lines(cursor.offset), None)
        is_cursor_entry = line is not None and (
            _id_in(line) == cursor.id
            or (sources[at].segment.number == cursor.segment and _has_lost_its_id(line))
        )
        if line is not None and is_cursor_entry:
            yield sources[at], line.offset + line.size
            yield from ((source, 0) for source in sources[at + 1 :])
            return
    raise InvalidCursor("cursor is invalid")


def _id_in(line: LedgerLine) -> str | None:
    head = read_entry_head(line.data) if line.data is not None else None
    return add_missing_id(line.data or b"", head)[0] if head is not None else None


def _has_lost_its_id(line: LedgerLine) -> bool:
    """Say whether a line was erased that had no room for its id."""
    data = line.data or b""
    head = read_entry_head(data)
    return not data.strip() or (head is not None and not head.id and is_erased_line(data, head))


def _id_of(location: EntryLocation) -> str:
    if location.head.id:
        return location.head.id
    with location.source.open_file() as file:
        file.seek(location.offset)
        line = file.read(location.size).rstrip(b"\n")
    # It may have been erased since it was found; then its place must do.
    head = read_entry_head(line)
    return add_missing_id(line, head)[0] if head is not None else _LOST_ID


def _is_later(head: EntryHead, after: datetime) -> bool:
    entry_time = parse_rfc3339(head.ts)
    return entry_time is not None and entry_time > after


def _cursor_at(location: EntryLocation, after: datetime | None) -> Cursor:
    return Cursor(location.segment, location.offset, _id_of(location), after)
