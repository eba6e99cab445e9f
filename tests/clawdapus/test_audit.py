"""Events of a log in one form, what they add up to, and where they are read from."""

from __future__ import annotations

import asyncio
import io
import json
import math
import os
import random
import tracemalloc
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplane.audit.events import AuditEvent, EventFilter, read_event, read_tool_calls
from memplane.audit.sources import (
    EventOrNone,
    ProxyContainer,
    find_docker,
    find_proxy_containers,
    follow_docker,
    follow_file,
    follow_stream,
    read_docker_events,
    read_file_events,
    read_ledger_events,
    read_log_events,
    read_rotated_events,
)
from memplane.audit.summary import AuditTally, compute_percentile
from memplane.errors import InvalidRequest, PodError
from memplane.integrations.clawdapus.memory_service.service_targets import LedgerPaths
from memplane.kit.line_splitter import LineSplitter
from memplane.ledger.entry import make_entry
from memplane.telemetry import MemoryEvent, MemoryOperation, OperationStatus, Telemetry
from tests.support.turns import NOON, record, turn


def told(kind: str, seconds: int = 0, claw: str = "analyst", **more: Any) -> dict[str, Any]:
    """An event as a proxy writes it."""
    at = NOON + timedelta(seconds=seconds)
    body = {"ts": f"{at:%Y-%m-%dT%H:%M:%SZ}", "claw_id": claw, "type": kind}
    return {**body, **more, "intervention": more.get("intervention")}


def recall(status: str = "succeeded", **more: Any) -> dict[str, Any]:
    usual = {"memory_service": "mem-svc", "memory_op": "recall", "memory_status": status}
    return told("memory_op", **{**usual, "model": "openai/gpt-4o", **more})


def retain(status: str = "succeeded", **more: Any) -> dict[str, Any]:
    return recall(status, **{"memory_op": "retain", **more})


def log(*events: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in events)


def read(data: bytes) -> list[EventOrNone]:
    return list(read_log_events(io.BytesIO(data)))


def summed(found: Iterable[EventOrNone]) -> Any:
    """The summary as JSON shows it."""
    tally = AuditTally()
    for one in found:
        if one is not None:
            tally.add(one)
    return msgspec.to_builtins(tally.summary())


# Events


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ({"ts": "2026-03-01T12:00:00Z"}, "2026-03-01T12:00:00Z"),
        ({"timestamp": "2026-03-01T13:00:00+01:00", "ts": "x"}, "2026-03-01T12:00:00Z"),
        ({"timestamp": " ", "ts": "2026-03-01T12:00:00.25Z"}, "2026-03-01T12:00:00.250000Z"),
    ],
)
def test_the_time_is_that_of_timestamp_or_ts(body: dict[str, str], shown: str) -> None:
    event = read_event(json.dumps({**body, "type": "request"}).encode())
    assert event is not None
    assert event.body() == {"timestamp": shown, "type": "request"}


