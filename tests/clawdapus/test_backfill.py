"""Backfill against services that fail in every way, and against the real example."""

from __future__ import annotations

import asyncio
import gzip
import json
import signal
import tracemalloc
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from memplane.integrations.clawdapus.memory_service.backfill import AgentBackfillReport, Backfill
from memplane.integrations.clawdapus.memory_service.client import (
    NoServiceResponse,
    ServiceAddress,
    ServiceClient,
)
from memplane.integrations.clawdapus.memory_service.entry_filter import EntryFilter
from memplane.integrations.clawdapus.memory_service.service_targets import (
    ServiceSelection,
    ServiceTarget,
    find_pod_targets,
)
from memplane.integrations.clawdapus.pod.agent_contexts import read_contexts
from memplane.ledger.entry import Entry, StreamReply, make_entry
from memplane.ledger.turn_note import TurnNote, add_removed_count, encode_note
from memplane.ledger.turn_redaction import redact_entry_line
from memplane.ledger.writer import LedgerOptions
from memplane.redaction.redactor import RedactionResult, Redactor
from tests.clawdapus.memory_pod import (
    TOKEN,
    MemoryPod,
    Post,
    Service,
    command_line,
    memplane,
    reference_memory,
    running_service,
)
from tests.support.faulty import Quick
from tests.support.running import environment
from tests.support.turns import NOON, record, turn

KEY = "sk-live-" + "123456789"
NOBODY = "http://127.0.0.1:9/retain"


class Bench:
    """A pod whose agents have one service; a backfill of it waits for nothing."""

    def __init__(self, pod: MemoryPod, service: Service, client: ServiceClient) -> None:
        self.pod = pod
        self.service = service
        self.client = client
        self.quick = Quick()

    def targets(self, **asked: Any) -> tuple[ServiceTarget, ...]:
        return find_pod_targets(
            read_contexts(self.pod.folder), ServiceSelection("mem", **asked), "retain"
        )

    def backfill(self, **more: Any) -> Backfill:
        redactor = Redactor(key=b"key")
        made = Backfill(
            service="mem",
            place=self.pod.place,
            selection=EntryFilter(),
            client=self.client,
            redact=partial(redact_entry_line, redactor),
            pacing=self.quick.pacing(),
            clock=lambda: NOON,
        )
        return replace(made, **more)

    async def run(self, **more: Any) -> AgentBackfillReport:
        (report,) = await self.backfill(**more).run(self.targets())
        return report


@pytest.fixture
def bench(pod: MemoryPod, service: Service, client: ServiceClient) -> Bench:
    pod.subscribe("analyst", port=service.port)
    return Bench(pod, service, client)


def ids(entries: list[Entry]) -> list[str]:
    return [one.id for one in entries]


# What is sent


async def test_every_entry_is_sent_once_and_in_order(bench: Bench) -> None:
    entries = await bench.pod.record(250)
    report = await bench.run()
    assert bench.service.retained() == ids(entries)
    assert (report.replayed, report.complaint, report.resumed) == (250, "", False)


async def test_a_request_has_the_shape_of_a_live_retain(bench: Bench) -> None:
    (entry,) = await bench.pod.record(1)
    await bench.run()
    (post,) = bench.service.posts
    assert post.path == "/retain"
    assert post.headers["authorization"] == f"Bearer {TOKEN}"
    assert post.headers["content-type"] == post.headers["accept"] == "application/json"
    assert post.body == {
        "agent_id": "analyst",
        "pod": "desk",
        "metadata": {
            "path": "retain",
            "requested_model": "openai/gpt-4o",
            "service": "analyst",
            "timezone": "UTC",
            "type": "claude",
        },
        "entry": json.loads(entry.line),
    }


