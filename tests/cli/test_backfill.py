"""`memplane backfill` through its real door: words, exit codes, and memplane's own home."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from aiohttp import web

from memplane.integrations.clawdapus.memory_service.forget_queue import (
    QueuedForget,
    enqueue_forget,
    list_queued_forgets,
)
from memplane.ledger.tombstones import Tombstone, append_tombstones, read_tombstones
from tests.clawdapus.memory_pod import (
    TOKEN,
    WHEN,
    MemoryPod,
    Post,
    Service,
    memplane,
)
from tests.support.turns import record, turn

KEY = "sk-live-" + "123456789"


async def refuse(_post: Post) -> web.StreamResponse:
    return web.Response(status=400, text="not \x1b[31mthis\none")


async def test_it_tells_what_it_replayed(pod: MemoryPod, service: Service, home: Path) -> None:
    pod.subscribe("a", "b", "c", port=service.port)
    await pod.record(3, agent="a")
    await pod.record(2, agent="c")
    ran = await memplane(home, "backfill", "mem", "-f", str(pod.file))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines() == [
        "Replayed 3 entries for a",
        "Replayed 2 entries for c",
        f"Backfilled 5 entries across 2 agent(s) to {service.base_url}/retain",
        "Skipped 1 agent(s) with no eligible history entries",
    ]
    again = await memplane(home, "backfill", "mem", "-f", str(pod.file))
    assert again.returncode == 0
    assert "Skipped 3 agent(s)" in again.stdout
    assert "--no-resume begins anew" in again.stderr
    anew = await memplane(home, "backfill", "mem", "-f", str(pod.file), "--no-resume")
    assert "Backfilled 5 entries" in anew.stdout


async def test_the_pod_is_where_one_stands(pod: MemoryPod, service: Service, home: Path) -> None:
    pod.subscribe("a", port=service.port)
    (entry,) = await pod.record(1, agent="a")
    ran = await memplane(home, "memory", "backfill", "mem", cwd=pod.folder)
    assert (ran.returncode, service.retained("a")) == (0, [entry.id])


async def test_agents_addresses_and_tokens_can_be_given(
    pod: MemoryPod, service: Service, home: Path
) -> None:
    pod.subscribe("a", "b", "c")
    for agent in "abc":
        await pod.record(1, agent=agent)
    words = ["-f", str(pod.file), "--url", service.base_url, "--auth-token", " other "]
    ran = await memplane(home, "backfill", "mem", *words, "--agent", "c,a", "--agent", "a")
    assert ran.returncode == 0, ran.stderr
    assert sorted(one.agent for one in service.taken) == ["a", "c"]
    assert {one.headers["authorization"] for one in service.taken} == {"Bearer other"}
    full = f"{service.base_url}/other/path"
    await memplane(home, "backfill", "mem", "-f", str(pod.file), "--url", full, "--agent", "b")
    assert service.taken[-1].path == "/other/path"
    assert service.taken[-1].headers["authorization"] == f"Bearer {TOKEN}"


async def test_what_is_refused_is_one_line_per_agent_and_exit_1(
    pod: MemoryPod, service: Service, home: Path
) -> None:
    pod.subscribe("a", port=service.port)
    entries = await pod.record(2, agent="a")
    service.answer = refuse
    ran = await memplane(home, "backfill", "mem", "-f", str(pod.file))
    assert ran.returncode == 1
    assert ran.stderr.splitlines() == [
        'backfill "a": retain returned status 400: not \\u001b[31mthis one',
        "2 entries were refused; --json names them",
    ]
    assert ran.stdout == f"Backfilled 0 entries across 0 agent(s) to {service.base_url}/retain\n"
    told = await memplane(home, "backfill", "mem", "-f", str(pod.file), "--json")
    assert told.returncode == 1
    body = json.loads(told.stdout)
    (agent,) = body["agents"]
    assert (body["service"], body["dry_run"], body["replayed"]) == ("mem", False, 0)
    assert [one["entry_id"] for one in agent["undelivered"]] == [one.id for one in entries]


async def test_a_dry_run_only_counts(pod: MemoryPod, service: Service, home: Path) -> None:
    pod.subscribe("a", port=service.port)
    await pod.record(4, agent="a")
    words = ["-f", str(pod.file), "--dry-run", "--limit", "3"]
    ran = await memplane(home, "backfill", "mem", *words)
    assert (ran.returncode, service.posts) == (0, [])
    assert ran.stdout.splitlines() == [
        "Would replay 3 entries for a",
        f"Would backfill 3 entries across 1 agent(s) to {service.base_url}/retain",
    ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--limit", "-1"), "limit must be >= 0"),
        (("--limit", "2x"), "limit must be an integer"),
        (("--after", "noon"), "after must be RFC3339"),
        (("--concurrency", "0"), "concurrency must be > 0"),
    ],
)
async def test_wrong_usage_is_explained(words: tuple[str, ...], says: str, home: Path) -> None:
    ran = await memplane(home, "backfill", "mem", *words)
    assert ran.returncode == 2
    assert says in ran.stderr


async def test_what_is_wrong_with_the_pod_is_said(pod: MemoryPod, home: Path) -> None:
    gone = await memplane(home, "backfill", "mem", "-f", str(pod.folder / "x" / "claw-pod.yml"))
    assert gone.returncode == 1
    assert gone.stderr.startswith("memplane backfill: no compose.generated.yml found")
    file = str(pod.file)
    none = await memplane(home, "backfill", "mem", "-f", file)
    assert "no generated agent context found in" in none.stderr
    pod.subscribe("a", without=("retain",))
    other = await memplane(home, "backfill", "other", "-f", file)
    assert other.stderr == 'memplane backfill: no agents subscribe to memory service "other"\n'
    mute = await memplane(home, "backfill", "mem", "-f", file)
    assert 'memory service "mem" has no retain endpoint for agent "a"' in mute.stderr
    stranger = await memplane(home, "backfill", "mem", "-f", file, "--agent", "b")
    assert 'memory service "mem" is not subscribed by agent(s) b' in stranger.stderr
    pod.subscribe("b", base_url="http://elsewhere:1")
    pod.subscribe("a")
    torn = await memplane(home, "backfill", "mem", "-f", file)
    assert torn.returncode == 1
    assert "pass --url to override" in torn.stderr


async def test_what_waits_is_forgotten_first(pod: MemoryPod, service: Service, home: Path) -> None:
    pod.subscribe("a", port=service.port)
    entries = await pod.record(2, agent="a")
    pod.bury(entries[0].id, agent="a")
    enqueue_forget(pod.place.state, QueuedForget("mem", "a", (entries[0].id,), "", WHEN))
    ran = await memplane(home, "backfill", "mem", "-f", str(pod.file))
    assert ran.returncode == 0
    assert [one.path for one in service.posts] == ["/forget", "/retain"]
    assert list_queued_forgets(pod.place.state) == []
    mirror = pod.place.tombstones[1]
    assert list(read_tombstones(mirror, "a")) == [entries[0].id]


# Memplane's own home


async def test_own_ledgers_are_replayed_to_an_address(service: Service, home: Path) -> None:
    ledgers = home / "ledger"
    mine = await record(ledgers, [turn("one"), turn(f"my key is {KEY}"), turn("three")])
    other = await record(ledgers, [turn("another's", agent="writer")])
    stone = Tombstone(WHEN, "analyst", "memplane", mine[2].id)
    append_tombstones(home / "tombstones", "analyst", [stone])
    home.chmod(0o700)
    ran = await memplane(home, "backfill", service.base_url, "--auth-token", TOKEN)
    assert ran.returncode == 0, ran.stderr
    assert service.retained() == [mine[0].id, mine[1].id]
    assert service.retained("writer") == [other[0].id]
    assert f"Backfilled 3 entries across 2 agent(s) to {service.base_url}/retain" in ran.stdout
    assert KEY not in json.dumps([one.body for one in service.posts])
    body = next(one.body for one in service.posts if one.agent == "writer")
    assert set(body) == {"agent_id", "metadata", "entry"}
    assert body["metadata"]["service"] == body["metadata"]["type"] == ""
    again = await memplane(home, "backfill", "x", "--url", service.base_url, "--agent", "writer")
    assert "Replayed 1 entries for writer" in again.stdout


async def test_a_limit_is_an_agents_whichever_ledger_has_its_turns(
    service: Service, home: Path
) -> None:
    mine = await record(home / "ledger", [turn("one"), turn("two")])
    given = await record(home / "received", [turn("three"), turn("four")])
    home.chmod(0o700)
    words = ("backfill", service.base_url, "--limit", "3")
    dry = await memplane(home, *words, "--dry-run")
    assert "Would replay 3 entries for analyst" in dry.stdout
    for _ in range(2):
        ran = await memplane(home, *words)
        assert ran.returncode == 0, ran.stderr
        assert service.retained() == [mine[0].id, mine[1].id, given[0].id]


async def test_a_name_alone_is_not_enough_without_a_pod(home: Path) -> None:
    ran = await memplane(home, "backfill", "mem")
    assert ran.returncode == 1
    assert "--url" in ran.stderr
    assert "-f" in ran.stderr
    bad = await memplane(home, "backfill", "mem", "--url", "nonsense")
    assert 'url "nonsense" needs a scheme and a host' in bad.stderr
    strange = await memplane(home, "backfill", "http://h", "--agent", "../x")
    assert (strange.returncode, "not an agent's name" in strange.stderr) == (1, True)
