from __future__ import annotations

import time

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from memplane.persona import document as document_module
from memplane.persona.document import (
    Document,
    FrontmatterField,
    is_equivalent,
    parse,
    read_semantics,
    render,
    with_plain_lines,
    with_value,
)

FLAT = (
    b"---\nname: role\ndescription: who they are\ntype: user\noriginSessionId: s1\n---\n\nbody\n"
)
NESTED = (
    b"---\nname: role\ndescription: 'who: they are'\nmetadata: \n  node_type: memory\n"
    b"  type: user\n  originSessionId: s1\n  modified: 2026-07-30T10:00:00Z\n---\nbody"
)


def test_the_flat_shape_is_read() -> None:
    document = parse(FLAT)

    assert (document.name, document.description, document.type) == ("role", "who they are", "user")
    assert document.body == "\nbody\n"
    assert document.modified is None
    assert document.flaw is None


def test_the_nested_shape_is_read() -> None:
    document = parse(NESTED)

    assert (document.name, document.description) == ("role", "who: they are")
    assert document.type == "user"
    assert document.modified == "2026-07-30T10:00:00Z"
    assert document.value("node_type") == "memory"
    assert document.fields[2].text == "metadata: \n"


def test_the_top_level_counts_before_metadata() -> None:
    assert parse(b"---\ntype: a\nmetadata:\n  type: b\n---\n").type == "a"


def test_values_stay_the_texts_that_they_are() -> None:
    text = b"---\nn: 007\nd: 2026-07-30\nb: yes\nnone: ~\nl: [1, {k: v}]\nm:\n- x\n- null\n---\n"

    assert parse(text).values == {
        "n": "007",
        "d": "2026-07-30",
        "b": "yes",
        "none": "",
        "l": ("1", {"k": "v"}),
        "m": ("x", ""),
    }


@pytest.mark.parametrize("value", ["", "''", "'  '", "~", "[a]", "{a: b}"])
def test_what_is_blank_or_no_text_is_no_name(value: str) -> None:
    assert parse(f"---\nname: {value}\n---\n".encode()).name is None


@pytest.mark.parametrize(
    "text", [b"", b"# Title\n", b" ---\nname: a\n---\n", b"----\n", b"text\n---\n"]
)
def test_without_frontmatter_all_is_body(text: bytes) -> None:
    document = parse(text)

    assert document == Document(body=text.decode())


@pytest.mark.parametrize(
    ("front", "flaw"),
    [
        (b"name: [", "not YAML"),
        (b"name: a: b", "not YAML"),
        (b"name: a\nname: b", "the key 'name' twice"),
        (b"m:\n  k: 1\n  k: 2", "the key 'k' twice"),
        (b"- a\n- b", "not a list of keys"),
        (b"just text", "not a list of keys"),
        (b"? [a]\n: b", "a key that is not a text"),
        (b"a: &x 1\nb: 2", "anchor or alias"),
        (b"a: *x", "anchor or alias"),
        (b"a: !important x", "a tag"),
        (b"a: !!python/object/apply:os.system ['true']", "a tag"),
        (b"a: " + b"[" * 33 + b"]" * 33, "nested more than 32 deep"),
        (b"[" * 3_000, "nested more than 32 deep"),
        (b"{a: " * 3_000, "nested more than 32 deep"),
        (b"a: " + b"x" * 65_536, "longer than 64 KB"),
        (b"a: \x01", "not YAML"),
        (b"a: b\n...\n%YAML 1.1", "not YAML"),
    ],
)
def test_hostile_or_broken_frontmatter_is_a_flaw_and_keeps_its_bytes(
    front: bytes, flaw: str
) -> None:
    text = b"---\n" + front + b"\n---\nbody\n"
    began = time.process_time()

    document = parse(text)

    assert time.process_time() - began < 5
    assert flaw in (document.flaw or "")
    assert document.values == {}
    assert (document.name, document.type) == (None, None)
    assert render(document) == text


def test_an_alias_bomb_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]

    assert "anchor" in (parse(f"---\n{chr(10).join(lines)}\n---\n".encode()).flaw or "")


@pytest.mark.parametrize("text", ["'&x *y !z'", '"&x"', "Q&A", "a * b", "wow!", "R&D: a&b"[:3]])
def test_quoted_and_inner_signs_are_harmless(text: str) -> None:
    assert parse(f"---\nname: {text}\n---\n".encode()).flaw is None


def test_a_nesting_of_32_is_read() -> None:
    assert parse(b"---\na: " + b"[" * 31 + b"]" * 31 + b"\n---\n").flaw is None


def test_an_open_end_is_a_flaw() -> None:
    document = parse(b"---\nname: a\n")

    assert document.flaw == "its frontmatter does not end"
    assert document.body == "---\nname: a\n"


def test_what_is_not_utf8_is_opaque() -> None:
    document = parse(b"---\nname: a\n---\n\xff")

    assert "not UTF-8" in (document.flaw or "")
    assert render(document) == b"---\nname: a\n---\n\xff"
    assert with_value(document, "name", "b") == document