@pytest.mark.parametrize(
    "line",
    [
        b"not json",
        b"{",
        b"[]",
        b"7",
        b'{"type":"request"}',
        b'{"ts":"yesterday","type":"request"}',
        b'{"ts":"2026-03-01T12:00:00Z"}',
        b'{"ts":"2026-03-01T12:00:00Z","type":"  "}',
        b'{"ts":"2026-03-01T12:00:00Z","type":7}',
        b'{"ts":1772366400,"type":"request"}',
        b'{"ts":"2026-03-01T12:00:00Z","type":"request","latency_ms":NaN}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_event(line: bytes) -> None:
    assert read_event(line) is None


def test_every_memory_field_is_kept_and_the_rest_that_is_one_value() -> None:
    event = read_event(
        json.dumps(
            recall(
                latency_ms=12.0,
                status_code=200,
                memory_blocks=0,
                memory_bytes=0,
                memory_removed=2,
                memory_attempt=3,
                memory_queue=9.0,
                memory_redacted=1,
                memory_someday="also",
                error=" why ",
                channels=["a", "b"],
                empty="",
            )
        ).encode()
    )
    assert event is not None
    assert list(event.body().items()) == [
        ("timestamp", "2026-03-01T12:00:00Z"),
        ("claw_id", "analyst"),
        ("type", "memory_op"),
        ("memory_service", "mem-svc"),
        ("memory_op", "recall"),
        ("memory_status", "succeeded"),
        ("model", "openai/gpt-4o"),
        ("latency_ms", 12),
        ("status_code", 200),
        ("memory_blocks", 0),
        ("memory_bytes", 0),
        ("memory_removed", 2),
        ("memory_attempt", 3),
        ("memory_queue", 9),
        ("memory_redacted", 1),
        ("memory_someday", "also"),
        ("error", "why"),
    ]
    assert b".0" not in msgspec.json.encode(event.body())


def test_an_intervention_is_its_reason() -> None:
    event = read_event(json.dumps(told("intervention", intervention=" too loud ")).encode())
    assert event is not None
    assert event.body()["intervention_reason"] == "too loud"
    assert "intervention" not in event.body()


def test_what_telemetry_writes_is_read_back_whole() -> None:
    stream = io.BytesIO()
    Telemetry(stream=stream).emit(
        MemoryEvent(
            ts=NOON,
            claw_id="analyst",
            model="m",
            latency_ms=3,
            status_code=200,
            memory_service="s",
            memory_op=MemoryOperation.RECALL,
            memory_status=OperationStatus.SUCCEEDED,
            memory_blocks=2,
            memory_bytes=90,
        )
    )
    written = json.loads(stream.getvalue())
    (event,) = read(stream.getvalue())
    assert event is not None
    expected = {name: value for name, value in written.items() if name != "intervention"}
    assert event.body() == {"timestamp": expected.pop("ts"), **expected}


@pytest.mark.parametrize(
    "more",
    [
        {"error": "half \ud83d", "na\ud83dme": "x"},
        {"memory_bytes": 10**40, "latency_ms": 1e300},
        {"memory_blocks": {"deep": [1]}, "tokens_in": "12"},
        {"error": "x" * 100_000},
    ],
)
def test_whatever_a_line_says_the_event_can_be_written(more: dict[str, Any]) -> None:
    event = read_event(json.dumps(told("response", **more)).encode())
    assert event is not None
    assert len(msgspec.json.encode(event.body())) < 2000


@given(st.binary(max_size=200))
def test_no_bytes_are_too_odd(data: bytes) -> None:
    for found in read(data):
        assert found is None or isinstance(found, AuditEvent)


def test_wanted_ones_are_chosen_by_time_agent_and_type() -> None:
    events = [one for one in read(log(told("request"), told("response", 5, "writer"))) if one]
    assert [EventFilter().includes(one) for one in events] == [True, True]
    assert [EventFilter(claw="writer").includes(one) for one in events] == [False, True]
    assert [EventFilter(type="request").includes(one) for one in events] == [True, False]
    at = NOON + timedelta(seconds=5)
    assert [EventFilter(since=at).includes(one) for one in events] == [False, True]
    assert not any(EventFilter(since=at + timedelta(seconds=1)).includes(one) for one in events)


# Tool calls of a ledger


def traced(*calls: dict[str, Any], **more: Any) -> bytes:
    rounds = [{"round": 1, "tool_calls": list(calls), "round_usage": {}}]
    return make_entry(turn("x", tool_trace=json.dumps(rounds).encode(), **more)).line


def test_each_tool_call_of_an_entry_is_an_event() -> None:
    line = traced(
        {"name": "search", "service": "web", "latency_ms": 40, "status_code": 200, "status": "ok",
         "arguments": {"q": "private"}, "result": {"message": "3 found"}},
        {"name": "fetch", "duplicate": True, "duplicate_of_round": 1, "duplicate_count": 2},
        {"service": "nameless"},
        status="ok",
    )  # fmt: skip
    calls = read_tool_calls("hist1_7", line)
    assert calls is not None
    assert [one.body() for one in calls] == [
        {
            "timestamp": "2026-03-01T12:00:00Z",
            "claw_id": "analyst",
            "type": "tool_call",
            "model": "gpt-4o",
            "source_service": "session-history",
            "session_entry_id": "hist1_7",
            "final_status": "ok",
            "final_status_code": 200,
            "latency_ms": 40,
            "status_code": 200,
            "tool_name": "search",
            "tool_service": "web",
            "tool_status": "ok",
            "tool_round": 1,
        },
        {
            "timestamp": "2026-03-01T12:00:00Z",
            "claw_id": "analyst",
            "type": "tool_call",
            "model": "gpt-4o",
            "source_service": "session-history",
            "session_entry_id": "hist1_7",
            "final_status": "ok",
            "final_status_code": 200,
            "tool_name": "fetch",
            "tool_duplicate": True,
            "tool_duplicate_of_round": 1,
            "tool_duplicate_count": 2,
            "tool_round": 1,
        },
    ]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ({"status_code": 500, "result": {"message": "down"}}, "down"),
        ({"status": "error", "result": {"message": "down"}}, "down"),
        ({"status": "error"}, ""),
        ({"status_code": 404}, ""),
        ({"result": {"error": "refused"}}, "refused"),
        ({"result": {"error": {"message": "refused"}}}, "refused"),
    ],
)
def test_a_tool_call_that_failed_is_told_and_counted(call: dict[str, Any], error: str) -> None:
    events = read_tool_calls("i", traced({"name": "t", **call}, {"name": "fine"}))
    assert events is not None
    assert events[0].body().get("error", "") == error
    sums = summed(events)
    assert (sums["tool_calls"], sums["tool_errors"]) == (2, 1)