async def test_it_spans_segments_and_another_recorders_files(bench: Bench) -> None:
    entries = await bench.pod.record(12, max_bytes=1700)
    folder = bench.pod.place.ledgers / "analyst"
    assert len(list((folder / "segments").iterdir())) >= 3
    (folder / "history.jsonl").rename(folder / "history.jsonl.1")
    last = [make_entry(turn(f"later {n}")) for n in range(2)]
    (folder / "history.jsonl").write_bytes(b"".join(one.line + b"\n" for one in last))
    report = await bench.run()
    assert bench.service.retained() == ids([*entries, *last])
    assert report.unreadable == 0


async def test_odd_lines_are_read_as_the_ledger_reads_them(bench: Bench) -> None:
    folder = bench.pod.place.ledgers / "analyst"
    folder.mkdir(parents=True)
    legacy = b'{"version":1,"ts":"2026-01-02T03:04:05Z","requested_model":"m"}'
    odd = b'{"version":1,"id":"odd","requested_model":"\\ud83d","x":"\xff"}'
    long = make_entry(turn("x" * (8 << 20)))
    lines = [b"", b"garbage", legacy, odd, long.line, b'{"torn']
    (folder / "history.jsonl").write_bytes(b"\n".join(lines))
    report = await bench.run()
    first, second, third = bench.service.taken
    assert first.body["entry"]["id"].startswith("hist1_")
    assert first.body["metadata"]["requested_model"] == "m"
    assert second.body["entry"] == {
        "version": 1,
        "id": "odd",
        "requested_model": "\ud83d",
        "x": "\ufffd",
    }
    assert third.body["entry"] == json.loads(long.line)
    assert (report.replayed, report.unreadable) == (3, 1)


async def test_a_missing_history_is_nothing(bench: Bench) -> None:
    report = await bench.run()
    assert (report.replayed, report.complaint) == (0, "")
    assert bench.service.posts == []


async def test_after_is_strict_and_finds_late_entries(bench: Bench) -> None:
    seconds = [5, 1, 7, 5, 2, 9]
    turns = [turn(f"q{n}", ts=NOON + timedelta(seconds=n)) for n in seconds]
    entries = await record(bench.pod.place.ledgers, turns)
    await bench.run(selection=EntryFilter(after=NOON + timedelta(seconds=5)))
    assert bench.service.retained() == [entries[2].id, entries[5].id]


async def test_failed_turns_are_left_out_unless_asked_for(bench: Bench) -> None:
    turns = [turn("good"), turn("bad", status="error"), turn("managed", status="ok")]
    entries = await record(bench.pod.place.ledgers, turns)
    report = await bench.run()
    assert bench.service.retained() == [entries[0].id, entries[2].id]
    assert report.failed_turns == 1
    bench.service.taken.clear()
    await bench.run(selection=EntryFilter(include_errors=True))
    assert bench.service.retained() == ids(entries)


async def test_what_the_recorder_says_of_a_turn_counts(bench: Bench) -> None:
    notes = {
        "a title, please": encode_note(TurnNote(left_out="title")),
        "[redacted:openai:0011aabb]": add_removed_count(encode_note(TurnNote(session="s")), 2),
        "good": b"",
    }
    turns = [turn(said, note=note) for said, note in notes.items()]
    entries = await record(bench.pod.place.ledgers, turns)
    report = await bench.run(selection=EntryFilter(include_errors=True))
    # Requests that clients made for themselves are never replayed, as they are never retained.
    assert bench.service.retained() == ids(entries[1:])
    assert (report.replayed, report.no_turns) == (2, 1)
    removed = [one.body["metadata"].get("policy_removed") for one in bench.service.taken]
    assert removed == [2, None]


async def test_a_limit_counts_what_is_replayed_and_nothing_else(bench: Bench) -> None:
    turns = [turn(f"q{n}", status="error" if n == 1 else "") for n in range(9)]
    entries = await record(bench.pod.place.ledgers, turns)
    bench.pod.bury(entries[0].id)
    selection = EntryFilter(limit=3)
    report = await bench.run(selection=selection)
    assert bench.service.retained() == ids(entries[2:5])
    assert (report.replayed, report.forgotten, report.failed_turns) == (3, 1, 1)
    again = await bench.run(selection=selection)
    assert (again.replayed, again.resumed) == (0, True)


