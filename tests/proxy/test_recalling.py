"""Recall for a turn: what is asked, what an answer is worth, and that a turn never waits."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from memplane.auth.memory_scope import MemoryScope
from memplane.episodes.api_types import MemoryBlock, RecallRequest, RecallResponse
from memplane.errors import IndexUnusable, UnknownAgent
from memplane.integrations.clawdapus.memory_service.client import open_service_client
from memplane.integrations.clawdapus.pod.agent_contexts import AgentContext
from memplane.integrations.clawdapus.pod.memory_manifest import MemoryEndpoint, MemoryManifest
from memplane.proxy.circuit_breaker import CircuitBreakers
from memplane.proxy.recall_client import RecallClient, RecallQuery, RecallResult, make_recall_event
from memplane.redaction.redactor import Redactor
from memplane.secret import Secret
from memplane.telemetry import OperationStatus
from tests.clawdapus.memory_pod import Post, Service, running_service
from tests.support.turns import NOON

MESSAGES = [{"role": "user", "content": "Which tea?"}]
LONG = 60.0


class Now:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass(slots=True)
class Bench:
    service: Service
    recall_client: RecallClient
    now: Now
    manifest: MemoryManifest
    agent: str = "analyst"
    asked: list[RecallQuery] = field(default_factory=list[RecallQuery])

    def ask(self, **more: Any) -> RecallQuery:
        context = AgentContext(
            self.agent, "desk", "analyst-service", "claude", "Europe/Paris", self.manifest
        )
        named = {"context": context, "scope": MemoryScope("analyst"), "messages": MESSAGES}
        return RecallQuery(**{**named, **more})

    async def recall(self, **more: Any) -> RecallResult:
        return await self.recall_client.recall(self.ask(**more))

    def answering(self, body: bytes = b"", status: int = 200, **more: Any) -> None:
        async def answer(_post: Post) -> web.StreamResponse:
            return web.Response(status=status, body=body, **more)

        self.service.answer = answer


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with running_service() as service, open_service_client() as client:
        now = Now()
        recall_client = RecallClient(
            client=client, redactor=Redactor(key=b"k" * 32), seconds=LONG, elapsed=now
        )
        manifest = MemoryManifest(
            "mem", service.base_url, recall=MemoryEndpoint("/recall"), token=Secret("s3cret-token")
        )
        yield Bench(service, recall_client, now, manifest)


def with_timeout(bench: Bench, milliseconds: int) -> None:
    bench.manifest = MemoryManifest(
        "mem", bench.service.base_url, recall=MemoryEndpoint("/recall", milliseconds)
    )


# What is asked


async def test_what_a_service_is_asked(bench: Bench) -> None:
    await bench.recall(wire="anthropic", model="claude-x", session="s-1", system="Be brief.")
    (post,) = bench.service.posts
    assert post.path == "/recall"
    assert post.headers["authorization"] == "Bearer s3cret-token"
    assert post.body == {
        "agent_id": "analyst",
        "pod": "desk",
        "messages": MESSAGES,
        "system": "Be brief.",
        "metadata": {
            "path": "anthropic",
            "requested_model": "claude-x",
            "session_id": "s-1",
            "service": "analyst-service",
            "timezone": "Europe/Paris",
            "type": "claude",
        },
    }


async def test_what_is_not_known_is_left_out(bench: Bench) -> None:
    context = AgentContext("analyst", memory=bench.manifest)
    await bench.recall_client.recall(RecallQuery(context=context, scope=MemoryScope("analyst")))
    assert bench.service.posts[0].body == {
        "agent_id": "analyst",
        "metadata": {"path": "openai", "service": "", "type": ""},
    }


async def test_messages_may_be_a_plain_text(bench: Bench) -> None:
    await bench.recall(messages="Which tea?")
    assert bench.service.posts[0].body["messages"] == MESSAGES


async def test_no_secret_leaves_for_a_recall(bench: Bench) -> None:
    said = [{"role": "user", "content": [{"type": "text", "text": "my key: sk-live-123456789"}]}]
    await bench.recall(messages=said, system="password is hunter2hunter2; sk-live-987654321")
    sent = json.dumps(bench.service.posts[0].body)
    assert "sk-live" not in sent
    assert sent.count("[redacted") >= 2


async def test_no_secret_in_a_model_or_a_session_leaves_for_a_recall(bench: Bench) -> None:
    came = await bench.recall(model="sk-live-123456789", session="sk-live-987654321")
    assert "sk-live" not in json.dumps(bench.service.posts[0].body)
    assert "sk-live" not in came.model


async def test_half_a_pair_is_no_trouble(bench: Bench) -> None:
    came = await bench.recall(messages=[{"role": "user", "content": "tea \ud83d"}])
    assert came.status is OperationStatus.SUCCEEDED


# What an answer is worth


async def test_blocks_go_through_the_policy_and_are_counted(bench: Bench) -> None:
    memories = [
        {"text": "tail", "source": "session_tail"},
        {"text": " "},
        {"text": "key sk-live-123456789", "score": 0.5, "entry_ids": ["e1"]},
    ]
    bench.answering(json.dumps({"memories": memories}).encode())
    came = await bench.recall(model="gpt")
    assert came.status is OperationStatus.SUCCEEDED
    assert [one.entry_ids for one in came.blocks] == [("e1",)]
    event = make_recall_event(came, ts=NOON, injected_bytes=123)
    assert event is not None
    assert json.loads(msgspec.json.encode(event)) == {
        "ts": "2026-03-01T12:00:00Z",
        "claw_id": "analyst",
        "type": "memory_op",
        "model": "gpt",
        "status_code": 200,
        "intervention": None,
        "memory_service": "mem",
        "memory_op": "recall",
        "memory_status": "succeeded",
        "memory_blocks": 3,
        "memory_bytes": 123,
        "memory_removed": 2,
        "memory_redacted": 1,
    }


FITS = b'{"memories":[{"text":"a"}]' + b" " * (16384 - 27) + b"}"


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (FITS, 200, ""),
        (FITS + b" ", 200, "recall response exceeds 16384 bytes"),
        (b'{"MEMORIES":[{"Text":"a"}]}', 202, ""),
        (b"", 204, "parse recall response: it is not JSON"),
        (b"", 200, "parse recall response: it is not JSON"),
        (b"<html>", 200, "parse recall response: it is not JSON"),
        (b'{"memories":[{"text":"a"},{"score":"0.9"}]}', 200, "parse recall response: memories"),
        (b'{"memories":[{"text":"a"}]}', 503, "recall returned status 503"),
        (b'{"memories":[{"text":"a"}]}', 404, "recall returned status 404"),
    ],
)
async def test_what_an_answer_is_worth(body: bytes, status: int, error: str, bench: Bench) -> None:
    bench.answering(body, status)
    came = await bench.recall()
    assert came.status is (OperationStatus.FAILED if error else OperationStatus.SUCCEEDED)
    assert came.error.startswith(error)
    assert [one.text for one in came.blocks] == ([] if error else ["a"])
    assert came.status_code == status
    assert bool(came.error) == bool(error)


@pytest.mark.parametrize(("body", "ok"), [(FITS, True), (FITS + b" ", False)])
async def test_bytes_count_after_decompression(body: bytes, ok: bool, bench: Bench) -> None:  # noqa: FBT001
    bench.answering(gzip.compress(body), headers={"Content-Encoding": "gzip"})
    assert (await bench.recall()).status is (
        OperationStatus.SUCCEEDED if ok else OperationStatus.FAILED
    )


async def test_nobody_there_is_a_failure(bench: Bench) -> None:
    bench.manifest = MemoryManifest("mem", "http://127.0.0.1:1", recall=MemoryEndpoint("/recall"))
    came = await bench.recall()
    assert came.status is OperationStatus.FAILED
    assert came.error.startswith("send recall request: ")
    event = make_recall_event(came, ts=NOON, injected_bytes=0)
    assert event is not None
    assert event.memory_blocks is None


# The deadline


@dataclass(slots=True)
class Stuck:
    """Answers with what was given, and then nothing comes any more."""

    begins: bytes | None
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        reply = web.StreamResponse(headers={"Content-Length": "100"})
        if self.begins is not None:
            await reply.prepare(request)
            await reply.write(self.begins)
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()
        return reply


@pytest.mark.parametrize("begins", [None, b"", b'{"memories":'])
async def test_a_service_that_is_late_is_not_waited_for(
    begins: bytes | None, bench: Bench
) -> None:
    stuck = Stuck(begins)
    app = web.Application()
    app.router.add_post("/recall", stuck.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        bench.manifest = MemoryManifest("mem", url, recall=MemoryEndpoint("/recall", 50))
        came = await bench.recall()
        assert came.status is OperationStatus.TIMED_OUT
        assert came.error == "no answer within 50 ms"
        assert came.blocks == ()
        if begins is None and not stuck.asked.is_set():
            return  # this machine is so busy that the request never got there
        await stuck.left.wait()  # the connection was closed, not left open
    finally:
        await runner.cleanup()


async def test_a_manifest_may_allow_more_or_less_time(bench: Bench) -> None:
    came = asyncio.Event()

    async def answer(_post: Post) -> web.StreamResponse | None:
        await came.wait()
        return None

    bench.service.answer = answer
    with_timeout(bench, 20)
    assert (await bench.recall()).status is OperationStatus.TIMED_OUT
    with_timeout(bench, 60_000)
    patient = asyncio.create_task(bench.recall())
    came.set()
    assert (await patient).status is OperationStatus.SUCCEEDED


class Stubborn:
    """A memory that does not let itself be stopped, at least not the first time."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()
        self.stopped = 0

    async def recall(self, ask: RecallRequest) -> RecallResponse:
        try:
            await self.let_go.wait()
        except asyncio.CancelledError:
            self.stopped += 1
            await self.let_go.wait()
        return RecallResponse()