def test_entries_without_tools_have_none_and_broken_ones_are_told() -> None:
    assert read_tool_calls("i", make_entry(turn("x")).line) == []
    assert read_tool_calls("i", b'{"tool_trace"') is None
    assert read_tool_calls("i", b'{"tool_trace":[],"ts":7}') is None
    odd = b'{"ts":"2026-03-01T12:00:00Z","tool_trace":[7,{"tool_calls":"x"},{"tool_calls":[3]}]}'
    assert read_tool_calls("i", odd) == []


# Sums


def test_every_type_has_its_counter_and_only_turns_name_models() -> None:
    sums = summed(
        read(
            log(
                told("request", model="a"),
                told("response", 1, model="a", tokens_in=10, tokens_out=3, cost_usd=0.25),
                told("request", 2, model="b"),
                told("error", 3, model="b", status_code=502, error="no"),
                told("intervention", 4, model="a", intervention="stopped"),
                told("failover", 5, model="b"),
                told("feed_fetch", 6, feed_name="f", status_code=200),
                told("feed_fetch", 7, feed_name="f", status_code=503),
                told("feed_fetch", 8, feed_name="f", error="timeout"),
                told("feed_injection", 9),
                told("tool_manifest_loaded", 10, manifest_present=True, tools_count=4),
                told("context_block", 11, context_block_kind="k"),
                told("channel_context_op", 12, channels=["c"], retained=4),
                told("provider_pool", 13, "", provider="p", action="cooldown"),
                recall(model="a"),
                retain(model="a"),
            )
        )
    )
    analyst, unknown = sums["agents"][1], sums["agents"][0]
    assert unknown["claw_id"] == "(unknown)"
    assert unknown["provider_pool_events"] == 1
    assert analyst["model_usage"] == {"a": 1, "b": 1}
    assert {name: analyst[name] for name in analyst if isinstance(analyst[name], int)} == {
        "requests": 2,
        "responses": 1,
        "errors": 1,
        "interventions": 1,
        "tokens_in": 10,
        "tokens_out": 3,
        "feed_fetches": 3,
        "feed_errors": 2,
        "tool_calls": 0,
        "tool_errors": 0,
        "provider_pool_events": 0,
    }
    assert analyst["cost_usd"] == 0.25
    assert analyst["first_timestamp"] == "2026-03-01T12:00:00Z"
    assert analyst["last_timestamp"] == "2026-03-01T12:00:12Z"
    assert (sums["events"], sums["requests"], sums["provider_pool_events"]) == (16, 2, 1)