# Secrets


async def test_secrets_do_not_reach_the_wire(bench: Bench) -> None:
    pieces = [KEY[:6], KEY[6:12], KEY[12:]]
    events = [{"choices": [{"delta": {"content": one}}]} for one in pieces]
    stream = "".join(f"data: {json.dumps(one)}\n\n" for one in events).encode()
    turns = [
        turn(f"my key is {KEY}"),
        turn("streamed", reply=StreamReply(stream), stream=True),
        turn("tools", tool_trace=json.dumps([{"arguments": {"password": "hunter2-x"}}]).encode()),
        turn("harmless: risk-assessment"),
    ]
    entries = await record(bench.pod.place.ledgers, turns)
    await bench.run()
    wire = json.dumps([one.body for one in bench.service.taken])
    assert KEY not in wire
    assert "hunter2-x" not in wire
    assert not all(one in wire for one in pieces)
    removed = [one.body["metadata"].get("policy_removed") for one in bench.service.taken]
    assert removed == [2, 1, 1, None]
    assert bench.service.retained() == ids(entries)
    assert bench.service.taken[3].body["entry"] == json.loads(entries[3].line)


# Failures that pass


def every(nth: int, status: int, **headers: str) -> Callable[[Post], Any]:
    seen = 0

    async def answer(_post: Post) -> web.StreamResponse | None:
        nonlocal seen
        seen += 1
        return web.Response(status=status, headers=headers) if seen % nth == 0 else None

    return answer


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503])
async def test_a_service_that_fails_every_seventh_time_gets_everything(
    status: int, bench: Bench
) -> None:
    entries = await bench.pod.record(60)
    bench.service.answer = every(7, status)
    report = await bench.run()
    assert bench.service.retained() == ids(entries)
    assert (report.replayed, report.complaint) == (60, "")
    assert len(bench.service.posts) == 69


async def test_a_cut_connection_is_tried_again(bench: Bench) -> None:
    entries = await bench.pod.record(3)
    cut = 0

    async def answer(_post: Post) -> web.StreamResponse | None:
        nonlocal cut
        cut += 1
        if cut == 2:
            raise ConnectionResetError
        return None

    bench.service.answer = answer
    await bench.run()
    assert bench.service.retained() == ids(entries)


async def test_pauses_grow_and_what_the_service_asks_for_is_waited(bench: Bench) -> None:
    await bench.pod.record(1)
    said = iter(["", "", "40", "Sun, 01 Mar 2026 12:01:10 GMT", "9999999", ""])

    async def answer(_post: Post) -> web.StreamResponse | None:
        told = next(said)
        headers = {"Retry-After": told} if told else {}
        return web.Response(status=429, headers=headers, text="slow down")

    bench.service.answer = answer
    report = await bench.run()
    assert bench.quick.pauses == [0.5, 1.0, 40.0, 70.0, 300.0]
    assert report.stopped == "retain returned status 429: slow down"
    assert len(bench.service.posts) == 6


async def test_a_service_that_stays_away_stops_the_agent_and_the_next_run_goes_on(
    bench: Bench,
) -> None:
    entries = await bench.pod.record(10)

    async def answer(post: Post) -> web.StreamResponse | None:
        return web.Response(status=502, text="bad") if post.entry_id == entries[4].id else None

    bench.service.answer = answer
    report = await bench.run()
    assert bench.service.retained() == ids(entries[:4])
    assert bench.service.offered()[4:] == [entries[4].id] * 6
    assert report.complaint == "retain returned status 502: bad"
    bench.service.answer = every(99, 500)
    again = await bench.run()
    assert bench.service.retained() == ids(entries)
    assert (again.replayed, again.resumed, again.complaint) == (6, True, "")


async def test_nobody_there_is_said(bench: Bench) -> None:
    await bench.pod.record(1)
    (report,) = await bench.backfill().run(bench.targets(url=NOBODY))
    assert report.complaint.startswith("send retain request: ")
    assert len(bench.quick.pauses) == 5


