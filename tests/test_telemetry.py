"""Events of memory operations: their lines, their file, their counters."""

from __future__ import annotations

import io
import json
import logging
import multiprocessing
import os
import stat
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta, timezone
from itertools import product
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from memplane.telemetry import (
    LATENCY_BUCKETS_S,
    MemoryEvent,
    MemoryOperation,
    OperationStatus,
    Telemetry,
    encode_event,
)
from tests.support.turns import NOON

RECALL, RETAIN, FORGET = MemoryOperation
SKIPPED, SUCCEEDED, FAILED, TIMED_OUT = OperationStatus


def event(
    operation: MemoryOperation = RECALL, status: OperationStatus = SUCCEEDED, **more: Any
) -> MemoryEvent:
    given = {"ts": NOON, "claw_id": "analyst", "memory_service": "mem-svc", **more}
    return MemoryEvent(memory_op=operation, memory_status=status, **given)


def lines_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_a_full_event_has_the_formats_members_in_its_order() -> None:
    line = encode_event(
        event(
            model="openai/gpt-4o",
            latency_ms=12,
            status_code=200,
            memory_blocks=3,
            memory_bytes=240,
            memory_removed=2,
            memory_attempt=2,
            memory_queue=7,
            memory_redacted=1,
        )
    )
    assert line == (
        b'{"ts":"2026-03-01T12:00:00Z","claw_id":"analyst","type":"memory_op",'
        b'"model":"openai/gpt-4o","latency_ms":12,"status_code":200,"intervention":null,'
        b'"memory_service":"mem-svc","memory_op":"recall","memory_status":"succeeded",'
        b'"memory_blocks":3,"memory_bytes":240,"memory_removed":2,"memory_attempt":2,'
        b'"memory_queue":7,"memory_redacted":1}\n'
    )


def test_a_bare_event_leaves_out_what_is_not_said() -> None:
    assert encode_event(event(RETAIN, FAILED, error="retain returned status 502")) == (
        b'{"ts":"2026-03-01T12:00:00Z","claw_id":"analyst","type":"memory_op",'
        b'"intervention":null,"error":"retain returned status 502","memory_service":"mem-svc",'
        b'"memory_op":"retain","memory_status":"failed"}\n'
    )


@pytest.mark.parametrize(("operation", "status"), list(product(MemoryOperation, OperationStatus)))
@pytest.mark.parametrize("told", [None, 0, 4])
def test_blocks_and_bytes_are_there_on_recalled_ones_only_even_when_0(
    operation: MemoryOperation, status: OperationStatus, told: int | None
) -> None:
    body = json.loads(
        encode_event(event(operation, status, memory_blocks=told, memory_bytes=told))
    )
    if (operation, status) == (RECALL, SUCCEEDED):
        assert (body["memory_blocks"], body["memory_bytes"]) == (told or 0, told or 0)
    else:
        assert not {"memory_blocks", "memory_bytes"} & body.keys()


@pytest.mark.parametrize("operation", MemoryOperation)
def test_what_was_skipped_has_no_latency(operation: MemoryOperation) -> None:
    assert "latency_ms" not in json.loads(encode_event(event(operation, SKIPPED, latency_ms=5)))
    assert json.loads(encode_event(event(operation, FAILED, latency_ms=5)))["latency_ms"] == 5


def test_a_first_attempt_is_not_told_and_an_empty_queue_is() -> None:
    body = json.loads(encode_event(event(RETAIN, memory_attempt=1, memory_queue=0)))
    assert "memory_attempt" not in body
    assert body["memory_queue"] == 0


def test_times_are_whole_seconds_of_utc() -> None:
    zone = timezone(timedelta(hours=2))
    moment = (NOON + timedelta(microseconds=999_999)).astimezone(zone)
    assert json.loads(encode_event(event(ts=moment)))["ts"] == "2026-03-01T12:00:00Z"


