"""`memplane audit` through its real door."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memplane.telemetry import MemoryEvent, MemoryOperation, OperationStatus, Telemetry
from tests.support.in_process import memplane_here
from tests.support.running import environment, memplane
from tests.support.turns import NOON, record, turn


def told(kind: str, claw: str = "analyst", at: datetime = NOON, **more: Any) -> bytes:
    body = {"ts": f"{at:%Y-%m-%dT%H:%M:%SZ}", "claw_id": claw, "type": kind}
    return json.dumps({**body, "intervention": None, **more}).encode() + b"\n"


def remembered(operation: str, status: str, claw: str = "analyst", **more: Any) -> bytes:
    usual = {"memory_service": "mem-svc", "memory_op": operation, "memory_status": status}
    return told("memory_op", claw, **{"model": "openai/gpt-4o", **usual, **more})


LOG = b"".join(
    [
        told("request", model="openai/gpt-4o"),
        remembered("recall", "succeeded", latency_ms=12, status_code=200, memory_blocks=3,
                   memory_bytes=240, memory_removed=1),
        told("response", model="openai/gpt-4o", tokens_in=120, tokens_out=30, cost_usd=0.0125,
             latency_ms=900, status_code=200),
        remembered("retain", "succeeded", latency_ms=4, status_code=202),
        b"listening on :8080\n",
        told("request", model="openai/gpt-4o"),
        remembered("recall", "timed_out", latency_ms=300, error="deadline"),
        told("error", model="openai/gpt-4o", status_code=502, error="no provider"),
        told("request", "writer", model="anthropic/claude"),
        remembered("recall", "failed", "writer", latency_ms=40, error="recall returned status 503",
                   memory_service="other"),
        remembered("recall", "succeeded", "writer", memory_blocks=0, memory_bytes=0,
                   memory_service="other"),
        told("intervention", "writer", model="anthropic/claude", intervention="stopped"),
        told("response", "writer", model="anthropic/claude", tokens_in=1, tokens_out=2),
        remembered("retain", "failed", "writer", status_code=502, memory_attempt=2,
                   memory_queue=7, memory_service="other"),
        remembered("retain", "timed_out", "writer", memory_service="other"),
        remembered("forget", "succeeded", "writer", status_code=204, memory_service="other"),
        b'{"type":"request"}\n',
        told("failover", "writer"),
        told("feed_fetch", "writer", feed_name="news", status_code=200),
        told("feed_injection", "writer"),
        told("tool_manifest_loaded", "writer", tools_count=3, manifest_present=True),
        told("context_block", "writer", context_block_kind="k"),
        told("channel_context_op", "writer", channels=["c"]),
        told("provider_pool", "", provider="openai", action="cooldown"),
        told("response", "writer", error="x" * (2 << 20)),
    ]
)  # fmt: skip

TEXT = """\
Pod: - ({log})
Events: 23 (skipped malformed lines: 2)
CLAW       REQ  RESP  ERR  INT  TOOLS  TOOL_ERR  TOK_IN  TOK_OUT  COST_USD  MODELS
(unknown)  0    0     0    0    0      0         0       0        0.0000    -
analyst    2    1     1    0    0      0         120     30       0.0125    openai/gpt-4o(2)
writer     1    2     0    1    0      0         1       2        0.0000    anthropic/claude(1)

Totals: req=3 resp=3 err=1 int=1 tools=0/0 tokens=121/32 cost=$0.0125

MEM_SVC  RECALL_OK  RECALL_FAIL  RECALL_TO  BLOCKS  BYTES  REMOVED  RETAIN_OK  RETAIN_FAIL  QUEUED
mem-svc  1          0            1          3       240    1        1          0            0
other    1          1            0          0       0      0        0          1            7

"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "proxy.log"
    path.write_bytes(LOG)
    return path


