"""What to say when the libraries for vectors are not there (pure)."""

from __future__ import annotations

from memplane.errors import EmbeddingUnavailable


def missing_libraries_error() -> EmbeddingUnavailable:
    """Make the error that says how to install them."""
    return EmbeddingUnavailable(
        "vectors need libraries that are not installed: pip install 'memplane[semantic]'"
    )
