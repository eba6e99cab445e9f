"""Checking a ledger file: every kind of damage is found, and nothing else is."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from memplane.ledger.entry import make_entry
from memplane.ledger.file_verification import FileReport, LedgerProblem, verify_lines
from memplane.ledger.line_reader import LedgerLine, read_lines
from tests.ledger.test_entry import TURN, VECTORS
from tests.support.in_process import memplane_here

ENTRIES = [make_entry(replace(TURN, agent=f"agent{number}")).line for number in range(20)]
WHOLE = b"".join(line + b"\n" for line in ENTRIES)


def verified(data: bytes) -> FileReport:
    return verify_lines(read_lines(io.BytesIO(data)))


def problems(data: bytes) -> list[tuple[int, LedgerProblem]]:
    return [(one.line, one.problem) for one in verified(data).findings]


def test_a_file_as_it_was_recorded_has_no_findings() -> None:
    report = verified(WHOLE)
    assert (report.entries, report.legacy, report.findings) == (20, 0, [])


def test_what_another_recorder_wrote_has_no_findings() -> None:
    lines = {
        b'{"version":1,"id":"%s",' % one["id"].encode()
        + one["hashed_bytes_utf8"].encode()[len(b'{"version":1,') :]
        for one in VECTORS
    }
    report = verified(b"".join(line + b"\n" for line in lines))
    assert report.findings == []
    assert report.entries == len(lines)


def test_every_changed_byte_is_found() -> None:
    line = ENTRIES[0] + b"\n"
    for at in range(len(line)):
        changed = line[:at] + bytes([line[at] ^ 1]) + line[at + 1 :]
        assert verified(changed).findings, f"byte {at}: {changed[at : at + 20]!r}"


def test_every_cut_is_found() -> None:
    line = ENTRIES[0]
    for at in range(1, len(line)):
        assert problems(line[:at]) == [(1, LedgerProblem.TORN)]
    assert problems(line) == []


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (WHOLE + ENTRIES[3] + b"\n", [(21, LedgerProblem.REPEATED)]),
        (
            WHOLE + b"garbage\n" + ENTRIES[0][:50],
            [(21, LedgerProblem.DAMAGED), (22, LedgerProblem.TORN)],
        ),
        (b"\0" * 100 + b"\n" + WHOLE, [(1, LedgerProblem.DAMAGED)]),
        (
            b"[1]\n" + b"[" * 100_000 + b"\n",
            [(1, LedgerProblem.DAMAGED), (2, LedgerProblem.DAMAGED)],
        ),
        (b"\n\n" + WHOLE, []),
        (b"", []),
    ],
)
def test_damage_is_told_apart(data: bytes, found: list[tuple[int, LedgerProblem]]) -> None:
    assert problems(data) == found


def test_a_legacy_line_is_counted_and_not_compared() -> None:
    report = verified(b'{"version":1,"ts":"2026-01-02T03:04:05Z"}\n')
    assert (report.entries, report.legacy, report.findings) == (1, 1, [])


def test_a_line_separator_inside_a_string_ends_no_line() -> None:
    line = '{"version":1,"text":"a\u2028b\x85c"}\n'.encode()
    assert verified(line).entries == 1


def test_a_line_too_long_is_passed_over_and_said_to_be() -> None:
    data = b'{"a":1}\n' + b"x" * 50 + b"\n" + b'{"b":2}\n' + b"y" * 50
    lines = list(read_lines(io.BytesIO(data), max_line_bytes=20))
    assert lines == [
        LedgerLine(1, 0, 8, b'{"a":1}'),
        LedgerLine(2, 8, 51, None),
        LedgerLine(3, 59, 8, b'{"b":2}'),
        LedgerLine(4, 67, 50, None, ended=False),
    ]
    assert [one.problem for one in verify_lines(lines).findings] == [LedgerProblem.TOO_LONG] * 2


def test_a_line_of_nine_megabytes_is_read() -> None:
    turn = replace(TURN, request_original=b'{"a":"%s"}' % (b"x" * 9_000_000))
    assert verified(make_entry(turn).line + b"\n").findings == []


def test_the_command_says_what_it_found(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    file.write_bytes(WHOLE)
    good = memplane_here(home, "history", "verify", "--file", str(file))
    assert (good.returncode, good.stdout) == (0, "20 entries as recorded; 0 findings\n")
    file.write_bytes(WHOLE.replace(b"agent7", b"agent8"))
    bad = memplane_here(home, "history", "verify", "--file", str(file))
    assert bad.returncode == 1
    assert bad.stdout.startswith("changed: line 8 at byte ")
    listed = memplane_here(home, "history", "verify", "--file", str(file), "--json")
    assert [one["problem"] for one in json.loads(listed.stdout)["findings"]] == ["changed"]
    missing = memplane_here(home, "history", "verify", "--file", str(tmp_path / "none"))
    assert missing.returncode == 1
    assert "No such file" in missing.stderr
    assert not home.exists()