def test_memory_counters_are_a_recount_of_the_log() -> None:
    dice = random.Random(4)  # noqa: S311
    events = [_any_memory_event(dice, number) for number in range(3000)]
    found = read(log(*events))
    sums = summed(found)
    assert sums["memory"] == _recounted(events)
    assert [one["claw_id"] for one in sums["agents"]] == ["a", "b", "c"]
    for agent in sums["agents"]:
        own = [one for one in events if one["claw_id"] == agent["claw_id"]]
        assert agent["memory"] == _recounted(own)
        assert agent["model_usage"] == {}
    assert [one["service"] for one in sums["services"]] == ["one", "two"]
    for service in sums["services"]:
        own = [one for one in events if one["memory_service"] == service["service"]]
        assert service["memory"] == _recounted(own)


def _any_memory_event(dice: random.Random, number: int) -> dict[str, Any]:
    operation = dice.choice(["recall", "recall", "retain", "forget"])
    status = dice.choice(["succeeded", "succeeded", "failed", "timed_out", "skipped"])
    more: dict[str, Any] = {}
    if status != "skipped" and dice.random() < 0.9:
        more["latency_ms"] = dice.randrange(1, 400)
    if (operation, status) == ("recall", "succeeded"):
        more |= {"memory_blocks": dice.randrange(9), "memory_bytes": dice.randrange(9000)}
        more |= {"memory_removed": 2} if dice.random() < 0.1 else {}
    if operation != "recall" and dice.random() < 0.3:
        more |= {"memory_attempt": dice.randrange(2, 5), "memory_queue": dice.randrange(40)}
    return told(
        "memory_op",
        number,
        dice.choice("abc"),
        model="m",
        memory_service=dice.choice(["one", "two"]),
        memory_op=operation,
        memory_status=status,
        **more,
    )


def _recounted(events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    counted: dict[str, Any] = {}
    for operation in ("recall", "retain", "forget"):
        own = [one for one in events if one["memory_op"] == operation]
        ended = Counter(one["memory_status"] for one in own)
        counted[operation] = {
            "ok": ended["succeeded"],
            "failed": ended["failed"],
            "timed_out": ended["timed_out"],
            "skipped": ended["skipped"],
        }
        if operation == "recall":
            tried = [one for one in own if one["memory_status"] != "skipped"]
            took = sorted(one.get("latency_ms", 0) for one in tried)
            counted[operation] |= {
                "blocks": sum(one.get("memory_blocks", 0) for one in own),
                "bytes": sum(one.get("memory_bytes", 0) for one in own),
                "removed": sum(one.get("memory_removed", 0) for one in own),
                "p50_ms": took[math.ceil(0.5 * len(took)) - 1],
                "p95_ms": took[math.ceil(0.95 * len(took)) - 1],
            }
        else:
            waiting = [one["memory_queue"] for one in own if "memory_queue" in one]
            counted[operation] |= {
                "retried": sum(one.get("memory_attempt", 0) > 1 for one in own),
                "queued": waiting[-1] if waiting else 0,
            }
    return counted


def test_the_queue_is_as_it_was_last_told_whatever_the_order_of_lines() -> None:
    late, early = retain(memory_queue=2), retain(memory_queue=9)
    late["ts"] = "2026-03-01T13:00:00Z"
    for events in ((late, early), (early, late)):
        assert summed(read(log(*events)))["memory"]["retain"]["queued"] == 2


def test_no_recall_has_no_percentiles() -> None:
    sums = summed(read(log(recall("skipped"), retain())))
    assert sums["memory"]["recall"]["p50_ms"] is None
    assert sums["memory"]["recall"]["skipped"] == 1


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([7], 50, 7),
        ([7], 95, 7),
        ([1, 2], 50, 1),
        ([1, 2, 3], 50, 2),
        (range(1, 101), 95, 95),
        (range(1, 101), 50, 50),
        (range(1, 20), 95, 19),
        ([3] * 99 + [500], 95, 3),
        ([], 50, None),
    ],
)
def test_percentiles_are_the_nearest_rank(
    values: Iterable[int], percent: int, expected: int | None
) -> None:
    assert compute_percentile(Counter(values), percent) == expected