@dataclass(slots=True)
class Here:
    """A memory that answers as a test tells it."""

    answer: Callable[[], RecallResponse] = RecallResponse
    asks: list[RecallRequest] = field(default_factory=list[RecallRequest])

    async def recall(self, ask: RecallRequest) -> RecallResponse:
        self.asks.append(ask)
        return self.answer()


@pytest.fixture
async def recaller_of() -> AsyncIterator[Callable[..., RecallClient]]:
    async with open_service_client() as client:
        yield lambda memories, **more: RecallClient(
            client=client, redactor=Redactor(key=b"k" * 32), memories=memories, **more
        )


def at_home(**more: Any) -> RecallQuery:
    named = {"context": AgentContext("analyst"), "scope": MemoryScope("analyst")}
    return RecallQuery(**{**named, "messages": MESSAGES, **more})


async def test_a_memory_here_that_is_late_is_not_waited_for(
    recaller_of: Callable[..., RecallClient],
) -> None:
    memory = Stubborn()
    came = await recaller_of(memory, seconds=0.02).recall(at_home())
    assert came.status is OperationStatus.TIMED_OUT
    assert came.service == "memplane"
    await asyncio.sleep(0)
    assert memory.stopped == 1
    memory.let_go.set()


# Memory here


async def test_memory_here_is_asked_with_the_conversation(
    recaller_of: Callable[..., RecallClient],
) -> None:
    block = MemoryBlock(text="oolong", id="e1")
    memory = Here(lambda: RecallResponse(memories=(block,)))
    recall_client = recaller_of(memory)
    came = await recall_client.recall(at_home())
    assert (came.status, came.service) == (OperationStatus.SUCCEEDED, "memplane")
    assert came.blocks == (block,)
    (ask,) = memory.asks
    assert (ask.agent, ask.messages) == ("analyst", MESSAGES)


