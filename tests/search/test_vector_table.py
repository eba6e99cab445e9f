"""Exact search among vectors in memory."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.search.embeddings.vector_table import VectorTable

vectors = st.binary(min_size=4, max_size=4)


def signed(vector: bytes) -> list[int]:
    return [byte - 256 if byte > 127 else byte for byte in vector]


def cosine(one: bytes, other: bytes) -> float:
    a, b = signed(one), signed(other)
    lengths = math.hypot(*a) * math.hypot(*b)
    return max(0.0, sum(map(lambda x, y: x * y, a, b)) / lengths) if lengths else 0.0


def table_of(rows: list[tuple[int, bytes]]) -> VectorTable:
    table = VectorTable()
    table.add(rows)
    return table


@given(st.lists(vectors, min_size=1, max_size=20), vectors)
def test_every_vector_is_compared(stored: list[bytes], question: bytes) -> None:
    found = table_of(list(enumerate(stored))).compare(question).get(range(len(stored)))
    expected = {key: cosine(vector, question) for key, vector in enumerate(stored)}
    assert found == pytest.approx(expected)


@given(
    st.lists(vectors, min_size=1, max_size=20),
    vectors,
    st.integers(1, 8),
    st.randoms(use_true_random=False),
)
def test_the_best_do_not_depend_on_the_order_of_arrival(
    stored: list[bytes], question: bytes, count: int, order: random.Random
) -> None:
    rows = list(enumerate(stored))
    shuffled = rows.copy()
    order.shuffle(shuffled)
    one, other = VectorTable(), VectorTable()
    one.add(rows)
    for row in shuffled:
        other.add([row])
    best = one.compare(question).find_best(count)
    assert best == other.compare(question).find_best(count)
    assert len(best) >= min(count, len(stored))


def test_the_best_are_more_similar_than_all_others() -> None:
    rows = [(key, bytes([127, key, 0, 0])) for key in range(100)]
    best = table_of(rows).compare(bytes([127, 0, 0, 0])).find_best(3)
    assert set(best) == {0, 1, 2}
    assert best[0] == 1.0


def test_texts_that_are_equally_similar_are_all_found() -> None:
    rows = [(key, b"\x01\x02\x03\x04") for key in range(9)]
    assert set(table_of(rows).compare(b"\x01\x02\x03\x04").find_best(2)) == set(range(9))


def test_a_vector_of_another_length_is_not_compared() -> None:
    table = table_of([(1, b"\x01\x02"), (2, b"\x01\x02\x03"), (3, b"")])
    assert len(table) == 1
    assert table.compare(b"\x01\x02\x03").find_best(5) == {}
    assert table.compare(b"\x01\x02").find_best(5) == {1: pytest.approx(1.0)}


def test_an_empty_table_finds_nothing() -> None:
    assert VectorTable().compare(b"\x01").find_best(5) == {}
    assert table_of([(1, b"\x01")]).compare(b"\x01").find_best(0) == {}


def test_long_vectors_are_compared_exactly() -> None:
    vector = b"\x7f" * 3000
    other = b"\x7f" * 2999 + b"\x7e"
    found = table_of([(1, vector), (2, other)]).compare(vector).get([1, 2])
    assert found[1] == 1.0 > found[2]
