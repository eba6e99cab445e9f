"""The error for libraries that embeddings need and that are not installed (pure)."""

from __future__ import annotations

from memplane.errors import EmbeddingUnavailable


def missing_libraries_error(extra: str = "semantic") -> EmbeddingUnavailable:
    """Make the error that says how to install them."""
    return EmbeddingUnavailable(
        f"embeddings need libraries that are not installed: pip install 'memplane[{extra}]'"
    )