async def test_memory_is_asked_while_something_else_is_waited_for(
    recaller_of: Callable[..., RecallClient],
) -> None:
    memory = Here()
    with recaller_of(memory).recalling(at_home) as recall:
        assert not memory.asks
        await recall.begin()
        assert len(memory.asks) == 1
        assert (await recall.came()).status is OperationStatus.SUCCEEDED
    assert len(memory.asks) == 1


async def test_a_recall_that_nobody_waits_for_is_stopped_and_does_not_count(
    recaller_of: Callable[..., RecallClient],
) -> None:
    memory, now = Stubborn(), Now()
    recall_client = recaller_of(memory, seconds=0.02, elapsed=now)
    for _ in range(3):
        assert (await recall_client.recall(at_home())).status is OperationStatus.TIMED_OUT
        now.now += 1
    now.now = 200.0
    with recall_client.recalling(at_home) as probe:
        await probe.begin()
    await asyncio.sleep(0)
    stopped = memory.stopped
    # The next one may try: nothing came of the other.
    again = (await recall_client.recall(at_home())).status
    memory.let_go.set()
    assert (stopped, again) == (4, OperationStatus.TIMED_OUT)


@pytest.mark.parametrize("error", [IndexUnusable("x"), ValueError("secret words"), KeyError()])
async def test_whatever_memory_raises_is_a_failed_recall(
    error: Exception, recaller_of: Callable[..., RecallClient]
) -> None:
    def fail() -> RecallResponse:
        raise error

    came = await recaller_of(Here(fail)).recall(at_home())
    assert came.status is OperationStatus.FAILED
    assert came.error == f"recall: {type(error).__name__}"


