"""How sure we were of an observation over time, and how that will go on (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from memplane.clock import milli_stamp
from memplane.observations import confidence
from memplane.observations.confidence import Profile, Standing
from memplane.observations.contract import Course, CoursePoint
from memplane.observations.events import Event
from memplane.observations.folding import moment_of, steps

_FORECAST: Final = timedelta(days=100)
_MOST: Final = 400


def course_of(events: Sequence[Event], profile: Profile, now: datetime) -> Course:
    """Return the confidence at each event and each week that took something off."""
    known = [
        (moment_of(event.ts), found.standing, event.kind.value)
        for event, found in zip(events, steps(events, profile), strict=True)
        if found is not None
    ]
    if not known:
        return Course(points=(), forecast=(), threshold=profile.threshold / 100)
    points: list[CoursePoint] = []
    ends = [*(at for at, _, _ in known[1:]), max(now, known[-1][0])]
    for (at, standing, kind), end in zip(known, ends, strict=True):
        points.append(_point(at, standing.value, kind))
        points += _fading(standing, at, end, profile)
    points.append(_point(ends[-1], confidence.at(known[-1][1], ends[-1], profile), "now"))
    forecast = [points[-1], *_fading(known[-1][1], now, now + _FORECAST, profile)]
    return Course(
        points=tuple(points[-_MOST:]),
        forecast=tuple(forecast),
        threshold=profile.threshold / 100,
    )


def _fading(
    standing: Standing, after: datetime, until: datetime, profile: Profile
) -> Iterator[CoursePoint]:
    """Yield the confidence at each moment in a time at which decay takes something off."""
    if standing.pinned or not profile.decay:
        return
    begin = standing.last_supported + profile.grace
    first = max(1, -((begin - after) // profile.period))
    moments = (begin + profile.period * week for week in range(first, first + _MOST))
    due = [one for one in moments if after < one <= until]
    values = [confidence.at(standing, one, profile) for one in due]
    before = confidence.at(standing, after, profile)
    for (_, earlier), (at, value) in pairwise([(after, before), *zip(due, values, strict=True)]):
        if value != earlier:
            yield _point(at, value, "faded")


def _point(at: datetime, value: int, kind: str) -> CoursePoint:
    return CoursePoint(at=milli_stamp(at), value=value / 100, kind=kind)
