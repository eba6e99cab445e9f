"""The quick look at a stream never misses what the whole search finds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memplane.redaction import sse_scan
from memplane.redaction.scan import Scanner
from memplane.redaction.sse_scan import find_stream_hits, is_stream_suspect
from memplane.secret import Secret
from tests.redaction.streams import DIALECTS

KNOWN = "correct-horse-battery"
SCANNER = Scanner([Secret(KNOWN)])


def hits(raw: bytes) -> bool:
    return bool(find_stream_hits(raw, SCANNER.hits))


def suspected(raw: bytes) -> bool:
    return is_stream_suspect(raw, SCANNER.hits, SCANNER.suspects)


PIECES = st.sampled_from(
    [
        *("sk-", "live-", "123456789", "Bearer ", "supersecret", "token1", "password", "=", ": "),
        *("correct-", "horse-", "battery", "hunter2x", '{"password":"', 'hunter2x"}', "{", "["),
        *("AKIA", "IOSFODNN7", "EXAMPLEQ", " and ", "\\u0073k-", "naïve", "\n", '"', "\\", ""),
    ]
)
NAMES = st.sampled_from(
    [
        *("index", "output_index", "item_id", "type", "delta", "content", "text", "partial_json"),
        *("arguments", "id", "choices", "function", "password", "tool_calls", "x"),
    ]
)
VALUES = st.recursive(
    st.one_of(PIECES, st.integers(0, 1), st.none(), st.booleans()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(NAMES, inner, max_size=3)
    ),
    max_leaves=8,
)


def written(events: list[Any], separator: str, *, ascii_only: bool) -> bytes:
    lines = (json.dumps(one, ensure_ascii=ascii_only) for one in events)
    return "".join(
        f"event: x{separator}data: {one}{separator}{separator}" for one in lines
    ).encode()


@given(
    events=st.lists(VALUES, max_size=6),
    separator=st.sampled_from(["\n", "\r\n", "\r"]),
    ascii_only=st.booleans(),
)
@example(
    events=[{"content": "sk-"}, {"content": "live-123456789"}], separator="\n", ascii_only=True
)
def test_what_is_found_was_suspected(
    *, events: list[Any], separator: str, ascii_only: bool
) -> None:
    raw = written(events, separator, ascii_only=ascii_only)
    assert suspected(raw) or not hits(raw)


@given(
    st.sampled_from(sorted(DIALECTS)),
    st.lists(PIECES, min_size=1, max_size=12),
    st.sampled_from(["", "data: [DONE]\n\n", ": ping\n\n", "data: sk-live-123456789\n\n"]),
)
def test_what_is_found_in_a_dialect_was_suspected(
    dialect: str, deltas: list[str], end: str
) -> None:
    raw = DIALECTS[dialect](deltas) + end.encode()
    assert suspected(raw) or not hits(raw)


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_a_secret_in_parts_is_suspected_and_prose_is_not(dialect: str, parts: int) -> None:
    for secret in (KNOWN, "sk-live-" + "123456789", "ghp_" + "a1B2" * 9):
        size = -(-len(secret) // parts)
        cut = [secret[at : at + size] for at in range(0, len(secret), size)]
        assert suspected(DIALECTS[dialect](["so, ", *cut, " it is"]))
    prose = ["The risk-", "assessment of ", "the disk-", "encryption is ", "done."]
    assert not suspected(DIALECTS[dialect](prose))


@pytest.mark.parametrize(
    "raw",
    [
        b'data: {"content":"sk-live-12","content":"3456789"}\n\n',
        b'data: {"content":"sk-live-"}\ndata: {"content":"123456789"}\n\n',
        b'data: {"content":"sk-live-\n\n',
        b'data: {"content":"\\ud83d"}\n\n',
        b"data: " + b'{"content":' * 40 + b'"x"' + b"}" * 40 + b"\n\n",
    ],
)
def test_what_is_not_plain_is_searched_whole(raw: bytes) -> None:
    assert suspected(raw)


def test_the_check_would_notice_lanes_that_are_not_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse_scan, "_TEXT_NAMES_STR", frozenset[str]())
    raw = DIALECTS["chat"](["sk-", "live-1234", "56789"])
    assert hits(raw)
    assert not suspected(raw)
