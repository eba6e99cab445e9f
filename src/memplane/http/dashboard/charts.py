"""Charts as shapes: numbers in, coordinates out; templates draw them as SVG (pure).

A drawing is stretched to the room that it gets, so words stand beside it and not in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from memplane.observations.contract import Course, CoursePoint

WIDTH: Final = 600
HEIGHT: Final = 160

_MOST_POINTS: Final = 40


class Mark(msgspec.Struct, frozen=True):
    """A place in a chart with something to say."""

    x: float
    y: float
    label: str


class Line(msgspec.Struct, frozen=True):
    """Confidence over time: a path that was, one that will be, and where things happened."""

    was: str
    will_be: str
    area: str
    threshold: float
    events: tuple[Mark, ...]
    days: tuple[str, ...]


class Column(msgspec.Struct, frozen=True):
    """One column of a chart."""

    x: float
    y: float
    width: float
    height: float
    label: str
    value: int


class Columns(msgspec.Struct, frozen=True):
    """Columns beside each other, and how many the highest stands for."""

    columns: tuple[Column, ...]
    most: int


class Layer(msgspec.Struct, frozen=True):
    """One layer of columns on columns."""

    name: str
    columns: tuple[Column, ...]


class Layers(msgspec.Struct, frozen=True):
    """Columns on columns, one for each day, and how many the highest stands for."""

    layers: tuple[Layer, ...]
    most: int
    days: tuple[str, ...]


def course_chart(course: Course) -> Line | None:
    """Draw how sure we were; steps, since nothing happens between two moments."""
    if not course.points:
        return None
    moments = [_moment(one) for one in (*course.points, *course.forecast)]
    first, last = min(moments), max(moments)
    span = max(last - first, timedelta(days=1))

    def x(one: CoursePoint) -> float:
        part = (_moment(one) - first) / span
        return round(part * WIDTH, 1)

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
        days=tuple(_day(first + span * part) for part in (0, 0.5, 1)),
    )


def histogram(counts: Sequence[int]) -> Columns:
    """Draw how many memories there are in each tenth of confidence."""
    most, wide = max([*counts, 1]), WIDTH / max(len(counts), 1)
    return Columns(
        tuple(
            Column(
                x=round(at * wide + 4, 1),
                y=round(HEIGHT - count / most * HEIGHT, 1),
                width=round(wide - 8, 1),
                height=round(count / most * HEIGHT, 1),
                label=f"{at / len(counts):.1f}",
                value=count,
            )
            for at, count in enumerate(counts)
        ),
        most,
    )


def stacked(days: Sequence[str], layers: Sequence[tuple[str, Sequence[int]]]) -> Layers:
    """Draw columns on columns, one for each day."""
    totals = [sum(values[at] for _, values in layers) for at in range(len(days))]
    most, wide = max([*totals, 1]), WIDTH / max(len(days), 1)
    below = [0.0] * len(days)
    drawn: list[Layer] = []
    for name, values in layers:
        columns: list[Column] = []
        for at, value in enumerate(values):
            height = value / most * HEIGHT
            below[at] += height
            columns.append(
                Column(
                    x=round(at * wide + wide / 8, 1),
                    y=round(HEIGHT - below[at], 1),
                    width=round(wide * 3 / 4, 1),
                    height=round(height, 1),
                    label=days[at],
                    value=value,
                )
            )
        drawn.append(Layer(name, tuple(columns)))
    marked = (days[0], days[len(days) // 2], days[-1]) if days else ()
    return Layers(tuple(drawn), most, tuple(_day(datetime.fromisoformat(one)) for one in marked))


def _y(value: float) -> float:
    return round((1 - value) * HEIGHT, 1)


def _moment(point: CoursePoint) -> datetime:
    return datetime.fromisoformat(point.at).astimezone(UTC)


def _day(moment: datetime) -> str:
    return f"{moment:%-d %b %Y}"
