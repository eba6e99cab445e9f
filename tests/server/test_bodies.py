"""JSON from anybody: what is taken, what is refused, and how deep it may go."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.exceptions import HTTPException

from memplane.server import request_body
from memplane.server.request_body import check_head, has_duplicate_key, is_deeper_than, parse_json


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "not JSON"),
        (b"nonsense", "not JSON"),
        (b"{} {}", "not JSON"),
        (b"\xff", "not JSON"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        ('{"a":1}'.encode("utf-16"), "not JSON"),
        (b"[" * 100_000, "nested"),
        (b'{"a":' * 100_000, "nested"),
        (b"[" * 65 + b"]" * 65, "nested"),
        (b"NaN", "NaN"),
        (b'{"a":[Infinity]}', "Infinity"),
        (b"-Infinity", "Infinity"),
        (b"1e999", "too large"),
        (b"1" * 5000, "too long"),
        (b'{"a":1,"a":1}', "twice"),
        (b'{"b":[{"a":1,"\\u0061":2}]}', "twice"),
    ],
)
def test_what_is_refused_with_400(body: bytes, says: str) -> None:
    with pytest.raises(HTTPException) as caught:
        parse_json(body)
    assert caught.value.status_code == 400
    assert says in caught.value.detail


@pytest.mark.parametrize(
    "body",
    [
        b'"\\ud83d"',
        b'{"__proto__":{"x":1},"__class__":"y"}',
        b"[" * 64 + b"]" * 64,
        b'{"a":"' + b"[" * 1000 + b'"}',
        b'{"a":"\\"' + b"{" * 1000 + b'"}',
        b"123456789012345678901234567890",
        b"0.1",
    ],
)
def test_what_is_taken(body: bytes) -> None:
    assert parse_json(body) == json.loads(body)


@pytest.mark.parametrize(
    ("body", "twice"),
    [
        (b"{}", False),
        (b" { } ", False),
        (b'{"a":1}', False),
        (b'{"a":1,"b":{"c":1,"c":2}}', False),
        (b'{ "a" : 1 , "b" : [ {"a":1} ] }', False),
        (b'{"\\u0061":1,"b":2}', False),
        ('{"ä":"ö"}'.encode(), False),
        (b'{"a":1,"a":1}', True),
        (b'{"a":12,"a":1}', True),
        (b'{"a":1,"b":2,"a":1}', True),
        (b'{"a":1, "b":2, "\\u0061":3}', True),
        (b'{"ab":1,"":2,"ab":1}', True),
    ],
)
def test_a_key_that_is_there_twice_is_seen(body: bytes, *, twice: bool) -> None:
    assert has_duplicate_key(body) is twice


KEYS = st.lists(st.text(alphabet='ab"\\ä:,{ '), max_size=4)


@given(
    keys=KEYS, values=st.lists(st.text(alphabet='ab"\\ä:,{} '), min_size=4), close=st.booleans()
)
def test_a_key_is_there_twice_when_it_is(
    keys: list[str], values: list[str], *, close: bool
) -> None:
    colon, comma = (":", ",") if close else (" : ", " , ")
    members = (
        json.dumps(key, ensure_ascii=close) + colon + json.dumps({value: value})
        for key, value in zip(keys, values, strict=False)
    )
    body = "{" + comma.join(members) + "}"
    assert has_duplicate_key(body.encode()) is (len(set(keys)) < len(keys))


def depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


VALUES = st.recursive(
    st.text(alphabet='[]{}"\\a\n') | st.none() | st.integers(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='[]{}"\\a'), inner),
)


@given(value=VALUES, piece=st.integers(1, 9))
def test_the_depth_is_that_of_the_value_wherever_it_is_cut(value: object, piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(request_body, "_SCAN_CHUNK_BYTES", piece)
        body = json.dumps(value).encode()
        assert not is_deeper_than(depth(value), body)
        assert depth(value) == 0 or is_deeper_than(depth(value) - 1, body)


@given(st.binary(), st.integers(1, 5))
def test_the_depth_of_any_bytes_can_be_asked(body: bytes, piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(request_body, "_SCAN_CHUNK_BYTES", piece)
        is_deeper_than(64, body)


@given(st.text(alphabet='[]{}",:\\0a eE-.\ud83d', max_size=40))
def test_no_body_does_anything_but_parse_or_be_refused(text: str) -> None:
    with suppress(HTTPException):
        parse_json(text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "text/plain"}, 415),
        ({}, 415),
        ({"content-type": "application/jsonx"}, 415),
        ({"content-type": "application/json; charset=utf-16"}, 415),
        ({"content-type": "application/json", "content-encoding": "gzip"}, 415),
        ({"content-type": "application/json", "content-length": "101"}, 413),
        ({"content-type": "application/json", "content-length": "9" * 5000}, 413),
        ({"content-type": "application/json", "content-length": "-1"}, 400),
        ({"content-type": "application/json", "content-length": "\u0663"}, 400),
        ({"content-type": "application/json", "content-length": "100"}, None),
        ({"content-type": "Application/JSON; Charset=UTF-8"}, None),
        ({"content-type": "application/merge-patch+json"}, None),
        ({"content-type": "application/json", "content-encoding": "identity"}, None),
    ],
)
def test_what_a_head_says_of_its_body(headers: dict[str, str], status: int | None) -> None:
    found = None
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    try:
        check_head(raw, limit=100, json=True, encoded=False)
    except HTTPException as refused:
        found = refused.status_code
    assert found == status