def test_no_text_makes_a_second_line_a_long_one_or_an_error() -> None:
    told = event(RETAIN, FAILED, claw_id="a\nb" * 99, error="\ud83d" + "x\r\n" * 9999)
    line = encode_event(told)
    assert line.count(b"\n") == 1
    assert len(line) < 1500
    assert json.loads(line)["claw_id"].startswith("a\nb")


def test_events_are_appended_to_a_private_file(tmp_path: Path) -> None:
    path = tmp_path / "home" / "logs" / "telemetry.jsonl"
    telemetry = Telemetry(path)
    telemetry.emit(event())
    telemetry.emit(event(RETAIN, TIMED_OUT))
    telemetry.close()
    telemetry.emit(event(FORGET))
    telemetry.close()
    assert [one["memory_op"] for one in lines_in(path)] == ["recall", "retain", "forget"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_full_file_is_set_aside_and_the_one_before_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.jsonl"
    size = len(encode_event(event(memory_bytes=10)))
    telemetry = Telemetry(path, max_bytes=3 * size)
    for number in range(10, 18):
        telemetry.emit(event(memory_bytes=number))
    telemetry.close()
    assert [one["memory_bytes"] for one in lines_in(path)] == [16, 17]
    aside = path.with_name("telemetry.jsonl.1")
    assert [one["memory_bytes"] for one in lines_in(aside)] == [13, 14, 15]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(one.name for one in tmp_path.glob("tele*")) == [path.name, aside.name]


def test_a_file_that_somebody_moved_or_removed_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.jsonl"
    telemetry = Telemetry(path)
    telemetry.emit(event())
    path.rename(tmp_path / "moved")
    telemetry.emit(event(RETAIN))
    assert [one["memory_op"] for one in lines_in(path)] == ["retain"]
    path.unlink()
    telemetry.emit(event(FORGET))
    telemetry.close()
    assert [one["memory_op"] for one in lines_in(path)] == ["forget"]
    assert telemetry.figures().unwritten == 0


def test_a_line_that_a_crash_cut_does_not_swallow_the_next(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.jsonl"
    path.write_bytes(encode_event(event()) + b'{"ts":"2026-')
    telemetry = Telemetry(path)
    telemetry.emit(event(RETAIN))
    telemetry.emit(event(FORGET))
    telemetry.close()
    first, torn, *rest = path.read_bytes().splitlines()
    assert json.loads(first)["memory_op"] == "recall"
    assert torn == b'{"ts":"2026-'
    assert [json.loads(line)["memory_op"] for line in rest] == ["retain", "forget"]


def test_a_failing_disk_is_counted_and_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "logs"
    blocked.write_text("not a folder")
    telemetry = Telemetry(blocked / "telemetry.jsonl")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            telemetry.emit(event())
    assert telemetry.figures().unwritten == 3
    assert telemetry.figures().operations[RECALL].by_status[SUCCEEDED] == 3
    assert len(caplog.records) == 1
    blocked.unlink()
    telemetry.emit(event())
    telemetry.close()
    assert len(lines_in(blocked / "telemetry.jsonl")) == 1
    assert telemetry.figures().unwritten == 3


def test_a_full_disk_costs_only_the_lines_that_did_not_fit(tmp_path: Path) -> None:
    """Beyond a limit on file sizes the system writes what fits, and then nothing."""
    path = tmp_path / "telemetry.jsonl"
    child = multiprocessing.get_context("spawn").Process(
        target=_write_on_a_small_disk, args=(path,)
    )
    child.start()
    child.join(60)
    assert child.exitcode == 0
    whole = [line for line in path.read_bytes().splitlines() if line.endswith(b"}")]
    assert [json.loads(line)["memory_op"] for line in whole] == ["recall", "recall", "forget"]


def _write_on_a_small_disk(path: Path) -> None:
    import resource
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * len(encode_event(event())) + 20, hard))
    telemetry = Telemetry(path)
    for _ in range(5):
        telemetry.emit(event())
    assert telemetry.figures().unwritten == 3
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    telemetry.emit(event(FORGET))
    telemetry.close()