async def test_a_memory_that_stops_itself_stops_no_turn(
    recaller_of: Callable[..., RecallClient],
) -> None:
    def stop() -> RecallResponse:
        raise asyncio.CancelledError

    came = await recaller_of(Here(stop)).recall(at_home())
    assert came.status is OperationStatus.FAILED


# What there is to ask


async def test_a_service_that_does_not_recall_is_skipped(bench: Bench) -> None:
    bench.manifest = MemoryManifest(
        "mem", bench.service.base_url, retain=MemoryEndpoint("/retain")
    )
    came = await bench.recall()
    assert (came.status, came.service) == (OperationStatus.SKIPPED, "mem")
    event = make_recall_event(came, ts=NOON, injected_bytes=0)
    assert event is not None
    line = json.loads(msgspec.json.encode(event))
    assert line["memory_status"] == "skipped"
    assert not {"latency_ms", "memory_blocks", "memory_bytes", "error"} & line.keys()
    assert bench.service.posts == []


@pytest.mark.parametrize("why", ["not JSON", "memory manifest invalid: not JSON"])
async def test_a_broken_manifest_is_told_and_nobody_is_asked(
    why: str, recaller_of: Callable[..., RecallClient]
) -> None:
    memory = Here()
    came = await recaller_of(memory).recall(at_home(broken=why))
    assert came.status is OperationStatus.FAILED
    assert came.error == "memory manifest invalid: not JSON"
    assert make_recall_event(came, ts=NOON, injected_bytes=0) is not None
    assert memory.asks == []


async def test_without_any_memory_there_is_nothing_to_tell(
    recaller_of: Callable[..., RecallClient],
) -> None:
    came = await recaller_of(None).recall(at_home())
    assert (came.status, came.blocks) == (OperationStatus.SKIPPED, ())
    assert make_recall_event(came, ts=NOON, injected_bytes=0) is None


async def test_a_request_without_memory_is_told(recaller_of: Callable[..., RecallClient]) -> None:
    came = recaller_of(Here()).skipped(at_home(), "memory is off")
    assert (came.status, came.error) == (OperationStatus.SKIPPED, "memory is off")
    assert make_recall_event(came, ts=NOON, injected_bytes=0) is not None


# The breaker


async def test_who_fails_three_times_is_left_alone_for_half_a_minute(bench: Bench) -> None:
    bench.answering(status=503)
    for _ in range(3):
        assert (await bench.recall()).status is OperationStatus.FAILED
    bench.now.now += 29.9
    bench.agent = "another"
    came = await bench.recall()
    assert (came.status, came.error, came.seconds) == (
        OperationStatus.SKIPPED,
        "breaker open",
        0.0,
    )
    assert len(bench.service.posts) == 3
    bench.now.now += 0.2
    assert (await bench.recall()).status is OperationStatus.FAILED  # the probe
    assert (await bench.recall()).status is OperationStatus.SKIPPED
    bench.now.now += 30
    bench.answering(b"{}")
    assert (await bench.recall()).status is OperationStatus.SUCCEEDED
    bench.answering(status=503)
    assert (await bench.recall()).status is OperationStatus.FAILED
    assert (await bench.recall()).status is OperationStatus.FAILED
    assert len(bench.service.posts) == 7


