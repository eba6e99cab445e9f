"""The vectors of one scope in memory, compared with a question exactly (pure).

Every vector is compared, so which texts are found does not depend on the order in which they
arrived. Sums of products of stored vectors are whole numbers: 32-bit arithmetic holds them exactly
below 2**24, and longer vectors are compared in 64 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from memplane.search.embeddings.install_hint import missing_libraries_error

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BLOCK_ROWS: Final = 4096
_MAX_FLOAT32_DIMENSIONS: Final = 2**24 // 127**2


class VectorTable:
    """Vectors with the keys of their texts. Vectors of another length are kept out.

    Raises:
        EmbeddingUnavailable: numpy is not installed.
    """

    def __init__(self) -> None:
        try:
            import numpy as np
        except ImportError as error:
            raise missing_libraries_error() from error
        self._np = np
        self._dimensions = 0
        self._keys: NDArray[Any] = np.empty(0, np.int64)
        self._rows: NDArray[Any] = np.empty((0, 0), np.int8)
        self._lengths: NDArray[Any] = np.empty(0, np.float64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def size_bytes(self) -> int:
        """How much memory the table takes."""
        return int(self._rows.nbytes + self._keys.nbytes + self._lengths.nbytes)

    def add(self, vectors: Sequence[tuple[int, bytes]]) -> None:
        """Add vectors of texts that have none yet, by key."""
        np = self._np
        known = [(key, vector) for key, vector in vectors if self._fits(vector)]
        if not known:
            return
        end = self._count + len(known)
        if end > len(self._keys):
            self._grow(max(end, 2 * len(self._keys)))
        packed = b"".join(vector for _, vector in known)
        rows = np.frombuffer(packed, np.int8).reshape(-1, self._dimensions)
        self._rows[self._count : end] = rows
        self._keys[self._count : end] = [key for key, _ in known]
        wide = rows.astype(np.float64)
        self._lengths[self._count : end] = np.sqrt(np.einsum("ij,ij->i", wide, wide))
        self._count = end

    def _fits(self, vector: bytes) -> bool:
        if vector and not self._dimensions:
            self._dimensions = len(vector)
            self._rows = self._np.empty((0, len(vector)), self._np.int8)
        return bool(vector) and len(vector) == self._dimensions

    def _grow(self, rows: int) -> None:
        np = self._np
        added = rows - len(self._keys)
        self._keys = np.concatenate([self._keys, np.zeros(added, np.int64)])
        self._lengths = np.concatenate([self._lengths, np.ones(added, np.float64)])
        block = np.empty((added, self._dimensions), np.int8)
        self._rows = np.concatenate([self._rows, block])

    def compare(self, question: bytes) -> Similarities:
        """Return how similar every text is to a question."""
        np = self._np
        if len(question) != self._dimensions or not self._count:
            return Similarities(np.empty(0, np.int64), np.empty(0, np.float64))
        wide = np.float32 if self._dimensions <= _MAX_FLOAT32_DIMENSIONS else np.float64
        query = np.frombuffer(question, np.int8).astype(wide)
        products = np.empty(self._count, np.float64)
        for start in range(0, self._count, _BLOCK_ROWS):
            end = min(start + _BLOCK_ROWS, self._count)
            products[start:end] = self._rows[start:end].astype(wide) @ query
        length = float(np.sqrt(query.astype(np.float64) @ query.astype(np.float64)))
        cosines = products / np.maximum(self._lengths[: self._count] * length, 1.0)
        return Similarities(self._keys[: self._count], cosines.clip(0.0, 1.0))


class Similarities:
    """How similar texts are to a question, from 0 to 1, by key."""

    def __init__(self, keys: NDArray[Any], cosines: NDArray[Any]) -> None:
        self._keys = keys
        self._cosines = cosines

    def find_best(self, count: int) -> dict[int, float]:
        """Return the most similar texts, and all that are as similar as the last of them."""
        import numpy as np

        if not len(self._keys) or count < 1:
            return {}
        places = np.arange(len(self._keys))
        if count < len(self._keys):
            last = np.partition(self._cosines, -count)[-count]
            places = np.flatnonzero(self._cosines >= last)
        return self._take(places)

    def get(self, keys: Iterable[int]) -> dict[int, float]:
        """Return how similar those texts are that have a vector."""
        import numpy as np

        wanted = np.array(sorted(set(keys)), np.int64)
        return self._take(np.flatnonzero(np.isin(self._keys, wanted)))

    def _take(self, places: NDArray[Any]) -> dict[int, float]:
        keys, cosines = self._keys[places].tolist(), self._cosines[places].tolist()
        return dict(zip(keys, cosines, strict=True))