async def test_a_slow_service_is_not_waited_for_longer_than_it_may_take(
    service: Service, client: ServiceClient
) -> None:
    enough = asyncio.Event()

    async def answer(_post: Post) -> web.StreamResponse | None:
        await enough.wait()
        return None

    service.answer = answer
    outcome = await client.post(ServiceAddress(f"{service.base_url}/retain", None, 0.05), b"{}")
    enough.set()
    assert outcome == NoServiceResponse("no answer within 0.05 s", late=True)


def test_a_manifest_may_allow_more_time(pod: MemoryPod) -> None:
    pod.subscribe("a", retain={"path": "/retain", "timeout_ms": 25000})
    pod.subscribe("b", retain={"path": "/retain", "timeout_ms": 300})
    found = find_pod_targets(
        read_contexts(pod.folder), ServiceSelection("mem", url="http://h"), "retain"
    )
    assert [one.address and one.address.seconds for one in found] == [25.0, 10.0]


# Failures that do not


async def test_a_refused_entry_is_recorded_and_the_run_goes_on(bench: Bench) -> None:
    entries = await bench.pod.record(6)
    bad = entries[2].id

    async def answer(post: Post) -> web.StreamResponse | None:
        return web.Response(status=400, text="no\nthanks") if post.entry_id == bad else None

    bench.service.answer = answer
    report = await bench.run()
    assert bench.service.retained() == ids([*entries[:2], *entries[3:]])
    assert (report.replayed, report.refused) == (5, 1)
    assert report.complaint == "retain returned status 400: no thanks"
    assert [(one.entry_id, one.status) for one in report.undelivered] == [(bad, 400)]
    assert bench.quick.pauses == []
    # The next run tries it again, and only it, until it is taken.
    again = await bench.run()
    assert (again.replayed, again.refused, bench.service.offered()[6:]) == (0, 1, [bad])
    bench.service.answer = every(99, 500)
    last = await bench.run()
    assert (last.replayed, last.complaint) == (1, "")
    assert (await bench.run()).replayed == 0
    assert Counter(bench.service.retained()) == Counter(ids(entries))


async def test_a_refused_entry_that_was_forgotten_is_not_tried_again(bench: Bench) -> None:
    entries = await bench.pod.record(3)

    async def answer(post: Post) -> web.StreamResponse | None:
        return web.Response(status=422) if post.entry_id == entries[1].id else None

    bench.service.answer = answer
    report = await bench.run()
    assert report.complaint == f"retain returned status 422: {HTTPStatus(422).phrase}"
    bench.pod.bury(entries[1].id)
    again = await bench.run()
    assert (again.complaint, again.forgotten) == ("", 1)
    assert len(bench.service.posts) == 3


async def test_a_service_that_refuses_everything_is_not_asked_for_ever(bench: Bench) -> None:
    entries = await bench.pod.record(130)
    bench.service.answer = every(1, 401)
    report = await bench.run()
    assert len(bench.service.posts) == 100
    assert report.stopped == "retain returned status 401: Unauthorized"
    bench.service.answer = every(999, 500)
    again = await bench.run()
    assert bench.service.retained() == ids(entries)
    assert again.complaint == ""


async def test_what_a_service_says_is_cut_decoded_and_without_the_token(
    bench: Bench,
) -> None:
    await bench.pod.record(1)
    said = f"you sent {TOKEN} " + "é" * 5000

    async def answer(_post: Post) -> web.StreamResponse | None:
        body = gzip.compress(said.encode())
        return web.Response(status=400, body=body, headers={"Content-Encoding": "gzip"})

    bench.service.answer = answer
    report = await bench.run()
    told = report.complaint.removeprefix("retain returned status 400: ")
    assert told.startswith("you sent [redacted] éé")
    assert len(told.encode()) <= 2048
    assert len(told.encode()) > 1900


