"""Tests for the chunk of a stream that only tells its usage."""

from __future__ import annotations

import time

import pytest

from memplane.exchange.usage_chunk import UsageChunkFilter

SAID = b'data: {"choices": [{"delta": {"content": "hi"}}], "usage": null}'
USED = b'data: {"choices": [], "usage": {"prompt_tokens": 9}}'
DONE = b"data: [DONE]"


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n", b"\r\n\n"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_only_that_chunk_is_left_out_however_lines_end_and_pieces_are_cut(
    end: bytes, size: int
) -> None:
    stream = b": hello" + end + SAID + end + USED + end + DONE + end
    without = UsageChunkFilter()
    passed = [without.feed(stream[at : at + size]) for at in range(0, len(stream), size)]
    assert without.end() == b""
    assert b"".join(passed) == stream.replace(USED + end, b"")


@pytest.mark.parametrize("end", [b"\n\n", b"\n\r\n"])
def test_an_event_is_passed_on_as_soon_as_it_is_whole(end: bytes) -> None:
    without = UsageChunkFilter()
    assert without.feed(SAID + end + b"data: {") == SAID + end
    assert without.end() == b"data: {"


def test_a_long_event_takes_no_longer_than_its_length() -> None:
    without = UsageChunkFilter()
    began = time.process_time()
    for _ in range(256):
        assert without.feed(b"x" * 65536) == b""
    assert len(without.feed(b"\n\n")) == (16 << 20) + 2
    assert time.process_time() - began < 5  # a few tenths; half a minute when all is read anew
