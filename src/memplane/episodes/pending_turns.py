"""What the text index has not taken in yet, kept from one question to the next.

A row that waits for the index and that it does not know is as it was inserted: whatever happens
to an episode, being forgotten or folded, is told to the index, too. So it is read once. Where
rows are numbered anew there is another index, and nothing of what was kept is looked at again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from memplane.database.interface import Connection
from memplane.episodes import store as table
from memplane.episodes.scope_store import ScopeNumber, VisibleScopes
from memplane.search.inverted_index import InvertedIndex
from memplane.search.turn_terms import MatchedTermCounts, SearchTurn

_MAX_TURNS: Final = 4096
_MAX_SCOPES: Final = 256


class PendingIndexWork(NamedTuple):
    """The visible turns that the text index has to look at.

    Those in the `tails`, one for each scope, and those that are `uncounted` are not in its
    figures; those that have `changed` are.
    """

    tails: Sequence[InvertedIndex]
    uncounted: list[SearchTurn]
    changed: list[SearchTurn]

    def count(self, term: str) -> int:
        """Return how many turns in the tails have a term."""
        return sum(tail.count(term) for tail in self.tails)

    def has(self, key: int) -> bool:
        """Say whether a turn is in one of the tails."""
        return any(key in tail for tail in self.tails)

    def find_turns(
        self, terms: Iterable[str]
    ) -> tuple[list[SearchTurn], dict[int, MatchedTermCounts]]:
        """Return the turns in the tails that have some of the terms, and what each has of them."""
        sought = list(terms)
        turns: list[SearchTurn] = []
        held: dict[int, MatchedTermCounts] = {}
        for tail in self.tails:
            having, counts = tail.find_turns(sought)
            turns += having
            held.update(counts)
        return turns, held


NO_PENDING_WORK: Final = PendingIndexWork((), [], [])


class PendingTurns:
    """The tails of those scopes that were asked last; one thread at a time may ask."""

    def __init__(self) -> None:
        self._generation = ""
        self._tails: OrderedDict[ScopeNumber, InvertedIndex] = OrderedDict()

    def of(self, rows: Connection, seen: VisibleScopes) -> PendingIndexWork:
        """Return what waits in the visible scopes, as it is in a transaction."""
        generation = table.get_note(rows, table.INDEX_GENERATION_NOTE)
        # Without one, rows were numbered anew a moment ago.
        if generation != self._generation or not generation:
            self._tails.clear()
            self._generation = generation
        tails: list[InvertedIndex] = []
        uncounted: list[SearchTurn] = []
        changed: list[SearchTurn] = []
        for stats in seen.scopes:
            only = VisibleScopes((stats,))
            new, known = table.list_unindexed_keys(rows, stats.number)
            if len(new) > _MAX_TURNS:
                self._tails.pop(stats.number, None)
                uncounted += table.get_searchable(rows, only, new)
            elif new:
                tails.append(self._read_on(rows, only, new))
            else:
                self._tails.pop(stats.number, None)
            changed += table.get_searchable(rows, only, known)
        self._let_go(len(seen.scopes))
        return PendingIndexWork([tail for tail in tails if tail], uncounted, changed)

    def _read_on(self, rows: Connection, only: VisibleScopes, new: Sequence[int]) -> InvertedIndex:
        """Return a scope's tail with the turns that are new in it."""
        (scope,) = only.numbers
        tail = self._tails.pop(scope, None) or InvertedIndex()
        tail.add(table.get_searchable(rows, only, tail.retain_only(new)))
        self._tails[scope] = tail
        return tail

    def _let_go(self, asked: int) -> None:
        """Forget the tails that were not asked for longest, but none of those asked now."""
        turns = sum(map(len, self._tails.values()))
        while len(self._tails) > asked and (len(self._tails) > _MAX_SCOPES or turns > _MAX_TURNS):
            turns -= len(self._tails.popitem(last=False)[1])