def audited(home: Path, *words: str, env: dict[str, str] | None = None) -> Any:
    ran = memplane_here(home, "audit", "--json", *words, env=env)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_a_log_is_shown_in_tables(home: Path, log: Path) -> None:
    ran = memplane_here(home, "audit", "--log", str(log))
    assert ran.returncode == 0, ran.stderr
    start = TEXT.format(log=log)
    assert ran.stdout[: len(start)] == start
    by_agent = [line.split() for line in ran.stdout[len(start) :].splitlines()]
    assert by_agent[0][0] == "CLAW"
    named = {row[0]: dict(zip(by_agent[0], row, strict=True)) for row in by_agent[1:]}
    assert named["analyst"]["RECALL_TO"] == "1"
    assert (named["analyst"]["P50_MS"], named["analyst"]["P95_MS"]) == ("12", "300")
    assert (named["writer"]["RETAIN_TO"], named["writer"]["FORGET_OK"]) == ("1", "1")
    assert named["(unknown)"]["P50_MS"] == "-"


def test_a_log_is_given_to_machines_with_every_event(home: Path, log: Path) -> None:
    body = audited(home, "--log", str(log))
    assert list(body) == ["pod", "skipped_lines", "summary", "events"]
    assert (body["pod"], body["skipped_lines"], len(body["events"])) == ("", 2, 23)
    raw = [json.loads(line) for line in LOG.splitlines() if line.startswith(b'{"ts"')]
    for event, line in zip(body["events"], raw, strict=True):
        assert event["timestamp"] == line["ts"]
        wanted = {name for name in line if name.startswith("memory_")}
        assert {name: event[name] for name in wanted} == {name: line[name] for name in wanted}
    assert body["summary"]["memory"] == {
        "recall": {
            "ok": 2, "failed": 1, "timed_out": 1, "skipped": 0, "blocks": 3, "bytes": 240,
            "removed": 1, "p50_ms": 12, "p95_ms": 300,
        },
        "retain": {
            "ok": 1, "failed": 1, "timed_out": 1, "skipped": 0, "retried": 1, "queued": 7,
        },
        "forget": {
            "ok": 1, "failed": 0, "timed_out": 0, "skipped": 0, "retried": 0, "queued": 0,
        },
    }  # fmt: skip
    agents = {one["claw_id"]: one for one in body["summary"]["agents"]}
    assert agents["analyst"]["memory"]["recall"]["timed_out"] == 1
    assert agents["analyst"]["model_usage"] == {"openai/gpt-4o": 2}
    assert agents["writer"]["memory"]["retain"]["queued"] == 7


def test_stdin_is_a_log_too(home: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "memplane", "audit", "--log", "-", "--json"],
        input=LOG, env=environment(home), capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert len(json.loads(ran.stdout)["events"]) == 23


def test_events_are_chosen(home: Path, log: Path) -> None:
    words = ["--log", str(log), "--claw", "writer", "--type", "memory_op"]
    body = audited(home, *words)
    assert len(body["events"]) == 5
    assert body["summary"]["requests"] == 0
    assert audited(home, "--log", str(log), "--since", "2026-03-01T12:00:01Z")["events"] == []
    ran = memplane_here(home, "audit", "--log", str(log), "--since", "90m")
    assert "No telemetry events matched the current filters." in ran.stdout


