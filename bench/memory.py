"""The memory service over HTTP: retaining, backfilling, and recalling at its full size."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench.bare import bare_service
from bench.row import Row
from bench.talking import Talk

RETAINED_A_SECOND = 2000
RETAINERS = 16
RETAINED = 12_000
RECALL_P99 = 0.020
RECALLERS = 8
RECALLS = 1_600
WARMING = 400
EPISODES = 100_000
REPLAYED = 100_000
GROWTH = 16 << 20
AGENTS = 1_000
SETTLE_SECONDS = 600.0


_REPLAY = """
import resource, sys
from memplane.cli import main
url = f"http://127.0.0.1:{sys.argv[1]}"
assert main(["backfill", url, "--auth-token", sys.argv[2]]) == 0
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


class Asked(Protocol):
    """A server on this machine, and the token that it is shown."""

    @property
    def port(self) -> int: ...

    @property
    def token(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Service:
    """A memplane in a process of its own."""

    port: int
    token: str
    process: subprocess.Popen[str]

    def memory(self) -> int:
        """Return how much memory the process has had at most."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) << 10


def run() -> Iterator[Row]:
    yield from retaining()
    yield from backfilling()
    yield from recalling("one agent", agents=1)
    yield from recalling(f"{AGENTS:,} agents", agents=AGENTS)


@dataclass(frozen=True, slots=True)
class _Bare:
    """A server that asks for no token."""

    port: int
    token: str = "none"


def retaining() -> Iterator[Row]:
    talk = Talk(1)
    bodies = [
        json.dumps({"agent_id": f"agent{n % 4}", "entry": talk.entry("a", n)}).encode()
        for n in range(RETAINED)
    ]
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder, serving(Path(folder)) as service:
        seconds, _ = in_another_process(service, "/retain", bodies, RETAINERS)
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder, bare_service(Path(folder)) as port:
        bare, _ = in_another_process(_Bare(port), "/retain", bodies, RETAINERS)
    a_second = RETAINED / seconds
    yield Row(
        f"retain over HTTP, durable and searchable, {RETAINERS} clients",
        f"{a_second:,.0f}/s ({RETAINED / bare:,.0f}/s when bodies are only synced)",
        f">= {RETAINED_A_SECOND:,}/s",
        a_second >= RETAINED_A_SECOND,
    )


def backfilling() -> Iterator[Row]:
    """Replay a few entries and many: the peak of the process that replays must be the same."""
    few, _ = _backfilled(REPLAYED // 20)
    many, seconds = _backfilled(REPLAYED)
    yield Row(
        f"memory of a backfill of {REPLAYED:,} entries beyond one of {REPLAYED // 20:,}",
        f"{(many - few) / (1 << 20):.1f} MiB ({REPLAYED / seconds:,.0f}/s over 4 agents)",
        f"<= {GROWTH >> 20} MiB",
        many - few <= GROWTH,
    )


def _backfilled(entries: int) -> tuple[int, float]:
    """Return the peak of the process's memory, and how long it took."""
    talk = Talk(3)
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        source, target = Path(folder) / "source", Path(folder) / "target"
        for home in (source, target):
            home.mkdir(0o700)
        for agent in range(4):
            write_ledger(source, talk, f"agent{agent}", entries // 4)
        with serving(target) as service:
            command = [sys.executable, "-c", _REPLAY, str(service.port), service.token]
            environment = {"PATH": os.environ["PATH"], "HOME": folder}
            environment["MEMPLANE_HOME"] = str(source)
            started = time.perf_counter()
            done = subprocess.run(command, env=environment, capture_output=True, check=True)
            seconds = time.perf_counter() - started
    return int(done.stdout.split()[-1]) << 10, seconds


def recalling(name: str, *, agents: int) -> Iterator[Row]:
    talk = Talk(2)
    each = EPISODES // agents
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        for agent in range(agents):
            write_ledger(Path(folder), talk, f"agent{agent}", each)
        started = time.perf_counter()
        with serving(Path(folder)) as service:
            wait_until_settled(service)
            filled = time.perf_counter() - started
            bodies = [
                json.dumps(
                    {
                        "agent_id": f"agent{number % agents}",
                        "messages": [{"role": "user", "content": talk.question()}],
                    }
                ).encode()
                for number in range(WARMING + RECALLS)
            ]
            # The first questions let the processes be started that answer the others.
            in_another_process(service, "/recall", bodies[:WARMING], RECALLERS)
            _, took = in_another_process(service, "/recall", bodies[WARMING:], RECALLERS)
            memory = service.memory()
    took.sort()
    p50, p99 = took[len(took) // 2], took[int(len(took) * 0.99)]
    yield Row(
        f"recall over HTTP, {EPISODES:,} episodes of {name}, {RECALLERS} clients, p99",
        f"{p99 * 1000:.1f} ms (p50 {p50 * 1000:.1f} ms)",
        f"<= {RECALL_P99 * 1000:.0f} ms",
        p99 <= RECALL_P99,
    )
    yield Row(
        f"taking in those {EPISODES:,} from the ledger, derived and indexed",
        f"{EPISODES / filled:,.0f}/s, {memory / (1 << 20):,.0f} MiB at most",
        "-",
        None,
    )


def write_ledger(home: Path, talk: Talk, agent: str, entries: int) -> None:
    folder = home / "ledger" / agent
    folder.mkdir(parents=True, mode=0o700)
    (home / "ledger").chmod(0o700)
    with (folder / "history.jsonl").open("wb") as file:
        file.writelines(talk.line(agent, number) for number in range(entries))


def wait_until_settled(service: Service) -> None:
    until = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < until:
        memory = json.loads(_get(service, "/api/v1/status"))["memory"]
        if not (memory["busy"] or memory["underived"] or memory["unindexed"]):
            return
        time.sleep(0.2)
    raise TimeoutError("memory did not take everything in")


def _get(service: Service, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", service.port)
    connection.request("GET", path, headers={"Authorization": f"Bearer {service.token}"})
    return connection.getresponse().read()


@contextmanager
def serving(home: Path, *arguments: str) -> Iterator[Service]:
    """Run `memplane up` on a home, with further arguments."""
    home.chmod(0o700)
    process = subprocess.Popen(
        [sys.executable, "-m", "memplane", "up", "--port", "0", *arguments],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home.parent),
            "MEMPLANE_HOME": str(home),
            "MEMPLANE_HTTP_REQUESTS_PER_SECOND": "0",
        },
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        printed = ""
        while "Ctrl-C" not in printed:
            line = process.stdout.readline()
            assert line, printed
            printed += line
        port = re.search(r"http://127\.0\.0\.1:(\d+)", printed)
        assert port is not None
        yield Service(int(port[1]), (home / "token").read_text().strip(), process)
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def in_another_process(
    service: Asked, path: str, bodies: list[bytes], clients: int, *lines: str
) -> tuple[float, list[float]]:
    """Send the bodies from a process of their own; returns the seconds in all, and for each."""
    given = json.dumps([service.port, service.token, path, clients, *lines]).encode()
    asked = subprocess.run(
        [sys.executable, "-m", "bench.asking"],
        input=b"\n".join((given, *bodies)),
        capture_output=True,
        check=True,
    )
    seconds, took = json.loads(asked.stdout)
    return seconds, took
