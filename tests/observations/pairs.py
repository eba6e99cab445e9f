"""Pairs of statements about services, with what a careful operator would say of each pair.

A third of them is held out: these were written when the matcher was done, and measured once.
Tune it on the others; when a held-out pair has led to a change, it belongs to those.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple


class Pair(NamedTuple):
    """Two statements under one service and category, and what is to come out."""

    kind: str
    verdict: str
    old: str
    new: str


MUST: Final = (
    Pair(
        "must",
        "same",
        "Takes 60s to start after restart",
        "Takes about 60 seconds to start after a restart",
    ),
    Pair(
        "must",
        "contradiction",
        "Takes 60s to start after restart",
        "Takes 30s to start after restart",
    ),
    Pair(
        "must",
        "contradiction",
        "Must be started after WireGuard",
        "Can be started independently of WireGuard",
    ),
    Pair("must", "contradiction", "Run VACUUM FULL weekly", "Run VACUUM FULL monthly"),
    Pair("must", "undecided", "Depends on PostgreSQL", "Depends on Redis"),
    Pair(
        "must",
        "undecided",
        "Health check is served on /healthz",
        "Health check is served on /status",
    ),
    Pair(
        "must",
        "undecided",
        "Takes 60s to start after restart",
        "Takes 60s to start after restart when the disk is cold",
    ),
)


def _rows(name: str) -> list[list[str]]:
    lines = Path(__file__).with_name(name).read_text("utf-8").splitlines()
    return [[part.strip() for part in line.split(" | ")] for line in lines]


TUNED_ON: Final = tuple(Pair(*row) for row in _rows("pairs.txt"))
HELD_OUT: Final = tuple(Pair(*row) for row in _rows("held_out.txt"))
PAIRS: Final = TUNED_ON + HELD_OUT
NEVER_SAME: Final = tuple((old, new) for old, new in _rows("never_same.txt"))
"""What must not be merged, whatever else is made of it."""