async def test_time_outs_open_it_too(recaller_of: Callable[..., RecallClient]) -> None:
    memory = Stubborn()
    recall_client = recaller_of(memory, seconds=0.01)
    told = [(await recall_client.recall(at_home())).status for _ in range(4)]
    assert told == [*[OperationStatus.TIMED_OUT] * 3, OperationStatus.SKIPPED]
    memory.let_go.set()


@pytest.mark.parametrize(("status", "body"), [(401, b""), (200, b"nothing to read")])
async def test_one_agents_trouble_is_not_anothers(status: int, body: bytes, bench: Bench) -> None:
    bench.answering(body, status)
    for _ in range(3):
        assert (await bench.recall()).status is OperationStatus.FAILED
    assert (await bench.recall()).error == "breaker open"
    bench.agent = "another"
    bench.answering(b"{}")
    assert (await bench.recall()).status is OperationStatus.SUCCEEDED


async def test_an_unknown_agent_does_not_close_the_memory_here(
    recaller_of: Callable[..., RecallClient],
) -> None:
    def unknown() -> RecallResponse:
        raise UnknownAgent("x")

    memory = Here(unknown)
    recall_client = recaller_of(memory)
    for _ in range(3):
        await recall_client.recall(at_home())
    memory.answer = RecallResponse
    other = at_home(context=AgentContext("another"))
    assert (await recall_client.recall(other)).status is OperationStatus.SUCCEEDED


async def test_a_probe_whose_client_left_lets_another_one_through(bench: Bench) -> None:
    bench.answering(status=503)
    for _ in range(3):
        await bench.recall()
    bench.now.now += 31
    there, let_go = asyncio.Event(), asyncio.Event()

    async def hang(_post: Post) -> web.StreamResponse | None:
        there.set()
        await let_go.wait()
        return None

    bench.service.answer = hang
    probe = asyncio.create_task(bench.recall())
    await there.wait()
    assert (await bench.recall()).status is OperationStatus.SKIPPED
    probe.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probe
    let_go.set()
    bench.answering(b"{}")
    assert (await bench.recall()).status is OperationStatus.SUCCEEDED


def test_who_fails_together_fails_once() -> None:
    breakers = CircuitBreakers()
    for moment in (1.0, 2.0, 3.0):
        assert breakers.admit(["x"], moment)
        for place in range(16):
            breakers.failed("x", moment + 0.3 + place / 1000, since=moment + place / 1000)
    assert not breakers.admit(["x"], 3.4)
    assert breakers.admit(["x"], 33.4)  # from the first of the third moment, not from its last
    breakers.failed("x", 33.5, since=3.1)  # one that was left behind is not the probe
    assert not breakers.admit(["x"], 33.6)


_STEPS = st.lists(
    st.tuples(st.sampled_from(["ok", "bad", "gone"]), st.floats(0.1, 40.0)), max_size=40
)


@given(_STEPS)
def test_a_breaker_is_open_exactly_after_three_failures_in_a_row(
    steps: list[tuple[str, float]],
) -> None:
    breakers, now, in_a_row, until = CircuitBreakers(), 0.0, 0, -1.0
    for outcome, passed in steps:
        now += passed
        admitted = breakers.admit(["x"], now)
        assert admitted == (in_a_row < 3 or now >= until)
        if not admitted:
            continue
        assert in_a_row < 3 or not breakers.admit(["x"], now)  # one probe, and no more
        if outcome == "ok":
            breakers.succeeded("x")
            in_a_row = 0
        elif outcome == "bad":
            breakers.failed("x", now, since=now)
            in_a_row, until = in_a_row + 1, now + 30
        else:
            breakers.abandon("x")
