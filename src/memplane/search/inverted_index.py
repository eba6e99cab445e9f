"""Turns that the text index has not taken in yet, by the terms that they have (pure).

A question looks up its own terms, so that what comes faster than it is indexed costs little.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from memplane.search.turn_terms import MatchedTermCounts, SearchTurn, parse_counts


class InvertedIndex:
    """Turns of one agent, each kept as long as it is among those that are named."""

    def __init__(self) -> None:
        self._turns: dict[int, SearchTurn] = {}
        self._asked: dict[str, dict[int, int]] = {}
        """By a term, how often each turn has it in what was asked."""
        self._told: dict[str, dict[int, int]] = {}

    def __len__(self) -> int:
        return len(self._turns)

    def __contains__(self, key: int) -> bool:
        return key in self._turns

    def keep(self, keys: Collection[int]) -> list[int]:
        """Let go of all turns but these; returns those of them that are to be added."""
        if not self._turns.keys() <= {*keys}:
            left = [self._turns[key] for key in keys if key in self._turns]
            for held in (self._turns, self._asked, self._told):
                held.clear()
            self.add(left)
        return [key for key in keys if key not in self._turns]

    def add(self, turns: Iterable[SearchTurn]) -> None:
        """Take turns in."""
        for turn in turns:
            self._turns[turn.key] = turn
            for having, written in ((self._asked, turn.asked), (self._told, turn.told)):
                for term, count in parse_counts(written).items():
                    having.setdefault(term, {})[turn.key] = count

    def count(self, term: str) -> int:
        """Return how many turns have a term."""
        asked, told = self._asked.get(term), self._told.get(term)
        if asked and told:
            return len(asked.keys() | told.keys())
        return len(asked or told or ())

    def having(
        self, terms: Iterable[str]
    ) -> tuple[list[SearchTurn], Mapping[int, MatchedTermCounts]]:
        """Return the turns that have some of the terms, and what each has of them, by key."""
        held: dict[int, tuple[dict[str, int], dict[str, int]]] = {}
        # In the order of the terms, as they stand in what is written down.
        for term in sorted(terms):
            for place, having in enumerate((self._asked, self._told)):
                for key, count in having.get(term, {}).items():
                    if key not in held:
                        held[key] = ({}, {})
                    held[key][place][term] = count
        return [self._turns[key] for key in held], held
