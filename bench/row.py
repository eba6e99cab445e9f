"""One line of a bench's report."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured, the figure, the goal, and whether it was reached; None without a goal."""

    what: str
    measured: str
    goal: str
    reached: bool | None
