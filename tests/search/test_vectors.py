"""Stored vectors: what is kept of them, and how alike they are."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.errors import EmbeddingUnavailable
from memplane.search.embeddings.vectors import compute_similarities, quantize_vector

components = st.lists(st.integers(-127, 127), min_size=4, max_size=4)


def signed(vector: Sequence[int]) -> bytes:
    return bytes(one % 256 for one in vector)


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    lengths = math.hypot(*one) * math.hypot(*other)
    return sum(a * b for a, b in zip(one, other, strict=True)) / lengths if lengths else 0.0


@pytest.mark.parametrize(
    ("vector", "kept"),
    [
        ([1.0, 0.5, 0.0], [127, 64, 0]),
        ([-2.0, 1.0], [-127, 64]),
        ([0.001, -0.001], [127, -127]),
        ([1e300, 1e299], [127, 13]),
        ([5e-324, 0.0], [127, 0]),
    ],
)
def test_the_largest_component_is_127(vector: list[float], kept: list[int]) -> None:
    assert quantize_vector(vector) == signed(kept)


def test_the_length_of_a_vector_does_not_count() -> None:
    assert quantize_vector([0.3, -0.1, 0.2]) == quantize_vector([30.0, -10.0, 20.0])


@pytest.mark.parametrize("vector", [[], [0.0, 0.0], [0.0, -0.0]])
def test_what_points_nowhere_has_no_vector(vector: list[float]) -> None:
    assert quantize_vector(vector) == b""


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_are_refused(wrong: float) -> None:
    with pytest.raises(EmbeddingUnavailable, match="not finite"):
        quantize_vector([1.0, wrong, 0.0])


def test_similarities_are_cosines_without_the_negative_ones() -> None:
    question = quantize_vector([1.0, 0.0])
    others = [quantize_vector(one) for one in ([3.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [1.0, 1.0])]
    same, across, against, between = compute_similarities(question, others)
    assert (same, across, against) == (1.0, 0.0, 0.0)
    assert between == pytest.approx(math.sqrt(0.5))


def test_what_cannot_be_compared_is_not_alike() -> None:
    question = quantize_vector([1.0, 2.0])
    others = [b"", quantize_vector([1.0, 2.0, 3.0]), question, b"\x01", bytes(2)]
    assert compute_similarities(question, others) == [0.0, 0.0, 1.0, 0.0, 0.0]
    assert compute_similarities(b"", [b"", question]) == [0.0, 0.0]
    assert compute_similarities(bytes(2), [question]) == [0.0]
    assert compute_similarities(question, []) == []


@given(components, st.lists(components, max_size=8), st.randoms(use_true_random=False))
def test_a_similarity_does_not_depend_on_its_neighbours(
    question: list[int], others: list[list[int]], chance: random.Random
) -> None:
    asked, table = signed(question), [signed(other) for other in others]
    found = compute_similarities(asked, table)
    assert found == [compute_similarities(asked, [one])[0] for one in table]
    assert found == [compute_similarities(one, [asked])[0] for one in table]
    assert all(0.0 <= one <= 1.0 for one in found)
    expected = [max(0.0, cosine(question, other)) for other in others]
    assert found == pytest.approx(expected, abs=1e-12)
    order = list(range(len(table)))
    chance.shuffle(order)
    assert compute_similarities(asked, [table[place] for place in order]) == [
        found[place] for place in order
    ]


def test_similarities_of_many_dimensions_are_exact() -> None:
    # In single precision these sums would be rounded.
    dice = random.Random(5)  # noqa: S311
    vectors = [signed([dice.randint(100, 127) for _ in range(4096)]) for _ in range(50)]
    found = compute_similarities(vectors[0], vectors)
    assert found[0] == 1.0
    assert found == [compute_similarities(vectors[0], [one])[0] for one in vectors]
    assert found == [compute_similarities(one, vectors[:1])[0] for one in vectors]
    assert found[::-1] == compute_similarities(vectors[0], vectors[::-1])


def test_storing_keeps_the_direction() -> None:
    dice = random.Random(1)  # noqa: S311
    for _ in range(20):
        one, other = ([dice.gauss(0, 1) for _ in range(256)] for _ in range(2))
        mixed = [a + b for a, b in zip(one, other, strict=True)]
        (found,) = compute_similarities(quantize_vector(one), [quantize_vector(mixed)])
        assert found == pytest.approx(cosine(one, mixed), abs=0.01)


def test_without_the_libraries_it_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(EmbeddingUnavailable, match=r"pip install 'memplane\[semantic\]'"):
        quantize_vector([1.0])
    with pytest.raises(EmbeddingUnavailable, match=r"pip install 'memplane\[semantic\]'"):
        compute_similarities(b"\x01", [b"\x01"])


LIBRARIES = "{'numpy', 'tokenizers', 'safetensors', 'onnxruntime'}"


@pytest.mark.parametrize(
    ("statement", "loaded"),
    [
        ("import memplane.search.embeddings.minilm", "set()"),
        ("import memplane.search.embeddings.folder_embedder", "set()"),
        ("import memplane.search.embeddings.endpoint_embedder", "set()"),
        (
            "from memplane.search.embeddings.minilm import MiniLmEmbedder as E; E()",
            "set()",
        ),
        (
            "from memplane.search.embeddings.vectors import quantize_vector as q; q([1.0])",
            "{'numpy'}",
        ),
    ],
)
def test_libraries_are_loaded_when_a_vector_is_wanted(statement: str, loaded: str) -> None:
    program = f"import sys\n{statement}\nprint({LIBRARIES} & set(sys.modules))"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == loaded
