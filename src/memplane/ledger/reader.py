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

    def identified(self) -> Iterator[tuple[str, bytes]]:
        """Read the entries, one at a time, each with its id; a legacy line is given its own."""
        for source, group in groupby(self.entries, key=lambda found: found.source):
            with source.opened() as file:
                for found in group:
                    file.seek(found.offset)
                    line = file.read(found.size).rstrip(b"\n")
                    # It may have been erased since it was found, or be just now.
                    if isinstance(_read_head_or_reason(line), EntryHead):
                        yield add_missing_id(line, found.head)

    def lines(self) -> Iterator[bytes]:
        """Read the entries, one at a time."""
        return (line for _, line in self.identified())


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
        passed, last = Counter[_UnreadableReason](), None
        for found in _locate_entries(_find_start(folder, sources, cursor, after)):
            if isinstance(found, _UnreadableReason):
                passed[found] += 1
                continue
            is_wanted = after is None or _is_later(found.head, after)
            if is_wanted and not _is_hidden(found, hides):
                if len(page.entries) == limit:
                    page.has_more = True
                    break
                page.entries.append(found)
                _count(page, passed)
            last = found
        if not page.has_more:
            _count(page, passed)
            last = last or (
                _find_last_entry(sources) if after is not None and not cursor.id else None
            )
        if last is not None:
            # Behind the last page there are only new entries, and their times may be older.
            page.next = _cursor_at(last, after if page.has_more else None)
        yield page


def _is_hidden(found: EntryLocation, hides: IsHidden | None) -> bool:
    return hides is not None and hides(_id_of(found))


def _count(page: EntryPage, passed: Counter[_UnreadableReason]) -> None:
    page.skipped += passed[_UnreadableReason.DAMAGED]
    page.erased += passed[_UnreadableReason.ERASED]
    passed.clear()


def read_entries(
    folder: AgentFolder, *, cursor: Cursor = BEGINNING, after: datetime | None = None
) -> Iterator[tuple[str, bytes]]:
    """Read every entry from a start on, each with its id, page by page."""
    more = True
    while more:
        with open_page(folder, cursor=cursor, after=after, limit=MAX_PAGE_ENTRIES) as page:
            yield from page.identified()
        cursor, more = page.next, page.has_more


def read_lines_since(folder: AgentFolder, place: LedgerPosition) -> Iterator[bytes]:
    """Read the lines that were added behind a place, also what is left of erased ones."""
    with open_segment_files(folder) as sources:
        yield from _lines_from(sources, place)


def read_lines_later_than(folder: AgentFolder, moment: datetime) -> Iterator[bytes]:
    """Read the lines that say a later time, also what is left of erased ones."""
    with open_segment_files(folder) as sources:
        for line in _lines_from(sources, find_first_position_after(folder, sources, moment)):
            head = read_entry_head(line)
            if head is not None and _is_later(head, moment):
                yield line


def _lines_from(sources: Sequence[SegmentFile], place: LedgerPosition) -> Iterator[bytes]:
    for source, start in _sources_from_position(sources, place):
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
            left = count - len(page.entries)
            shown = (one for one in _entries_in([source]) if not _is_hidden(one, hides))
            page.entries[:0] = deque(shown, maxlen=left)
            if len(page.entries) == count:
                break
        yield page


@contextmanager
def open_entries_by_id(
    folder: AgentFolder, *starts_of_ids: str, hides: IsHidden | None = None
) -> Generator[EntryPage]:
    """Find the entries whose id begins so; more than one when too little of it was given."""
    with open_segment_files(folder) as sources:
        page = EntryPage()
        for found in _entries_in(sources):
            identifier = _id_of(found)
            if identifier.startswith(starts_of_ids) and not (hides and hides(identifier)):
                page.entries.append(found)
        yield page


def _entries_in(sources: Sequence[SegmentFile]) -> Iterator[EntryLocation]:
    """Yield the entries of whole sources."""
    for found in _locate_entries((source, 0) for source in sources):
        if isinstance(found, EntryLocation):
            yield found


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
        here = deque(_entries_in([source]), maxlen=1)
        if here:
            return here[0]
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
    sources: Sequence[SegmentFile], place: LedgerPosition
) -> Iterator[tuple[SegmentFile, int]]:
    for source in sources:
        if source.segment.number >= place.segment:
            yield source, place.offset if source.segment.number == place.segment else 0


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
        is_there = line is not None and (
            _id_in(line) == cursor.id
            or (sources[at].segment.number == cursor.segment and _has_lost_its_id(line))
        )
        if line is not None and is_there:
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


def _id_of(found: EntryLocation) -> str:
    if found.head.id:
        return found.head.id
    with found.source.opened() as file:
        file.seek(found.offset)
        line = file.read(found.size).rstrip(b"\n")
    # It may have been erased since it was found; then its place must do.
    head = read_entry_head(line)
    return add_missing_id(line, head)[0] if head is not None else _LOST_ID


def _is_later(head: EntryHead, moment: datetime) -> bool:
    told = parse_rfc3339(head.ts)
    return told is not None and told > moment


def _cursor_at(found: EntryLocation, after: datetime | None) -> Cursor:
    return Cursor(found.segment, found.offset, _id_of(found), after)
