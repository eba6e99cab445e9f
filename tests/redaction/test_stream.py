"""Streams of events: secrets over several deltas, and everything else as it came."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from memplane.redaction.redactor import Redactor
from tests.redaction.generators import seeded
from tests.redaction.streams import DIALECTS, body, said

REDACTOR = Redactor(key=b"test")
SECRET = "sk-" + "live-123456789"


def test_the_marker_stands_where_the_secret_began_and_other_events_keep_their_bytes() -> None:
    raw = DIALECTS["chat"](["first", "key: sk", "-live-1234", "56789, ok", "last"])
    out = REDACTOR.stream(raw)
    before, after = raw.split(b"\n\n"), out.value.split(b"\n\n")
    assert [old == new for old, new in zip(before, after, strict=True)] == [
        *(True, False, False, False, True),
        True,
    ]
    assert said(out.value) == f"firstkey: {REDACTOR.text(SECRET).value}, oklast"
    assert out.counts == {"sk-key": 1}


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_any_line_ending_will_do(newline: str) -> None:
    events = [
        {"choices": [{"index": 0, "delta": {"content": one}}]} for one in ("sk-live", "-1234567")
    ]
    out = REDACTOR.stream(body(events, newline=newline) + b"data: [DONE]" + newline.encode() * 2)
    assert out.counts == {"sk-key": 1}
    assert out.value.endswith(b"data: [DONE]" + newline.encode() * 2)


def test_a_secret_is_found_in_a_stream_that_was_cut() -> None:
    raw = DIALECTS["chat"](["sk-", "live-1234", "56789"])
    for end in range(raw.index(b"live-1234") + 9, len(raw)):
        out = REDACTOR.stream(raw[:end])
        assert b"live-1234" not in out.value, raw[:end]


def test_lanes_do_not_mix() -> None:
    events = [
        {"choices": [{"index": 0, "delta": {"content": "sk-"}}]},
        {"choices": [{"index": 1, "delta": {"content": "live-123456789"}}]},
    ]
    raw = body(events)
    assert REDACTOR.stream(raw).value is raw


def test_two_choices_in_one_event_and_apart_are_the_same_lanes() -> None:
    both = [{"index": 0, "delta": {"content": "a"}}, {"index": 1, "delta": {"content": "sk-live"}}]
    last = {"index": 1, "delta": {"content": "-12345678"}}
    out = REDACTOR.stream(body([{"choices": both}, {"choices": [last]}]))
    assert out.counts == {"sk-key": 1}


def test_the_index_may_come_after_the_text() -> None:
    events = [
        {"choices": [{"delta": {"content": "sk-live"}, "index": 1}]},
        {"choices": [{"delta": {"content": "la"}, "index": 0}]},
        {"choices": [{"delta": {"content": "-12345678"}, "index": 1}]},
    ]
    assert REDACTOR.stream(body(events)).counts == {"sk-key": 1}


def test_other_strings_are_redacted_by_themselves_and_by_their_names() -> None:
    out = REDACTOR.stream(body([{"id": SECRET, "password": "abc", "choices": []}]))
    assert out.counts == {"sk-key": 1, "password": 1}


@pytest.mark.parametrize(
    "raw",
    [
        f": {SECRET}\n\n".encode(),
        f"event: {SECRET}\ndata: {{}}\n\n".encode(),
        f"data: {SECRET}\n\n".encode(),
        f"data: {SECRET[:6]}\n\ndata: {SECRET[6:]}\n\n".encode(),
        f"data:{SECRET}".encode(),
        f'data: {{"a":\ndata: "{SECRET}"}}\n\n'.encode(),
        b"\xef\xbb\xbfdata: " + json.dumps({"a": SECRET}).encode() + b"\n\n",
        b'data: {"a": ' + SECRET.encode() + b"\n\n",
        b'{"error":{"message":"' + SECRET.encode() + b'"}}',
    ],
    ids=[
        "comment",
        "event",
        "plain",
        "plain, cut",
        "no blank",
        "lines",
        "bom",
        "broken",
        "no sse",
    ],
)
def test_a_secret_is_found_wherever_a_stream_can_hold_one(raw: bytes) -> None:
    out = REDACTOR.stream(raw)
    assert out.counts == {"sk-key": 1}
    assert b"123456789" not in out.value


def test_tool_arguments_stay_json_and_lose_their_password() -> None:
    arguments = json.dumps({"cmd": 'é "x" \n', "env": {"DB_PASSWORD": "s3same-0pen", "A": "b"}})
    rng = seeded(25)
    for name in ("chat arguments", "messages arguments"):
        for _ in range(30):
            cuts = sorted(rng.sample(range(1, len(arguments)), 4))
            edges = [0, *cuts, len(arguments)]
            deltas = [arguments[a:b] for a, b in pairwise(edges)]
            found = json.loads(said(REDACTOR.stream(DIALECTS[name](deltas)).value))
            assert found["cmd"] == 'é "x" \n'
            assert found["env"]["A"] == "b"
            assert found["env"]["DB_PASSWORD"].startswith("[redacted:password:")


def test_a_stream_without_secrets_is_the_same_object() -> None:
    raw = DIALECTS["messages"](["The tok", "en is fine", "."]) + b": ping\n\ndata: [DONE]\n\n"
    assert REDACTOR.stream(raw).value is raw
