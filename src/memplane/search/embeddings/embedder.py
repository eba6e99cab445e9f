"""What turns texts into vectors (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Embedder(Protocol):
    """Gives texts vectors; texts that mean the same point the same way."""

    @property
    def name(self) -> str:
        """The model and its version. Vectors of different names cannot be compared."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return a stored vector for each text, in their order; b"" for one that has none.

        Equal texts have equal vectors, whatever stands beside them. Of a long text only the
        beginning counts. Large batches take long and cannot be stopped half-way.

        Raises:
            EmbeddingUnavailable: It cannot be done now, and why.
        """
        ...

    async def close(self) -> None:
        """Let go of memory and connections. It may be called twice; `embed` raises after it."""
        ...
