"""Charts as shapes: numbers in, coordinates out; templates draw them as SVG (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from memplane.observations.contract import Course, CoursePoint

WIDTH: Final = 640
HEIGHT: Final = 200
LEFT: Final = 32
RIGHT: Final = 8
TOP: Final = 8
BOTTOM: Final = 24

_MOST_POINTS: Final = 40


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a chart with something to say."""

    x: float
    y: float
    label: str


@dataclass(frozen=True, slots=True)
class Line:
    """Confidence over time: a path that was, one that will be, and where things happened."""

    was: str
    will_be: str
    area: str
    threshold: float
    events: tuple[Mark, ...]
    days: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a chart."""

    x: float
    y: float
    width: float
    height: float
    label: str
    value: int


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of columns on columns."""

    name: str
    columns: tuple[Column, ...]


def course_chart(course: Course) -> Line | None:
    """Draw how sure we were; steps, since nothing happens between two moments."""
    if not course.points:
        return None
    moments = [_moment(one) for one in (*course.points, *course.forecast)]
    first, last = min(moments), max(moments)
    span = max(last - first, timedelta(days=1))

    def x(one: CoursePoint) -> float:
        part = (_moment(one) - first) / span
        return round(LEFT + part * (WIDTH - LEFT - RIGHT), 1)

    def path(points: Sequence[CoursePoint]) -> str:
        begun = [f"M{x(one)} {_y(one.value)}" for one in points[:1]]
        return "".join([*begun, *(f"H{x(one)}V{_y(one.value)}" for one in points[1:])])

    was = path(course.points)
    ground = _y(0)
    area = f"{was}V{ground}H{x(course.points[0])}Z"
    happened = [one for one in course.points if one.kind not in {"faded", "now"}]
    return Line(
        was=was,
        will_be=path(course.forecast),
        area=area,
        threshold=_y(course.threshold),
        events=tuple(
            Mark(x(one), _y(one.value), f"{one.kind.replace('_', ' ')}, {one.value:.2f}")
            for one in happened[-_MOST_POINTS:]
        ),
        days=tuple(
            Mark(
                round(LEFT + part * (WIDTH - LEFT - RIGHT), 1),
                HEIGHT - 6,
                _day(first + span * part),
            )
            for part in (0, 0.5, 1)
        ),
    )


def histogram(counts: Sequence[int]) -> tuple[Column, ...]:
    """Draw how many memories there are in each tenth of confidence."""
    most = max([*counts, 1])
    wide = (WIDTH - LEFT - RIGHT) / max(len(counts), 1)
    return tuple(
        Column(
            x=round(LEFT + at * wide + 2, 1),
            y=round(HEIGHT - BOTTOM - count / most * (HEIGHT - TOP - BOTTOM), 1),
            width=round(wide - 4, 1),
            height=round(count / most * (HEIGHT - TOP - BOTTOM), 1),
            label=f"{at / len(counts):.1f}",
            value=count,
        )
        for at, count in enumerate(counts)
    )


def stacked(days: Sequence[str], layers: Sequence[tuple[str, Sequence[int]]]) -> tuple[Layer, ...]:
    """Draw columns on columns, one for each day."""
    totals = [sum(values[at] for _, values in layers) for at in range(len(days))]
    most, wide = max([*totals, 1]), (WIDTH - LEFT - RIGHT) / max(len(days), 1)
    tall = HEIGHT - TOP - BOTTOM
    below = [0.0] * len(days)
    drawn: list[Layer] = []
    for name, values in layers:
        columns: list[Column] = []
        for at, value in enumerate(values):
            height = value / most * tall
            below[at] += height
            columns.append(
                Column(
                    x=round(LEFT + at * wide + 1, 1),
                    y=round(HEIGHT - BOTTOM - below[at], 1),
                    width=round(max(wide - 2, 1), 1),
                    height=round(height, 1),
                    label=days[at],
                    value=value,
                )
            )
        drawn.append(Layer(name, tuple(columns)))
    return tuple(drawn)


def _y(value: float) -> float:
    return round(TOP + (1 - value) * (HEIGHT - TOP - BOTTOM), 1)


def _moment(point: CoursePoint) -> datetime:
    return datetime.fromisoformat(point.at).astimezone(UTC)


def _day(moment: datetime) -> str:
    return f"{moment:%-d %b %Y}"
