"""YAML within bounds: hostile documents are refused before anything is built from them."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from memplane.errors import PodError
from memplane.kit.bounded_yaml import (
    MAX_YAML_ALIASES,
    MAX_YAML_BYTES,
    MAX_YAML_DEPTH,
    read_yaml,
    write_yaml,
)


def bomb(levels: int, width: int) -> bytes:
    lines = ["a0: &a0 [x]"]
    lines += [
        f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * width)}]"
        for number in range(1, levels + 1)
    ]
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"[" * 3000, "nested more than"),
        (b"- " * 3000, "nested more than"),
        (b"{a: " * (MAX_YAML_DEPTH + 1) + b"1" + b"}" * (MAX_YAML_DEPTH + 1), "nested more than"),
        (bomb(8, 9), "more than 50000 values"),
        (bomb(2, MAX_YAML_ALIASES), "aliases"),
        (b"a: &a {b: 1}\nc: {<<: [" + b"*a, " * (MAX_YAML_ALIASES + 1) + b"]}", "aliases"),
        (b"a: &a [*a]", "means nothing here"),
        (b"a: *nowhere", "means nothing here"),
        (b"a: !!python/object/apply:os.system [id]", "is not supported"),
        (b"a: !reset null", "is not supported"),
        (b"a: !!binary aGk=", "is not supported"),
        (b"a: 1\nb: 2\na: 3", "'a' is there twice"),
        (b"a: [1", "parse it"),
        (b"a: 1\n---\nb: 2", "single document"),
        (b"\xff\xfe", "utf-8"),
        (b"a: \x00", "control characters"),
        (b"? [a]\n: b", "unhashable"),
        (b"<<: 1", "parse it"),
        (b" " * (MAX_YAML_BYTES + 1), "larger than"),
        (b"-\n" * 400_000, "values"),
    ],
)
def test_hostile_documents_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(PodError, match=reason) as raised:
        read_yaml(data, "it")
    assert str(raised.value).startswith("parse it: ")


def test_as_much_as_is_allowed_is_read() -> None:
    deep = b"[" * MAX_YAML_DEPTH + b"]" * MAX_YAML_DEPTH
    assert read_yaml(deep, "it") is not None
    aliases = b"a: &a x\nb: [" + b", ".join([b"*a"] * MAX_YAML_ALIASES) + b"]"
    assert read_yaml(aliases, "it") == {"a": "x", "b": ["x"] * MAX_YAML_ALIASES}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8080:22", "8080:22"),
        ("yes", "yes"),
        ("off", "off"),
        ("2026-01-01", "2026-01-01"),
        ("1_000", "1_000"),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-3", -3),
        ("0440", 0o440),
        ("0o17", 0o17),
        ("0x1f", 31),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("'12'", "12"),
        ('"true"', "true"),
        ("9" * 5000, "9" * 5000),
        ("=", "="),
    ],
)
def test_plain_words_mean_what_yaml_1_2_says(text: str, value: object) -> None:
    found = read_yaml(f"a: {text}".encode(), "it")
    assert found == {"a": value}
    assert isinstance(found, dict)
    assert type(found["a"]) is type(value)


def test_mappings_are_merged() -> None:
    found = read_yaml(b"x: &x {a: 1, b: 2}\ny: {<<: *x, b: 3}", "it")
    assert found == {"x": {"a": 1, "b": 2}, "y": {"a": 1, "b": 3}}


scalars = st.none() | st.booleans() | st.integers(-(10**15), 10**15) | st.text()
looking_like = st.sampled_from(
    ["8080:22", "yes", "on", "1e3", "0o17", "0x1f", "~", "null", "", "1.5", "0440", "<<", "=", "n"]
)
trees = st.recursive(
    scalars | looking_like,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def in_yaml(value: object) -> bool:
    """Characters that no YAML may hold are escaped by the writer and refused by the reader."""
    try:
        yaml.safe_dump(value).encode()
    except UnicodeEncodeError:
        return False
    return True


@given(st.dictionaries(st.text(), trees, max_size=4).filter(in_yaml))
def test_what_is_written_reads_the_same_in_either_version(tree: dict[str, object]) -> None:
    written = write_yaml(tree)
    assert read_yaml(written, "it") == tree
    assert yaml.safe_load(written) == tree


def test_what_is_shared_is_written_out() -> None:
    shared = {"a": 1}
    assert b"&" not in write_yaml({"x": shared, "y": shared})


@given(st.binary(max_size=200) | st.text("ab:-[]{}&*!|>'\"#%@`,? \n").map(str.encode))
def test_no_bytes_make_it_fail_otherwise(data: bytes) -> None:
    try:
        read_yaml(data, "it")
    except PodError:
        return