def test_an_operation_that_nobody_knows_changes_no_sum() -> None:
    sums = summed(read(log(recall("strange"), recall(memory_op="dream"), recall())))
    assert (sums["events"], sums["memory"]["recall"]["ok"]) == (3, 1)


# Lines


@given(st.lists(st.binary(max_size=20)), st.data())
def test_lines_do_not_depend_on_where_bytes_are_cut(parts: list[bytes], data: Any) -> None:
    whole = b"\n".join(parts)
    splitter, found, rest = LineSplitter(), list[bytes | None](), whole
    while rest:
        cut = data.draw(st.integers(1, len(rest)))
        found += splitter.lines(rest[:cut])
        rest = rest[cut:]
    assert [*found, splitter.take_rest()] == whole.split(b"\n")


def test_a_line_that_is_too_long_is_passed_over() -> None:
    splitter = LineSplitter(max_line_bytes=10)
    assert list(splitter.lines(b"1234567890\n12345678901\nab")) == [b"1234567890", None]
    assert list(splitter.lines(b"x" * 1000)) == []
    assert list(splitter.lines(b"\nlast")) == [None]
    assert splitter.take_rest() == b"last"


def test_a_line_that_is_too_long_is_not_kept() -> None:
    splitter = LineSplitter(max_line_bytes=1 << 20)
    tracemalloc.start()
    try:
        for _ in range(100):
            assert list(splitter.lines(b"x" * (1 << 19))) == []
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert list(splitter.lines(b"\n")) == [None]


def test_malformed_and_overlong_lines_are_counted_and_long_ones_read() -> None:
    long = told("response", error="x" * (2 << 20), model="m")
    data = log(told("request")) + b"garbage\n\n  \n" + log(long) + b"y" * 4_000_000 + b"\n"
    data += b'{"ts":"2026-03'
    found = list(read_log_events(io.BytesIO(data), max_line_bytes=3_000_000))
    assert [one.type if one else None for one in found] == [
        "request", None, "response", None, None,
    ]  # fmt: skip


# Where they come from


def test_a_file_is_read_and_one_that_is_not_there_is_told(tmp_path: Path) -> None:
    path = tmp_path / "proxy.log"
    path.write_bytes(log(told("request"), recall()))
    assert [one.type for one in read_file_events(path) if one] == ["request", "memory_op"]
    with pytest.raises(InvalidRequest, match="cannot be read: No such file"):
        list(read_file_events(tmp_path / "missing"))
    with pytest.raises(InvalidRequest, match="cannot be read: Is a directory"):
        list(read_file_events(tmp_path))


def test_what_was_set_aside_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.jsonl"
    assert list(read_rotated_events(path)) == []
    path.write_bytes(log(told("second")))
    assert [one.type for one in read_rotated_events(path) if one] == ["second"]
    path.with_name("telemetry.jsonl.1").write_bytes(log(told("first")))
    assert [one.type for one in read_rotated_events(path) if one] == ["first", "second"]
    path.unlink()
    assert [one.type for one in read_rotated_events(path) if one] == ["first"]


