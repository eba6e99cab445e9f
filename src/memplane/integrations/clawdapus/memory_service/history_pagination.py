"""How to walk a ledger page by page over HTTP without missing an entry (pure).

Where pages come with a cursor, the next one begins there. A plain cllama only takes a moment: it
gives entries that are later, in the order they were recorded, which is not that of their times.
So the next page begins a while before the end of the last one, and some entries come again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeAlias

HISTORY_PAGE_ENTRIES: Final = 200
MAX_HISTORY_PAGE_ENTRIES: Final = 1000
PAGE_OVERLAP: Final = timedelta(seconds=600)

_ONE_SECOND: Final = timedelta(seconds=1)
_END_SAMPLE_ENTRIES: Final = 16


@dataclass(frozen=True, slots=True)
class PageStart:
    """Where a page begins: at a cursor, behind a moment, or at the beginning of the ledger."""

    cursor: str = ""
    after: datetime | None = None
    limit: int = HISTORY_PAGE_ENTRIES


@dataclass(slots=True)
class HistoryPage:
    """What was learnt of a page; `times` are in the order of its lines."""

    next_cursor: str = ""
    has_more: bool | None = None
    lines: int = 0
    new: int = 0
    times: list[datetime] = field(default_factory=list[datetime])


@dataclass(frozen=True, slots=True)
class NextPage:
    """There may be more. `overlap` is less than it should be where too much happened in it."""

    place: PageStart
    overlap: timedelta = PAGE_OVERLAP


@dataclass(frozen=True, slots=True)
class EndOfHistory:
    """That was all; what comes later follows the place."""

    place: PageStart


@dataclass(frozen=True, slots=True)
class NoProgress:
    """The next page would be the same again."""

    why: str


PageDecision: TypeAlias = NextPage | EndOfHistory | NoProgress


def decide_next_page(place: PageStart, page: HistoryPage) -> PageDecision:
    """Decide what follows a page that was read from a place."""
    full = page.lines >= place.limit
    if page.next_cursor:
        next_start = PageStart(cursor=page.next_cursor)
        if not (full if page.has_more is None else page.has_more):
            return EndOfHistory(next_start)
        if page.next_cursor == place.cursor and not page.new:
            return NoProgress("the proxy gives the same page again and again")
        return NextPage(next_start)
    if not full:
        return EndOfHistory(PageStart(after=_at_least(place.after, _full_overlap(page.times))))
    return _step_by_time(place, page)


def _step_by_time(place: PageStart, page: HistoryPage) -> PageDecision:
    """Go on behind a full page of a proxy that only takes moments."""
    overlap = _full_overlap(page.times)
    ordered = sorted(page.times)
    # So much must not come again, or the walk hardly moves; each of these is past the place.
    middle = ordered[(len(ordered) - 1) // 2] if ordered else None
    if overlap is None or middle is None:
        return NoProgress(f"a page of {page.lines} turns tells no time")
    if overlap >= middle:
        return NextPage(PageStart(after=overlap))
    if place.limit < MAX_HISTORY_PAGE_ENTRIES:
        return NextPage(PageStart(after=place.after, limit=MAX_HISTORY_PAGE_ENTRIES))
    end = _estimate_end_time(page.times)
    # Not all of the last second may be in the page, so it comes again.
    earlier = [entry_time for entry_time in ordered if entry_time < end]
    if not earlier:
        return NoProgress(
            f"more than {MAX_HISTORY_PAGE_ENTRIES} turns have the time {end:%Y-%m-%dT%H:%M:%SZ}"
        )
    after = min(middle, earlier[-1])
    return NextPage(PageStart(after=after, limit=MAX_HISTORY_PAGE_ENTRIES), overlap=end - after)


def _full_overlap(times: Sequence[datetime]) -> datetime | None:
    # Times are whole seconds, and a page has only what is later than its moment.
    return _estimate_end_time(times) - PAGE_OVERLAP - _ONE_SECOND if times else None


def _estimate_end_time(times: Sequence[datetime]) -> datetime:
    """Say how late it is at the end of a page; single times that are far off do not count."""
    last = sorted(times[-_END_SAMPLE_ENTRIES:])
    return last[(len(last) - 1) // 2]


def _at_least(before: datetime | None, now: datetime | None) -> datetime | None:
    if before is None or now is None:
        return before or now
    return max(before, now)


def is_out_of_order(times: Sequence[datetime]) -> bool:
    """Say whether a time lies so far behind an earlier one that the overlap does not cover it."""
    latest = None
    for entry_time in times:
        if latest is not None and latest - entry_time > PAGE_OVERLAP:
            return True
        latest = entry_time if latest is None else max(latest, entry_time)
    return False
