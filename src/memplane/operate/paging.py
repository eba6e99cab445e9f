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

PAGE: Final = 200
LARGEST_PAGE: Final = 1000
OVERLAP: Final = timedelta(seconds=600)

_SECOND: Final = timedelta(seconds=1)
_NEAR_THE_END: Final = 16


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page begins: at a cursor, behind a moment, or at the beginning of the ledger."""

    cursor: str = ""
    after: datetime | None = None
    limit: int = PAGE


@dataclass(slots=True)
class Page:
    """What was learnt of a page; `times` are in the order of its lines."""

    next_cursor: str = ""
    has_more: bool | None = None
    lines: int = 0
    new: int = 0
    times: list[datetime] = field(default_factory=list[datetime])


@dataclass(frozen=True, slots=True)
class GoOn:
    """There may be more. `overlap` is less than it should be where too much happened in it."""

    place: Place
    overlap: timedelta = OVERLAP


@dataclass(frozen=True, slots=True)
class AtTheEnd:
    """That was all; what comes later follows the place."""

    place: Place


@dataclass(frozen=True, slots=True)
class Stuck:
    """The next page would be the same again."""

    why: str


Step: TypeAlias = GoOn | AtTheEnd | Stuck


def step(place: Place, page: Page) -> Step:
    """Decide what follows a page that was read from a place."""
    full = page.lines >= place.limit
    if page.next_cursor:
        following = Place(cursor=page.next_cursor)
        if not (full if page.has_more is None else page.has_more):
            return AtTheEnd(following)
        if page.next_cursor == place.cursor and not page.new:
            return Stuck("the proxy gives the same page again and again")
        return GoOn(following)
    if not full:
        return AtTheEnd(Place(after=_at_least(place.after, _full_overlap(page.times))))
    return _behind(place, page)


def _behind(place: Place, page: Page) -> Step:
    """Go on behind a full page of a proxy that only takes moments."""
    wanted = _full_overlap(page.times)
    ordered = sorted(page.times)
    # So much must not come again, or the walk hardly moves; each of these is past the place.
    middle = ordered[(len(ordered) - 1) // 2] if ordered else None
    if wanted is None or middle is None:
        return Stuck(f"a page of {page.lines} turns tells no time")
    if wanted >= middle:
        return GoOn(Place(after=wanted))
    if place.limit < LARGEST_PAGE:
        return GoOn(Place(after=place.after, limit=LARGEST_PAGE))
    end = _end(page.times)
    # Not all of the last second may be in the page, so it comes again.
    earlier = [one for one in ordered if one < end]
    if not earlier:
        return Stuck(f"more than {LARGEST_PAGE} turns have the time {end:%Y-%m-%dT%H:%M:%SZ}")
    after = min(middle, earlier[-1])
    return GoOn(Place(after=after, limit=LARGEST_PAGE), overlap=end - after)


def _full_overlap(times: Sequence[datetime]) -> datetime | None:
    # Times are whole seconds, and a page has only what is later than its moment.
    return _end(times) - OVERLAP - _SECOND if times else None


def _end(times: Sequence[datetime]) -> datetime:
    """Say how late it is at the end of a page; single times that are far off do not count."""
    last = sorted(times[-_NEAR_THE_END:])
    return last[(len(last) - 1) // 2]


def _at_least(before: datetime | None, now: datetime | None) -> datetime | None:
    if before is None or now is None:
        return before or now
    return max(before, now)


def is_out_of_order(times: Sequence[datetime]) -> bool:
    """Say whether a time lies so far behind an earlier one that the overlap does not cover it."""
    latest = None
    for one in times:
        if latest is not None and latest - one > OVERLAP:
            return True
        latest = one if latest is None else max(latest, one)
    return False