async def test_a_good_answer_is_good_whatever_its_body_is(bench: Bench) -> None:
    await bench.pod.record(2)

    async def answer(_post: Post) -> web.StreamResponse | None:
        return web.Response(status=200, body=b"no gzip", headers={"Content-Encoding": "gzip"})

    bench.service.answer = answer
    assert (await bench.run()).replayed == 2


# Redirects


@pytest.mark.parametrize("status", [307, 308])
async def test_a_redirect_to_the_same_host_is_followed(status: int, bench: Bench) -> None:
    (entry,) = await bench.pod.record(1)

    async def answer(post: Post) -> web.StreamResponse | None:
        if post.path == "/retain":
            return web.Response(status=status, headers={"Location": "/v2/retain"})
        return None

    bench.service.answer = answer
    report = await bench.run()
    assert report.replayed == 1
    (post,) = bench.service.taken
    assert (post.path, post.entry_id) == ("/v2/retain", entry.id)
    assert post.headers["authorization"] == f"Bearer {TOKEN}"


async def test_nothing_goes_to_another_host(bench: Bench) -> None:
    await bench.pod.record(1)
    async with running_service() as other:

        async def answer(_post: Post) -> web.StreamResponse | None:
            return web.Response(status=307, headers={"Location": f"{other.base_url}/retain"})

        bench.service.answer = answer
        report = await bench.run()
        assert other.posts == []
    assert report.refused == 1
    assert "another host" in report.complaint


@pytest.mark.parametrize("status", [301, 302, 303, 304])
async def test_other_redirects_are_refusals(status: int, bench: Bench) -> None:
    await bench.pod.record(1)
    bench.service.answer = every(1, status, Location="/v2/retain")
    report = await bench.run()
    assert (report.replayed, report.refused) == (0, 1)


async def test_a_redirect_in_circles_ends(bench: Bench) -> None:
    await bench.pod.record(1)
    bench.service.answer = every(1, 307, Location="/retain")
    report = await bench.run()
    assert "without an end" in report.complaint
    assert len(bench.service.posts) == 5


# Tombstones


async def test_a_tombstone_of_one_service_holds_for_another(
    pod: MemoryPod, service: Service, client: ServiceClient
) -> None:
    pod.subscribe("analyst", service="mem", port=service.port)
    entries = await pod.record(3)
    pod.bury(entries[1].id, service="an-old-name")
    report = await Bench(pod, service, client).run()
    assert service.retained() == [entries[0].id, entries[2].id]
    assert report.forgotten == 1


@pytest.mark.parametrize("place", [0, 1])
async def test_a_line_in_either_place_counts(place: int, bench: Bench) -> None:
    entries = await bench.pod.record(2)
    path = bench.pod.place.tombstones[place] / "analyst" / "tombstones.jsonl"
    path.parent.mkdir(parents=True)
    line = {"version": 1, "ts": "2026-01-02T03:04:05Z", "agent_id": "analyst"}
    path.write_text(json.dumps({**line, "memory_service": "m", "entry_id": entries[0].id}) + "\n")
    await bench.run()
    assert bench.service.retained() == [entries[1].id]


async def test_what_is_forgotten_during_the_run_is_not_sent(bench: Bench) -> None:
    entries = await bench.pod.record(5)

    async def answer(post: Post) -> web.StreamResponse | None:
        if post.entry_id == entries[0].id:
            bench.pod.bury(entries[3].id)
        return None

    bench.service.answer = answer
    report = await bench.run()
    assert bench.service.offered() == ids([*entries[:3], entries[4]])
    assert (report.replayed, report.forgotten) == (4, 1)


async def test_what_is_forgotten_between_attempts_is_not_sent_again(bench: Bench) -> None:
    entries = await bench.pod.record(2)

    async def answer(post: Post) -> web.StreamResponse | None:
        if post.entry_id != entries[0].id:
            return None
        bench.pod.bury(entries[0].id)
        return web.Response(status=503)

    bench.service.answer = answer
    report = await bench.run()
    assert bench.service.offered() == ids(entries)
    assert (report.replayed, report.forgotten, report.complaint) == (1, 1, "")


