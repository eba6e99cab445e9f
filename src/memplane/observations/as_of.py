"""What was known at a moment, and what was so at a moment: two axes of time.

Observations are folded anew out of the events that had been written by then. That takes longer
than a list of what is known now, and is asked for seldom.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import groupby
from typing import Final

from memplane.auth.memory_scope import SHARED, check_user
from memplane.database.interface import Connection
from memplane.errors import InvalidRequest
from memplane.ledger.entry_head import parse_rfc3339
from memplane.observations import confidence, views
from memplane.observations.api_types import MemoryPage
from memplane.observations.confidence import Profile
from memplane.observations.event_store import select_events
from memplane.observations.events import ObservationEvent
from memplane.observations.model import ObservationState
from memplane.observations.projection import Observation, fold_observation, parse_event_time
from memplane.observations.queries import ANY_STATE, GENERAL_SERVICE, TRASH_STATES
from memplane.observations.requests import MemoryQuery
from memplane.observations.store import find_forgotten_entries
from memplane.observations.validation import field_error

_STATES: Final = frozenset(ObservationState)


def list_memories_as_of(
    rows: Connection, agent: str | None, asked: MemoryQuery, *, now: datetime, profile: Profile
) -> MemoryPage:
    """Return what was known at a moment, of what was so at a moment.

    Raises:
        InvalidRequest: One of them is no moment, or there is no such state.
    """
    if asked.cursor:
        raise InvalidRequest("a list of what was known has no cursor: use offset")
    known_at = _moment("known_at", asked.known_at, now)
    as_of = _moment("as_of", asked.as_of, known_at)
    is_wanted = _filter(asked, as_of if asked.as_of else None)
    found = [one for one in _iterate_known(rows, agent, known_at, profile) if is_wanted(one)]
    found.sort(
        key=lambda one: (-confidence.value_at(one.standing, known_at, profile), one.id),
    )
    shown = found[asked.offset : asked.offset + asked.limit]
    return MemoryPage(
        memories=tuple(views.memory_view(one, known_at, profile) for one in shown),
        total=len(found),
    )


def _iterate_known(
    rows: Connection, agent: str | None, at: datetime, profile: Profile
) -> Iterator[Observation]:
    """Fold what had been written by a moment."""
    where = "memory_id > 0 AND (? IS NULL OR agent = ?) ORDER BY memory_id, at, id"
    events = select_events(rows, where, agent, agent)
    for _, group in groupby(events, key=lambda one: one.memory):
        written = [*_filter_written_by(at, group)]
        found = fold_observation(written, profile, forgotten=find_forgotten_entries(rows, written))
        if found is not None:
            yield found


def _filter_written_by(
    at: datetime, events: Iterable[ObservationEvent]
) -> Iterator[ObservationEvent]:
    return (one for one in events if parse_event_time(one.recorded or one.ts) <= at)


def _filter(asked: MemoryQuery, as_of: datetime | None) -> Callable[[Observation], bool]:
    """Return what is true of the observations that are asked for."""
    if asked.state not in {None, ANY_STATE, "trash", *_STATES}:
        raise InvalidRequest(f"there is no state {asked.state!r}")
    words = asked.q.casefold().split()
    users = _visible_names(asked.user)
    named_views = _visible_names(asked.view)

    def is_wanted(one: Observation) -> bool:
        return (
            _is_in(asked.state, one, as_of)
            and not (one.unsupported and asked.forgotten is None)
            and asked.service in {"", one.service or GENERAL_SERVICE}
            and asked.category in {None, one.category}
            and (users is None or one.user in users)
            and (named_views is None or one.view in named_views)
            and asked.tier in {None, one.tier}
            and asked.origin in {None, one.origin}
            and all(word in f"{one.text} {one.service}".casefold() for word in words)
        )

    return is_wanted


def _visible_names(name: str | None) -> frozenset[str] | None:
    """Return the users or views of which something is seen with a name; None is all."""
    return None if name is None else frozenset({SHARED, check_user(name)})


def _is_in(state: str | None, one: Observation, as_of: datetime | None) -> bool:
    """Say whether an observation is in a state; what was so then counts although it is no more."""
    if as_of is not None:
        ends_later = one.valid_to is None or one.valid_to > as_of
        if not (one.valid_from <= as_of and ends_later):
            return False
        if state is None and one.state is ObservationState.SUPERSEDED:
            return True
    if state is None:
        return one.state not in TRASH_STATES
    return state in {ANY_STATE, one.state} or (state == "trash" and one.state in TRASH_STATES)


def _moment(name: str, text: str, otherwise: datetime) -> datetime:
    if not text:
        return otherwise
    found = parse_rfc3339(text)
    if found is None:
        raise field_error(name, "a time is written such as 2026-03-01T12:00:00Z")
    return found
