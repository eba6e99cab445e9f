"""In which order merged things stand (pure)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

T = TypeVar("T")


def merge_orders(
    newer: Sequence[str], older: Sequence[str], surviving: Collection[str], *, tied: bool = False
) -> list[str]:
    """Put the keys that are alive in one order.

    One side leads: the one that has all that the other has, else the newer. What only the other
    side has comes before that which follows it there, else at the end. So a merged list, which
    has everything, is not moved again by the sides that it came from.
    """
    first = [key for key in newer if key in surviving]
    second = [key for key in older if key in surviving]
    if _is_led_by(second, first, tied=tied):
        first, second = second, first
    shared = set(first)
    before: dict[str, list[str]] = {}
    pending: list[str] = []
    for key in second:
        if key in shared:
            before[key], pending = pending, []
        else:
            pending.append(key)
    return [*(member for key in first for member in (*before.get(key, ()), key)), *pending]


def _is_led_by(second: list[str], first: list[str], *, tied: bool) -> bool:
    """Say whether the second side leads."""
    ours, theirs = set(first), set(second)
    if ours == theirs or not (ours <= theirs or theirs <= ours):
        return tied and second > first
    return ours < theirs


def sort_in_place(
    items: Sequence[T], rank: Callable[[T], str], *, reverse: bool = False
) -> list[T]:
    """Sort the things that have a rank, in the places where such things stand."""
    ranked = iter(sorted(filter(rank, items), key=rank, reverse=reverse))
    return [next(ranked) if rank(item) else item for item in items]
