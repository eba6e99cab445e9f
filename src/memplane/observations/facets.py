"""What a list of observations can be narrowed to, counted in one look at the rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from memplane.database.interface import Connection
from memplane.kit.clock import format_milli_timestamp
from memplane.observations.api_types import Facet, Facets
from memplane.observations.model import ObservationState
from memplane.observations.queries import (
    ANY_STATE,
    GENERAL_SERVICE,
    STALE_SOON,
    TRASH_STATES,
    build_filter,
)
from memplane.observations.requests import MemoryFilter

_COLUMNS: Final = (
    f"agent, COALESCE(service, '{GENERAL_SERVICE}'), category, state, tier, origin, "
    "contested, pinned, "
    "active AND COALESCE(fades_at <= ?, 0)"
)


class _Group(NamedTuple):
    """Rows that are alike in all that can be filtered, and how many there are."""

    agent: str
    service: str
    category: str
    state: str
    tier: int
    origin: str
    contested: int
    pinned: int
    stale: int
    number: int


def facets(rows: Connection, agent: str | None, asked: MemoryFilter, *, now: datetime) -> Facets:
    """Count what a list can be narrowed to; each count is under all other filters."""
    groups = _groups(rows, agent, asked, now)
    return Facets(
        agent=_counts(groups, "agent", asked),
        service=_counts(groups, "service", asked),
        category=_counts(groups, "category", asked),
        state=_counts(groups, "state", asked),
        tier=_counts(groups, "tier", asked),
        origin=_counts(groups, "origin", asked),
        contested=_marked(groups, "contested", asked),
        pinned=_marked(groups, "pinned", asked),
        stale=_marked(groups, "stale", asked),
    )


def _groups(
    rows: Connection, agent: str | None, asked: MemoryFilter, now: datetime
) -> list[_Group]:
    """Count what the words of a search leave, before anything else is filtered."""
    searched = MemoryFilter(
        q=asked.q,
        session=asked.session,
        entry=asked.entry,
        state=ANY_STATE,
        forgotten=asked.forgotten,
        user=asked.user,
        view=asked.view,
    )
    where = build_filter(agent, searched, now)
    sql = f"SELECT {_COLUMNS}, COUNT(*) FROM memories WHERE {where} GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9"  # noqa: S608, E501
    build_filter(agent, asked, now)  # which refuses a state that there is not
    return [
        _Group(*row)
        for row in rows.rows(sql, (format_milli_timestamp(now + STALE_SOON), *where.values))
    ]


def _counts(groups: Iterable[_Group], name: str, asked: MemoryFilter) -> tuple[Facet, ...]:
    """Count each value of a column; most first."""
    rest = msgspec.structs.replace(asked, **_WITHOUT.get(name, {}))
    found: Counter[str] = Counter()
    for group in groups:
        if _is_in(group, rest):
            found[str(getattr(group, name))] += group.number
    ordered = sorted(found.items(), key=lambda one: (-one[1], one[0]))
    return tuple(Facet(value=value, count=count) for value, count in ordered)


def _marked(groups: Iterable[_Group], name: str, asked: MemoryFilter) -> int:
    """Count those that have a mark."""
    rest = msgspec.structs.replace(asked, **{name: True})
    return sum(group.number for group in groups if _is_in(group, rest))


_WITHOUT: Final[dict[str, dict[str, object]]] = {
    "service": {"service": ""},
    "category": {"category": None},
    "state": {"state": ANY_STATE},
    "tier": {"tier": None},
    "origin": {"origin": None},
}


def _is_in(group: _Group, asked: MemoryFilter) -> bool:
    marks = (group.contested, group.pinned, group.stale)
    wanted = (asked.contested, asked.pinned, asked.stale)
    return (
        _is_in_state(group.state, asked.state)
        and asked.service in {"", group.service}
        and asked.category in {None, group.category}
        and asked.tier in {None, group.tier}
        and asked.origin in {None, group.origin}
        and all(one is None or bool(has) is one for has, one in zip(marks, wanted, strict=True))
    )


def _is_in_state(state: str, asked: str | None) -> bool:
    if asked is None:
        return state not in TRASH_STATES
    if asked == "trash":
        return state in TRASH_STATES - {ObservationState.PURGED}
    return asked in {ANY_STATE, state}
