"""The vectors of scopes that were asked lately, kept from one question to the next.

What was added since is read before each question. A scope that has lost an episode is read again.
Where rows are numbered anew nothing of what was kept is used.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from memplane.database.interface import Connection
from memplane.episodes import store as table
from memplane.episodes.scope_store import ScopeNumber, ScopeStats, VisibleScopes
from memplane.search.embeddings.vector_table import Similarities, VectorTable

_MAX_CACHE_BYTES: Final = 512 << 20

_CacheKey: TypeAlias = tuple[ScopeNumber, str]


@dataclass(slots=True)
class _CachedScope:
    removals: int
    last_added: int = 0
    vectors: VectorTable = field(default_factory=VectorTable)


class VectorCache:
    """Compares questions with all vectors of the visible scopes; one thread at a time may ask."""

    def __init__(self, max_bytes: int = _MAX_CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._generation = ""
        self._scopes: OrderedDict[_CacheKey, _CachedScope] = OrderedDict()

    def compare(
        self, rows: Connection, seen: VisibleScopes, model: str, question: bytes
    ) -> SimilarTurns:
        """Compare a question's vector of a model with every visible turn that has one."""
        generation = table.get_note(rows, table.INDEX_GENERATION_NOTE)
        # Without one, rows were numbered anew a moment ago.
        if generation != self._generation or not generation:
            self._scopes.clear()
            self._generation = generation
        found = [
            self._update(rows, scope, model).vectors.compare(question) for scope in seen.scopes
        ]
        self._evict(len(seen.scopes))
        return SimilarTurns(found)

    def _update(self, rows: Connection, scope: ScopeStats, model: str) -> _CachedScope:
        """Return a scope's vectors as they are in a transaction."""
        cached = self._scopes.pop((scope.number, model), None)
        if cached is None or cached.removals != scope.removals:
            cached = _CachedScope(scope.removals)
        added = table.list_vectors(rows, scope.number, model, cached.last_added)
        if added:
            cached.vectors.add([(vector.key, vector.vector) for vector in added])
            cached.last_added = added[-1].added
        self._scopes[scope.number, model] = cached
        return cached

    def _evict(self, kept: int) -> None:
        """Drop what was not asked for longest, but nothing of the last question."""
        size = sum(cached.vectors.size_bytes for cached in self._scopes.values())
        while size > self._max_bytes and len(self._scopes) > kept:
            size -= self._scopes.popitem(last=False)[1].vectors.size_bytes


class SimilarTurns:
    """How similar the turns of several scopes are to a question, from 0 to 1."""

    def __init__(self, scopes: Iterable[Similarities]) -> None:
        self._scopes = list(scopes)

    def find_best(self, count: int) -> dict[int, float]:
        """Return the most similar turns, and all that are as similar as the last of them."""
        best = {
            key: cosine for scope in self._scopes for key, cosine in scope.find_best(count).items()
        }
        if len(best) <= count:
            return best
        least = sorted(best.values(), reverse=True)[count - 1]
        return {key: cosine for key, cosine in best.items() if cosine >= least}

    def get(self, keys: Iterable[int]) -> dict[int, float]:
        """Return how similar those turns are that have a vector."""
        wanted = list(keys)
        return {key: cosine for scope in self._scopes for key, cosine in scope.get(wanted).items()}
