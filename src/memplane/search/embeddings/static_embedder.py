"""The static embeddings that the `wordllama` package carries, without running any of its code."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from memplane.errors import EmbeddingUnavailable
from memplane.search.embeddings.install_hint import missing_libraries_error
from memplane.search.embeddings.lazy_model import LazyModel
from memplane.search.embeddings.token_table import TokenTable, load_table

_MODEL_NAME: Final = "wordllama-l2-supercat-256"
_TABLE_FILE: Final = "weights/l2_supercat_256.safetensors"
_TOKENIZER_FILE: Final = "tokenizers/l2_supercat_tokenizer_config.json"
# The name promises vectors that can be compared, so it stands for these very bytes.
_CHECKSUMS: Final = {
    _TABLE_FILE: "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
    _TOKENIZER_FILE: "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
}


class StaticEmbedder:
    """Keeps the Embedder contract with a table of 32,000 tokens and 256 dimensions.

    It takes 32 MB from the first text on.
    """

    def __init__(self) -> None:
        self._model = LazyModel(_load)

    @property
    def name(self) -> str:
        return _MODEL_NAME

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        return await self._model.embed(texts)

    async def close(self) -> None:
        self._model.close()


def _load() -> TokenTable:
    package = _package()
    for path, expected in _CHECKSUMS.items():
        if _checksum(package / path) != expected:
            raise EmbeddingUnavailable(
                f"the installed wordllama has not the {path} that {_MODEL_NAME} stands for; "
                "install a version that has: pip install 'memplane[semantic]'"
            )
    return load_table(package / _TABLE_FILE, package / _TOKENIZER_FILE)


def _package() -> Path:
    # The package is found and not imported: its own code wants much more than the two files.
    spec = find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise missing_libraries_error()
    return Path(spec.submodule_search_locations[0])


def _checksum(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise EmbeddingUnavailable(f"{path} cannot be read: {error}") from error
