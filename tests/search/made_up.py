"""Small models made up by a test: a tokenizer of words, a table, an encoder in ONNX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing

WORDS = ("[UNK]", "[CLS]", "[SEP]", "cat", "kitten", "invoice")
TABLE = np.array([[9, 9], [5, -5], [-5, 5], [1, 0], [0, 1], [-1, -1]], np.float32)
"""A row for each word; those that no text should count would spoil its vector."""

HIDDEN = ("batch", "tokens", 2)
SENTENCE = ("batch", 2)


def write_tokenizer(folder: Path, words: Sequence[str] = WORDS) -> None:
    folder.mkdir(exist_ok=True)
    tokenizer = Tokenizer(
        WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))


def table_folder(folder: Path, tensors: Mapping[str, Any] | None = None) -> Path:
    write_tokenizer(folder)
    save_file(dict(tensors or {"embeddings": TABLE}), folder / "model.safetensors")
    return folder


def encoder_folder(
    folder: Path,
    outputs: Mapping[str, Sequence[str | int]],
    *,
    inputs: Mapping[str, int] | None = None,
    table: Any = TABLE,
) -> Path:
    """Write an encoder that looks its tokens up in a table; each output has the shape given.

    An output of two dimensions is ten times the first token's row, so that the two differ.
    """
    write_tokenizer(folder)
    given = inputs or {"input_ids": TensorProto.INT64, "attention_mask": TensorProto.INT64}
    ids = next(iter(given))
    nodes = [helper.make_node("Gather", ["table", ids], ["looked_up"])]
    for name, shape in outputs.items():
        if len(shape) == 3:
            nodes.append(helper.make_node("Identity", ["looked_up"], [name]))
        else:
            nodes += [
                helper.make_node("Gather", ["looked_up", "zero"], [f"{name}_first"], axis=1),
                helper.make_node("Mul", [f"{name}_first", "ten"], [name]),
            ]
    graph = helper.make_graph(
        nodes,
        "encoder",
        [
            helper.make_tensor_value_info(name, kind, ["batch", "tokens"])
            for name, kind in given.items()
        ],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in outputs.items()
        ],
        [
            numpy_helper.from_array(np.asarray(table, np.float32), "table"),
            numpy_helper.from_array(np.array(0, np.int64), "zero"),
            numpy_helper.from_array(np.array(10, np.float32), "ten"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, folder / "model.onnx")
    return folder
