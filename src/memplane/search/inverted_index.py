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
        self._user_postings: dict[str, dict[int, int]] = {}
        """By a term, how often each turn has it in what was asked."""
        self._agent_postings: dict[str, dict[int, int]] = {}

    def __len__(self) -> int:
        return len(self._turns)

    def __contains__(self, key: int) -> bool:
        return key in self._turns

    def retain_only(self, keys: Collection[int]) -> list[int]:
        """Let go of all turns but these; returns those of them that are to be added."""
        if not self._turns.keys() <= {*keys}:
            turns = [self._turns[key] for key in keys if key in self._turns]
            for mapping in (self._turns, self._user_postings, self._agent_postings):
                mapping.clear()
            self.add(turns)
        return [key for key in keys if key not in self._turns]

    def add(self, turns: Iterable[SearchTurn]) -> None:
        """Take turns in."""
        for turn in turns:
            self._turns[turn.key] = turn
            for postings, counts in (
                (self._user_postings, turn.user_terms),
                (self._agent_postings, turn.agent_terms),
            ):
                for term, count in parse_counts(counts).items():
                    postings.setdefault(term, {})[turn.key] = count

    def count(self, term: str) -> int:
        """Return how many turns have a term."""
        user_postings, agent_postings = (
            self._user_postings.get(term),
            self._agent_postings.get(term),
        )
        if user_postings and agent_postings:
            return len(user_postings.keys() | agent_postings.keys())
        return len(user_postings or agent_postings or ())

    def find_turns(
        self, terms: Iterable[str]
    ) -> tuple[list[SearchTurn], Mapping[int, MatchedTermCounts]]:
        """Return the turns that have some of the terms, and what each has of them, by key."""
        matches: dict[int, tuple[dict[str, int], dict[str, int]]] = {}
        # In the order of the terms, as they stand in what is written down.
        for term in sorted(terms):
            for side, postings in enumerate((self._user_postings, self._agent_postings)):
                for key, count in postings.get(term, {}).items():
                    if key not in matches:
                        matches[key] = ({}, {})
                    matches[key][side][term] = count
        return [self._turns[key] for key in matches], matches
