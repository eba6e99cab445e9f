"""Operational memory with ten thousand memories: lists, pages, the block of a prompt, learning."""

from __future__ import annotations

import http.client
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

from bench.memory import Service, serving
from bench.row import Row
from memplane.kit.clock import format_milli_timestamp
from memplane.observations.events import (
    EventKind,
    Evidence,
    ObservationContent,
    ObservationEvent,
    encode_event,
)
from memplane.observations.model import Category, SourceClass

AGENT = "ops"
MEMORIES = 10_000
SERVICES = 60
ASKED = 40
GOAL = 0.100

_THINGS = ("backup", "restart", "certificate", "queue", "index", "cache", "login", "export")
_FACTS = (
    "waits for the database before it answers",
    "fails the first time and works the second",
    "needs the share to be mounted",
    "fills the disk unless it is rotated",
    "is slow while the nightly job runs",
)


def run() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        home = Path(folder) / "home"
        home.mkdir(0o700)
        _write_events(home)
        with serving(home) as service:
            browser = _signed_in(service)
            token = {"Authorization": f"Bearer {service.token}"}
            lists = "/api/v1/memories?limit=50&agent=ops"
            for what, path, headers in (
                ("the Memories page", "/memories", browser),
                ("the same, searched", "/memories?q=certificate", browser),
                (
                    "the same, by service, sorted by time",
                    "/memories?group=service&sort=updated",
                    browser,
                ),
                ("a list of 50 as JSON", lists, token),
            ):
                yield _row(what, partial(_get, service, path, headers), GOAL)
            block = partial(_get, service, "/api/v1/preview?agent=ops", token)
            yield _row("the block of a prompt", block, None)
            yield _learning(service, token)


def _row(what: str, ask: Callable[[], bytes], goal: float | None) -> Row:
    ask()  # what is opened and compiled once
    times: list[float] = []
    for _ in range(ASKED):
        began = time.perf_counter()
        ask()
        times.append(time.perf_counter() - began)
    p50, p95 = (sorted(times)[int(ASKED * share)] for share in (0.5, 0.95))
    return Row(
        f"{what}, {MEMORIES:,} memories, p95",
        f"{p95 * 1000:.1f} ms (p50 {p50 * 1000:.1f})",
        "-" if goal is None else f"<= {goal * 1000:.0f} ms",
        None if goal is None else p95 <= goal,
    )


def _learning(service: Service, token: dict[str, str]) -> Row:
    """Learn something new about a service of which much is known."""
    begun = json.loads(_post(service, "/api/v1/sessions", {"agent": AGENT, "tell": False}, token))
    path = f"/api/v1/sessions/{begun['session']}/heard?agent={AGENT}"
    times: list[float] = []
    for number in range(15):
        said = (
            f"[MEMORY:timing:service-{number}] Takes {number + 61} seconds to warm up after lunch"
        )
        began = time.perf_counter()
        _post(service, path, {"texts": [{"text": said}]}, token)
        times.append(time.perf_counter() - began)
    return Row(
        "a marker, from heard to durable and listed, p50",
        f"{sorted(times)[len(times) // 2] * 1000:.1f} ms",
        "<= 5 s until it is seen",
        max(times) <= 5,
    )


def _write_events(home: Path) -> None:
    """Write the ledger of events that so many memories come from."""
    folder = home / "events" / AGENT
    folder.mkdir(parents=True, mode=0o700)
    (home / "events").chmod(0o700)
    start = datetime.now(UTC) - timedelta(days=60)
    categories = list(Category)
    with (folder / "history.jsonl").open("wb") as file:
        for number in range(1, MEMORIES + 1):
            thing, fact = _THINGS[number % len(_THINGS)], _FACTS[number % len(_FACTS)]
            text = f"The {thing} of shard {number} {fact}"
            at = start + timedelta(minutes=8 * number)
            event = ObservationEvent(
                id=f"{number:022x}",
                ts=format_milli_timestamp(at),
                kind=EventKind.ASSERTED,
                agent=AGENT,
                memory=number,
                said=ObservationContent(
                    text=text,
                    category=categories[number % len(categories)],
                    service=f"service-{number % SERVICES}",
                ),
                evidence=Evidence(quote=text, source=SourceClass.AGENT),
                value=40 + number % 60,
                batch=f"b{number}",
            )
            file.write(encode_event(event) + b"\n")


def _signed_in(service: Service) -> dict[str, str]:
    token = {"Authorization": f"Bearer {service.token}"}
    code = json.loads(_post(service, "/api/v1/dashboard/codes", None, token))["code"]
    connection = http.client.HTTPConnection("127.0.0.1", service.port)
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    connection.request("POST", "/login", urlencode({"code": code}), form)
    cookie = connection.getresponse().headers["Set-Cookie"].partition(";")[0]
    return {"Cookie": cookie}


def _get(service: Service, path: str, headers: dict[str, str]) -> bytes:
    return _answer(service, path, None, headers)


def _post(service: Service, path: str, body: object, headers: dict[str, str]) -> bytes:
    return _answer(service, path, body, headers, method="POST")


def _answer(
    service: Service, path: str, body: object, headers: dict[str, str], *, method: str = "GET"
) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", service.port)
    sent = None if body is None else json.dumps(body)
    kind = {"Content-Type": "application/json"} if body is not None else {}
    connection.request(method, path, sent, {**headers, **kind})
    reply = connection.getresponse()
    answer = reply.read()
    assert reply.status < 300, (reply.status, answer[:300])
    return answer
