"""Static embeddings: a row of a table for each token, and a text is the mean of its rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from memplane.errors import EmbeddingUnavailable
from memplane.search.embeddings.install_hint import missing_libraries_error
from memplane.search.embeddings.text_limit import truncate_for_embedding
from memplane.search.embeddings.vectors import quantize_vector

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

_TABLE_NAMES: Final = frozenset(
    {"embeddings", "embedding", "embeddings.weight", "embedding.weight"}
)
_ROW_MAPPING_NAME: Final = (
    "mapping"  # model2vec's names: the row of each token where tokens share rows,
)
_WEIGHTS_NAME: Final = "weights"  # and how much each token counts
_MATRIX_DIMENSIONS: Final = 2


@dataclass(frozen=True, slots=True)
class TokenTable:
    """A table with the tokenizer whose tokens its rows are for."""

    tokenizer: Tokenizer
    rows: NDArray[Any]
    unknown: int | None
    row_of: NDArray[Any] | None = None
    weight_of: NDArray[Any] | None = None

    def vectors(self, texts: Sequence[str]) -> list[bytes]:
        """Return a stored vector for each text; b"" for one without a token that is known."""
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> bytes:
        if text.isspace():
            return b""
        encoded = self.tokenizer.encode(truncate_for_embedding(text), add_special_tokens=False)
        # Texts in a script that the table does not know are not alike for that.
        ids = [vocabulary_id for vocabulary_id in encoded.ids if vocabulary_id != self.unknown]
        if not ids:
            return b""
        rows = self.rows[ids if self.row_of is None else self.row_of[ids]]
        if self.weight_of is not None:
            rows = rows * self.weight_of[ids, None]
        return quantize_vector(rows.mean(axis=0))


def load_table(model: Path, tokenizer: Path) -> TokenTable:
    """Load a table and its tokenizer from files.

    Raises:
        EmbeddingUnavailable: The libraries are not installed, or the files are not what they
            should be.
    """
    try:
        import numpy as np
    except ImportError as error:
        raise missing_libraries_error("models") from error
    tensors = _tensors(model)
    reader = load_tokenizer(tokenizer)
    reader.no_padding()
    reader.no_truncation()
    row_of, weight_of = tensors.get(_ROW_MAPPING_NAME), tensors.get(_WEIGHTS_NAME)
    table = TokenTable(
        reader,
        tensors["rows"].astype(np.float32),
        _unknown(reader),
        row_of=None if row_of is None else row_of.astype(np.int64),
        weight_of=None if weight_of is None else weight_of.astype(np.float32),
    )
    _check(table, model)
    return table


def load_tokenizer(path: Path) -> Tokenizer:
    """Load a tokenizer from its file.

    Raises:
        EmbeddingUnavailable: The libraries are not installed, or the file is no tokenizer.
    """
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise missing_libraries_error("models") from error
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more particular
        raise EmbeddingUnavailable(f"{path} is no tokenizer: {error}") from error


class _Slice(Protocol):
    def get_shape(self) -> list[int]: ...


class _Tensors(Protocol):
    """What the library's types leave out."""

    def keys(self) -> list[str]: ...
    def get_slice(self, name: str) -> _Slice: ...
    def get_tensor(self, name: str) -> NDArray[Any]: ...


def _tensors(path: Path) -> dict[str, NDArray[Any]]:
    """Read the table as `rows`, and what stands beside it; nothing else is read."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise missing_libraries_error("models") from error
    try:
        opener = cast("AbstractContextManager[_Tensors]", safe_open(str(path), framework="np"))
        with opener as file:
            names = file.keys()
            name = _table_among({name_: len(file.get_slice(name_).get_shape()) for name_ in names})
            if name is None:
                raise EmbeddingUnavailable(f"{path} holds no table with a row for each token")
            extra_names = {_ROW_MAPPING_NAME, _WEIGHTS_NAME}.intersection(names)
            return {
                "rows": file.get_tensor(name),
                **{name_: file.get_tensor(name_) for name_ in extra_names},
            }
    except (SafetensorError, OSError, TypeError, AttributeError) as error:
        raise EmbeddingUnavailable(f"{path} cannot be read: {error}") from error


def _table_among(ranks: dict[str, int]) -> str | None:
    """Pick the one matrix there is, or the one that is named like a table of embeddings."""
    matrices = [name for name, rank in ranks.items() if rank == _MATRIX_DIMENSIONS]
    named = [name for name in matrices if name in _TABLE_NAMES]
    likely = named or matrices
    return likely[0] if len(likely) == 1 else None


def _unknown(tokenizer: Tokenizer) -> int | None:
    """Return the token that stands for all that the tokenizer does not know."""
    model: dict[str, Any] = json.loads(tokenizer.to_str())["model"]
    named, number = model.get("unk_token"), model.get("unk_id")
    return tokenizer.token_to_id(named) if isinstance(named, str) else number


def _check(table: TokenTable, path: Path) -> None:
    last = max(table.tokenizer.get_vocab().values(), default=-1)
    known = [len(array) for array in (table.row_of, table.weight_of) if array is not None]
    if table.row_of is None:
        known.append(len(table.rows))
    elif not len(table.row_of) or not 0 <= table.row_of.min() <= table.row_of.max() < len(
        table.rows
    ):
        raise EmbeddingUnavailable(f"{path} maps tokens to rows that it does not have")
    if last >= min(known):
        raise EmbeddingUnavailable(
            f"{path} has {min(known)} rows, and its tokenizer knows {last + 1} tokens"
        )