def test_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "telemetry.jsonl").symlink_to(tmp_path / "elsewhere")
    telemetry = Telemetry(tmp_path / "telemetry.jsonl")
    telemetry.emit(event())
    assert telemetry.figures().unwritten == 1
    assert not (tmp_path / "elsewhere").exists()


def test_a_stream_gets_each_line_also_where_the_file_fails(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    stream = io.BytesIO()
    telemetry = Telemetry(tmp_path / "file" / "telemetry.jsonl", stream=stream)
    telemetry.emit(event())
    telemetry.emit(event(RETAIN))
    assert stream.getvalue() == encode_event(event()) + encode_event(event(RETAIN))
    stream.close()
    telemetry.emit(event())
    assert telemetry.figures().unwritten == 3


def test_a_number_that_no_reader_takes_does_no_harm() -> None:
    telemetry = Telemetry(stream=io.BytesIO())
    telemetry.emit(event(RETAIN, memory_queue=1 << 90))
    assert telemetry.figures().operations[RETAIN].by_status[SUCCEEDED] == 1


def test_counters_are_those_of_the_lines(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.jsonl"
    telemetry = Telemetry(path)
    pairs = list(product(MemoryOperation, OperationStatus)) * 5
    for number, (operation, status) in enumerate(pairs):
        telemetry.emit(
            event(
                operation,
                status,
                latency_ms=number,
                memory_blocks=number % 4,
                memory_bytes=number * 10,
                memory_removed=number % 3,
                memory_attempt=number % 5,
                memory_redacted=number % 2,
                memory_queue=number,
            )
        )
    telemetry.close()
    written = lines_in(path)
    counted = telemetry.figures()
    assert len(written) == len(pairs)
    assert counted.queue == written[-1]["memory_queue"]
    for operation, figures in counted.operations.items():
        own = [one for one in written if one["memory_op"] == operation]
        assert figures.by_status == Counter(one["memory_status"] for one in own)
        assert figures.blocks == sum(one.get("memory_blocks", 0) for one in own)
        assert figures.bytes == sum(one.get("memory_bytes", 0) for one in own)
        assert figures.removed == sum(one.get("memory_removed", 0) for one in own)
        assert figures.redacted == sum(one.get("memory_redacted", 0) for one in own)
        assert figures.retried == sum("memory_attempt" in one for one in own)
        took = [one.get("latency_ms", 0) / 1000 for one in own if one["memory_status"] != SKIPPED]
        assert figures.seconds == pytest.approx(sum(took))
        assert figures.within == (
            *(sum(t <= end for t in took) for end in LATENCY_BUCKETS_S),
            len(took),
        )


def test_the_exact_time_wins_over_whole_milliseconds() -> None:
    telemetry = Telemetry()
    telemetry.emit(event(latency_ms=0), seconds=0.0004)
    telemetry.emit(event(latency_ms=1), seconds=0.0012)
    figures = telemetry.figures().operations[RECALL]
    assert figures.seconds == pytest.approx(0.0016)
    assert figures.within[:2] == (1, 2)


def test_threads_do_not_disturb_each_other(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.jsonl"
    telemetry = Telemetry(path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: telemetry.emit(event(memory_bytes=number)), range(2000)))
    telemetry.close()
    assert sorted(one["memory_bytes"] for one in lines_in(path)) == list(range(2000))
    assert telemetry.figures().operations[RECALL].by_status[SUCCEEDED] == 2000


def test_a_file_that_another_process_set_aside_first_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "telemetry.jsonl"
    telemetry = Telemetry(path, max_bytes=len(encode_event(event())))
    telemetry.emit(event())

    def wait_for_the_lock(*_: object) -> None:
        path.rename(tmp_path / "telemetry.jsonl.1")
        path.write_bytes(encode_event(event(FORGET)))

    monkeypatch.setattr("memplane.telemetry.fcntl.flock", wait_for_the_lock)
    telemetry.emit(event(RETAIN))
    telemetry.close()
    assert [one["memory_op"] for one in lines_in(path)] == ["forget", "retain"]
    aside = path.with_name("telemetry.jsonl.1")
    assert [one["memory_op"] for one in lines_in(aside)] == ["recall"]


def test_two_processes_that_fill_the_file_lose_no_line_of_the_last_two_files(
    tmp_path: Path,
) -> None:
    path = tmp_path / "telemetry.jsonl"
    lines = 400
    size = len(encode_event(event(memory_bytes=1000)))
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(2)
    children = [
        context.Process(target=_write_many, args=(path, start, lines, size * lines, ready))
        for start in (1000, 5000)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    # 800 lines, and a file is set aside at 400: two of them hold all, unless one is replaced.
    found = [one["memory_bytes"] for one in lines_in(path)]
    found += [one["memory_bytes"] for one in lines_in(path.with_name("telemetry.jsonl.1"))]
    assert sorted(found) == [*range(1000, 1000 + lines), *range(5000, 5000 + lines)]


def _write_many(path: Path, start: int, lines: int, max_bytes: int, ready: Any) -> None:
    telemetry = Telemetry(path, max_bytes=max_bytes)
    ready.wait()
    for number in range(start, start + lines):
        telemetry.emit(event(memory_bytes=number))
    telemetry.close()
    os._exit(telemetry.figures().unwritten)


def test_written_behind_nobody_waits_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "telemetry.jsonl"
    telemetry = Telemetry(path)
    go_on = Event()
    write_together = telemetry._write_together

    def slow(lines: bytes) -> None:
        go_on.wait()
        write_together(lines)

    monkeypatch.setattr(telemetry, "_write_together", slow)
    telemetry.start_background_writer()
    for _ in range(50):
        telemetry.emit(event())
    assert not path.exists()
    go_on.set()
    telemetry.close()
    assert len(path.read_bytes().splitlines()) == 50
    # And in the order in which it was told, by whoever tells it next.
    telemetry.emit(event(claw_id="later"))
    telemetry.close()
    assert json.loads(path.read_bytes().splitlines()[-1])["claw_id"] == "later"


def test_what_waits_behind_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memplane.telemetry._MAX_QUEUED_LINES", 3)
    telemetry = Telemetry(tmp_path / "telemetry.jsonl")
    go_on, begun = Event(), Event()

    def stuck(lines: bytes) -> None:
        begun.set()
        go_on.wait()

    monkeypatch.setattr(telemetry, "_write_together", stuck)
    telemetry.start_background_writer()
    telemetry.emit(event())
    begun.wait()
    for _ in range(10):
        telemetry.emit(event())
    assert telemetry.figures().unwritten == 7
    go_on.set()
    telemetry.close()


def test_lines_that_come_together_are_written_together_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memplane.telemetry._MAX_BATCH_LINES", 4)
    path = tmp_path / "telemetry.jsonl"
    telemetry = Telemetry(path)
    go_on, begun = Event(), Event()
    written: list[int] = []
    write_together = telemetry._write_together

    def noting(lines: bytes) -> None:
        begun.set()
        go_on.wait()
        written.append(lines.count(b"\n"))
        write_together(lines)

    monkeypatch.setattr(telemetry, "_write_together", noting)
    telemetry.start_background_writer()
    telemetry.emit(event(claw_id="first"))
    begun.wait()
    for number in range(10):
        telemetry.emit(event(claw_id=f"{number}"))
    go_on.set()
    telemetry.close()
    assert written == [1, 4, 4, 2]
    told = [json.loads(line)["claw_id"] for line in path.read_bytes().splitlines()]
    assert told == ["first", *map(str, range(10))]
