"""The embedding model that comes with memplane: all-MiniLM-L6-v2 with 8-bit weights.

Its file is made when memplane is built, from pinned weights (`tools/build-model`). Nothing is
downloaded when it is used.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from memplane.errors import EmbeddingUnavailable
from memplane.search.embeddings.lazy_model import LazyModel
from memplane.search.embeddings.onnx_encoder import OnnxSession, open_session
from memplane.search.embeddings.text_limit import truncate_for_embedding
from memplane.search.embeddings.vectors import compute_similarities, quantize_vector
from memplane.search.embeddings.wordpiece import WordPieceTokenizer

if TYPE_CHECKING:
    from numpy.typing import NDArray

MODEL_FOLDER: Final = Path(__file__).parent / "model"
MODEL_FILE: Final = MODEL_FOLDER / "model.onnx"
VOCABULARY_FILE: Final = MODEL_FOLDER / "vocabulary.txt"
_MODEL_CHECKSUM: Final = "cbf5e6261f8c4987bce01841ee3697863cc0019e56fb1358d10a7c52d2ea87ec"
_NAME: Final = f"all-MiniLM-L6-v2-{_MODEL_CHECKSUM[:8]}"
_MAX_TOKENS: Final = 256
_LIBRARIES: Final = ("numpy", "onnxruntime")

# What the model computes in 32-bit arithmetic for a text. A processor that saturates in 8-bit
# products is found by it.
_SAMPLE_TEXT: Final = (
    "The staging database listens on port 5433, and the backup runs every night at half past two."
)
_SAMPLE_VECTOR: Final = (
    "Es/P0xjLpcgE5doyJcAF7QHLPAui7hMCIA0sKsjX5g3vHScaB/PSHEXf7Eyy8sQSEQ74+vlcDUMBOvQtJSzJ3gz/"
    "5BM3m74iBN0nOyft9NrQ9dcx8PIAIQ7s++DQJ+UZ/0F60yHjHxDGuO/zBwbtIislSjLZMcH7/xdEyeFCQQAP/SjF"
    "RPLcCPtC2ATSxdT/F0/v7RH55NpJFzNSTQ3tze7rTSLiFa8c+vPC7fDqCuI4IvLr5QEGIALNFSFUFPftEPYJzkE+"
    "Ed8N5vvR/0YiNO/anA0aIe3c2SLs1z/o+QDvxAP+0L7SOt8rDP4QAN3NWMroOAkSChK2Cx0jBMwP8OcFswAASAr9"
    "/Q7HB61W+B32Aynm/CUhGgNIClVD1+nn/T0VDPkgBzfNROz7g+YKL9vSw+0J7PwcDwAH8oEn5QAAEyoA47pUATn9"
    "AO0OChzTIdLw/eDtJ+s/ERtC4eA3+eO00RYZBRwXDcD+++f//AHu2Ri6RwVhHAQD8jQGI+r1"
)
_MIN_SAMPLE_SIMILARITY: Final = 0.98


def is_available() -> bool:
    """Tell whether the model and the libraries that it needs are installed."""
    return (
        MODEL_FILE.is_file()
        and VOCABULARY_FILE.is_file()
        and all(find_spec(library) is not None for library in _LIBRARIES)
    )


class MiniLmEmbedder:
    """Keeps the Embedder contract with the model that comes with memplane.

    It takes some 60 MB from the first text on.
    """

    def __init__(self, model: Path = MODEL_FILE, vocabulary: Path = VOCABULARY_FILE) -> None:
        self._files = model, vocabulary
        self._model = LazyModel(self._load)

    @property
    def name(self) -> str:
        return _NAME

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        return await self._model.embed(texts)

    async def close(self) -> None:
        self._model.close()

    def _load(self) -> _Encoder:
        model, vocabulary = self._files
        try:
            tokens = vocabulary.read_text("utf-8").split("\n")[:-1]
            checksum = hashlib.sha256(model.read_bytes()).hexdigest()
        except OSError as error:
            raise EmbeddingUnavailable(
                f"the model cannot be read: {error}; run `make assets`, or install memplane again"
            ) from error
        if checksum != _MODEL_CHECKSUM:
            raise EmbeddingUnavailable(
                f"{model} is not the file that {_NAME} stands for; run `make assets`, or install "
                "memplane again"
            )
        tokenizer = WordPieceTokenizer(tokens, max_tokens=_MAX_TOKENS)
        encoder = _Encoder(open_session(model), tokenizer)
        _check_arithmetic(encoder)
        return encoder


class _Encoder:
    """Encodes texts one by one, so that no text changes another one's vector."""

    def __init__(self, session: OnnxSession, tokenizer: WordPieceTokenizer) -> None:
        self._session = session
        self._tokenizer = tokenizer

    def vectors(self, texts: Sequence[str]) -> list[bytes]:
        return [self._embed_text(text) for text in texts]

    def _embed_text(self, text: str) -> bytes:
        import numpy as np

        if not text.strip():
            return b""
        ids = np.array(self._tokenizer.encode(truncate_for_embedding(text)), np.int64)
        try:
            (states,) = self._session.run(None, {"input_ids": ids})
        except Exception as error:  # each of the library's errors is a class of its own
            raise EmbeddingUnavailable(f"the model failed: {error}") from error
        return quantize_vector(cast("NDArray[Any]", states).mean(axis=0))


def _check_arithmetic(encoder: _Encoder) -> None:
    """Compare one vector with what it has to be.

    Raises:
        EmbeddingUnavailable: This processor computes something else.
    """
    (vector,) = encoder.vectors([_SAMPLE_TEXT])
    (similarity,) = compute_similarities(vector, [base64.b64decode(_SAMPLE_VECTOR)])
    if similarity < _MIN_SAMPLE_SIMILARITY:
        raise EmbeddingUnavailable(
            f"this processor computes other vectors than {_NAME} has (similarity "
            f"{similarity:.2f}); recall works by words"
        )