async def test_tool_calls_of_every_agent_and_segment_are_found(tmp_path: Path) -> None:
    call = json.dumps([{"round": 1, "tool_calls": [{"name": "t"}]}]).encode()
    turns = [
        turn(f"{agent} {n}", agent=agent, ts=NOON + timedelta(minutes=n), tool_trace=call)
        for agent in ("analyst", "writer")
        for n in range(3)
    ]
    made = await record(tmp_path / "ledger", [*turns, turn("without", agent="writer")])
    with (tmp_path / "ledger" / "analyst" / "history.jsonl").open("ab") as file:
        file.write(b"garbage\n")
    found = list(read_ledger_events(LedgerPaths(tmp_path / "ledger", ())))
    assert [one.text("session_entry_id") for one in found if one] == [one.id for one in made[:-1]]
    assert found.count(None) == 1
    later = read_ledger_events(LedgerPaths(tmp_path / "ledger", ()), NOON + timedelta(minutes=2))
    assert [one.claw for one in later if one] == ["analyst", "writer"]
    assert list(read_ledger_events(LedgerPaths(tmp_path / "nowhere", ()))) == []


FAKE_DOCKER = """#!/bin/sh
echo "$@" >> "$0.asked"
case "$1" in
  ps) printf 'c2\\tcllama-b\\nc1\\tcllama-a\\n' ;;
  logs)
    for last; do :; done
    [ -e "$0.$last.err" ] && cat "$0.$last.err" >&2
    cat "$0.$last.out"
    [ -e "$0.fails" ] && { echo "no such container" >&2; exit 1; }
    exit 0 ;;
esac
"""


@pytest.fixture
def docker(tmp_path: Path) -> Path:
    """A program that answers as docker does, and notes what it was asked."""
    program = tmp_path / "bin" / "docker"
    program.parent.mkdir()
    program.write_text(FAKE_DOCKER)
    program.chmod(0o755)
    return program


def test_the_proxies_of_a_pod_are_found_by_their_labels(docker: Path) -> None:
    found = find_proxy_containers("desk", str(docker))
    assert found == [ProxyContainer("c1", "cllama-a"), ProxyContainer("c2", "cllama-b")]
    asked = Path(f"{docker}.asked").read_text()
    assert "--filter label=claw.pod=desk" in asked
    assert "--filter label=claw.role=proxy" in asked
    assert "--all" in asked


def test_both_streams_of_a_container_are_read_apart(docker: Path) -> None:
    long = told("response", error="x" * (2 << 20))
    Path(f"{docker}.c1.out").write_bytes(log(told("request"), long))
    Path(f"{docker}.c1.err").write_bytes(b"a warning\n" + log(told("error", source_service="s")))
    found = list(read_docker_events([ProxyContainer("c1", "cllama-a")], str(docker), since=NOON))
    assert [one.type if one else None for one in found] == ["request", "response", None, "error"]
    assert [one.text("source_service") for one in found if one] == ["cllama-a", "cllama-a", "s"]
    assert "logs --since 2026-03-01T12:00:00Z c1" in Path(f"{docker}.asked").read_text()


