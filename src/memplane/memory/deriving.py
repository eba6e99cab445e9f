"""Deriving again where turns changed: noise, stretches, and what a stretch yields.

The outcome depends on the turns that there are, not on the order in which they came.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from memplane.memory import rows as table
from memplane.memory.artefacts import artefacts_of
from memplane.memory.noise import Signature, is_noise, signature
from memplane.memory.rows import Key, State
from memplane.memory.stretches import split
from memplane.records.store import Connection

LOOKS_BACK: Final = 10
_CHANGES: Final = 32
_PAGE: Final = 64
_MADE: Final = 12
_BEGINNING: Final[Key] = (-(1 << 62), "")
_END: Final[Key] = (1 << 62, "")


def derive_some(rows: Connection) -> bool:
    """Derive what some changed turns call for; says whether there was anything to do."""
    number = next(iter(table.agents_to_derive(rows)), None)
    if number is None:
        return False
    changed = table.take_underived(rows, number, _CHANGES)
    turned = _fold_noise(rows, number, changed)
    _make_stretches(rows, number, sorted({*changed, *turned}))
    return True


def _fold_noise(rows: Connection, number: int, changed: Sequence[Key]) -> list[Key]:
    """Decide anew what is noise, for changed turns and those that look back on them.

    Returns the turns that became noise, or ceased to be.
    """
    turned: list[Key] = []
    for run in _runs(rows, number, changed):
        for key, state in run:
            table.change_state(rows, number, key[1], state)
            turned.append(key)
    return turned


def _runs(
    rows: Connection, number: int, changed: Sequence[Key]
) -> Iterator[list[tuple[Key, State]]]:
    """Walk over changed turns, each with those behind it; yields the states that change."""
    left = deque(changed)
    while left:
        at = left.popleft()
        before: deque[Signature] = deque(
            map(signature, table.turns_before(rows, number, at, LOOKS_BACK)), LOOKS_BACK
        )
        behind, changes = 0, list[tuple[Key, State]]()
        while behind <= LOOKS_BACK and (page := table.turns_from(rows, number, at, _PAGE)):
            for turn, state in page:
                key = turn.at, turn.id
                while left and left[0] <= key:
                    left.popleft()
                    behind = 0
                if behind > LOOKS_BACK:
                    break
                mine = signature(turn)
                wanted = State.NOISE if is_noise(mine, before) else State.SEARCHABLE
                if wanted is not state:
                    changes.append((key, wanted))
                before.append(mine)
                behind += 1
            at = page[-1][0].at, page[-1][0].id + "\0"
        yield changes


def _make_stretches(rows: Connection, number: int, changed: Sequence[Key]) -> None:
    """Make the stretches anew that changed turns are in, as far as their borders move."""
    left = deque(changed)
    made = 0
    while left:
        key = left.popleft()
        old = table.stretch_at(rows, number, key)
        edge = begin = old.first if old is not None else _BEGINNING
        for turns in split(table.searchable_from(rows, number, begin)):
            first = turns[0].at, turns[0].id
            if first > key and table.begins_stretch(rows, number, first):
                # From here on the borders are where they were.
                table.drop_stretches(rows, number, edge, first)
                break
            if made >= _MADE and first > key:
                # The rest is for another transaction: whoever retains waits for this one.
                table.drop_stretches(rows, number, edge, first)
                table.keep_underived(rows, number, first)
                break
            made += 1
            behind = turns[-1].at, turns[-1].id + "\0"
            table.drop_stretches(rows, number, edge, behind)
            table.keep_stretch(rows, number, turns, artefacts_of(turns))
            edge = behind
        else:
            table.drop_stretches(rows, number, edge, _END)
        while left and left[0] < edge:
            left.popleft()
