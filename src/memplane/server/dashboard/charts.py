"""Charts as shapes: numbers in, coordinates out; templates draw them as SVG (pure).

A drawing is stretched to the room that it gets, so words stand beside it and not in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from memplane.observations.api_types import ConfidenceHistory, ConfidencePoint

CHART_WIDTH: Final = 600
CHART_HEIGHT: Final = 160

_MAX_MARKS: Final = 40


class ChartMark(msgspec.Struct, frozen=True):
    """A place in a chart with something to say."""

    x: float
    y: float
    label: str


class ConfidenceChart(msgspec.Struct, frozen=True):
    """Confidence over time: a path that was, one that will be, and where things happened."""

    was: str
    will_be: str
    area: str
    threshold: float
    events: tuple[ChartMark, ...]
    days: tuple[str, ...]


class ChartColumn(msgspec.Struct, frozen=True):
    """One column of a chart."""

    x: float
    y: float
    width: float
    height: float
    label: str
    value: int


class ColumnChart(msgspec.Struct, frozen=True):
    """Columns beside each other, and how many the highest stands for."""

    columns: tuple[ChartColumn, ...]
    most: int


class StackLayer(msgspec.Struct, frozen=True):
    """One layer of columns on columns."""

    name: str
    columns: tuple[ChartColumn, ...]


class StackedChart(msgspec.Struct, frozen=True):
    """Columns on columns, one for each day, and how many the highest stands for."""

    layers: tuple[StackLayer, ...]
    most: int
    days: tuple[str, ...]


def draw_confidence(course: ConfidenceHistory) -> ConfidenceChart | None:
    """Draw how sure we were; steps, since nothing happens between two moments."""
    if not course.points:
        return None
    moments = [_point_time(one) for one in (*course.points, *course.forecast)]
    first, last = min(moments), max(moments)
    span = max(last - first, timedelta(days=1))

    def x(one: ConfidencePoint) -> float:
        part = (_point_time(one) - first) / span
        return round(part * CHART_WIDTH, 1)

    def path(points: Sequence[ConfidencePoint]) -> str:
        begun = [f"M{x(one)} {_y(one.value)}" for one in points[:1]]
        return "".join([*begun, *(f"H{x(one)}V{_y(one.value)}" for one in points[1:])])

    was = path(course.points)
    ground = _y(0)
    area = f"{was}V{ground}H{x(course.points[0])}Z"
    happened = [one for one in course.points if one.kind not in {"faded", "now"}]
    return ConfidenceChart(
        was=was,
        will_be=path(course.forecast),
        area=area,
        threshold=_y(course.threshold),
        events=tuple(
            ChartMark(x(one), _y(one.value), f"{one.kind.replace('_', ' ')}, {one.value:.2f}")
            for one in happened[-_MAX_MARKS:]
        ),
        days=tuple(_format_day(first + span * part) for part in (0, 0.5, 1)),
    )


def draw_histogram(counts: Sequence[int]) -> ColumnChart:
    """Draw how many memories there are in each tenth of confidence."""
    most, wide = max([*counts, 1]), CHART_WIDTH / max(len(counts), 1)
    return ColumnChart(
        tuple(
            ChartColumn(
                x=round(at * wide + 4, 1),
                y=round(CHART_HEIGHT - count / most * CHART_HEIGHT, 1),
                width=round(wide - 8, 1),
                height=round(count / most * CHART_HEIGHT, 1),
                label=f"{at / len(counts):.1f}",
                value=count,
            )
            for at, count in enumerate(counts)
        ),
        most,
    )


def draw_stacked(days: Sequence[str], layers: Sequence[tuple[str, Sequence[int]]]) -> StackedChart:
    """Draw columns on columns, one for each day."""
    totals = [sum(values[at] for _, values in layers) for at in range(len(days))]
    most, wide = max([*totals, 1]), CHART_WIDTH / max(len(days), 1)
    below = [0.0] * len(days)
    drawn: list[StackLayer] = []
    for name, values in layers:
        columns: list[ChartColumn] = []
        for at, value in enumerate(values):
            height = value / most * CHART_HEIGHT
            below[at] += height
            columns.append(
                ChartColumn(
                    x=round(at * wide + wide / 8, 1),
                    y=round(CHART_HEIGHT - below[at], 1),
                    width=round(wide * 3 / 4, 1),
                    height=round(height, 1),
                    label=days[at],
                    value=value,
                )
            )
        drawn.append(StackLayer(name, tuple(columns)))
    marked = (days[0], days[len(days) // 2], days[-1]) if days else ()
    return StackedChart(
        tuple(drawn), most, tuple(_format_day(datetime.fromisoformat(one)) for one in marked)
    )


def _y(value: float) -> float:
    return round((1 - value) * CHART_HEIGHT, 1)


def _point_time(point: ConfidencePoint) -> datetime:
    return datetime.fromisoformat(point.at).astimezone(UTC)


def _format_day(moment: datetime) -> str:
    return f"{moment:%-d %b %Y}"