MEMORY = "--- BEGIN MEMORY (from mem) ---\nThe osprey nests.\n--- END MEMORY ---"


async def test_memory_in_a_prompt_is_not_sent_once_something_was_forgotten(bench: Bench) -> None:
    said = [turn(f"{n}?\n{MEMORY}", ts=NOON + timedelta(seconds=n)) for n in range(3)]
    entries = await record(bench.pod.place.ledgers, said)

    async def answer(post: Post) -> web.StreamResponse | None:
        if post.entry_id == entries[1].id and "osprey" in str(post.body):
            bench.pod.bury("an entry that the prompts cite")
            return web.Response(status=503)
        return None

    bench.service.answer = answer
    report = await bench.run()
    assert (report.replayed, report.forgotten, report.complaint) == (3, 0, "")
    assert bench.service.retained() == ids(entries)
    assert ["osprey" in str(one.body) for one in bench.service.posts] == [True, True, False, False]
    kept = bench.pod.ledger_bytes()["analyst/history.jsonl"]
    assert kept.count(b"osprey") == 2 * len(entries), "the ledger keeps its bytes"


async def test_tombstones_that_cannot_be_read_stop_everything(bench: Bench) -> None:
    await bench.pod.record(2)
    (bench.pod.place.tombstones[0] / "analyst" / "tombstones.jsonl").mkdir(parents=True)
    report = await bench.run()
    assert "cannot be read" in report.complaint
    assert bench.service.posts == []


# Going on


async def test_a_second_run_sends_only_what_is_new(bench: Bench) -> None:
    entries = await bench.pod.record(150, max_bytes=4000)
    await bench.run()
    assert (await bench.run()).replayed == 0
    more = await bench.pod.record(3, start=200)
    report = await bench.run()
    assert (report.replayed, report.resumed) == (3, True)
    assert bench.service.retained() == ids([*entries, *more])
    await bench.run(resume=False)
    assert bench.service.retained()[153:] == ids([*entries, *more])


@pytest.mark.parametrize(
    "other",
    [
        {"service": "other"},
        {"selection": EntryFilter(include_errors=True)},
        {"selection": EntryFilter(limit=99)},
        {"selection": EntryFilter(after=NOON - timedelta(days=1))},
    ],
)
async def test_another_service_or_filter_is_another_backfill(
    other: dict[str, Any], bench: Bench
) -> None:
    await bench.pod.record(3)
    assert (await bench.run()).replayed == 3
    assert (await bench.run(**other)).replayed == 3
    assert (await bench.run(**other)).replayed == 0


async def test_a_limit_is_that_of_all_its_runs(bench: Bench) -> None:
    entries = await bench.pod.record(8)
    selection = EntryFilter(limit=5)

    async def answer(post: Post) -> web.StreamResponse | None:
        return web.Response(status=500) if post.entry_id == entries[3].id else None

    bench.service.answer = answer
    assert (await bench.run(selection=selection)).replayed == 3
    bench.service.answer = every(99, 500)
    assert (await bench.run(selection=selection)).replayed == 2
    assert bench.service.retained() == ids(entries[:5])


async def test_a_ledger_that_was_replaced_is_replayed_from_its_beginning(bench: Bench) -> None:
    await bench.pod.record(5)
    await bench.run()
    path = bench.pod.place.ledgers / "analyst" / "history.jsonl"
    others = [make_entry(turn(f"another {n}")) for n in range(3)]
    path.write_bytes(b"".join(one.line + b"\n" for one in others))
    report = await bench.run()
    assert bench.service.retained()[5:] == ids(others)
    assert (report.resumed, report.complaint) == (False, "")


def checkpoint_file(pod: MemoryPod) -> Path:
    (path,) = (pod.place.state / "backfill").glob("*.jsonl")
    return path


