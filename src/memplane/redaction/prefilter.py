"""One pass over a text that says which rules are worth running."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import ahocorasick_rs

_BLOCK_BYTES: Final = 1 << 15
_MAX_BLOCK_HITS: Final = 1 << 10


class Prefilter:
    """Finds which of many literals occur in a text, whatever their case.

    Args:
        literals: For each name, the literals that announce it, in lower case.
    """

    __slots__ = ("_automaton", "_literals", "_max_literal_bytes", "_names")

    def __init__(self, literals: Mapping[int, Sequence[str]]) -> None:
        announces: dict[bytes, set[int]] = {}
        for name, several in literals.items():
            for literal in several:
                announces.setdefault(literal.encode(), set()).add(name)
        self._literals = list(announces)
        self._names = list(announces.values())
        self._max_literal_bytes = max(map(len, self._literals))
        self._automaton = _automaton(self._literals)

    def find_candidates(self, data: bytes) -> set[int]:
        """Return the names that a literal in the text announces."""
        view = memoryview(data.lower())
        automaton, names = self._automaton, self._names
        candidates: set[int] = set()
        for start in range(0, len(view), _BLOCK_BYTES):
            block = view[start : start + _BLOCK_BYTES + self._max_literal_bytes]
            hits = automaton.find_matches_as_indexes(block, overlapping=True)
            for literal in {index for index, _, _ in hits}:
                candidates |= names[literal]
            if len(hits) > _MAX_BLOCK_HITS:
                # A text that is nothing but one literal would cost a tuple for each.
                automaton, names = self._without(candidates)
        return candidates

    def _without(
        self, candidates: set[int]
    ) -> tuple[ahocorasick_rs.BytesAhoCorasick, list[set[int]]]:
        remaining = [
            (literal, names)
            for literal, names in zip(self._literals, self._names, strict=True)
            if not names <= candidates
        ]
        return _automaton([literal for literal, _ in remaining]), [names for _, names in remaining]


def _automaton(literals: Sequence[bytes]) -> ahocorasick_rs.BytesAhoCorasick:
    return ahocorasick_rs.BytesAhoCorasick(
        literals,
        ahocorasick_rs.MatchKind.Standard,
        ahocorasick_rs.Implementation.DFA,
    )