def test_a_duration_counts_from_now(home: Path, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    ages = (timedelta(minutes=30), timedelta(minutes=80), timedelta(hours=30))
    log = tmp_path / "log"
    log.write_bytes(b"".join(told("request", at=now - age) for age in ages))
    counted = {
        text: len(audited(home, "--log", str(log), "--since", text)["events"])
        for text in ("45m", "1h30m", "1.5h", "2d", "5s")
    }
    assert counted == {"45m": 1, "1h30m": 2, "1.5h": 2, "2d": 3, "5s": 0}


@pytest.mark.parametrize("text", ["yesterday", "1", "h", "1h 30m", "1y", "-1h", "2026-03-01", ""])
def test_what_is_no_moment_is_refused(text: str, home: Path) -> None:
    ran = memplane_here(home, "audit", f"--since={text}")
    assert ran.returncode == 2
    assert f'invalid --since value "{text}": use duration (e.g. 1h) or RFC3339' in ran.stderr


def test_a_log_that_is_not_there_is_told(home: Path, tmp_path: Path) -> None:
    ran = memplane_here(home, "audit", "--log", str(tmp_path / "nothing"))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "cannot be read: No such file or directory" in ran.stderr


async def test_without_a_log_or_a_pod_it_is_the_home(home: Path) -> None:
    home.mkdir(mode=0o700)
    telemetry = Telemetry(home / "logs" / "telemetry.jsonl", max_bytes=500)
    for _ in range(3):
        telemetry.emit(
            MemoryEvent(
                ts=NOON,
                claw_id="analyst",
                memory_service="memplane",
                memory_op=MemoryOperation.RECALL,
                memory_status=OperationStatus.SUCCEEDED,
                memory_blocks=2,
            )
        )
    telemetry.close()
    trace = b'[{"round":1,"tool_calls":[{"name":"search"},{"name":"fetch","status":"error"}]}]'
    await record(home / "ledger", [turn("one", tool_trace=trace), turn("two")])
    body = await asyncio.to_thread(audited, home)
    assert [one["type"] for one in body["events"]] == ["memory_op"] * 3 + ["tool_call"] * 2
    assert body["summary"]["memory"]["recall"]["blocks"] == 6
    assert (body["summary"]["tool_calls"], body["summary"]["tool_errors"]) == (2, 1)
    assert memplane(home, "audit").stdout.startswith(f"Pod: - ({home})\nEvents: 5 (")


DOCKER = """#!/bin/sh
echo "$@" >> "$0.asked"
case "$1" in
  ps) [ -e "$0.log" ] && printf 'c1\\tcllama\\n'; exit 0 ;;
  logs) cat "$0.log" ;;
esac
"""


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    """A compiled pod, as far as an audit looks at it."""
    folder = tmp_path / "pod"
    (folder / ".claw-runtime").mkdir(parents=True)
    (folder / "compose.generated.yml").write_text("services: {}\n")
    (folder / ".claw-runtime" / "pod-manifest.json").write_text('{"podName":"desk"}')
    (folder / "bin").mkdir()
    (folder / "bin" / "docker").write_text(DOCKER)
    (folder / "bin" / "docker").chmod(0o755)
    return folder


def with_docker(pod: Path) -> dict[str, str]:
    return {"PATH": f"{pod / 'bin'}:{os.environ['PATH']}"}


async def test_a_pod_is_its_proxies_logs_and_its_ledgers(home: Path, pod: Path) -> None:
    (pod / "bin" / "docker.log").write_bytes(LOG)
    trace = b'[{"round":1,"tool_calls":[{"name":"search","latency_ms":4}]}]'
    await record(pod / ".claw-session-history", [turn("one", tool_trace=trace), turn("two")])
    body = await asyncio.to_thread(
        audited, home, "--file", str(pod / "claw-pod.yml"), env=with_docker(pod)
    )
    assert (body["pod"], body["skipped_lines"], len(body["events"])) == ("desk", 2, 24)
    assert {one["source_service"] for one in body["events"]} == {"cllama", "session-history"}
    assert body["events"][-1]["tool_name"] == "search"
    asked = (pod / "bin" / "docker.asked").read_text()
    assert "label=claw.pod=desk" in asked
    assert "logs c1" in asked


def test_a_pods_commands_are_told_beside_its_proxies(home: Path, pod: Path) -> None:
    (pod / "bin" / "docker.log").write_bytes(LOG)
    forgot = remembered("forget", "succeeded", memory_service="other")
    (pod / ".claw-session-history/.memplane").mkdir(parents=True)
    (pod / ".claw-session-history/.memplane/commands.jsonl").write_bytes(forgot)
    file = str(pod / "claw-pod.yml")
    body = audited(home, "--file", file, env=with_docker(pod))
    assert body["summary"]["memory"]["forget"]["ok"] == 2


async def test_a_log_may_stand_for_docker(home: Path, pod: Path, log: Path) -> None:
    trace = b'[{"round":1,"tool_calls":[{"name":"search"}]}]'
    await record(pod / ".claw-session-history", [turn("one", tool_trace=trace)])
    body = await asyncio.to_thread(
        audited, home, "--log", str(log), "--file", str(pod / "claw-pod.yml")
    )
    assert (body["pod"], len(body["events"])) == ("desk", 24)
    assert not (pod / "bin" / "docker.asked").exists()


def test_the_pod_in_the_current_folder_is_found(
    home: Path, pod: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pod / "bin" / "docker.log").write_bytes(LOG)
    monkeypatch.chdir(pod)
    ran = memplane_here(home, "audit", env=with_docker(pod))
    assert ran.stdout.startswith("Pod: desk\nEvents: 23 (skipped malformed lines: 2)\n")


def test_what_a_pod_lacks_is_told(home: Path, pod: Path, tmp_path: Path) -> None:
    file = str(pod / "claw-pod.yml")
    nothing = memplane_here(home, "audit", "--file", file, env=with_docker(pod))
    assert nothing.returncode == 0
    assert "Docker knows no proxy of this pod" in nothing.stderr
    without = memplane_here(home, "audit", "--file", file, env={"PATH": str(tmp_path)})
    assert (without.returncode, without.stdout) == (1, "")
    assert "the docker command is not here" in without.stderr
    (pod / ".claw-runtime" / "pod-manifest.json").unlink()
    assert memplane_here(home, "audit", "--file", file, env=with_docker(pod)).returncode == 1
    (pod / "compose.generated.yml").unlink()
    ran = memplane_here(home, "audit", "--file", file)
    assert ran.returncode == 1
    assert "no compose.generated.yml found" in ran.stderr


@pytest.mark.parametrize("flag", ["-f", "--follow"])
def test_events_are_printed_as_they_come_until_interrupted(
    flag: str, home: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.write_bytes(told("request", "before"))
    words = ["audit", "--log", str(log), flag, "--since", "2026-01-01T00:00:00Z"]
    with subprocess.Popen(
        [sys.executable, "-m", "memplane", *words],
        env={**environment(home), "PYTHONUNBUFFERED": "1"}, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "2026-03-01T12:00:00Z  before  request\n"
        log.rename(tmp_path / "log.1")
        log.write_bytes(b"garbage\n" + remembered("recall", "succeeded", memory_blocks=1))
        assert process.stdout.readline() == (
            "2026-03-01T12:00:00Z  analyst  memory_op  model=openai/gpt-4o  "
            "memory_service=mem-svc  memory_op=recall  memory_status=succeeded  memory_blocks=1\n"
        )
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
        assert process.stdout.read() == ""


def test_followed_events_are_lines_for_machines(home: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "memplane", "audit", "--log=-", "-f", "--json", "--claw=writer"],
        input=LOG, env=environment(home), capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    events = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(events) == 15
    assert {one["claw_id"] for one in events} == {"writer"}


def test_what_a_log_says_does_nothing_to_the_terminal(home: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    odd = "\x1b]0;owned\x07\u202e\n\x9b"
    log.write_bytes(
        told("request", f"claw{odd}", model=f"m{odd}")
        + remembered("recall", "succeeded", f"claw{odd}", memory_service=f"s{odd}")
    )
    shown = memplane_here(home, "audit", "--log", str(log)).stdout
    followed = subprocess.run(
        [sys.executable, "-m", "memplane", "audit", "--log", "-", "-f"],
        input=log.read_bytes(), env=environment(home), capture_output=True, timeout=60, check=True,
    ).stdout.decode()  # fmt: skip
    for printed in (shown, followed):
        assert "owned" in printed
        assert not {"\x1b", "\x07", "\u202e", "\x9b"} & set(printed)
    assert len(followed.splitlines()) == 2
