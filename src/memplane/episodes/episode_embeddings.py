"""Vectors of turns and questions, where somebody wants them: what is alike in meaning.

Vectors are made behind the verbs, from the database, and made again for another model: what has
none yet is ranked by its words alone. A question that cannot be compared in time is not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from memplane.database.interface import Connection, RecordStore
from memplane.episodes import store as table
from memplane.episodes.scope_store import VisibleScopes
from memplane.errors import TextRefused
from memplane.search.embeddings.embedder import Embedder
from memplane.search.embeddings.vectors import compute_similarities

_log = logging.getLogger(__name__)

_BATCH_TEXTS: Final = 64
_QUERY_DEADLINE_S: Final = 0.15
_MIN_BATCH_TO_JUDGE_MODEL: Final = 8


class EpisodeEmbeddings:
    """Gives the episodes of all agents their vectors, and compares questions with them."""

    def __init__(self, records: RecordStore, embedder: Embedder) -> None:
        self._records = records
        self._embedder = embedder
        self._done = 0

    async def warm(self) -> None:
        """Let the model be loaded, or the first question would not wait for it.

        Raises:
            EmbeddingUnavailable: It cannot be had now.
        """
        await self._embedder.embed(["memory"])

    async def embed_pending(self) -> bool:
        """Give some episodes that have none their vectors; says whether there were any.

        Raises:
            EmbeddingUnavailable: It cannot be done now. What was done is kept.
        """
        model = self._embedder.name
        found = await self._records.read(
            lambda rows: table.list_unembedded(rows, model, self._done, _BATCH_TEXTS), patient=True
        )
        if not found:
            return False
        vectors = await self._vectors_of([one.text for one in found])
        if len(found) >= _MIN_BATCH_TO_JUDGE_MODEL and all(vector is None for vector in vectors):
            raise TextRefused("the model takes none of the texts; is it the right one?")
        made = [(one, vector or b"") for one, vector in zip(found, vectors, strict=True)]
        await self._records.write(lambda rows: table.insert_vectors(rows, model, made))
        self._done = found[-1].key
        return True

    async def _vectors_of(self, texts: Sequence[str]) -> list[bytes | None]:
        """Return a vector for each text; None for one that the model will not take."""
        try:
            return [*await self._embedder.embed(texts)]
        except TextRefused:
            if len(texts) == 1:
                return [None]
            half = len(texts) // 2
            return [*await self._vectors_of(texts[:half]), *await self._vectors_of(texts[half:])]

    def look_again(self) -> None:
        """Begin at the first episode next time: rows were numbered anew, or came back."""
        self._done = 0

    async def left(self) -> int:
        """Count the episodes that have no vector yet."""
        model = self._embedder.name
        return await self._records.read(
            lambda rows: table.count_unembedded(rows, model), patient=True
        )

    async def question(self, text: str) -> EmbeddedQuery | None:
        """Return the vector of a question; None when it cannot be had in time."""
        try:
            async with asyncio.timeout(_QUERY_DEADLINE_S):
                (vector,) = await self._embedder.embed([text])
        except Exception as error:  # noqa: BLE001 - a model may raise anything; words will do
            _log.info("a question is not compared by meaning: %r", error)
            return None
        return EmbeddedQuery(self._embedder.name, vector) if vector else None

    async def close(self) -> None:
        """Let go of the model."""
        await self._embedder.close()


class EmbeddedQuery:
    """The vector of a question, and of which model it is."""

    def __init__(self, model: str, vector: bytes) -> None:
        self.model = model
        self.vector = vector

    def likeness(self, rows: Connection, seen: VisibleScopes, keys: list[int]) -> dict[int, float]:
        """Return how alike turns are to the question, from 0 to 1; those with vectors only."""
        found = table.get_vectors(rows, seen, self.model, keys)
        alike = compute_similarities(self.vector, list(found.values()))
        return dict(zip(found, alike, strict=True))
