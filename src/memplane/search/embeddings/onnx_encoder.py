"""Encoders in ONNX files, run by `onnxruntime`, which is the user's to install."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from memplane.errors import EmbeddingUnavailable
from memplane.search.embeddings.text_limit import truncate_for_embedding
from memplane.search.embeddings.token_table import load_tokenizer
from memplane.search.embeddings.vectors import quantize_vector

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tokenizers import Encoding, Tokenizer

_NO_TELEMETRY: Final = "ORT_DISABLE_TELEMETRY"
_MAX_TOKENS: Final = 512  # where the tokenizer's file names no limit
_INPUTS: Final = frozenset({"input_ids", "attention_mask", "token_type_ids"})
# The best first. `pooler_output` is none of them: it was trained for something else.
_OUTPUTS: Final = ("sentence_embedding", "last_hidden_state", "token_embeddings")
_SENTENCE_DIMENSIONS: Final = 2
_WORD_LEVEL_RANK: Final = 3


class _NodeInfo(Protocol):
    name: str
    type: str


class OnnxSession(Protocol):
    """What we use of the library, which has no types."""

    def get_inputs(self) -> Sequence[_NodeInfo]: ...
    def get_outputs(self) -> Sequence[_NodeInfo]: ...
    def run(
        self, names: Sequence[str] | None, inputs: Mapping[str, NDArray[Any]]
    ) -> list[Any]: ...


class OnnxEncoder:
    """An encoder; the vector of a text is the mean of its tokens', or what the model says."""

    def __init__(self, session: OnnxSession, tokenizer: Tokenizer, output: str) -> None:
        self._session = session
        self._tokenizer = tokenizer
        self._output = output

    def vectors(self, texts: Sequence[str]) -> list[bytes]:
        """Return a stored vector for each text.

        They are encoded one by one: nothing is padded, so no text changes another's vector.

        Raises:
            EmbeddingUnavailable: The model failed, or its answer is no vector.
        """
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> bytes:
        encoded = self._tokenizer.encode(truncate_for_embedding(text))
        if all(encoded.special_tokens_mask):
            return b""
        try:
            (output,) = self._session.run([self._output], self._build_inputs(encoded))
        except Exception as error:  # each of the library's errors is a class of its own
            raise EmbeddingUnavailable(f"the model failed: {error}") from error
        array = cast("NDArray[Any]", output)
        if array.ndim == _WORD_LEVEL_RANK and array.shape[:2] == (1, len(encoded.ids)):
            return quantize_vector(array[0].mean(axis=0))
        if array.ndim == _SENTENCE_DIMENSIONS and len(array) == 1:
            return quantize_vector(array[0])
        raise EmbeddingUnavailable(f"the model's {self._output} has the shape {array.shape}")

    def _build_inputs(self, encoded: Encoding) -> dict[str, NDArray[Any]]:
        import numpy as np

        known = {
            "input_ids": encoded.ids,
            "attention_mask": encoded.attention_mask,
            "token_type_ids": encoded.type_ids,
        }
        return {
            model_input.name: np.array(
                [known[model_input.name]],
                np.int32 if model_input.type == "tensor(int32)" else np.int64,
            )
            for model_input in self._session.get_inputs()
        }


def load_encoder(model: Path, tokenizer: Path) -> OnnxEncoder:
    """Load an encoder and its tokenizer from files.

    Raises:
        EmbeddingUnavailable: The libraries are not installed, or the files are not what they
            should be.
    """
    reader = load_tokenizer(tokenizer)
    reader.no_padding()
    if cast("Any", reader).truncation is None:
        cast("Any", reader).enable_truncation(_MAX_TOKENS)
    session = open_session(model)
    input_names = {model_input.name for model_input in session.get_inputs()}
    if "input_ids" not in input_names or not input_names <= _INPUTS:
        raise EmbeddingUnavailable(f"{model} wants {', '.join(sorted(input_names))}")
    return OnnxEncoder(
        session,
        reader,
        _output([model_input.name for model_input in session.get_outputs()], model),
    )


def open_session(path: Path) -> OnnxSession:
    """Open a model that uses one thread.

    Raises:
        EmbeddingUnavailable: The library is not installed, or the file is no model.
    """
    # Read when the library is imported: newer versions report their use to their maker.
    os.environ[_NO_TELEMETRY] = "1"  # noqa: TID251 - of the library, and no setting of ours
    try:
        import onnxruntime  # pyright: ignore[reportMissingTypeStubs]
    except ImportError as error:
        raise EmbeddingUnavailable(
            "onnxruntime is not installed: pip install 'memplane[semantic]'"
        ) from error
    library = cast("Any", onnxruntime)
    options = library.SessionOptions()
    # One thread gives the same sums every time, and leaves the other cores to those who wait.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        session = library.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # each of the library's errors is a class of its own
        raise EmbeddingUnavailable(f"{path} cannot be loaded: {error}") from error
    return cast("OnnxSession", session)


def _output(names: Sequence[str], path: Path) -> str:
    known = [name for name in _OUTPUTS if name in names] or list(names)
    if len(names) > 1 and known[0] not in _OUTPUTS:
        raise EmbeddingUnavailable(
            f"{path} gives {', '.join(names)}, and none of them is {' or '.join(_OUTPUTS)}"
        )
    return known[0]
