"""`memplane forget SERVICE` through its real door: words, exit codes, receipts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from memplane.integrations.clawdapus.memory_service.forget_queue import list_queued_forgets
from memplane.ledger.tombstones import read_tombstones
from tests.clawdapus.memory_pod import (
    MemoryPod,
    Post,
    Service,
    memplane,
)
from tests.support.running import running_memplane


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
        2,
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
    assert len(list_queued_forgets(pod.place.state)) == 1
    service.answer = up
    last = await memplane(home, *words, other.id)
    assert (last.returncode, last.stderr) == (0, "")
    assert "Sent 1 forgets that were queued" in last.stdout
    assert [one.body["entry_ids"] for one in service.taken] == [[entry.id], [other.id]]
    assert list_queued_forgets(pod.place.state) == []


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


async def test_a_proxy_that_runs_forgets_with_the_pod(
    pod: MemoryPod, service: Service, home: Path
) -> None:
    pod.subscribe("a", port=service.port)
    (entry,) = await pod.record(1, agent="a")
    own = pod.place.state
    own.mkdir(mode=0o700, exist_ok=True)
    env = {"MEMPLANE_LEDGER_DIR": str(pod.place.ledgers)}
    manager = running_memplane(own, env=env)
    running = await asyncio.to_thread(manager.__enter__)
    try:
        headers = {"Authorization": f"Bearer {running.token}"}
        async with aiohttp.ClientSession(headers=headers) as http:

            async def post(path: str, **body: object) -> Any:
                async with http.post(
                    running.address + path, json={"agent_id": "a", **body}
                ) as one:
                    assert one.ok, await one.text()
                    return await one.json()

            asked = [{"role": "user", "content": "question 0 of a"}]
            # Memory takes in what the ledger has when it opens, and this waits for it.
            await post("/retain", entry=json.loads(entry.line))
            assert (await post("/recall", messages=asked))["memories"]
            words = ("forget", "mem", "-f", str(pod.file), "--entry-id", entry.id, "--verify")
            ran = await memplane(home, *words)
            assert ran.returncode == 0, ran.stdout + ran.stderr
            assert (await post("/recall", messages=asked))["memories"] == []
            line = json.loads(entry.line)
            assert (await post("/retain", entry=line))["status"] == "forgotten"
    finally:
        await asyncio.to_thread(manager.__exit__, None, None, None)


def told_of(own: Path) -> list[tuple[object, ...]]:
    """What commands told, and then the proxy."""
    names = ("memory_op", "memory_status", "memory_attempt", "error")
    return [
        tuple(json.loads(line).get(name) for name in names)
        for file in ("commands.jsonl", "logs/telemetry.jsonl")
        for line in (own / file).read_bytes().splitlines()
    ]


async def test_a_queued_forget_is_listed_and_sent_by_the_proxy_that_runs(
    pod: MemoryPod, service: Service, home: Path
) -> None:
    pod.subscribe("a", port=service.port, base_url=service.base_url)
    (entry,) = await pod.record(1, agent="a")
    service.answer = down
    words = ["forget", "mem", "-f", str(pod.file), "--entry-id", entry.id]
    assert (await memplane(home, *words)).returncode == 1
    listed = await memplane(home, "queue", "list", cwd=pod.folder)
    assert "waiting  forget of a for mem: 1 entries" in listed.stdout
    assert listed.stdout.endswith("1 in all\n")
    status = await memplane(pod.place.state, "status", cwd=pod.folder)
    assert "1 wait to be sent" in status.stdout
    refused = await memplane(home, "queue", "retry", cwd=pod.folder)
    assert 'forget "a" still waits: forget returned status 503' in refused.stdout
    asked = len(service.posts)
    told = asyncio.Event()

    async def taken(post: Post) -> None:
        if post.path == "/forget":
            told.set()

    service.answer = taken
    own = pod.place.state
    env = {
        "MEMPLANE_LEDGER_DIR": str(pod.place.ledgers),
        "MEMPLANE_CONTEXT_ROOT": str(pod.folder / ".claw-runtime/context"),
    }
    manager = running_memplane(own, env=env)
    await asyncio.to_thread(manager.__enter__)
    try:
        await asyncio.wait_for(told.wait(), 60)
    finally:
        await asyncio.to_thread(manager.__exit__, None, None, None)
    assert [one.body["entry_ids"] for one in service.posts[asked:]] == [[entry.id]]
    failed = "forget returned status 503"
    assert told_of(own) == [
        ("forget", "failed", None, failed),
        ("forget", "failed", 2, failed),
        ("forget", "succeeded", 2, None),
    ]
