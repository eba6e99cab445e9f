"""A session's output as it is kept."""

from __future__ import annotations

import hashlib
import os
import stat
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.errors import HomeError
from memplane.integrations.claude_code.output_extractor import OutputLine
from memplane.integrations.claude_code.transcript import (
    LineSource,
    TranscriptReader,
    TranscriptWriter,
    create_transcript,
    is_transcript,
)
from memplane.redaction.redactor import Redactor

NOW, LATER = "2026-03-01T09:30:00.000Z", "2026-03-01T09:30:01.500Z"
TOKEN = b"ghp_0123456789abcdefghijABCDEFGHIJ012345"
KEY = b"\n".join(
    [b"-----BEGIN RSA PRIVATE KEY-----", *[b"MIIEpAIBAAKCAQEA7v2n3x0K1h2bq9c8d7e6"] * 3]
)


def scrub(raw: bytes) -> bytes:
    return Redactor(key=b"k" * 32).json(raw).value


def every(lines: LineSource, *pieces: bytes) -> list[OutputLine]:
    found = [line for piece in pieces for line in lines.feed(piece, NOW)]
    return found + list(lines.end(NOW))


def written(*pieces: bytes) -> tuple[list[OutputLine], bytes]:
    log = bytearray()
    return every(TranscriptWriter(scrub, log.extend), *pieces), bytes(log)


def test_a_line_of_the_log_has_its_time_before_it() -> None:
    log = bytearray()
    transcript = TranscriptWriter(scrub, log.extend)
    assert list(transcript.feed(b"one\ntw", NOW)) == [OutputLine(b"one", NOW, 1, 0)]
    assert list(transcript.feed(b"o\r\n", LATER)) == [OutputLine(b"two\r", LATER, 2, 29)]
    assert list(transcript.end(LATER)) == []
    assert bytes(log) == f"{NOW} one\n{LATER} two\r\n".encode()


def test_a_line_is_found_again_by_its_offset_and_its_digest() -> None:
    lines, log = written("é\n\n[MEMORY:timing] x\n".encode(), b"\xff last")
    for line in lines:
        kept = log[line.offset :].split(b"\n")[0]
        assert kept[25:] == line.raw
        assert hashlib.sha256(kept[25:]).digest() == hashlib.sha256(line.raw).digest()
    assert [line.number for line in lines] == [1, 2, 3, 4]


def test_a_last_line_without_its_end_is_kept_and_known_as_such() -> None:
    lines, log = written(b"one\ntwo")
    assert [line.ended for line in lines] == [True, False]
    assert log.endswith(b" two\n")


@pytest.mark.parametrize(
    "line",
    [b"token " + TOKEN, b'{"type": "user", "text": "' + TOKEN + b'"}'],
    ids=["text", "json"],
)
def test_secrets_are_neither_kept_nor_handed_on(line: bytes) -> None:
    lines, log = written(line + b"\n")
    assert TOKEN not in log + lines[0].raw
    assert b"[redacted:github-token:" in lines[0].raw


@pytest.mark.parametrize("rest", [b"\n-----END RSA PRIVATE KEY-----\nafter\n", b"", b"\n"])
def test_a_key_over_several_lines_is_a_secret(rest: bytes) -> None:
    lines, log = written(b"before\n", KEY[:50], KEY[50:] + rest)
    assert b"MIIE" not in log
    assert lines[0].raw == b"before"
    assert b"[redacted:private-key:" in lines[1].raw
    assert all(log[line.offset + 25 :].startswith(line.raw) for line in lines)


def test_what_only_begins_like_a_key_is_let_go() -> None:
    many = b"".join(b"line %d\n" % number for number in range(1000))
    transcript = TranscriptWriter(scrub)
    found = list(transcript.feed(b"-----BEGIN RSA PRIVATE KEY of mine\n" + many, NOW))
    assert found[-1].raw == b"line 999"
    assert len(found) == 1001


def test_a_line_of_five_megabytes_in_small_pieces() -> None:
    whole = b"x" * (5 << 20) + b"\n"
    lines, _ = written(*(whole[at : at + 4096] for at in range(0, len(whole), 4096)))
    assert [len(line.raw) for line in lines] == [5 << 20]


@given(st.binary(max_size=80), st.lists(st.integers(0, 80), max_size=6))
def test_cuts_make_no_difference(data: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[start:end] for start, end in pairwise(places)]
    assert written(*pieces) == written(data)


@given(st.binary(max_size=80))
def test_a_log_reads_as_what_was_heard(data: bytes) -> None:
    lines, log = written(data)
    again = every(TranscriptReader(scrub), log)
    assert [(one.raw, one.at, one.number, one.offset) for one in again] == [
        (one.raw, one.at, one.number, one.offset) for one in lines
    ]


def test_a_log_is_known_by_its_beginning() -> None:
    _, log = written(b"x\n")
    assert is_transcript(log)
    assert not is_transcript(b'{"type":"system"}')
    assert not is_transcript(b"2026-03-01 09:30 started")


# The file


def test_a_log_is_there_at_once_and_for_its_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "home" / "sessions" / "one.log"
    with create_transcript(path) as log:
        log.write(b"a line\n")
        assert path.read_bytes() == b"a line\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_log_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "one.log"
    path.write_text("mine")
    with pytest.raises(HomeError, match="cannot be made"):
        create_transcript(path)
    assert path.read_text() == "mine"


def test_a_full_disk_ends_the_log_and_nothing_else() -> None:
    from memplane.integrations.claude_code.transcript import TranscriptFile

    with TranscriptFile(Path("/dev/full"), os.open("/dev/full", os.O_WRONLY)) as log:
        log.write(b"a line\n")
        log.write(b"another\n")
        assert "No space left" in log.trouble