@pytest.mark.parametrize("damage", [b"", b"\x00" * 50, b"{}\n{}", b'{"cursor":"x"}\n'])
async def test_a_damaged_checkpoint_costs_only_time(damage: bytes, bench: Bench) -> None:
    entries = await bench.pod.record(3)
    await bench.run()
    checkpoint_file(bench.pod).write_bytes(damage)
    assert (await bench.run()).replayed == 3
    assert Counter(bench.service.retained()) == Counter(ids(entries) * 2)


async def test_every_cut_of_a_checkpoint_loses_no_entry(bench: Bench) -> None:
    entries = await bench.pod.record(4)
    refused = entries[1].id

    async def answer(post: Post) -> web.StreamResponse | None:
        return web.Response(status=400) if post.entry_id == refused else None

    bench.service.answer = answer
    await bench.run()
    data = checkpoint_file(bench.pod).read_bytes()
    acknowledged = [entries[0].id, entries[2].id, entries[3].id]
    for cut in range(0, len(data), 7):
        checkpoint_file(bench.pod).write_bytes(data[:cut])
        bench.service.posts.clear()
        report = await bench.run()
        assert report.refused == 1, f"the refused entry was lost at {cut}"
        assert set(bench.service.offered()) - {refused} <= set(acknowledged)
    assert Counter(bench.service.retained()).keys() == set(acknowledged)


async def test_a_long_checkpoint_is_made_short(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "memplane.integrations.clawdapus.memory_service.backfill_checkpoint._COMPACT_AT_BYTES",
        2000,
    )
    entries = await bench.pod.record(80)
    bad = {one.id for one in entries[:3]}

    async def answer(post: Post) -> web.StreamResponse | None:
        return web.Response(status=400) if post.entry_id in bad else None

    bench.service.answer = answer
    await bench.run()
    assert checkpoint_file(bench.pod).stat().st_size < 5000
    again = await bench.run()
    assert (again.replayed, again.refused) == (0, 3)


async def test_the_same_backfill_does_not_run_twice_at_once(bench: Bench) -> None:
    await bench.pod.record(2)
    other: list[AgentBackfillReport] = []

    async def answer(_post: Post) -> web.StreamResponse | None:
        if not other:
            other.append(await bench.run())
        return None

    bench.service.answer = answer
    report = await bench.run()
    assert (report.replayed, report.complaint) == (2, "")
    assert other[0].complaint == "another backfill to mem runs already"


async def test_a_backfill_that_is_killed_goes_on_where_it_was(bench: Bench, home: Path) -> None:
    entries = await bench.pod.record(60, max_bytes=5000)
    words = command_line("backfill", "mem", "-f", str(bench.pod.file))
    for killed_at in (17, 40):
        process = await asyncio.create_subprocess_exec(*words, env=environment(home))

        async def answer(
            post: Post,
            process: asyncio.subprocess.Process = process,
            last: str = entries[killed_at].id,
        ) -> web.StreamResponse | None:
            if post.entry_id == last:
                process.kill()
                await process.wait()
            return None

        bench.service.answer = answer
        assert await process.wait() == -signal.SIGKILL
    bench.service.answer = every(999, 500)
    ran = await memplane(home, "backfill", "mem", "-f", str(bench.pod.file))
    assert ran.returncode == 0, ran.stderr
    assert "Replayed 20 entries for analyst" in ran.stdout
    # The entry in flight when it was killed was not acknowledged, and comes again; no other does.
    times = Counter(bench.service.offered())
    assert [times[one.id] for one in entries] == [2 if n in {17, 40} else 1 for n in range(60)]


# Several agents


async def test_agents_go_at_the_same_time_and_each_in_order(
    pod: MemoryPod, service: Service, client: ServiceClient
) -> None:
    agents = [f"a{n}" for n in range(5)]
    pod.subscribe(*agents, port=service.port)
    written = {agent: await pod.record(6, agent=agent) for agent in agents}
    flying: Counter[str] = Counter()
    most: list[int] = []
    together = asyncio.Event()

    async def answer(post: Post) -> web.StreamResponse | None:
        flying[post.agent] += 1
        most.append(sum(flying.values()))
        assert flying[post.agent] == 1, "one agent's entries overtook each other"
        if most[-1] == 3:
            together.set()
        await asyncio.wait_for(together.wait(), 30)
        flying[post.agent] -= 1
        return None

    service.answer = answer
    bench = Bench(pod, service, client)
    reports = await bench.backfill(concurrency=3).run(bench.targets())
    assert [one.agent for one in reports] == agents
    assert max(most) == 3
    for agent in agents:
        assert service.retained(agent) == ids(written[agent])


