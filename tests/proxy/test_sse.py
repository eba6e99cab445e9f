from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.exchange.sse import SseEvent, SseParser


def read(*chunks: bytes) -> list[SseEvent]:
    events = SseParser()
    found = [event for chunk in chunks for event in events.feed(chunk)]
    return found + events.end()


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"], ids=["LF", "CR", "CRLF"])
def test_each_kind_of_line_end_ends_lines(end: bytes) -> None:
    stream = end.join((b"event: a", b"data: 1", b"data: 2", b"", b"data: 3", b"", b""))

    assert read(stream) == [SseEvent("a", "1\n2"), SseEvent("", "3")]


def test_a_return_and_its_newline_may_come_apart() -> None:
    assert read(b"data: 1\r", b"\ndata: 2\r", b"\n\r", b"\n") == [SseEvent("", "1\n2")]


def test_comments_ids_retries_and_unknown_fields_say_nothing() -> None:
    stream = b": ping\n\nid: 7\nretry: 10\nother: x\nnothing\ndata: 1\n\n"

    assert read(stream) == [SseEvent("", "1")]


def test_only_one_blank_after_the_colon_is_left_out() -> None:
    assert read(b"data:  x\ndata:y\ndata\n\n") == [SseEvent("", " x\ny\n")]


def test_a_byte_order_mark_counts_only_at_the_start() -> None:
    stream = b"\xef\xbb\xbfdata: 1\n\n\xef\xbb\xbfdata: 2\n\n"

    assert read(stream) == [SseEvent("", "1")]
    assert read(b"\xef", b"\xbb", b"\xbfdata: 1\n\n") == [SseEvent("", "1")]


def test_an_event_with_only_a_name_is_one() -> None:
    assert read(b"event: error\n\n\n") == [SseEvent("error", "")]


def test_a_character_may_be_cut() -> None:
    stream = "data: é🌍\n\n".encode()

    for at in range(len(stream)):
        assert read(stream[:at], stream[at:]) == [SseEvent("", "é🌍")]


def test_a_byte_that_is_no_text_is_replaced() -> None:
    assert read(b"data: a\xffb\n\n") == [SseEvent("", "a\ufffdb")]


def test_characters_that_end_lines_elsewhere_do_not_here() -> None:
    said = "a\u2028b\x0bc\x0cd\x85e\x1cf"

    assert read(f"data: {said}\n\n".encode()) == [SseEvent("", said)]


@pytest.mark.parametrize("tail", [b"data: [DONE]", b"data: [DONE]\n", b"data: [DONE]\r"])
def test_what_the_stream_ended_in_is_there_and_says_so(tail: bytes) -> None:
    assert read(b"data: 1\n\n" + tail) == [
        SseEvent("", "1"),
        SseEvent("", "[DONE]"),
    ]


def test_nothing_is_left_of_a_stream_that_ended_well() -> None:
    assert read(b"data: 1\n\n: bye\n") == [SseEvent("", "1")]


def test_an_event_of_eight_megabytes_in_small_pieces() -> None:
    events = SseParser()
    piece = b"x" * 4096

    for chunk in (b"data: ", *[piece] * 2048):
        assert events.feed(chunk) == []

    assert events.feed(b"\n\n") == [SseEvent("", "x" * 4096 * 2048)]


@given(st.lists(st.binary(max_size=20), max_size=20))
def test_any_bytes_are_read_and_cuts_make_no_difference(chunks: list[bytes]) -> None:
    assert read(*chunks) == read(b"".join(chunks))


_ALPHABET = st.sampled_from(
    [b"\r", b"\n", b"data:", b"event:", b" ", b"x", b":", b"\xef\xbb\xbf", b"\xc3"]
)


@given(st.lists(_ALPHABET, max_size=40))
def test_cuts_between_what_streams_are_made_of_make_no_difference(pieces: list[bytes]) -> None:
    assert read(*pieces) == read(b"".join(pieces))
