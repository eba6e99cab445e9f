"""P8: the memory plane never fails a turn, and never keeps one waiting for longer than a recall.

Nothing here measures time: a service that answers only when its turn is over would keep a proxy
waiting for ever that waited for it. What cannot be shown: a memory that computes on the event loop
without ever yielding stops everything there, turns too. Memory here recalls in a thread of its
own, which is shown; only the short lookup of what stands in a conversation runs on the loop.

Each check has its control at the end of this file: a broken proxy that it must find.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import socket
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from memplane.episodes import service as memory_module
from memplane.episodes.api_types import RecallRequest, RecallResponse
from memplane.episodes.service import EpisodeService
from memplane.errors import IndexUnusable
from memplane.integrations.clawdapus.memory_service import client as service_client
from memplane.integrations.clawdapus.memory_service.client import (
    ServiceAddress,
    ServiceClient,
    ServiceResult,
)
from memplane.ledger.agent_writer import AgentWriter
from memplane.proxy import dns_resolver
from memplane.proxy.circuit_breaker import CircuitBreakers
from memplane.proxy.recall_client import RecallClient
from memplane.server.response_stream import HttpResponseWriter
from tests.proxy.proofs import sick
from tests.proxy.proofs.sick import (
    CHAT,
    FACT,
    MEMORIES,
    SAID,
    Conduct,
    Crew,
    Service,
    Visit,
    crew,
    illness,
    recaller_of,
    recovery,
    running_service,
    stopped_process,
    well,
)
from tests.proxy.proxied import Proxied, proxied
from tests.proxy.test_governed import KEY, write_context, write_providers
from tests.support.answers import chat_events, chat_stream

STREAMED = b"".join(chat_events(SAID))
LONG = 60_000
SHORT = 0.75
"""How long a control may take; it never ends by itself."""
THREADS = 3
"""How many threads the event loop has, where it matters."""

# Services that are ill


@asynccontextmanager
async def ill(
    folder: Path, conduct: Conduct, *, timeout_ms: int = 50
) -> AsyncIterator[tuple[Crew, Service]]:
    async with (
        running_service(well) as elsewhere,
        running_service(conduct) as service,
        crew(folder, service.base_url, timeout_ms=timeout_ms) as agent,
    ):
        service.elsewhere = elsewhere
        yield agent, service


ILLNESSES: list[tuple[Conduct, str, int]] = [
    (sick.hang, "timed_out", 50),
    (sick.trickle, "timed_out", 50),
    (sick.trickle_its_head, "timed_out", 50),
    (sick.fail, "failed", LONG),
    (sick.talk_nonsense, "failed", LONG),
    (sick.answer_nonsense, "failed", LONG),
    (sick.pour, "failed", LONG),
    (sick.pour_an_error, "failed", LONG),
    (sick.explode, "failed", LONG),
    (sick.reset, "failed", LONG),
    (sick.redirect, "failed", LONG),
    (sick.go_in_circles, "failed", LONG),
]


@pytest.mark.parametrize(
    ("conduct", "status", "timeout_ms"), ILLNESSES, ids=[one[0].__name__ for one in ILLNESSES]
)
async def test_a_service_that_is_ill_changes_no_turn_and_is_left_alone_until_it_is_well(
    conduct: Conduct, status: str, timeout_ms: int, tmp_path: Path
) -> None:
    async with ill(tmp_path, conduct, timeout_ms=timeout_ms) as (agent, service):
        assert await illness(agent, service, {status}) == []
        service.conduct = well
        recaller_of(agent.door)._breakers.pause = 30.0
        asked = service.asked
        assert await recovery(agent) == []
        assert service.asked == asked + 2


async def test_a_service_that_is_not_there(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        async with crew(tmp_path, f"http://127.0.0.1:{nobody.getsockname()[1]}") as agent:
            assert await illness(agent, None, {"failed"}) == []


async def test_a_service_whose_process_is_stopped(tmp_path: Path) -> None:
    async with stopped_process() as (base_url, let_go), crew(tmp_path, base_url) as agent:
        assert await illness(agent, None, {"timed_out"}) == []
        let_go()
        manifest = tmp_path / "context" / "ada" / "memory.json"
        manifest.write_text(
            manifest.read_text().replace('"timeout_ms": 50', '"timeout_ms": 60000')
        )
        assert await recovery(agent) == []


async def test_a_service_whose_name_leads_nowhere(tmp_path: Path) -> None:
    async with crew(tmp_path, "http://memory.invalid:8080", timeout_ms=LONG) as agent:
        assert await illness(agent, None, {"failed"}) == []


@pytest.fixture
def hung_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Names that end in .invalid are looked up until this is set."""
    let_go, resolve = threading.Event(), socket.getaddrinfo

    def hang(host: Any, *args: Any, **more: Any) -> Any:
        if str(host).endswith(".invalid"):
            let_go.wait()
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return resolve(host, *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    yield let_go
    let_go.set()


async def test_a_service_whose_name_is_looked_up_for_ever(
    hung_names: threading.Event, tmp_path: Path
) -> None:
    async with crew(tmp_path, "http://memory.invalid:8080") as agent:
        assert await illness(agent, None, {"timed_out"}) == []
        hung_names.set()


async def test_names_that_are_looked_up_for_ever_keep_no_other_name_waiting(
    hung_names: threading.Event, tmp_path: Path
) -> None:
    """Lookups take threads, and there are not many."""
    async with crew(tmp_path, "http://memory.invalid:8080") as agent:
        try:
            assert await other_names(agent, tmp_path / "context") == []
        finally:
            hung_names.set()  # closing takes threads too


async def other_names(agent: Crew, root: Path) -> list[str]:
    """Have more services than there are threads, none of which is found, and then a turn."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
    door = agent.door
    by_name = {"base_url": f"http://localhost:{door.upstream.port}/v1", "api_key": KEY}
    write_providers(door.settings.home, door, named=by_name)
    memory = msgspec.json.decode((root / "ada" / "memory.json").read_bytes())
    for number in range(2 * THREADS):
        ill = {**memory, "base_url": f"http://memory-{number}.invalid"}
        agent.own = write_context(root, f"a{number}", memory=ill)
        if wrong := await agent.turn():
            return wrong
    body = {"model": "named/m", "messages": [{"role": "user", "content": "What?"}]}
    try:
        async with asyncio.timeout(agent.patience):
            answered = await door.post(CHAT, body, agent="", headers=agent.own)
    except TimeoutError:
        return ["the turn does not end"]
    return [] if (answered.status, answered.body) == (200, STREAMED) else ["another answer"]


async def test_a_service_answers_when_the_turn_is_over_and_not_before(tmp_path: Path) -> None:
    over = asyncio.Event()

    async def answer_afterwards(_service: Service, visit: Visit) -> None:
        await over.wait()
        await visit.answer(MEMORIES)

    async with ill(tmp_path, answer_afterwards) as (agent, service):
        assert await agent.turn() == []
        assert (agent.told["memory_status"], service.asked) == ("timed_out", 1)
        over.set()


async def test_a_turn_whose_service_is_well_has_its_memories(tmp_path: Path) -> None:
    async with ill(tmp_path, well, timeout_ms=LONG) as (agent, service):
        assert await agent.turn() == []
        assert (agent.told["memory_status"], service.asked) == ("succeeded", 1)
        assert FACT.encode() in agent.sent


# The memory here


class Sick:
    """A memory here that is ill."""

    def __init__(self, recall: Callable[[], Coroutine[Any, Any, RecallResponse]]) -> None:
        self._recall = recall
        self.asked = 0

    async def recall(self, ask: RecallRequest) -> RecallResponse:
        self.asked += 1
        return await self._recall()


async def raises() -> RecallResponse:
    raise IndexUnusable("damaged")


async def raises_what_nobody_thought_of() -> RecallResponse:
    raise MemoryError


async def gives_itself_up() -> RecallResponse:
    raise asyncio.CancelledError


async def hangs() -> RecallResponse:
    await asyncio.Event().wait()
    return RecallResponse()


@pytest.mark.parametrize("how", [raises, raises_what_nobody_thought_of, gives_itself_up, hangs])
async def test_a_memory_here_that_is_ill_changes_no_turn(
    how: Callable[[], Coroutine[Any, Any, RecallResponse]], tmp_path: Path
) -> None:
    async with proxied(tmp_path, proxy__recall_ms="50") as door:
        memory = Sick(how)
        recaller_of(door)._memories = memory
        await at_home(door, 5)
        assert memory.asked == 3
        told = [one["memory_status"] for one in door.recalls()]
        assert told == [*["timed_out" if how is hangs else "failed"] * 3, *["skipped"] * 2]
        assert len(await door.recorded()) == 5


async def at_home(door: Proxied, turns: int) -> None:
    """Take turns with what somebody's own key pays, and see that they are as ever."""
    door.upstream.at(CHAT, chat_stream(SAID))
    for number in range(turns):
        messages = [{"role": "user", "content": f"What is {number}?"}]
        sent = msgspec.json.encode({"model": "m", "stream": True, "messages": messages})
        answered = await door.post(CHAT, sent)
        assert (answered.status, answered.body) == (200, STREAMED)
        assert door.upstream.asked(CHAT)[-1].body == sent


async def test_a_recall_that_never_yields_does_so_in_a_thread_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go, threads = threading.Event(), list[threading.Thread]()

    def block(*_: object, **__: object) -> RecallResponse:
        threads.append(threading.current_thread())
        let_go.wait()
        return RecallResponse()

    async with proxied(tmp_path, proxy__recall_ms="50") as door:
        monkeypatch.setattr(memory_module, "recall_episodes", block)
        try:
            await at_home(door, 4)
        finally:
            let_go.set()
        assert threading.main_thread() not in threads
        assert door.recalls()[0]["memory_status"] == "timed_out"


async def test_a_database_that_somebody_else_writes_to_changes_no_turn(tmp_path: Path) -> None:
    async with proxied(tmp_path) as door:
        memory = await door.services.lazy_memory.memory()
        other = sqlite3.connect(memory._records.path, isolation_level=None)  # type: ignore[attr-defined]
        try:
            other.execute("BEGIN EXCLUSIVE")
            await at_home(door, 3)
            other.execute("ROLLBACK")
        finally:
            other.close()
        assert len(await door.recorded()) == 3


async def test_a_lookup_that_hangs_keeps_no_turn_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go = asyncio.Event()

    async def hang(*_: object) -> list[object]:
        await let_go.wait()
        return []

    monkeypatch.setattr(EpisodeService, "injected", hang)
    async with proxied(tmp_path, proxy__recall_ms="50") as door:
        try:
            async with asyncio.timeout(SHORT):
                await at_home(door, 1)
        finally:
            let_go.set()


async def test_a_lookup_that_fails_changes_no_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> list[object]:
        raise RuntimeError("nobody thought of it")

    monkeypatch.setattr(EpisodeService, "injected", fail)
    async with proxied(tmp_path) as door:
        await at_home(door, 2)


# The record


@pytest.fixture
def stalled_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Nothing becomes durable until this is set."""
    let_go, sync = threading.Event(), AgentWriter.sync

    def stall(self: AgentWriter) -> None:
        let_go.wait()
        sync(self)

    monkeypatch.setattr(AgentWriter, "sync", stall)
    yield let_go
    let_go.set()


async def test_a_disk_that_stalls_keeps_no_answer_waiting_and_what_waits_is_bounded(
    stalled_disk: threading.Event, tmp_path: Path
) -> None:
    most = 20_000
    async with proxied(tmp_path, ledger__queue_bytes=str(most)) as door:
        ledger, turns = door.services.recording.ledger, 30
        await at_home(door, turns)
        # Every answer was whole by now, and nothing is durable.
        figures = ledger.figures
        assert figures.entries == 0
        assert 0 < figures.queued_bytes <= most
        assert 0 < figures.refused < turns
        missed = [one for one in door.events("response") if one["outcome"] == "not recorded"]
        assert len(missed) == figures.refused
        assert "bytes wait for the disk already" in missed[0]["error"]
        assert door.proxy.telling.telemetry.figures().turns["response", "not recorded"] == len(
            missed
        )
        stalled_disk.set()
        assert len(await door.recorded()) == turns - len(missed)


async def test_a_disk_that_is_full_fails_no_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with proxied(tmp_path) as door:
        with monkeypatch.context() as broken:
            broken.setattr(AgentWriter, "write", full)
            await at_home(door, 3)
            assert await door.recorded() == []
        told = door.events("response")
        assert [one["outcome"] for one in told] == ["not recorded"] * 3
        assert "No space left on device" in told[0]["error"]
        assert door.proxy.telling.telemetry.figures().turns["response", "not recorded"] == 3
        assert door.services.recording.ledger.figures.failed == 3
        await at_home(door, 1)
        assert len(await door.recorded()) == 1


# Many at once


@pytest.mark.parametrize("streams", [200, pytest.param(1000, marks=pytest.mark.long)])
async def test_many_streams_are_held_at_once_and_each_ends_as_it_was_sent(
    streams: int, tmp_path: Path
) -> None:
    go_on, begun = asyncio.Event(), asyncio.Event()
    left = streams
    head, first, *rest = chat_stream(SAID)

    async def talk(client: aiohttp.ClientSession, number: int) -> bytes:
        nonlocal left
        body = {
            "model": "m",
            "stream": True,
            "messages": [{"role": "user", "content": f"number {number}"}],
        }
        async with client.post(f"{door.address}/agent/a{number % 10}{CHAT}", json=body) as reply:
            got = await reply.content.readany()
            left -= 1
            if not left:
                begun.set()
            return hashlib.sha256(got + await reply.content.read()).digest()

    async with (
        proxied(tmp_path) as door,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client,
    ):
        door.upstream.at(CHAT, (head, first, go_on, *rest))
        talking = asyncio.gather(*(talk(client, number) for number in range(streams)))
        await begun.wait()
        # All are open now; none can have ended.
        assert len(door.upstream.connections) == streams
        go_on.set()
        assert set(await talking) == {hashlib.sha256(STREAMED).digest()}
        recorded = [len(await door.recorded(f"a{number}")) for number in range(10)]
        assert recorded == [streams // 10] * 10


# Controls: the same checks, and a proxy that breaks the promise.


async def test_a_recall_without_a_deadline_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wait(_self: RecallClient, started: Any) -> Any:
        return await started.task

    monkeypatch.setattr(RecallClient, "_within", wait)
    # The client has a deadline of its own, under which this one would hide.

    async def post(
        self: ServiceClient, address: ServiceAddress, body: bytes, *, keep: int = 0
    ) -> ServiceResult:
        return await self._post_following_redirects(address, body, keep)

    monkeypatch.setattr(ServiceClient, "post", post)
    async with ill(tmp_path, sick.hang) as (agent, service):
        agent.patience = SHORT
        assert await illness(agent, service, {"timed_out"}) == ["the turn does not end"]


async def test_names_that_share_their_threads_are_found(
    hung_names: threading.Event, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dns_resolver, "ThreadPoolResolver", aiohttp.ThreadedResolver)
    async with crew(tmp_path, "http://memory.invalid:8080") as agent:
        agent.patience = 2.0
        try:
            assert await other_names(agent, tmp_path / "context") == ["the turn does not end"]
        finally:
            hung_names.set()


async def test_a_recall_whose_failure_fails_the_turn_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask(*_: object) -> Any:
        raise SystemError

    monkeypatch.setattr("memplane.proxy.turn._inject_memories", ask)
    async with ill(tmp_path, sick.fail, timeout_ms=LONG) as (agent, _):
        assert "the answer is another one: 500" in await agent.turn()


async def test_a_breaker_that_never_opens_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CircuitBreakers, "admit", lambda *_: True)
    async with ill(tmp_path, sick.fail, timeout_ms=LONG) as (agent, service):
        wrong = await illness(agent, service, {"failed"})
        assert "the breaker is not open in turn 3" in wrong


async def test_a_breaker_that_never_closes_is_found(tmp_path: Path) -> None:
    async with ill(tmp_path, sick.fail, timeout_ms=LONG) as (agent, service):
        recaller_of(agent.door)._breakers.pause = 3600.0
        await illness(agent, service, {"failed"})
        service.conduct = well
        assert any("not asked again" in one for one in await recovery(agent))


async def test_an_answer_that_is_read_whole_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read_whole(reply: aiohttp.ClientResponse, most: int) -> bytes:
        return (await reply.read())[:most]

    monkeypatch.setattr(service_client, "_read", read_whole)
    async with ill(tmp_path, sick.pour, timeout_ms=LONG) as (agent, service):
        assert "its long answer was read" in await illness(agent, service, {"failed"})


async def test_a_redirect_that_is_followed_anywhere_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_client, "is_same_host", lambda *_: True)
    async with ill(tmp_path, sick.redirect, timeout_ms=LONG) as (agent, service):
        wrong = await illness(agent, service, {"failed"})
        assert "somebody else was told what the agent said" in wrong


async def test_forwarding_that_waits_for_the_ledger_is_found(
    stalled_disk: threading.Event, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = HttpResponseWriter.end
    async with ill(tmp_path, well, timeout_ms=LONG) as (agent, _):
        recorder = agent.door.proxy.recorder

        async def end_when_recorded(self: HttpResponseWriter) -> None:
            await recorder.drain()
            await end(self)

        monkeypatch.setattr(HttpResponseWriter, "end", end_when_recorded)
        assert await agent.turn() == []  # nothing waits for the disk yet
        agent.patience = SHORT
        assert await agent.turn() == ["the turn does not end"]
        stalled_disk.set()
