"""Models in a folder: static tables and encoders, all made up here."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from memplane.errors import EmbeddingUnavailable
from memplane.search.embeddings.folder_embedder import FolderEmbedder
from memplane.search.embeddings.vectors import quantize_vector
from tests.search.made_up import (
    HIDDEN,
    SENTENCE,
    TABLE,
    WORDS,
    encoder_folder,
    table_folder,
    write_tokenizer,
)


async def embedded(folder: Path, *texts: str) -> list[bytes]:
    embedder = FolderEmbedder(folder)
    try:
        return await embedder.embed(texts)
    finally:
        await embedder.close()


# Tables


async def test_a_text_is_the_mean_of_its_words(tmp_path: Path) -> None:
    found = await embedded(table_folder(tmp_path / "m"), "cat", "cat kitten", "cat cat invoice")
    assert found == [quantize_vector([1, 0]), quantize_vector([1, 1]), quantize_vector([1, -1])]


async def test_what_is_unknown_does_not_count(tmp_path: Path) -> None:
    texts = ("zebra cat", "zebra", "", " ", "[UNK] kitten")
    found = await embedded(table_folder(tmp_path / "m"), *texts)
    assert found == [quantize_vector([1, 0]), b"", b"", b"", quantize_vector([0, 1])]


async def test_the_tokenizer_s_own_limits_and_padding_do_not_count(tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    folder = table_folder(tmp_path / "m")
    path = str(folder / "tokenizer.json")
    tokenizer = Tokenizer.from_file(path)
    tokenizer.enable_truncation(1)
    tokenizer.enable_padding(length=8, pad_id=5, pad_token="invoice")
    tokenizer.save(path)
    assert await embedded(folder, "cat kitten") == [quantize_vector([1, 1])]


@pytest.mark.parametrize("kind", [np.float16, np.float64, np.int8])
async def test_tables_of_other_numbers_are_read(tmp_path: Path, kind: type) -> None:
    folder = table_folder(tmp_path / "m", {"embedding.weight": TABLE.astype(kind)})
    assert await embedded(folder, "cat kitten") == [quantize_vector([1, 1])]


async def test_one_matrix_of_any_name_is_the_table(tmp_path: Path) -> None:
    folder = table_folder(tmp_path / "m", {"anything": TABLE, "scale": np.ones(3, np.float32)})
    assert await embedded(folder, "cat") == [quantize_vector([1, 0])]


async def test_a_matrix_is_recognised_by_its_name(tmp_path: Path) -> None:
    folder = table_folder(tmp_path / "m", {"a": -TABLE, "embedding.weight": TABLE, "z": -TABLE})
    assert await embedded(folder, "cat") == [quantize_vector([1, 0])]


async def test_words_may_share_rows_and_have_weights(tmp_path: Path) -> None:
    tensors = {
        "embeddings": TABLE[3:5].copy(),
        "mapping": np.array([0, 0, 0, 0, 1, 0], np.int64),
        "weights": np.array([1, 1, 1, 1, 3, 1], np.float64),
    }
    found = await embedded(table_folder(tmp_path / "m", tensors), "cat kitten", "invoice")
    assert found == [quantize_vector([1, 3]), quantize_vector([1, 0])]


@pytest.mark.parametrize(
    ("tensors", "why"),
    [
        (
            {
                "embeddings.word_embeddings.weight": TABLE,
                "embeddings.position_embeddings.weight": TABLE,
            },
            "no table",
        ),
        ({"bias": np.ones(3, np.float32)}, "no table"),
        ({"embeddings": TABLE, "embedding.weight": TABLE}, "no table"),
        ({"embeddings": TABLE[:5].copy()}, "has 5 rows, and its tokenizer knows 6 tokens"),
        (
            {"embeddings": TABLE, "mapping": np.array([0, 1, 2, 3, 4, 6], np.int64)},
            "rows that it does not have",
        ),
        (
            {"embeddings": TABLE, "mapping": np.array([0, 1, 2, 3, 4, -1], np.int64)},
            "rows that it does not have",
        ),
        ({"embeddings": TABLE, "weights": np.ones(5, np.float32)}, "has 5 rows"),
    ],
)
async def test_a_file_that_is_no_table_is_refused(
    tmp_path: Path, tensors: dict[str, np.ndarray], why: str
) -> None:
    with pytest.raises(EmbeddingUnavailable, match=why):
        await embedded(table_folder(tmp_path / "m", tensors), "cat")


async def test_numbers_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    table = TABLE.copy()
    table[3, 0] = np.nan
    folder = table_folder(tmp_path / "m", {"embeddings": table})
    assert await embedded(folder, "kitten") == [quantize_vector([0, 1])]
    with pytest.raises(EmbeddingUnavailable, match="not finite"):
        await embedded(folder, "cat")


@pytest.mark.parametrize("name", ["tokenizer.json", "model.safetensors"])
@pytest.mark.parametrize("data", [b"", b"{}", b"\xff" * 100])
async def test_a_damaged_file_is_named(tmp_path: Path, name: str, data: bytes) -> None:
    folder = table_folder(tmp_path / "m")
    (folder / name).write_bytes(data)
    with pytest.raises(EmbeddingUnavailable, match=name.replace(".", r"\.")):
        await embedded(folder, "cat")


# Names


@pytest.mark.parametrize("name", ["tokenizer.json", "model.safetensors"])
def test_a_folder_without_its_files_is_refused(tmp_path: Path, name: str) -> None:
    folder = table_folder(tmp_path / "m")
    FolderEmbedder(folder)
    (folder / name).unlink()
    with pytest.raises(EmbeddingUnavailable, match=name.replace(".", r"\.")):
        FolderEmbedder(folder)
    with pytest.raises(EmbeddingUnavailable):
        FolderEmbedder(tmp_path / "none")


def test_a_name_says_which_model_it_is(tmp_path: Path) -> None:
    first = FolderEmbedder(table_folder(tmp_path / "mine")).name
    assert first.rpartition(":")[0] == "folder:mine"
    assert len(first.rpartition(":")[2]) == 8
    shutil.copytree(tmp_path / "mine", tmp_path / "elsewhere" / "mine")
    assert FolderEmbedder(tmp_path / "elsewhere" / "mine").name == first
    other = FolderEmbedder(table_folder(tmp_path / "mine", {"embeddings": -TABLE})).name
    table_folder(tmp_path / "mine")
    write_tokenizer(tmp_path / "mine", [*WORDS[:3], "bat", *WORDS[4:]])
    third = FolderEmbedder(tmp_path / "mine").name
    assert len({first, other, third}) == 3


@pytest.mark.parametrize("place", [0, -1])
def test_a_large_file_counts_at_both_ends_and_by_its_size(tmp_path: Path, place: int) -> None:
    folder = table_folder(tmp_path / "m")
    data = bytearray(3 << 20)
    names: set[str] = set()
    for _ in range(2):
        (folder / "model.safetensors").write_bytes(data)
        names.add(FolderEmbedder(folder).name)
        data[place] ^= 1
    data.insert(1 << 20, 0)
    (folder / "model.safetensors").write_bytes(data)
    names.add(FolderEmbedder(folder).name)
    assert len(names) == 3


async def test_a_model_that_was_exchanged_is_not_used_under_the_old_name(tmp_path: Path) -> None:
    embedder = FolderEmbedder(table_folder(tmp_path / "m"))
    table_folder(tmp_path / "m", {"embeddings": -TABLE})
    with pytest.raises(EmbeddingUnavailable, match="not the one it was"):
        await embedder.embed(["cat"])


async def test_a_closed_embedder_says_so(tmp_path: Path) -> None:
    embedder = FolderEmbedder(table_folder(tmp_path / "m"))
    await embedder.close()
    with pytest.raises(EmbeddingUnavailable, match="closed"):
        await embedder.embed(["cat"])


# Encoders


async def test_an_encoder_s_tokens_are_averaged_with_the_special_ones(tmp_path: Path) -> None:
    folder = encoder_folder(tmp_path / "m", {"last_hidden_state": HIDDEN})
    found = await embedded(folder, "cat", "cat kitten invoice", "kitten")
    # [CLS] and [SEP] cancel each other out in this table.
    assert found == [quantize_vector([1, 0]), b"", quantize_vector([0, 1])]
    assert await embedded(folder, "kitten", "cat") == [found[2], found[0]]


async def test_a_text_without_tokens_has_no_vector(tmp_path: Path) -> None:
    folder = encoder_folder(tmp_path / "m", {"sentence_embedding": SENTENCE})
    assert await embedded(folder, "", "  ", "cat") == [b"", b"", quantize_vector([5, -5])]


@pytest.mark.parametrize(
    ("outputs", "vector"),
    [
        ({"sentence_embedding": SENTENCE}, [5, -5]),
        ({"token_embeddings": HIDDEN, "sentence_embedding": SENTENCE}, [5, -5]),
        ({"last_hidden_state": HIDDEN, "pooler_output": SENTENCE}, [1, 0]),
        ({"pooler_output": SENTENCE, "token_embeddings": HIDDEN}, [1, 0]),
        ({"whatever": HIDDEN}, [1, 0]),
        ({"whatever": SENTENCE}, [5, -5]),
    ],
)
async def test_the_right_output_is_used(
    tmp_path: Path, outputs: dict[str, tuple[str | int, ...]], vector: list[float]
) -> None:
    assert await embedded(encoder_folder(tmp_path / "m", outputs), "cat") == [
        quantize_vector(vector)
    ]


@pytest.mark.parametrize("kind", [TensorProto.INT64, TensorProto.INT32])
@pytest.mark.parametrize(
    "names",
    [
        ["input_ids"],
        ["input_ids", "attention_mask"],
        ["input_ids", "attention_mask", "token_type_ids"],
    ],
)
async def test_an_encoder_gets_the_inputs_it_wants(
    tmp_path: Path, names: list[str], kind: int
) -> None:
    folder = encoder_folder(
        tmp_path / "m", {"last_hidden_state": HIDDEN}, inputs=dict.fromkeys(names, kind)
    )
    assert await embedded(folder, "cat") == [quantize_vector([1, 0])]


@pytest.mark.parametrize(
    ("names", "outputs", "why"),
    [
        (["input_ids", "pixel_values"], {"last_hidden_state": HIDDEN}, "wants .*pixel_values"),
        (["attention_mask"], {"last_hidden_state": HIDDEN}, "wants attention_mask"),
        (["input_ids"], {"logits": HIDDEN, "pooler_output": SENTENCE}, "logits, pooler_output"),
    ],
)
async def test_an_encoder_of_another_kind_is_refused(
    tmp_path: Path, names: list[str], outputs: dict[str, tuple[str | int, ...]], why: str
) -> None:
    inputs = dict.fromkeys(names, TensorProto.INT64)
    with pytest.raises(EmbeddingUnavailable, match=why):
        await embedded(encoder_folder(tmp_path / "m", outputs, inputs=inputs), "cat")


async def test_an_encoder_s_numbers_must_be_finite(tmp_path: Path) -> None:
    folder = encoder_folder(
        tmp_path / "m", {"last_hidden_state": HIDDEN}, table=np.full_like(TABLE, np.inf)
    )
    with pytest.raises(EmbeddingUnavailable, match="not finite"):
        await embedded(folder, "cat")


async def test_a_token_that_the_encoder_does_not_have_is_an_error(tmp_path: Path) -> None:
    folder = encoder_folder(tmp_path / "m", {"last_hidden_state": HIDDEN}, table=TABLE[:4])
    assert await embedded(folder, "cat") == [quantize_vector([1, 0])]
    with pytest.raises(EmbeddingUnavailable, match="the model failed"):
        await embedded(folder, "invoice")


async def test_a_long_text_is_cut_for_an_encoder(tmp_path: Path) -> None:
    folder = encoder_folder(tmp_path / "m", {"last_hidden_state": HIDDEN})
    start = "cat " * 510
    assert len(start) + 100 < 8192
    short, long = await embedded(folder, start, start + "kitten " * 100)
    assert short == long == quantize_vector([1, 0])


async def test_an_encoder_is_preferred_to_a_table(tmp_path: Path) -> None:
    folder = encoder_folder(tmp_path / "m", {"sentence_embedding": SENTENCE})
    name = FolderEmbedder(folder).name
    table_folder(folder)
    assert FolderEmbedder(folder).name == name
    assert await embedded(folder, "cat") == [quantize_vector([5, -5])]


async def test_a_file_that_is_no_encoder_is_named(tmp_path: Path) -> None:
    folder = table_folder(tmp_path / "m")
    (folder / "model.onnx").write_bytes(b"nonsense")
    with pytest.raises(EmbeddingUnavailable, match=r"model\.onnx cannot be loaded"):
        await embedded(folder, "cat")


async def test_without_the_runtime_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = encoder_folder(tmp_path / "m", {"last_hidden_state": HIDDEN})
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(EmbeddingUnavailable, match=r"memplane\[semantic\]"):
        await embedded(folder, "cat")
