"""What holds for every text, document and stream."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memplane.redaction
from memplane.redaction.json_scan import find_document_hits
from memplane.redaction.redactor import Redactor
from memplane.secret import Secret
from tests.redaction.generators import STRUCTURED, seeded
from tests.redaction.streams import DIALECTS, said

KNOWN = "Kn0wn/canary+" + '5e"c\\ret'
REDACTOR = Redactor(key=b"test", known=[Secret(KNOWN)])
PARTS = [
    *(
        "password",
        "token",
        "secret",
        "api_key",
        "=",
        ": ",
        " ",
        "\n",
        '"',
        "'",
        "\\",
        "\\n",
        "\\u0073",
    ),
    *(
        "Bearer ",
        "Authorization: ",
        "Cookie: a=",
        "://",
        "u:",
        "@h",
        "&",
        ";",
        ",",
        "[",
        "]",
        "{",
        "}",
    ),
    *(
        "sk-",
        "live-12345678",
        "AKIA",
        "ABCDEFGH12345678",
        "hunter2!",
        "x",
        "é",
        "\x00",
        "\ud800",
        "🙂",
    ),
    *(
        "[redacted:password:12345678]",
        "[redacted:",
        "12345678]",
        "export DB_PASSWORD=",
        "abc123def456",
    ),
    *("-----BEGIN PRIVATE KEY-----", "MIIEabcdefgh12345678", "-----END PRIVATE KEY-----", KNOWN),
    *(make(seeded(27)).text for make in STRUCTURED.values()),
]
TEXTS = st.lists(st.sampled_from(PARTS), max_size=14).map("".join) | st.text(max_size=60)
NESTED = st.dictionaries(TEXTS, TEXTS, max_size=3).map(json.dumps)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS | NESTED | NESTED.map(json.dumps),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)
EXAMPLES = settings(max_examples=200)


@given(TEXTS)
@EXAMPLES
def test_redacting_twice_changes_nothing_and_counts_nothing(text: str) -> None:
    once = REDACTOR.text(text).value
    twice = REDACTOR.text(once)
    assert twice.value is once
    assert twice.counts == {}


@given(st.lists(TEXTS, max_size=5))
@EXAMPLES
def test_texts_are_redacted_together_as_each_by_itself(texts: list[str]) -> None:
    assert REDACTOR.texts(texts) == [REDACTOR.text(text) for text in texts]


@given(TEXTS)
@EXAMPLES
def test_text_without_hits_is_the_same_object(text: str) -> None:
    out = REDACTOR.text(text)
    assert (out.value is text) == (out.counts == {})


@given(JSON, st.booleans())
@EXAMPLES
def test_json_stays_json_of_the_same_shape_and_settles_at_once(
    value: object,
    ascii_only: bool,  # noqa: FBT001 - hypothesis gives it
) -> None:
    raw = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    once = REDACTOR.json(raw).value
    decoded = json.loads(once.decode("utf-8", "surrogatepass"), object_pairs_hook=list)
    before = json.loads(raw.decode("utf-8", "surrogatepass"), object_pairs_hook=list)
    assert _shape(decoded) == _shape(before)
    assert REDACTOR.json(once).value is once


@given(JSON, st.booleans())
@EXAMPLES
def test_the_quick_look_at_json_overlooks_nothing(
    value: object,
    ascii_only: bool,  # noqa: FBT001 - hypothesis gives it
) -> None:
    raw = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    if find_document_hits(raw, REDACTOR._scanner.hits):
        assert REDACTOR.json(raw).counts


def _shape(value: object) -> object:
    match value:
        case list() | tuple():
            return [_shape(one) for one in value]
        case str():
            return "text"
        case _:
            return value


@given(st.binary(max_size=300) | TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass")))
@EXAMPLES
def test_no_bytes_make_json_or_streams_raise(raw: bytes) -> None:
    REDACTOR.json(raw)
    once = REDACTOR.stream(b"data: " + raw).value
    REDACTOR.stream(raw)
    assert REDACTOR.stream(once).value is once


@given(st.lists(TEXTS, min_size=1, max_size=4), st.sampled_from(sorted(DIALECTS)), st.data())
@EXAMPLES
def test_a_stream_cut_anywhere_never_raises(
    deltas: list[str], dialect: str, data: st.DataObject
) -> None:
    raw = DIALECTS[dialect](deltas)
    end = data.draw(st.integers(0, len(raw)))
    once = REDACTOR.stream(raw[:end]).value
    assert REDACTOR.stream(once).value is once


@given(TEXTS, TEXTS, st.data())
@EXAMPLES
def test_no_known_secret_is_left_on_any_surface(
    before: str, after: str, data: st.DataObject
) -> None:
    text = before + KNOWN + after
    assert KNOWN not in REDACTOR.text(text).value
    out = REDACTOR.json(json.dumps({"a": [text], text: 1}).encode()).value
    assert KNOWN not in json.loads(out)["a"][0]
    assert json.dumps(KNOWN)[1:-1].encode() not in out
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    deltas = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    dialect = data.draw(st.sampled_from(sorted(DIALECTS)))
    assert KNOWN not in said(REDACTOR.stream(DIALECTS[dialect](deltas)).value)


def test_the_search_for_known_secrets_can_fail() -> None:
    assert KNOWN in Redactor(key=b"test").text(f"a {KNOWN} b").value


FOLDER = Path(memplane.redaction.__file__ or "").parent


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_no_module_imports_a_backtracking_engine(path: Path) -> None:
    assert not _imported(path.read_text("utf-8")) & {"re", "regex", "fnmatch", "sre_compile"}


def test_the_search_for_imports_can_fail() -> None:
    assert "re" in _imported("def f():\n    import re.x as y\n")
    assert "re" in _imported("from re import compile\n")


def _imported(source: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {one.name.partition(".")[0] for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


def test_importing_compiles_nothing() -> None:
    import subprocess

    code = (
        "import memplane.redaction.redactor, memplane.redaction.pattern as p;"
        "print(p.compile_pattern.cache_info().currsize)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "0"