def test_without_the_c_library_the_same_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_module, "_LOADER", yaml.SafeLoader)

    assert parse(NESTED).values == parse(NESTED).values
    assert parse(NESTED).type == "user"
    assert "anchor" in (parse(b"---\na: &x 1\n---\n").flaw or "")
    assert "nested" in (parse(b"---\n" + b"[" * 3_000 + b"\n---\n").flaw or "")


LINES = st.sampled_from(
    [
        *("---", "--- ", "name: a", "type: user", "metadata: ", "  type: x", "  - a", "- b", ""),
        *("# comment", "d: |", "  text", "l: [a, b]", "x: 'q", "modified: 2026", "\u2028", "\x85"),
        *('"q": 1', "a: &x 1", "\ufeff", "é: ü", "\r", "    deep: 1", "a:b"),
    ]
)
MADE = st.tuples(
    st.sampled_from(["", "\ufeff"]),
    st.lists(st.tuples(LINES, st.sampled_from(["\n", "\r\n", "\n", ""]))),
).map(lambda made: (made[0] + "".join(a + b for a, b in made[1])).encode())


@settings(max_examples=500)
@given(st.one_of(MADE, MADE.map(lambda text: b"---\n" + text), st.binary()))
def test_what_was_not_changed_is_written_back_byte_for_byte(text: bytes) -> None:
    document = parse(text)

    assert render(document) == text
    assert render(replace(document)) == text


@settings(max_examples=300)
@given(MADE.map(lambda text: b"---\n" + text))
def test_what_counts_does_not_depend_on_line_endings_or_stamps(text: bytes) -> None:
    counts = read_semantics(text)

    assert read_semantics(counts) == counts
    assert is_equivalent(text, counts)
    assert b"\r\n" not in counts


def test_stamps_do_not_count() -> None:
    other = NESTED.replace(b"s1", b"s2").replace(b"2026-07-30", b"2026-07-31")

    assert is_equivalent(NESTED, other)
    assert is_equivalent(NESTED, NESTED.replace(b"\n", b"\r\n"))
    assert is_equivalent(NESTED, b"\xef\xbb\xbf" + NESTED)
    assert not is_equivalent(NESTED, NESTED + b"\n")
    assert not is_equivalent(NESTED, NESTED.replace(b"user", b"feedback"))
    assert not is_equivalent(b"\xff", b"\xfe")


@pytest.mark.parametrize(
    ("text", "eol"),
    [
        (b"", "\n"),
        (b"a\nb\r\nc\r\n", "\r\n"),
        (b"a\nb\r\n", "\n"),
        (b"---\r\na: b\r\n---\r\n", "\r\n"),
    ],
)
def test_the_line_ending_is_that_of_most_lines(text: bytes, eol: str) -> None:
    assert parse(text).eol == eol


def test_plain_lines() -> None:
    windows = parse(NESTED.replace(b"\n", b"\r\n"))

    assert with_plain_lines(windows) == parse(NESTED)
    assert with_plain_lines(parse(NESTED)) == parse(NESTED)


def test_comments_and_continued_values_belong_to_the_key_above() -> None:
    text = b"---\n# first\nname: a\n# about d\nd: >\n  long\n\n  text\nl:\n- a\n- b\n---\n"

    assert parse(text).fields == (
        FrontmatterField("", "# first\n"),
        FrontmatterField("name", "name: a\n# about d\n"),
        FrontmatterField("d", "d: >\n  long\n\n  text\n"),
        FrontmatterField("l", "l:\n- a\n- b\n"),
    )


@pytest.mark.parametrize(
    ("text", "key", "value", "changed"),
    [
        (FLAT, "type", "feedback", FLAT.replace(b": user", b": feedback")),
        (NESTED, "type", "feedback", NESTED.replace(b": user", b": feedback")),
        (NESTED, "modified", "2027", NESTED.replace(b"2026-07-30T10:00:00Z", b"2027")),
        (b"---\na: 1\n---\nx", "b", "it's: so", b'---\na: 1\nb: "it\'s: so"\n---\nx'),
        (b"a\r\nb\r\n", "name", "x", b"---\r\nname: x\r\n---\r\na\r\nb\r\n"),
        (b"---\nd: |\n  two\n  lines\nt: 1\n---\n", "d", "one", b"---\nd: one\nt: 1\n---\n"),
        (b"---\n---\n", "n", "", b'---\nn: ""\n---\n'),
    ],
)
def test_a_value_is_set_where_it_stands(text: bytes, key: str, value: str, changed: bytes) -> None:
    document = with_value(parse(text), key, value)

    assert render(document) == changed
    assert document.value(key) == value


@settings(max_examples=300)
@given(st.text(), st.sampled_from([FLAT, NESTED, b"", b"body\r\n"]))
def test_any_text_can_be_a_value(value: str, text: bytes) -> None:
    document = with_value(parse(text), "description", value)

    assert render(parse(render(document))) == render(document)
    assert document.value("description") == value
