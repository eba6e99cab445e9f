"""Forgetting in a pod: tombstones first, services told sooner or later, and a receipt."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web

from memplane.errors import InvalidRequest, LedgerError, UnknownMemory
from memplane.integrations.clawdapus.memory_service.client import (
    ServiceAddress,
    ServiceClient,
    ServiceResult,
)
from memplane.integrations.clawdapus.memory_service.forget import (
    AgentForgetPlan,
    AgentForgetResult,
    ForgetDrainReport,
    ForgetRunner,
    PodForgetRequest,
    normalise_ids,
    plan_forget,
)
from memplane.integrations.clawdapus.memory_service.forget_queue import (
    QueuedForget,
    enqueue_forget,
    list_queued_forgets,
)
from memplane.integrations.clawdapus.memory_service.forget_verification import (
    EntryText,
    ForgetVerifier,
    PlaceCheck,
)
from memplane.integrations.clawdapus.memory_service.service_targets import (
    ServiceSelection,
    adapt_selection,
    find_all_pod_targets,
    find_queued_target,
    get_pod_paths,
    resolve_published_address,
)
from memplane.integrations.clawdapus.pod.agent_contexts import read_contexts
from memplane.ledger.entry import Entry
from memplane.ledger.tombstones import read_tombstones
from tests.clawdapus.memory_pod import (
    TOKEN,
    WHEN,
    MemoryPod,
    Post,
    Service,
    reference_memory,
)
from tests.support.turns import NOON, record, turn


class Bench:
    """A pod whose agents have one service."""

    def __init__(self, pod: MemoryPod, client: ServiceClient) -> None:
        self.pod = pod
        self.client = client
        self.forgetting = ForgetRunner(pod.place, client, lambda: NOON)

    async def forget(
        self, *entry_ids: str, agents: Sequence[str] = (), **more: Any
    ) -> list[AgentForgetResult]:
        wish = PodForgetRequest("mem", entry_ids, **more)
        contexts = read_contexts(self.pod.folder)
        targets = find_all_pod_targets(contexts, ServiceSelection("mem", tuple(agents)), "forget")
        decided = await self.forgetting.decide(targets, wish)
        return [
            await self.forgetting.forget(one, decided[one.agent], wish)
            for one in targets
            if one.agent in decided
        ]

    async def drain(self) -> ForgetDrainReport:
        contexts = read_contexts(self.pod.folder)
        return await self.forgetting.drain(
            lambda item: find_queued_target(contexts, item.service, item.agent)
        )

    async def verify(self, entry_id: str) -> dict[str, PlaceCheck]:
        contexts = read_contexts(self.pod.folder)
        (target,) = find_all_pod_targets(contexts, ServiceSelection("mem"), "recall")
        verification = ForgetVerifier(self.pod.place, self.client, lambda text: text)
        return {one.place: one for one in await verification.check(target, [entry_id])}

    def tombstoned(self, agent: str = "analyst") -> list[list[str]]:
        return [list(read_tombstones(root, agent)) for root in self.pod.place.tombstones]


@pytest.fixture
def bench(pod: MemoryPod, service: Service, client: ServiceClient) -> Bench:
    pod.subscribe("analyst", port=service.port)
    return Bench(pod, client)


def forgets(service: Service) -> list[Post]:
    return [one for one in service.posts if one.path == "/forget"]


# Deciding


def test_ids_are_trimmed_and_named_once() -> None:
    assert normalise_ids([" b ", "a", "", "b", "  "]) == ("b", "a")
    with pytest.raises(InvalidRequest, match=r"^at least one --entry-id is required$"):
        normalise_ids(["", " "])


def test_an_entry_belongs_to_whose_ledger_has_it() -> None:
    decided = plan_forget(
        PodForgetRequest("mem", ("x", "y", "z")),
        recorded={"a": {"x"}, "b": {"y", "z"}, "c": set()},
        forgotten={"a": set(), "b": {"z"}, "c": set()},
    )
    assert decided == {"a": AgentForgetPlan(("x",)), "b": AgentForgetPlan(("y",), ("z",))}


def test_what_nobody_knows_is_refused_or_everybodys() -> None:
    recorded: dict[str, set[str]] = {"a": {"x"}, "b": set()}
    forgotten: dict[str, set[str]] = {"a": set(), "b": {"w"}}
    wish = PodForgetRequest("mem", ("v", "x", "u"))
    with pytest.raises(UnknownMemory) as raised:
        plan_forget(wish, recorded=recorded, forgotten=forgotten)
    assert str(raised.value) == "history does not contain entry id(s) v, u"
    wish = PodForgetRequest("mem", ("v", "x", "w"), allow_unknown=True)
    decided = plan_forget(wish, recorded=recorded, forgotten=forgotten)
    assert decided == {"a": AgentForgetPlan(("v", "x")), "b": AgentForgetPlan(("v",), ("w",))}


# Forgetting


async def test_the_tombstone_is_there_before_the_service_is_asked(
    bench: Bench, service: Service
) -> None:
    entry, other = await bench.pod.record(2)
    before = bench.pod.ledger_bytes()
    seen: list[list[list[str]]] = []

    async def answer(_post: Post) -> web.StreamResponse | None:
        seen.append(bench.tombstoned())
        return None

    service.answer = answer
    (done,) = await bench.forget(entry.id, reason="asked for")
    assert seen == [[[entry.id], [entry.id]]]
    assert done == AgentForgetResult("analyst", (entry.id,), told=True)
    (post,) = forgets(service)
    assert post.headers["authorization"] == f"Bearer {TOKEN}"
    assert post.body == {
        "agent_id": "analyst",
        "pod": "desk",
        "metadata": {
            "path": "forget",
            "service": "analyst",
            "timezone": "UTC",
            "type": "claude",
        },
        "entry_ids": [entry.id],
        "reason": "asked for",
    }
    line = (bench.pod.place.tombstones[0] / "analyst" / "tombstones.jsonl").read_bytes()
    assert json.loads(line) == {
        "version": 1,
        "ts": WHEN,
        "agent_id": "analyst",
        "memory_service": "mem",
        "entry_id": entry.id,
        "reason": "asked for",
    }
    assert bench.pod.ledger_bytes() == before, "forgetting changes no byte of a ledger"
    assert other.id not in bench.tombstoned()[0]


async def test_the_owner_is_found_and_gets_one_request(
    pod: MemoryPod, service: Service, client: ServiceClient
) -> None:
    pod.subscribe("a", "b", "c", port=service.port)
    written = {agent: await pod.record(3, agent=agent) for agent in "ab"}
    bench = Bench(pod, client)
    wanted = [written["b"][0].id, written["a"][1].id, written["b"][2].id]
    done = await bench.forget(*wanted)
    assert [one.agent for one in done] == ["a", "b"]
    assert [(one.agent, one.body["entry_ids"]) for one in forgets(service)] == [
        ("a", [written["a"][1].id]),
        ("b", [written["b"][0].id, written["b"][2].id]),
    ]
    assert bench.tombstoned("c") == [[], []]
    with pytest.raises(UnknownMemory, match="history does not contain"):
        await bench.forget(written["a"][0].id, agents=["b"])


async def test_a_repeated_forget_is_skipped(bench: Bench, service: Service) -> None:
    first, second = await bench.pod.record(2)
    await bench.forget(first.id)
    (done,) = await bench.forget(first.id, second.id)
    assert (done.forgotten, done.skipped) == ((second.id,), (first.id,))
    (done,) = await bench.forget(first.id, second.id)
    assert (done.forgotten, done.skipped) == ((), (first.id, second.id))
    assert [one.body["entry_ids"] for one in forgets(service)] == [[first.id], [second.id]]
    assert bench.tombstoned() == [[first.id, second.id]] * 2


async def test_another_service_is_told_although_the_tombstone_holds(
    bench: Bench, service: Service
) -> None:
    (entry,) = await bench.pod.record(1)
    bench.pod.bury(entry.id, service="an-old-name")
    (done,) = await bench.forget(entry.id)
    assert (done.forgotten, done.told) == ((entry.id,), True)
    assert len(forgets(service)) == 1


async def test_what_claw_forgot_is_skipped_and_reaches_the_mirror(
    bench: Bench, service: Service
) -> None:
    (entry,) = await bench.pod.record(1)
    bench.pod.bury(entry.id)
    assert bench.tombstoned() == [[entry.id], []]
    (done,) = await bench.forget(entry.id)
    assert done.skipped == (entry.id,)
    assert bench.tombstoned() == [[entry.id]] * 2
    assert forgets(service) == []


async def test_an_unknown_entry_may_be_forgotten_before_it_comes(
    bench: Bench, service: Service
) -> None:
    with pytest.raises(UnknownMemory, match="history does not contain"):
        await bench.forget("hist1_later")
    assert bench.tombstoned() == [[], []]
    await bench.forget("hist1_later", allow_unknown=True)
    assert bench.tombstoned() == [["hist1_later"]] * 2
    (done,) = await bench.forget("hist1_later")
    assert done.skipped == ("hist1_later",)
    assert len(forgets(service)) == 1


async def test_a_service_that_cannot_forget_is_not_asked(
    pod: MemoryPod, service: Service, client: ServiceClient
) -> None:
    pod.subscribe("analyst", port=service.port, without=("forget",))
    (entry,) = await pod.record(1)
    bench = Bench(pod, client)
    (done,) = await bench.forget(entry.id)
    assert done == AgentForgetResult("analyst", (entry.id,))
    assert bench.tombstoned() == [[entry.id]] * 2
    assert (service.posts, list_queued_forgets(pod.place.state)) == ([], [])


@pytest.mark.parametrize("status", [400, 404, 500, 503])
async def test_a_failed_call_leaves_the_tombstone_and_is_queued(
    status: int, bench: Bench, service: Service
) -> None:
    (entry,) = await bench.pod.record(1)

    async def refuse(_post: Post) -> web.StreamResponse | None:
        return web.Response(status=status, text="not now")

    service.answer = refuse
    (done,) = await bench.forget(entry.id, reason="r")
    assert done.complaint == f"forget returned status {status}: not now"
    assert bench.tombstoned() == [[entry.id]] * 2
    ((_, item),) = list_queued_forgets(bench.pod.place.state)
    assert item == QueuedForget("mem", "analyst", (entry.id,), "r", WHEN)
    assert TOKEN not in "".join(
        path.read_text() for path in bench.pod.place.state.rglob("*") if path.is_file()
    )
    drained = await bench.drain()
    assert (drained.sent, drained.left) == (0, ((item, done.complaint),))

    async def accept(_post: Post) -> web.StreamResponse | None:
        return None

    service.answer = accept
    assert await bench.drain() == ForgetDrainReport(1)
    assert list_queued_forgets(bench.pod.place.state) == []
    assert service.taken[0].body["entry_ids"] == [entry.id]
    assert service.taken[0].body["reason"] == "r"


async def test_without_a_durable_tombstone_nobody_is_asked(bench: Bench, service: Service) -> None:
    (entry,) = await bench.pod.record(1)
    (bench.pod.place.tombstones[1] / "analyst" / "tombstones.jsonl").mkdir(parents=True)
    with pytest.raises(LedgerError):
        await bench.forget(entry.id)
    assert service.posts == []


# The queue


async def test_a_crash_before_the_tombstone_is_made_good(bench: Bench, service: Service) -> None:
    (entry,) = await bench.pod.record(1)
    enqueue_forget(bench.pod.place.state, QueuedForget("mem", "analyst", (entry.id,), "", WHEN))
    assert await bench.drain() == ForgetDrainReport(1)
    assert bench.tombstoned() == [[entry.id]] * 2
    assert len(forgets(service)) == 1


class Counting:
    """A client that remembers whom it asked."""

    def __init__(self, client: ServiceClient) -> None:
        self.client = client
        self.asked: list[str] = []

    async def post(self, address: ServiceAddress, body: bytes, *, keep: int = 0) -> ServiceResult:
        self.asked.append(address.url)
        return await self.client.post(address, body, keep=keep)


async def test_a_silent_service_is_asked_once_and_others_still_are(
    bench: Bench, service: Service
) -> None:
    nobody = "http://127.0.0.1:9"
    bench.pod.subscribe("other", service="gone", base_url=nobody)
    for name, agent, one in (
        ("gone", "other", "x"),
        ("gone", "other", "y"),
        ("mem", "analyst", "z"),
    ):
        enqueue_forget(bench.pod.place.state, QueuedForget(name, agent, (one,), "", WHEN))
    counting = Counting(bench.client)
    bench.forgetting = replace(bench.forgetting, client=cast("ServiceClient", counting))
    drained = await bench.drain()
    assert drained.sent == 1
    assert {item.entry_ids[0] for item, _ in drained.left} == {"x", "y"}
    assert all(why.startswith("send forget request: ") for _, why in drained.left)
    assert [one.body["entry_ids"] for one in forgets(service)] == [["z"]]
    assert counting.asked.count(f"{nobody}/forget") == 1


async def test_a_forget_for_nobody_waits_and_a_broken_one_is_passed_over(
    bench: Bench,
) -> None:
    item = QueuedForget("renamed", "analyst", ("x",), "", WHEN)
    path = enqueue_forget(bench.pod.place.state, item)
    path.with_name("broken.json").write_text("{")
    drained = await bench.drain()
    assert drained.left == ((item, 'no agents subscribe to memory service "renamed"'),)
    bench.pod.subscribe("analyst", service="renamed", without=("forget",))
    assert await bench.drain() == ForgetDrainReport(1)


def test_what_a_queue_holds_comes_back(tmp_path: Path) -> None:
    item = QueuedForget("mem", "a", ("\ud83d", "x"), "é", WHEN)
    path = enqueue_forget(tmp_path, item)
    assert list_queued_forgets(tmp_path) == [(path, item)]
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


# Addresses


def test_an_address_for_one_operation_serves_another(pod: MemoryPod) -> None:
    pod.subscribe("analyst")
    contexts = read_contexts(pod.folder)
    for url, base in (
        ("http://h:1/forget", "http://h:1"),
        ("http://h:1/", "http://h:1"),
        ("http://h:1/elsewhere", None),
        (None, None),
    ):
        assert adapt_selection(contexts, ServiceSelection("mem", url=url), "forget").url == base


@pytest.mark.parametrize(
    ("said", "address"),
    [
        ("0.0.0.0:49153", "127.0.0.1:49153"),
        ("[::]:49153\n", "127.0.0.1:49153"),
        (":::49153", "127.0.0.1:49153"),
        ("192.0.2.7:80", "192.0.2.7:80"),
        ("0.0.0.0:0", None),
        ("", None),
        ("no port", None),
    ],
)
def test_where_docker_published_a_port(said: str, address: str | None) -> None:
    assert resolve_published_address(said) == address


# The receipt


@pytest.mark.parametrize(
    ("said", "text", "quoted"),
    [
        (EntryText("what is the vault code of building nine", "noted."), "the vault code", False),
        (EntryText("w" * 50, "noted."), f"before {'w' * 50} after", True),
        (EntryText("w" * 30, "noted."), f"{'w' * 30} / noted.", True),
        (EntryText("w" * 30, "noted."), f"{'w' * 30} / other", False),
        (EntryText("", "noted."), "noted.", True),
        (EntryText("", ""), "anything", False),
    ],
)
def test_what_quotes_an_entry(said: EntryText, text: str, quoted: bool) -> None:  # noqa: FBT001
    assert bool(said.find_quotes(text)) is quoted


def returning(*memories: dict[str, Any]) -> Any:
    async def answer(post: Post) -> web.StreamResponse | None:
        return web.json_response({"memories": memories}) if post.path == "/recall" else None

    return answer


async def remembered(bench: Bench, *said: str) -> list[Entry]:
    return await record(bench.pod.place.ledgers, [turn(one) for one in said])


async def test_a_receipt_names_every_place(bench: Bench, service: Service) -> None:
    entry, _ = await remembered(bench, "The vault code is 4711.", "Something else.")
    before = await bench.verify(entry.id)
    assert {one.ok for one in before.values()} == {False, True}
    assert not before["ledger"].ok
    await bench.forget(entry.id)
    after = await bench.verify(entry.id)
    assert all(one.ok for one in after.values())
    primary, mirror = map(str, bench.pod.place.tombstones)
    assert set(after) == {primary, mirror, "ledger", "queue", "recall"}
    asked = [
        one.body["messages"][-1]["content"] for one in service.posts if "messages" in one.body
    ]
    assert "the vault code is 4711." in asked


async def test_a_service_that_names_the_entry_still_is_found_out(
    bench: Bench, service: Service
) -> None:
    (entry,) = await remembered(bench, "The vault code is 4711.")
    await bench.forget(entry.id)
    service.answer = returning({"text": "a summary", "entry_ids": ["z", entry.id]})
    assert not (await bench.verify(entry.id))["recall"].ok
    service.answer = returning({"text": "The vault code is 4711. / Noted.", "entry_ids": ["z"]})
    assert (await bench.verify(entry.id))["recall"].ok


async def test_a_service_that_quotes_the_entry_still_is_found_out(
    bench: Bench, service: Service
) -> None:
    entry, _ = await remembered(bench, "The vault code is 4711.", "hi")
    await bench.forget(entry.id)
    service.answer = returning({"text": "This: the vault code  IS 4711. / noted."})
    assert not (await bench.verify(entry.id))["recall"].ok


async def test_words_that_a_surviving_entry_has_too_prove_nothing(
    bench: Bench, service: Service
) -> None:
    long = "The vault code of building nine is 4711 and nobody may know that"
    entry, _, other = await remembered(bench, long, "x", f"Again: {long}!")
    await bench.forget(entry.id)
    service.answer = returning({"text": long})
    assert (await bench.verify(entry.id))["recall"].ok
    await bench.forget(other.id)
    assert not (await bench.verify(entry.id))["recall"].ok


@pytest.mark.parametrize("status", [500, 401])
async def test_a_service_that_cannot_be_asked_gives_no_receipt(
    status: int, bench: Bench, service: Service
) -> None:
    (entry,) = await remembered(bench, "The vault code is 4711.")
    await bench.forget(entry.id)

    async def answer(post: Post) -> web.StreamResponse | None:
        return web.Response(status=status)

    service.answer = answer
    check = (await bench.verify(entry.id))["recall"]
    assert not check.ok
    assert check.found.startswith(f"recall returned status {status}")


async def test_what_was_not_told_yet_gives_no_receipt(bench: Bench, service: Service) -> None:
    (entry,) = await remembered(bench, "The vault code is 4711.")

    async def answer(post: Post) -> web.StreamResponse | None:
        return web.Response(status=503) if post.path == "/forget" else None

    service.answer = answer
    await bench.forget(entry.id)
    checks = await bench.verify(entry.id)
    assert [place for place, one in checks.items() if not one.ok] == ["queue"]


async def test_a_missing_mirror_is_found_out(bench: Bench) -> None:
    (entry,) = await remembered(bench, "The vault code is 4711.")
    bench.pod.bury(entry.id)
    checks = await bench.verify(entry.id)
    mirror = str(bench.pod.place.tombstones[1])
    assert [place for place, one in checks.items() if not one.ok] == [mirror]


async def test_a_real_service_forgets_and_stays_so(
    pod: MemoryPod, client: ServiceClient, tmp_path: Path
) -> None:
    entries = await record(
        pod.place.ledgers,
        [turn("The kestrel rollout is on Thursday."), turn("The kestrel rollout is in Oslo.")],
    )
    with reference_memory(tmp_path / "kept") as memory:
        pod.subscribe("analyst", port=int(memory.base_url.rpartition(":")[2]))
        bench = Bench(pod, client)
        for one in entries:
            await asyncio.to_thread(memory.retain, "analyst", json.loads(one.line))
        assert not (await bench.verify(entries[0].id))["recall"].ok
        (done,) = await bench.forget(entries[0].id)
        assert done.told
        assert all(one.ok for one in (await bench.verify(entries[0].id)).values())
        recalled = await asyncio.to_thread(memory.recalled, "analyst", "the kestrel rollout")
        assert "Thursday" not in recalled
        assert "Oslo" in recalled


def test_a_pods_places(tmp_path: Path) -> None:
    place = get_pod_paths(tmp_path)
    assert place.ledgers == tmp_path / ".claw-session-history"
    assert place.tombstones == (
        tmp_path / ".claw-memory-tombstones",
        tmp_path / ".claw-session-history" / ".memplane" / "tombstones",
    )
