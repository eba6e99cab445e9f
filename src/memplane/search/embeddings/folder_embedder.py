"""A model that the user keeps in a folder. Nothing is ever fetched."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from memplane.errors import EmbeddingUnavailable
from memplane.search.embeddings.lazy_model import EmbeddingModel, LazyModel
from memplane.search.embeddings.onnx_encoder import load_encoder
from memplane.search.embeddings.token_table import load_table

_TOKENIZER_FILE: Final = "tokenizer.json"
_ENCODER_FILE: Final = "model.onnx"
_TABLE_FILE: Final = "model.safetensors"
_SAMPLE_BYTES: Final = 1 << 20
_DIGEST_DIGITS: Final = 8


class FolderEmbedder:
    """Keeps the Embedder contract with the model in a folder.

    The folder holds `tokenizer.json`, and either `model.onnx`, an encoder, or
    `model.safetensors`, a table with a row for each token. With both, the encoder is used. The
    files must stay as they are while they are used, as the name is made from them.

    Raises:
        EmbeddingUnavailable: The folder does not hold these files.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._name = _name_of(path)
        self._model = LazyModel(self._load)

    @property
    def name(self) -> str:
        return self._name

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        return await self._model.embed(texts)

    async def close(self) -> None:
        self._model.close()

    def _load(self) -> EmbeddingModel:
        model = _model_in(self._path)
        load = load_encoder if model.name == _ENCODER_FILE else load_table
        loaded = load(model, self._path / _TOKENIZER_FILE)
        if _name_of(self._path) != self._name:
            raise EmbeddingUnavailable(f"the model in {self._path} is not the one it was; restart")
        return loaded


def _model_in(path: Path) -> Path:
    for name in (_ENCODER_FILE, _TABLE_FILE):
        if (path / name).is_file():
            return path / name
    raise EmbeddingUnavailable(f"{path} holds neither {_ENCODER_FILE} nor {_TABLE_FILE}")


def _name_of(path: Path) -> str:
    digest = hashlib.sha256()
    for file in (_model_in(path), path / _TOKENIZER_FILE):
        digest.update(_sample(file))
    return f"folder:{path.resolve().name}:{digest.hexdigest()[:_DIGEST_DIGITS]}"


def _sample(path: Path) -> bytes:
    """Return a file's name and size, its beginning and its end: enough to tell it from others."""
    try:
        with path.open("rb") as file:
            head = file.read(_SAMPLE_BYTES)
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _SAMPLE_BYTES))
            return f"{path.name} {size}\n".encode() + head + file.read(_SAMPLE_BYTES)
    except OSError as error:
        raise EmbeddingUnavailable(f"{path} cannot be read: {error}") from error
