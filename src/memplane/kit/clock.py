"""The one place that reads the clock; everything else is handed a Clock."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

Clock: TypeAlias = Callable[[], datetime]
"""Tells the time, always in UTC."""


def system_clock() -> datetime:
    """Tell the machine's time."""
    return datetime.now(UTC)


def format_timestamp(at: datetime) -> str:
    """Write a moment the way memplane's files do: `2026-03-01T09:30:00.000000Z`."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def format_milli_timestamp(at: datetime) -> str:
    """Write a moment the way operational memory does: `2026-03-01T09:30:00.000Z`."""
    return format_timestamp(at)[:-4] + "Z"


def parse_timestamp(text: str) -> datetime:
    """Read what `stamp` wrote."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