def test_a_docker_that_fails_or_is_missing_is_told(
    docker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(f"{docker}.c1.out").touch()
    Path(f"{docker}.fails").touch()
    with pytest.raises(PodError, match="docker logs failed: no such container"):
        list(read_docker_events([ProxyContainer("c1", "s")], str(docker)))
    monkeypatch.setenv("PATH", str(docker.parent))
    assert find_docker() == str(docker)
    monkeypatch.setenv("PATH", str(docker.parent / "nothing"))
    with pytest.raises(PodError, match=r"the docker command is not here.*--log FILE"):
        find_docker()


# Following


class Stopped(Exception):
    """The script of a test is at its end."""


async def followed(path: Path, *steps: Any, from_start: bool = False) -> list[str | None]:
    """Follow a file while steps are taken, one between every two looks."""
    left, seen = list(steps), list[str | None]()

    async def wait() -> None:
        if not left:
            raise Stopped
        left.pop(0)()

    with pytest.raises(Stopped):
        await follow_file(
            path,
            lambda one: seen.append(one.type if one else None),
            wait=wait,
            from_start=from_start,
        )
    return seen


def adding(path: Path, data: bytes) -> Any:
    def add() -> None:
        with path.open("ab") as file:
            file.write(data)

    return add


async def test_only_new_events_are_followed_and_cut_lines_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(log(told("old")))
    line = log(told("cut"))
    steps = (
        adding(path, log(told("one"), told("two"))),
        adding(path, line[:20]),
        adding(path, line[20:] + b"garbage\n"),
    )
    assert await followed(path, *steps) == ["one", "two", "cut", None]
    assert (await followed(path, from_start=True))[:2] == ["old", "one"]


async def test_a_file_that_is_set_aside_is_read_to_its_end_and_the_next_from_its_start(
    tmp_path: Path,
) -> None:
    path = tmp_path / "telemetry.jsonl"

    def rotate() -> None:
        adding(path, log(told("last of the old")))()
        path.rename(tmp_path / "telemetry.jsonl.1")
        path.write_bytes(log(told("first of the new")))

    steps = (
        adding(path, log(told("one"))),
        rotate,
        adding(path, log(told("two"))),
        path.unlink,
        lambda: None,
        adding(path, log(told("three"))),
    )
    assert await followed(path, *steps) == [
        "one", "last of the old", "first of the new", "two", "three",
    ]  # fmt: skip


async def test_a_file_that_is_emptied_is_followed_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(log(told("old"), told("old")))
    steps = (lambda: os.truncate(path, 0), adding(path, log(told("new"))))
    assert await followed(path, *steps) == ["new"]


async def test_our_own_telemetry_is_followed_over_its_rotation(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.jsonl"
    telemetry = Telemetry(path, max_bytes=400)

    def emit() -> None:
        telemetry.emit(
            MemoryEvent(
                ts=datetime.now(UTC),
                claw_id="a",
                memory_service="s",
                memory_op=MemoryOperation.RETAIN,
                memory_status=OperationStatus.SUCCEEDED,
            )
        )

    assert await followed(path, *[emit] * 20) == ["memory_op"] * 20
    telemetry.close()
    assert path.with_name("telemetry.jsonl.1").exists()


async def test_a_pipe_is_followed_until_it_is_closed() -> None:
    reading, writing = os.pipe()
    seen: list[str] = []
    came = asyncio.Event()

    def show(one: EventOrNone) -> None:
        seen.append(one.type if one else "")
        came.set()

    with os.fdopen(reading, "rb") as stream:
        task = asyncio.create_task(follow_stream(stream, show))
        os.write(writing, log(told("one")))
        await came.wait()
        assert seen == ["one"]
        os.write(writing, b"garbage\n" + log(told("two")).rstrip(b"\n"))
        os.close(writing)
        await task
    assert seen == ["one", "", "two"]


async def test_containers_are_followed_until_they_stop(docker: Path) -> None:
    Path(f"{docker}.c1.out").write_bytes(log(told("request"), told("response")))
    Path(f"{docker}.c1.err").write_bytes(log(told("error")))
    Path(f"{docker}.c2.out").write_bytes(log(told("failover")))
    seen: list[tuple[str, str]] = []

    def show(one: EventOrNone) -> None:
        assert one is not None
        seen.append((one.text("source_service"), one.type))

    await follow_docker(find_proxy_containers("desk", str(docker)), str(docker), show)
    assert sorted(seen) == [
        ("cllama-a", "error"),
        ("cllama-a", "request"),
        ("cllama-a", "response"),
        ("cllama-b", "failover"),
    ]
    assert "logs --follow --tail 0 c1" in Path(f"{docker}.asked").read_text()
