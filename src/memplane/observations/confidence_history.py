"""How sure we were of an observation over time, and how that will go on (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from memplane.kit.clock import format_milli_timestamp
from memplane.observations import confidence
from memplane.observations.api_types import ConfidenceHistory, ConfidencePoint
from memplane.observations.confidence import ConfidenceState, Profile
from memplane.observations.events import ObservationEvent
from memplane.observations.projection import fold_steps, parse_event_time

_FORECAST_PERIOD: Final = timedelta(days=100)
_MAX_POINTS: Final = 400


def build_confidence_history(
    events: Sequence[ObservationEvent], profile: Profile, now: datetime
) -> ConfidenceHistory:
    """Return the confidence at each event and each week that took something off."""
    known = [
        (parse_event_time(event.ts), found.standing, event.kind.value)
        for event, found in zip(events, fold_steps(events, profile), strict=True)
        if found is not None
    ]
    if not known:
        return ConfidenceHistory(points=(), forecast=(), threshold=profile.threshold / 100)
    points: list[ConfidencePoint] = []
    ends = [*(at for at, _, _ in known[1:]), max(now, known[-1][0])]
    for (at, standing, kind), end in zip(known, ends, strict=True):
        points.append(_point(at, standing.value, kind))
        points += _iterate_decay_points(standing, at, end, profile)
    points.append(_point(ends[-1], confidence.value_at(known[-1][1], ends[-1], profile), "now"))
    forecast = [
        points[-1],
        *_iterate_decay_points(known[-1][1], now, now + _FORECAST_PERIOD, profile),
    ]
    return ConfidenceHistory(
        points=tuple(points[-_MAX_POINTS:]),
        forecast=tuple(forecast),
        threshold=profile.threshold / 100,
    )


def _iterate_decay_points(
    standing: ConfidenceState, after: datetime, until: datetime, profile: Profile
) -> Iterator[ConfidencePoint]:
    """Yield the confidence at each moment in a time at which decay takes something off."""
    if standing.pinned or not profile.decay:
        return
    begin = standing.last_supported + profile.grace
    first = max(1, -((begin - after) // profile.period))
    moments = (begin + profile.period * week for week in range(first, first + _MAX_POINTS))
    due = [one for one in moments if after < one <= until]
    values = [confidence.value_at(standing, one, profile) for one in due]
    before = confidence.value_at(standing, after, profile)
    for (_, earlier), (at, value) in pairwise([(after, before), *zip(due, values, strict=True)]):
        if value != earlier:
            yield _point(at, value, "faded")


def _point(at: datetime, value: int, kind: str) -> ConfidencePoint:
    return ConfidencePoint(at=format_milli_timestamp(at), value=value / 100, kind=kind)
