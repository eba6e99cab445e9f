"""What the text index has not taken in yet, kept from one question to the next.

A row that waits for the index and that it does not know is as it was inserted: whatever happens
to an episode, being forgotten or folded, is told to the index, too. So it is read once. Where
rows are numbered anew there is another index, and nothing of what was kept is looked at again.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from memplane.database.interface import Connection
from memplane.episodes import store as table
from memplane.search.inverted_index import InvertedIndex
from memplane.search.turn_terms import SearchTurn

_MAX_TURNS: Final = 4096
_MAX_AGENTS: Final = 256


class PendingIndexWork(NamedTuple):
    """An agent's turns that the text index has to look at.

    Those in the `tail` and those that are `uncounted` are not in its figures; those that have
    `changed` are.
    """

    tail: InvertedIndex
    uncounted: list[SearchTurn]
    changed: list[SearchTurn]


class PendingTurns:
    """The tails of those agents that were asked last; one thread at a time may ask."""

    def __init__(self) -> None:
        self._generation = ""
        self._tails: OrderedDict[int, InvertedIndex] = OrderedDict()

    def of(self, rows: Connection, number: int) -> PendingIndexWork:
        """Return an agent's tail as it is in a transaction."""
        generation = table.get_note(rows, table.INDEX_GENERATION_NOTE)
        # Without one, rows were numbered anew a moment ago.
        if generation != self._generation or not generation:
            self._tails.clear()
            self._generation = generation
        new, changed = table.list_unindexed_keys(rows, number)
        if len(new) > _MAX_TURNS:
            self._tails.pop(number, None)
            uncounted = table.get_searchable(rows, number, new)
            return PendingIndexWork(
                InvertedIndex(), uncounted, table.get_searchable(rows, number, changed)
            )
        tail = self._tails.pop(number, None) or InvertedIndex()
        tail.add(table.get_searchable(rows, number, tail.keep(new)))
        if new:
            self._tails[number] = tail
            self._let_go()
        return PendingIndexWork(tail, [], table.get_searchable(rows, number, changed))

    def _let_go(self) -> None:
        """Forget the tails of those that were not asked for longest."""
        turns = sum(map(len, self._tails.values()))
        while len(self._tails) > _MAX_AGENTS or (turns > _MAX_TURNS and len(self._tails) > 1):
            turns -= len(self._tails.popitem(last=False)[1])
