"""`memplane forget SERVICE` through its real door: words, exit codes, receipts."""

from __future__ import annotations

import json
from pathlib import Path

from aiohttp import web

from memplane.ledger.tombstones import read_tombstones
from memplane.operate.queue import queued
from tests.operate.memory_pod import (
    MemoryPod,
    Post,
    Service,
    memplane,
)


async def down(_post: Post) -> web.StreamResponse:
    return web.Response(status=503, text="down")


async def up(_post: Post) -> None:
    return None


async def test_it_tells_what_it_forgot(pod: MemoryPod, service: Service, home: Path) -> None:
    pod.subscribe("a", "b", port=service.port)
    mine = await pod.record(3, agent="a")
    other = await pod.record(1, agent="b")
    words = ["forget", "mem", "-f", str(pod.file)]
    first = ["--entry-id", mine[0].id, "--entry-id", f" {other[0].id} ", "--reason", "asked"]
    ran = await memplane(home, *words, *first)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines() == ["Forgot 1 entries for a", "Forgot 1 entries for b"]
    second = ["--entry-id", mine[0].id, "--entry-id", mine[1].id, "--agent", "a"]
    ran = await memplane(home, *words, *second)
    assert ran.returncode == 0
    assert ran.stdout.splitlines() == [
        "Forgot 1 entries for a",
        "Skipped 1 already-tombstoned entries",
    ]
    assert list(read_tombstones(pod.place.tombstones[0], "a")) == [mine[0].id, mine[1].id]
    backfill = await memplane(home, "backfill", "mem", "-f", str(pod.file))
    assert backfill.returncode == 0
    assert service.retained("a") == [mine[2].id]
    assert service.retained("b") == []


async def test_what_cannot_be_forgotten_is_said(
    pod: MemoryPod, service: Service, home: Path
) -> None:
    pod.subscribe("a", port=service.port)
    await pod.record(1, agent="a")
    words = ["forget", "mem", "-f", str(pod.file)]
    none = await memplane(home, *words)
    assert (none.returncode, none.stderr) == (
        1,
        "memplane forget: at least one --entry-id is required\n",
    )
    unknown = await memplane(home, *words, "--entry-id", "x", "--entry-id", "y")
    assert unknown.returncode == 1
    assert unknown.stderr == "memplane forget: history does not contain entry id(s) x, y\n"
    assert service.posts == []
    allowed = await memplane(home, *words, "--entry-id", "x", "--allow-unknown")
    assert allowed.stdout == "Forgot 1 entries for a\n"
    nowhere = await memplane(home, "forget", "mem", "--entry-id", "x")
    assert "no compose.generated.yml found" in nowhere.stderr


async def test_a_service_that_cannot_forget_is_a_notice(
    pod: MemoryPod, service: Service, home: Path
) -> None:
    pod.subscribe("a", port=service.port, without=("forget",))
    (entry,) = await pod.record(1, agent="a")
    ran = await memplane(home, "forget", "mem", "-f", str(pod.file), "--entry-id", entry.id)
    assert (ran.returncode, ran.stdout) == (0, "Forgot 1 entries for a\n")
    assert 'memory service "mem" has no forget endpoint for agent "a"' in ran.stderr
    assert list(read_tombstones(pod.place.tombstones[0], "a")) == [entry.id]


async def test_a_service_that_is_down_is_told_by_the_next_command(
    pod: MemoryPod, service: Service, home: Path
) -> None:
    pod.subscribe("a", port=service.port)
    entry, other = await pod.record(2, agent="a")
    words = ["forget", "mem", "-f", str(pod.file), "--entry-id"]
    service.answer = down
    ran = await memplane(home, *words, entry.id)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert 'forget "a": forget returned status 503: down' in ran.stderr
    assert list(read_tombstones(pod.place.tombstones[0], "a")) == [entry.id]
    again = await memplane(home, *words, entry.id)
    assert again.returncode == 1, "the service still has not been told"
    assert "Skipped 1 already-tombstoned entries" in again.stdout
    assert "still waits" in again.stderr
    assert len(queued(pod.place.state)) == 1
    service.answer = up
    last = await memplane(home, *words, other.id)
    assert (last.returncode, last.stderr) == (0, "")
    assert "Sent 1 forgets that were queued" in last.stdout
    assert [one.body["entry_ids"] for one in service.taken] == [[entry.id], [other.id]]
    assert queued(pod.place.state) == []


async def test_a_receipt_is_printed_and_decides_the_exit_code(
    pod: MemoryPod, service: Service, home: Path
) -> None:
    pod.subscribe("a", port=1)  # nobody is there: the address is given below
    (entry,) = await pod.record(1, agent="a")
    words = ["forget", "mem", "-f", str(pod.file), "--entry-id", entry.id, "--verify"]
    words += ["--url", f"{service.base_url}/forget"]
    ran = await memplane(home, *words)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.splitlines()[-1] == "5 places read back; 0 still have something"
    assert {"/forget", "/recall"} == {one.path for one in service.posts}

    async def remembers(post: Post) -> web.StreamResponse | None:
        block = {"text": "it", "entry_ids": [entry.id]}
        return web.json_response({"memories": [block]}) if post.path == "/recall" else None

    service.answer = remembers
    found = await memplane(home, *words, "--json")
    assert found.returncode == 1
    receipt = json.loads(found.stdout)["receipt"]
    assert [one["place"] for one in receipt if not one["ok"]] == ["recall"]


async def test_machines_learn_everything(pod: MemoryPod, service: Service, home: Path) -> None:
    pod.subscribe("a", port=service.port)
    (entry,) = await pod.record(1, agent="a")
    service.answer = down
    words = ["forget", "mem", "-f", str(pod.file), "--entry-id", entry.id, "--json"]
    ran = await memplane(home, *words)
    assert ran.returncode == 1
    assert json.loads(ran.stdout) == {
        "service": "mem",
        "agents": [
            {
                "agent": "a",
                "forgotten": [entry.id],
                "skipped": [],
                "told": False,
                "complaint": "forget returned status 503: down",
            }
        ],
        "sent_from_queue": 0,
        "waiting": [],
        "receipt": [],
    }
    again = json.loads((await memplane(home, *words)).stdout)
    assert [one["entry_ids"] for one in again["waiting"]] == [[entry.id]]
