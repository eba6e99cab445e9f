"""Embeddings of turns and questions, by which recall finds what means the same.

Turns are embedded in the background, from the database, and again for another model: what has no
vector yet is found by its words alone. So is a question that cannot be embedded in time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from memplane.database.interface import Connection, RecordStore
from memplane.episodes import store as table
from memplane.episodes.scope_store import VisibleScopes
from memplane.episodes.vector_cache import SimilarTurns, VectorCache
from memplane.errors import TextRefused
from memplane.search.embeddings.embedder import Embedder
from memplane.search.turn_terms import extract_speaker

_log = logging.getLogger(__name__)

_BATCH_TEXTS: Final = 64
_QUERY_DEADLINE_S: Final = 0.15
_PATIENCE_S: Final = 3.0
_MIN_BATCH_TO_JUDGE_MODEL: Final = 8
_MAX_REPLY_CHARS: Final = 300


class EpisodeEmbeddings:
    """Gives the episodes of all agents their vectors, and compares questions with them.

    Who is patient waits for the model and for turns that have no vector yet: a command that asks
    once has nothing else to do.
    """

    def __init__(
        self, records: RecordStore, embedder: Embedder, *, is_patient: bool = False
    ) -> None:
        self._records = records
        self._embedder = embedder
        self._is_patient = is_patient
        self._embedding = asyncio.Lock()
        self._done = 0
        self._cache = VectorCache()

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
        async with self._embedding:
            return await self._embed_batch()

    async def _embed_batch(self) -> bool:
        model = self._embedder.name
        found = await self._records.read(
            lambda rows: table.list_unembedded(rows, model, self._done, _BATCH_TEXTS), patient=True
        )
        if not found:
            return False
        vectors = await self._vectors_of(
            [text_to_embed(one.question, one.answer) for one in found]
        )
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
            if self._is_patient:
                await self._catch_up()
            async with asyncio.timeout(_PATIENCE_S if self._is_patient else _QUERY_DEADLINE_S):
                (vector,) = await self._embedder.embed([text])
        except Exception as error:  # noqa: BLE001 - a model may raise anything; words will do
            _log.info("a question is not compared by meaning: %r", error)
            return None
        return EmbeddedQuery(self._embedder.name, vector, self._cache) if vector else None

    async def _catch_up(self) -> None:
        """Give turns their vectors first, as long as that does not take too long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                while await self.embed_pending():
                    pass

    async def close(self) -> None:
        """Let go of the model."""
        await self._embedder.close()


class EmbeddedQuery:
    """The vector of a question, of which model it is, and the vectors to compare it with."""

    def __init__(self, model: str, vector: bytes, cache: VectorCache) -> None:
        self.model = model
        self.vector = vector
        self._cache = cache

    def compare(self, rows: Connection, seen: VisibleScopes) -> SimilarTurns:
        """Compare the question with every visible turn that has a vector."""
        return self._cache.compare(rows, seen, self.model, self.vector)


def text_to_embed(question: str, answer: str) -> str:
    """Return what a turn's vector is of: the user's words and the beginning of the reply.

    Where programs record what several people say, the reply has a speaker's name before it, and
    is all that was said in this turn.
    """
    if not question.strip() or extract_speaker(answer):
        return answer
    return f"{question}\n{answer[:_MAX_REPLY_CHARS]}"
