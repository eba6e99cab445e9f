from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.errors import InvalidRequest
from memplane.exchange.request_body import parse_body

ODD = (
    b' { "model" : " gpt-4o " ,\r\n\t"temperature": 0.70, "n":1e3,"seed": 12345678901234567890 ,'
    b'"stop" : [ "\\u00e9\\/" ,"\\ud83d" ], "x\\u0041": {"b": 1 , "a":-0.0},"stream":true } \n'
)


def test_the_model_and_the_stream_are_read() -> None:
    body = parse_body(ODD)

    assert (body.model, body.stream) == ("gpt-4o", True)
    assert body.raw == ODD
    assert list(body.members) == ["model", "temperature", "n", "seed", "stop", "xA", "stream"]


@pytest.mark.parametrize("raw", [b"{}", b'{"model":1,"stream":"yes"}', b'{"model":null}'])
def test_what_is_no_model_is_none(raw: bytes) -> None:
    assert (parse_body(raw).model, parse_body(raw).stream) == ("", False)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"null",
        b'"x"',
        b"{",
        b'{"a":1} x',
        b'{"a":NaN}',
        b'{"a":"\xff"}',
        b'{"a":"\\ud8"}',
        b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    ],
    ids=range(11),
)
def test_what_is_no_json_object_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidRequest, match="invalid JSON body"):
        parse_body(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"model":"a","model":"b"}',
        b'{"model":"a","model":"a"}',
        b'{"model":"a","x":1,"mod\\u0065l":"a"}',
        b'{"a":1,"b":12,"a":12}',
    ],
)
def test_a_key_that_is_there_twice_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidRequest, match="twice"):
        parse_body(raw)


def test_a_member_is_decoded_when_it_is_asked_for() -> None:
    body = parse_body(b'{"a":[1,{"b":"\\u00e9"}],"big":1e999}')

    assert body.value("a") == [1, {"b": "é"}]
    assert body.value("a") is body.value("a")
    assert body.value("big") == float("inf")
    assert body.value("none") is None


def test_what_no_reader_takes_is_refused_when_it_is_asked_for() -> None:
    body = parse_body(b'{"a":' + b"1" * 10_000 + b"}")

    with pytest.raises(InvalidRequest):
        body.value("a")


def test_half_a_surrogate_pair_is_taken_and_kept() -> None:
    raw = b'{"a":"x\\ud83d","b":"\\\\ud83d \\ud83d\\ude00 \\uDE00","model":"m"}'
    body = parse_body(raw)

    assert body.value("a") == "x\ufffd"
    assert body.value("b") == "\\ud83d 😀 \ufffd"
    assert body.with_members({"model": b'"n"'}) == raw.replace(b'"m"', b'"n"')


def test_a_member_is_replaced_and_every_other_byte_stays() -> None:
    changed = parse_body(ODD).with_members({"model": b'"other"'})

    assert changed == ODD.replace(b'" gpt-4o "', b'"other"')


def test_new_members_come_last() -> None:
    options = {"stream_options": b'{"include_usage":true}', "é": b"1"}

    assert parse_body(b'{"a":1 }').with_members(options) == (
        '{"a":1 ,"stream_options":{"include_usage":true},"é":1}'.encode()
    )
    assert parse_body(b" {} ").with_members({"a": b"1"}) == b' {"a":1} '


def test_nothing_replaced_gives_the_same_bytes() -> None:
    body = parse_body(ODD)

    assert body.with_members({}) is body.raw


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(
    document=st.dictionaries(st.text(), _VALUES, min_size=1, max_size=6),
    data=st.data(),
    indent=st.sampled_from([None, 0, 2, "\t"]),
    ascii_only=st.booleans(),
)
def test_any_body_keeps_its_other_bytes(
    document: dict[str, object], data: st.DataObject, indent: int | str | None, *, ascii_only: bool
) -> None:
    name = data.draw(st.sampled_from(sorted(document)))
    try:
        raw = json.dumps(document, indent=indent, ensure_ascii=ascii_only).encode()
    except UnicodeEncodeError:
        return  # half a surrogate pair that is not escaped is no UTF-8
    old = json.dumps(document[name], indent=indent, ensure_ascii=ascii_only)

    changed = parse_body(raw).with_members({name: b'"@@new@@"'})

    assert json.loads(changed) == {**json.loads(raw), name: "@@new@@"}
    head, _, tail = changed.partition(b'"@@new@@"')
    assert raw.startswith(head)
    assert raw.endswith(tail)
    if indent is None:
        assert len(raw) == len(head) + len(old.encode()) + len(tail)


@given(
    st.binary(max_size=60) | st.text(alphabet='{}[]",:\\ud8 0e-1a', max_size=40).map(str.encode)
)
def test_any_bytes_are_a_body_or_refused(raw: bytes) -> None:
    try:
        body = parse_body(raw)
    except InvalidRequest:
        return
    assert isinstance(json.loads(raw), dict)
    assert body.with_members({"model": b"1"})
