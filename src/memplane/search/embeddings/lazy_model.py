"""Models that are loaded when the first text comes, and work in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from memplane.errors import EmbeddingUnavailable


class EmbeddingModel(Protocol):
    """A model that is loaded; any thread may use it."""

    def vectors(self, texts: Sequence[str]) -> list[bytes]:
        """Return a stored vector for each text. It blocks."""
        ...


class LazyModel:
    """Loads a model once, however many ask at a time; after a failure the next one tries again."""

    def __init__(self, load: Callable[[], EmbeddingModel]) -> None:
        self._load = load
        self._loading = threading.Lock()
        self._model: EmbeddingModel | None = None
        self._is_closed = False

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return a stored vector for each text, as `Embedder.embed` does."""
        if self._is_closed:
            raise EmbeddingUnavailable("the embedder is closed")
        return await asyncio.to_thread(self._embed, tuple(texts)) if texts else []

    def _embed(self, texts: Sequence[str]) -> list[bytes]:
        with self._loading:
            model = self._model = self._model or self._load()
        return model.vectors(texts)

    def close(self) -> None:
        """Let go of the model; who is at work with it may finish."""
        self._is_closed = True
        self._model = None
