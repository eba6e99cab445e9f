"""The static embeddings that come with the extra: the real table."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from memplane.errors import EmbeddingUnavailable
from memplane.search.embeddings.embedder import Embedder
from memplane.search.embeddings.lazy_model import LazyModel
from memplane.search.embeddings.static_embedder import StaticEmbedder
from memplane.search.embeddings.vectors import compute_similarities


@pytest.fixture
async def embedder() -> AsyncIterator[Embedder]:
    made = StaticEmbedder()
    yield made
    await made.close()


async def alike(embedder: Embedder, question: str, *others: str) -> list[float]:
    asked, *answers = await embedder.embed([question, *others])
    return compute_similarities(asked, answers)


@pytest.mark.parametrize(
    ("word", "near", "far"),
    [
        ("dog", "puppy", "invoice"),
        ("invoice", "payment", "puppy"),
        ("She adopted a kitten", "the cat came from a shelter", "the build failed on Tuesday"),
        ("How do we deploy?", "the rollout goes to production", "my sister likes pears"),
    ],
)
async def test_what_means_the_same_is_nearer(
    embedder: Embedder, word: str, near: str, far: str
) -> None:
    close, distant = await alike(embedder, word, near, far)
    assert close > distant + 0.1


async def test_vectors_have_256_dimensions_and_a_name(embedder: Embedder) -> None:
    assert embedder.name == "wordllama-l2-supercat-256"
    assert [len(one) for one in await embedder.embed(["dog", "a longer text, with commas"])] == [
        256,
        256,
    ]


async def test_a_vector_does_not_depend_on_its_neighbours_or_the_embedder(
    embedder: Embedder,
) -> None:
    texts = ["dog", "", "the cat came from a shelter", "dog"]
    together = await embedder.embed(texts)
    assert together == [(await StaticEmbedder().embed([text]))[0] for text in texts]
    assert together[0] == together[3] != together[2]


@pytest.mark.parametrize("text", ["", " ", "\n\t  \n"])
async def test_what_says_nothing_has_no_vector(embedder: Embedder, text: str) -> None:
    assert await embedder.embed([text]) == [b""]
    assert await embedder.embed([]) == []


async def test_only_the_beginning_of_a_long_text_counts(embedder: Embedder) -> None:
    start = "dog " * 2048
    short, long, other = await embedder.embed([start, start + "invoice " * 900, start[:-4]])
    assert short == long
    assert len(start) == 8192
    changed, before = await embedder.embed([start[:-4] + "bank", start])
    assert changed != before
    assert other


@pytest.mark.parametrize("text", ["\ud800 dog", "🐶🐾", "日本語のテキスト", "</s><unk>", "\x00"])
async def test_odd_texts_do_no_harm(embedder: Embedder, text: str) -> None:
    (vector,) = await embedder.embed([text])
    assert len(vector) in {0, 256}
    assert await embedder.embed([text]) == [vector]


async def test_a_closed_embedder_says_so(embedder: Embedder) -> None:
    await embedder.embed(["dog"])
    await embedder.close()
    await embedder.close()
    with pytest.raises(EmbeddingUnavailable, match="closed"):
        await embedder.embed(["dog"])


# Where it is found, and what if it is not


@pytest.mark.parametrize("library", ["wordllama", "numpy", "tokenizers", "safetensors"])
async def test_without_the_extra_it_says_how_to_get_it(
    embedder: Embedder, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, library, None)
        with pytest.raises(EmbeddingUnavailable, match=r"pip install 'memplane\[semantic\]'"):
            await embedder.embed(["dog"])
    assert await embedder.embed(["dog"]) != [b""]  # it is not given up for ever


ALONE = """
import asyncio, sys
from memplane.search.embeddings.static_embedder import StaticEmbedder
(vector,) = asyncio.run(StaticEmbedder().embed(["dog"]))
assert len(vector) == 256
print(sorted({"wordllama", "pydantic", "requests", "huggingface_hub"} & set(sys.modules)))
"""


def test_none_of_the_package_s_code_runs() -> None:
    ran = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def copied_package(folder: Path) -> Path:
    """Copy the two files into a package that must not be imported."""
    spec = find_spec("wordllama")
    assert spec is not None
    assert spec.submodule_search_locations
    real = Path(spec.submodule_search_locations[0])
    package = folder / "wordllama"
    for name in (
        "weights/l2_supercat_256.safetensors",
        "tokenizers/l2_supercat_tokenizer_config.json",
    ):
        (package / name).parent.mkdir(parents=True)
        (package / name).write_bytes((real / name).read_bytes())
    (package / "__init__.py").write_text("raise AssertionError('it was imported')")
    return package


async def test_the_name_stands_for_these_very_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = copied_package(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    expected = await StaticEmbedder().embed(["dog"])
    table = package / "weights" / "l2_supercat_256.safetensors"
    data = bytearray(table.read_bytes())
    data[-1] ^= 1
    table.write_bytes(data)
    with pytest.raises(EmbeddingUnavailable, match=r"has not the weights/l2_supercat_256"):
        await StaticEmbedder().embed(["dog"])
    table.unlink()
    with pytest.raises(EmbeddingUnavailable, match=r"has not the weights/l2_supercat_256"):
        await StaticEmbedder().embed(["dog"])
    monkeypatch.undo()
    assert await StaticEmbedder().embed(["dog"]) == expected


# Loaded once, in a thread


class Counting:
    """A model that knows where it was loaded and used."""

    def __init__(self) -> None:
        self.threads = {threading.get_ident()}

    def vectors(self, texts: Sequence[str]) -> list[bytes]:
        self.threads.add(threading.get_ident())
        return [text.encode() for text in texts]


async def test_a_model_is_loaded_once_and_never_on_the_loop() -> None:
    made: list[Counting] = []
    all_asked = threading.Event()

    def load() -> Counting:
        assert all_asked.wait(60)
        made.append(Counting())
        return made[-1]

    model = LazyModel(load)
    asking = [asyncio.ensure_future(model.embed([str(number)])) for number in range(4)]
    await asyncio.sleep(0)
    all_asked.set()
    assert await asyncio.gather(*asking) == [[b"0"], [b"1"], [b"2"], [b"3"]]
    assert len(made) == 1
    assert threading.get_ident() not in made[0].threads


async def test_a_model_that_failed_to_load_is_tried_again() -> None:
    failing = [True]

    def load() -> Counting:
        if failing.pop():
            raise EmbeddingUnavailable("not yet")
        return Counting()

    model = LazyModel(load)
    with pytest.raises(EmbeddingUnavailable, match="not yet"):
        await model.embed(["a"])
    failing.append(False)
    assert await model.embed(["a"]) == [b"a"]


async def test_nothing_is_loaded_for_no_texts() -> None:
    def load() -> Counting:
        raise AssertionError("it was loaded")

    assert await LazyModel(load).embed([]) == []
