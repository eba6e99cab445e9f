"""Vectors as they are stored, and how alike two of them are (pure).

A stored vector is a signed byte for each dimension. Sums of their products are whole numbers that
are computed exactly, so a similarity does not depend on what else is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from memplane.errors import EmbeddingUnavailable
from memplane.search.embeddings.install_hint import missing_libraries_error

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAX_COMPONENT: Final = 127


def quantize_vector(vector: Sequence[float] | NDArray[Any]) -> bytes:
    """Write a vector as bytes, scaled so that its largest component is 127 or -127.

    Its length is lost, as only directions are compared. Zeros have none, and become b"".

    Raises:
        EmbeddingUnavailable: A component is not finite, or the libraries are not installed.
    """
    try:
        import numpy as np
    except ImportError as error:
        raise missing_libraries_error() from error
    components = np.asarray(vector, dtype=np.float64)
    largest = np.abs(components).max(initial=0.0)
    if not np.isfinite(largest):
        raise EmbeddingUnavailable("the model gave a vector with numbers that are not finite")
    if largest == 0.0:
        return b""
    scaled: NDArray[Any] = np.rint(components / largest * _MAX_COMPONENT)
    return scaled.astype(np.int8).tobytes()


def compute_similarities(question: bytes, others: Sequence[bytes]) -> list[float]:
    """Return for each of the others how alike it is to the question, from 0 to 1.

    It is the cosine, and 0 where that is negative. What has another number of dimensions, or none,
    is not alike at all.

    Raises:
        EmbeddingUnavailable: The libraries are not installed.
    """
    try:
        import numpy as np
    except ImportError as error:
        raise missing_libraries_error() from error
    size = len(question)
    similarities = [0.0] * len(others)
    indexes = [index for index, other in enumerate(others) if len(other) == size]
    if not size or not indexes:
        return similarities
    packed = b"".join([others[index] for index in indexes])
    query_vector = np.frombuffer(question, np.int8).astype(np.float64)
    table = np.frombuffer(packed, np.int8).reshape(-1, size).astype(np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", table, table) * (query_vector @ query_vector))
    cosines = table @ query_vector / np.maximum(lengths, 1.0)  # only zeros are shorter than 1
    for index, cosine in zip(indexes, cosines.clip(0.0, 1.0).tolist(), strict=True):
        similarities[index] = cosine
    return similarities
