"""Encoded bodies, as clients and providers send them, and as nobody should."""

from __future__ import annotations

import gzip

import pytest

from memplane.errors import InvalidRequest
from memplane.exchange.content_encoding import decode_content

MOST = 1 << 20


def member(text: bytes) -> bytes:
    return gzip.compress(text, mtime=0)


def test_gzip_may_have_members_and_zeros_behind_them() -> None:
    body = member(b"a") + member(b"") + member(b"b") + bytes(100)
    assert decode_content(body, "gzip", max_bytes=MOST) == b"ab"


def test_nobody_sends_a_thousand_members() -> None:
    """Each is a copy of all that follows: a megabyte of empty ones takes half a second."""
    with pytest.raises(InvalidRequest, match="too many members"):
        decode_content(member(b"") * 1000 + member(b"{}"), "gzip", max_bytes=MOST)


def test_members_have_one_length_together() -> None:
    with pytest.raises(InvalidRequest, match="longer than"):
        decode_content(member(bytes(MOST)) + member(b"x"), "gzip", max_bytes=MOST)
