"""What the text index has not taken in yet, kept from one question to the next.

A row that waits for the index and that it does not know is as it was inserted: whatever happens
to an episode, being forgotten or folded, is told to the index, too. So it is read once. Where
rows are numbered anew there is another index, and nothing of what was kept is looked at again.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from memplane.memory import rows as table
from memplane.records.store import Connection
from memplane.retrieval.tail import Tail
from memplane.retrieval.turns import Turn

_MOST_TURNS: Final = 4096
_MOST_AGENTS: Final = 256


class Unindexed(NamedTuple):
    """An agent's turns that the text index has to look at.

    Those in the `tail` and those that are `uncounted` are not in its figures; those that have
    `changed` are.
    """

    tail: Tail
    uncounted: list[Turn]
    changed: list[Turn]


class Tails:
    """The tails of those agents that were asked last; one thread at a time may ask."""

    def __init__(self) -> None:
        self._generation = ""
        self._tails: OrderedDict[int, Tail] = OrderedDict()

    def of(self, rows: Connection, number: int) -> Unindexed:
        """Return an agent's tail as it is in a transaction."""
        generation = table.note(rows, table.GENERATION)
        # Without one, rows were numbered anew a moment ago.
        if generation != self._generation or not generation:
            self._tails.clear()
            self._generation = generation
        new, changed = table.unindexed_of(rows, number)
        if len(new) > _MOST_TURNS:
            self._tails.pop(number, None)
            uncounted = table.searchable_in(rows, number, new)
            return Unindexed(Tail(), uncounted, table.searchable_in(rows, number, changed))
        tail = self._tails.pop(number, None) or Tail()
        tail.add(table.searchable_in(rows, number, tail.keep(new)))
        if new:
            self._tails[number] = tail
            self._let_go()
        return Unindexed(tail, [], table.searchable_in(rows, number, changed))

    def _let_go(self) -> None:
        """Forget the tails of those that were not asked for longest."""
        turns = sum(map(len, self._tails.values()))
        while len(self._tails) > _MOST_AGENTS or (turns > _MOST_TURNS and len(self._tails) > 1):
            turns -= len(self._tails.popitem(last=False)[1])