async def test_one_agents_trouble_is_not_anothers(
    pod: MemoryPod, service: Service, client: ServiceClient
) -> None:
    pod.subscribe("a", "b", "c", port=service.port)
    for agent in "abc":
        await pod.record(2, agent=agent)
    (pod.place.tombstones[0] / "b" / "tombstones.jsonl").mkdir(parents=True)

    async def answer(post: Post) -> web.StreamResponse | None:
        return web.Response(status=500) if post.agent == "a" else None

    service.answer = answer
    bench = Bench(pod, service, client)
    a, b, c = await bench.backfill().run(bench.targets())
    assert a.complaint == "retain returned status 500: Internal Server Error"
    assert "cannot be read" in b.complaint
    assert (c.replayed, c.complaint) == (2, "")


async def test_counting_touches_nothing(bench: Bench) -> None:
    entries = await bench.pod.record(7)
    bench.pod.bury(entries[0].id)
    before = bench.pod.ledger_bytes()
    backfill = bench.backfill(selection=EntryFilter(limit=5))
    (report,) = backfill.count(bench.targets())
    assert (report.replayed, report.forgotten) == (5, 1)
    assert bench.service.posts == []
    assert bench.pod.ledger_bytes() == before
    assert not (bench.pod.place.state / "backfill").exists()
    await bench.run()
    (after,) = bench.backfill().count(bench.targets())
    assert (after.replayed, after.resumed) == (0, True)


async def test_memory_does_not_grow_with_the_ledger(bench: Bench) -> None:
    turns = [turn(f"{n} " + "x" * 100_000) for n in range(300)]
    await record(bench.pod.place.ledgers, turns, LedgerOptions(max_bytes=8 << 20))
    keep = bench.service.posts, bench.service.taken

    async def answer(_post: Post) -> web.StreamResponse | None:
        for kept in keep:
            kept.clear()
        return web.Response(status=202)

    bench.service.answer = answer
    targets = bench.targets()
    backfill = bench.backfill(redact=lambda line: RedactionResult(line, {}))
    tracemalloc.start()
    try:
        (report,) = await backfill.run(targets)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert report.replayed == 300
    assert peak < 12 << 20, "all entries together have 60 MB"


# The real example


async def test_a_real_service_remembers_what_was_replayed_and_never_what_was_forgotten(
    pod: MemoryPod, client: ServiceClient, tmp_path: Path
) -> None:
    turns = [
        turn("The kestrel rollout is scheduled for Thursday."),
        turn("The kestrel rollout is in Oslo."),
    ]
    entries = await record(pod.place.ledgers, turns)
    with reference_memory(tmp_path / "kept") as memory:
        pod.subscribe("analyst", port=int(memory.base_url.rpartition(":")[2]))
        bench = Bench(pod, Service(memory.base_url), client)
        assert (await bench.run()).replayed == 2
        recalled = await asyncio.to_thread(memory.recalled, "analyst", "the kestrel rollout?")
        assert "Thursday" in recalled
        assert "Oslo" in recalled
    pod.bury(entries[0].id, service="another")
    with reference_memory(tmp_path / "anew") as memory:
        url = f"{memory.base_url}/"
        (report,) = await bench.backfill(resume=False).run(bench.targets(url=url))
        assert (report.replayed, report.forgotten) == (1, 1)
        recalled = await asyncio.to_thread(memory.recalled, "analyst", "the kestrel rollout?")
        assert "Thursday" not in recalled
        assert "Oslo" in recalled
