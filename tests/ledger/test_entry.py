"""Entries and ids: the bytes agree with those another recorder wrote."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.ledger.canonical_json import (
    compact_json,
    escape_characters,
    format_shortest_number,
    quote_text,
    reencode_json,
)
from memplane.ledger.entry import (
    JsonReply,
    StreamReply,
    Turn,
    Usage,
    make_entry,
    recompute_entry_id,
    strip_entry_id,
    with_occurrence,
)

VECTORS = json.loads(Path(__file__).with_name("id_vectors.json").read_text("utf-8"))
TURN = Turn(
    ts=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    agent="analyst",
    path="/v1/chat/completions",
    requested_model="openai/gpt-4o",
    effective_provider="openai",
    effective_model="gpt-4o",
    status_code=200,
    stream=False,
    request_original=rb"""{ "model": "openai/gpt-4o", "temperature": 0.70, "messages": [
        {"role":"user","content":"a<b & \u00e9 \/ ok"} ] }""",
    request_effective=rb"""{ "model": "gpt-4o", "temperature": 0.70, "messages": [
        {"role":"user","content":"a<b & \u00e9 \/ ok"} ] }""",
    reply=JsonReply(b'{"choices": []}'),
)


class Recorded(msgspec.Struct):
    """A recorded entry, with its bodies as they stand in the line."""

    ts: datetime
    claw_id: str
    path: str
    requested_model: str
    effective_provider: str
    effective_model: str
    status_code: int
    stream: bool
    request_original: msgspec.Raw
    request_effective: msgspec.Raw
    response: dict[str, msgspec.Raw]
    usage: dict[str, float]
    status: str = ""
    tool_trace: msgspec.Raw = msgspec.Raw(b"")


def turn_of(hashed: bytes) -> Turn:
    recorded = msgspec.json.decode(hashed, type=Recorded)
    response = {name: bytes(raw) for name, raw in recorded.response.items()}
    reply = (
        StreamReply(json.loads(response.get("text", b'""')).encode())
        if response["format"] == b'"sse"'
        else JsonReply(response.get("json", b""))
    )
    return Turn(
        ts=recorded.ts,
        agent=recorded.claw_id,
        path=recorded.path,
        requested_model=recorded.requested_model,
        effective_provider=recorded.effective_provider,
        effective_model=recorded.effective_model,
        status_code=recorded.status_code,
        stream=recorded.stream,
        request_original=bytes(recorded.request_original),
        request_effective=bytes(recorded.request_effective),
        reply=reply,
        usage=Usage(
            int(recorded.usage.get("prompt_tokens", 0)),
            int(recorded.usage.get("completion_tokens", 0)),
            recorded.usage.get("reported_cost_usd"),
            int(recorded.usage.get("total_rounds", 0)),
        ),
        status=recorded.status,
        tool_trace=bytes(recorded.tool_trace),
    )


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"][6:14])
def test_recorded_entries_are_written_alike(vector: dict[str, str]) -> None:
    hashed = vector["hashed_bytes_utf8"].encode()
    entry = make_entry(turn_of(hashed))
    assert strip_entry_id(entry.line) == hashed
    assert entry.id == vector["id"]
    assert recompute_entry_id(entry.line) == vector["id"]


def test_the_example_of_the_format() -> None:
    entry = make_entry(TURN)
    assert entry.id == "hist1_525b626f4c7697627b6fad2dc1c4eb9d2a27a49adafe04af0d6c228655cf22d6"
    assert entry.line.startswith(b'{"version":1,"id":"hist1_525b626f')
    assert rb'"temperature":0.70' in entry.line
    assert rb'"a\u003cb \u0026 \u00e9 \/ ok"' in entry.line
    assert '"a\\u003cb \\u0026 é / ok"'.encode() in entry.line


def test_an_equal_turn_in_the_same_second_gets_another_id() -> None:
    second = make_entry(with_occurrence(TURN, 2))
    assert second.id == "hist1_789cd9a987715f22210cfd3646fb8c1ca04cdcb70cd5e7b4c8c22441e80875bf"
    assert second.line.endswith(b',"occurrence":2}')
    assert make_entry(with_occurrence(TURN, 1)) == make_entry(TURN)


def test_a_legacy_line_without_an_id_hashes_whole() -> None:
    line = b'  {"version":1,"ts":"2026-01-02T03:04:05Z"}\n'
    assert recompute_entry_id(line) == "hist1_" + hashlib.sha256(line.strip()).hexdigest()


def test_an_id_inside_a_body_is_not_taken_for_the_entrys() -> None:
    quoted_id = b"hist1_" + b"0" * 64
    line = b'{"version":1,"ts":"x","request_original":{"id":"%s","a":1}}' % quoted_id
    assert strip_entry_id(line) == line


@pytest.mark.parametrize(
    ("spelled", "written"),
    [
        ("0.70", b"0.7"),
        ("1e3", b"1000"),
        ("12345678901234567890", b"12345678901234567000"),
        ("0.00000099", b"9.9e-7"),
        ("0.000001", b"0.000001"),
        ("1e21", b"1e+21"),
        ("1e20", b"100000000000000000000"),
        ("-1.5", b"-1.5"),
        ("-0", b"-0"),
        ("0", b"0"),
        ("0.0", b"0"),
        ("1E-7", b"1e-7"),
        ("123456789.125", b"123456789.125"),
        ("5e-05", b"0.00005"),
        ("1.7976931348623157e308", b"1.7976931348623157e+308"),
        ("5e-324", b"5e-324"),
    ],
)
def test_numbers_take_their_shortest_form(spelled: str, written: bytes) -> None:
    assert format_shortest_number(spelled) == written


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_shortest_form_is_the_same_number(number: float) -> None:
    written = format_shortest_number(repr(number)).decode()
    assert float(written) == number
    assert format_shortest_number(written).decode() == written


@pytest.mark.parametrize("raw", [b"", b"{", b"NaN", b"[1,]", b"'a'", b"{} {}", b"[" * 100_000])
def test_what_is_not_json_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each says something else
        compact_json(raw)
    with pytest.raises(ValueError):  # noqa: PT011
        reencode_json(raw)


def test_blanks_go_and_everything_else_stays() -> None:
    raw = b' { "b" : [ 1.0 , 1e3, "a  b\\n\\" , " ] ,\r\n\t"a":null , "b":true } '
    assert compact_json(raw) == b'{"b":[1.0,1e3,"a  b\\n\\" , "],"a":null,"b":true}'


def test_keys_are_sorted_and_the_last_duplicate_wins() -> None:
    raw = '{"é":1,"z":2,"a":3,"Z":4,"a":5}'.encode()
    assert reencode_json(raw) == '{"Z":4,"a":5,"z":2,"é":1}'.encode()


def test_strings_are_escaped_as_the_format_says() -> None:
    raw = '"\\u0001\\b\\f\\n\\r\\t\\"\\\\/\\u007f<>&\u2028\u2029é\\ud83e\\udde0"'
    controls = '"\\u0001\\b\\f\\n\\r\\t\\"\\\\/\x7f'
    others = '\\u003c\\u003e\\u0026\\u2028\\u2029é\U0001f9e0"'
    assert escape_characters(reencode_json(raw.encode())) == (controls + others).encode()


def test_half_a_surrogate_pair_ends_nothing() -> None:
    assert reencode_json(rb'{"\ud83d":["a\udde0b"]}') == '{"\ufffd":["a\ufffdb"]}'.encode()
    assert compact_json(rb'"\ud83d"') == rb'"\ud83d"'


def test_bytes_that_are_not_utf8() -> None:
    assert quote_text(b"a\xffb\xe2\x82") == rb'"a\ufffdb\ufffd\ufffd"'
    assert (
        escape_characters(quote_text("data: é \ufffd <\n".encode()))
        == '"data: é \ufffd \\u003c\\n"'.encode()
    )
    assert compact_json(b'"\xff"') == b'"\xff"'
    assert reencode_json(b'"\xff"') == '"\ufffd"'.encode()


values: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(values)
def test_writing_again_changes_nothing(value: Any) -> None:
    try:
        once = reencode_json(json.dumps(value).encode())
    except ValueError:
        return  # infinite, or beyond every float
    assert reencode_json(once) == once
    assert compact_json(once) == once
    assert b"\n" not in once


def test_a_number_beyond_every_float_is_kept_as_it_came_and_cannot_be_written_anew() -> None:
    assert compact_json(b'{ "a": 1e999 }') == b'{"a":1e999}'
    with pytest.raises(ValueError, match="beyond every float"):
        reencode_json(b'{"a":1e999}')


@given(st.integers() | st.sampled_from([2**53, 2**53 + 1, 10**15, 10**16 - 1, -(2**63), 10**21]))
def test_whole_numbers_go_through_a_float_too(number: int) -> None:
    assert reencode_json(b"[%d]" % number) == b"[" + format_shortest_number(str(number)) + b"]"


@pytest.mark.parametrize("raw", [b"-0", b"[-0]", b'{"a":-0}', b"[-0, 1]"])
def test_minus_zero_keeps_its_sign(raw: bytes) -> None:
    assert b"-0" in reencode_json(raw)
