"""Turns on their way to other people's memory services: once each, in order, until they arrive."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memplane.integrations.clawdapus.memory_service import delivery, delivery_workers
from memplane.integrations.clawdapus.memory_service.client import open_service_client
from memplane.integrations.clawdapus.memory_service.dead_letter_retry import retry_dead_letters
from memplane.integrations.clawdapus.memory_service.delivery import DeliveryContext, DeliveryItem
from memplane.integrations.clawdapus.memory_service.delivery_state import (
    DeliveryProgress,
    DeliveryRoute,
    read_dead_letters,
    write_progress,
)
from memplane.integrations.clawdapus.memory_service.delivery_workers import DeliveryWorkers
from memplane.integrations.clawdapus.pod.agent_contexts import read_proxied_agent
from memplane.kit.retry_clock import RetryClock
from memplane.ledger.entry import Entry
from memplane.ledger.tombstones import Tombstone, append_tombstones, get_mirror_root
from memplane.ledger.turn_note import TurnNote, add_removed_count, encode_note
from memplane.redaction.redactor import Redactor
from memplane.telemetry import MemoryEvent
from tests.proxy.test_governed import write_context
from tests.support.answers import whole
from tests.support.turns import record, turn
from tests.support.upstream import End, Upstream, running_upstream

RETAIN = "/retain"
TAKEN, BUSY, REFUSED = whole(b"", 202), whole(b"busy", 502), whole(b"no", 400)


@dataclass(slots=True)
class Clockwork:
    """Time that passes only while somebody waits."""

    now: datetime = datetime(2026, 3, 2, tzinfo=UTC)
    waited: list[float] = field(default_factory=list[float])
    stopped: asyncio.Event | None = None

    async def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.now += timedelta(seconds=seconds)
        if self.stopped is not None:
            await self.stopped.wait()
        await asyncio.sleep(0)

    def elapsed(self) -> float:
        return self.now.timestamp()

    def pacing(self) -> RetryClock:
        return RetryClock(self.sleep, self.elapsed, lambda: 0.5)


@dataclass(slots=True)
class Post:
    """An agent of a pod, its ledger, and its memory service."""

    service: Upstream
    needs: DeliveryContext
    time: Clockwork
    told: list[MemoryEvent]

    async def record(self, *said: str, **more: Any) -> list[Entry]:
        return await record(self.needs.ledgers, [turn(one, agent="ada", **more) for one in said])

    def start_anew(self) -> DeliveryWorkers:
        return DeliveryWorkers(self.needs)

    @property
    def retained(self) -> list[str]:
        """The ids that the service was sent, in their order."""
        return [one.json()["entry"]["id"] for one in self.service.asked(RETAIN)]

    def dead(self) -> list[str]:
        return [one.entry_id for one in read_dead_letters(self.needs.folder)]


@asynccontextmanager
async def posting(folder: Path, **manifest: Any) -> AsyncIterator[Post]:
    async with running_upstream() as service, open_service_client() as client:
        context = folder / "context"
        memory = {
            "version": 1,
            "service": "mem",
            "base_url": service.address,
            "retain": {"path": RETAIN},
            **manifest,
        }
        write_context(context, memory=memory)
        time, told = Clockwork(), list[MemoryEvent]()
        ledgers = folder / "ledger"
        redactor = Redactor(key=b"key")
        yield Post(
            service,
            DeliveryContext(
                folder=folder / "outbox",
                ledgers=ledgers,
                tombstones=(folder / "tombstones", get_mirror_root(ledgers)),
                client=client,
                redact=redactor.json,
                agent_of=lambda agent: read_proxied_agent(context, agent),
                emit=told.append,
                clock=lambda: time.now,
                pacing=time.pacing(),
            ),
            time,
            told,
        )


async def delivered(post: Post, deliveries: DeliveryWorkers, times: int) -> None:
    """Wait until so many posts were made and nothing is under way."""
    await post.service.until_asked(RETAIN, times)
    await deliveries.drain(60)


def ids(entries: Iterable[Entry]) -> list[str]:
    return [one.id for one in entries]


async def test_what_is_recorded_is_retained_in_its_order(tmp_path: Path) -> None:
    async with posting(tmp_path, auth={"type": "bearer", "token": "of-mem"}) as post:
        post.service.at(RETAIN, TAKEN)
        deliveries = post.start_anew()
        await post.record("before anybody asked")
        await deliveries.start(["ada"])
        entries = await post.record("one", "two", "three")
        deliveries.recorded("ada")
        await delivered(post, deliveries, 3)
        assert post.retained == ids(entries)
        sent = post.service.asked(RETAIN)[0]
        assert sent.header("authorization") == "Bearer of-mem"
        body = sent.json()
        assert (body["agent_id"], body["pod"], body["entry"]["claw_id"]) == ("ada", "crew", "ada")
        assert body["metadata"] == {
            "path": "retain",
            "requested_model": "openai/gpt-4o",
            "service": "ada",
            "timezone": "Europe/Berlin",
            "type": "claude",
        }
        assert [(one.memory_status, one.status_code) for one in post.told] == [
            ("succeeded", 202)
        ] * 3


async def test_a_service_that_fails_gets_it_later_and_the_order_is_kept(tmp_path: Path) -> None:
    async with posting(tmp_path) as post:
        post.service.at(RETAIN, BUSY, (End.RESET,), BUSY, TAKEN)
        deliveries = post.start_anew()
        await deliveries.start(["ada"])
        first, second = await post.record("one", "two")
        deliveries.recorded("ada")
        await delivered(post, deliveries, 5)
        assert post.retained == [*[first.id] * 4, second.id]
        assert post.time.waited == [0.5, 1.0, 2.0]
        assert [(one.memory_status, one.memory_attempt) for one in post.told] == [
            ("failed", 0),
            ("failed", 2),
            ("failed", 3),
            ("succeeded", 4),
            ("succeeded", 0),
        ]
        assert post.told[0].error == "retain returned status 502"
        assert post.told[0].status_code == 502


async def test_a_service_says_how_long_it_wants_to_be_left_alone(tmp_path: Path) -> None:
    async with posting(tmp_path) as post:
        post.service.at(RETAIN, whole(b"", 429, {"Retry-After": "77"}), TAKEN)
        deliveries = post.start_anew()
        await deliveries.start(["ada"])
        await post.record("one")
        deliveries.recorded("ada")
        await delivered(post, deliveries, 2)
        assert post.time.waited == [77]
        assert [one.memory_queue for one in post.told] == [1, 1]


async def test_pauses_grow_to_five_minutes_and_differ_by_a_fifth(tmp_path: Path) -> None:
    async with posting(tmp_path) as post:
        chances = itertools.cycle((0.0, 1.0))
        post.needs = msgspec.structs.replace(
            post.needs, pacing=replace(post.time.pacing(), chance=lambda: next(chances))
        )
        post.service.at(RETAIN, *[BUSY] * 14, TAKEN)
        deliveries = post.start_anew()
        await deliveries.start(["ada"])
        await post.record("one")
        deliveries.recorded("ada")
        await delivered(post, deliveries, 15)
        assert post.time.waited[:2] == pytest.approx([0.4, 1.2])
        assert post.time.waited[-2:] == pytest.approx([240, 360])


async def test_a_kill_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    async with posting(tmp_path) as post:
        held = asyncio.Event()
        post.service.at(RETAIN, *[TAKEN] * 15, (held, *TAKEN))
        deliveries = post.start_anew()
        await deliveries.start(["ada"])
        entries = await post.record(*(f"turn {number}" for number in range(40)))
        deliveries.recorded("ada")
        await post.service.until_asked(RETAIN, 16)
        await deliveries.drain(0)  # as much as a kill leaves: the sixteenth has no answer
        held.set()
        forgotten = entries[30].id
        told = Tombstone("2026-03-02T00:00:00Z", "ada", "another", forgotten)
        append_tombstones(get_mirror_root(post.needs.ledgers), "ada", [told])
        post.service.at(RETAIN, TAKEN)
        again = post.start_anew()
        await again.start(["ada"])
        await delivered(post, again, 40)
        wanted = [one for one in ids(entries) if one != forgotten]
        assert list(dict.fromkeys(post.retained)) == wanted
        # Only what was on the wire at that moment is sent twice.
        assert sorted(post.retained) == sorted([*wanted, entries[15].id])


async def test_a_stop_waits_no_longer_than_it_may(tmp_path: Path) -> None:
    async with posting(tmp_path) as post:
        post.service.at(RETAIN, TAKEN, (End.STALL,))
        deliveries = post.start_anew()
        await deliveries.start(["ada"])
        entries = await post.record("one", "two", "three")
        for _ in entries:
            deliveries.recorded("ada")
        await post.service.until_asked(RETAIN, 2)
        assert await deliveries.drain(0) == 2
        post.service.at(RETAIN, TAKEN)
        again = post.start_anew()
        await again.start(["ada"])
        await delivered(post, again, 4)
        assert post.retained == ids([entries[0], entries[1], entries[1], entries[2]])


async def test_a_stop_does_not_wait_for_the_next_attempt(tmp_path: Path) -> None:
    async with posting(tmp_path) as post:
        post.service.at(RETAIN, BUSY)
        post.time.stopped = asyncio.Event()
        deliveries = post.start_anew()
        await deliveries.start(["ada"])
        await post.record("one")
        deliveries.recorded("ada")
        await post.service.until_asked(RETAIN)
        assert await deliveries.drain(3600) == 1


async def test_what_is_refused_for_good_is_a_dead_letter_and_the_next_one_goes_on(
    tmp_path: Path,
) -> None:
    async with posting(tmp_path) as post:
        post.service.at(RETAIN, REFUSED, TAKEN)
        deliveries = post.start_anew()
        await deliveries.start(["ada"])
        first, second = await post.record("one", "two")
        deliveries.recorded("ada")
        await delivered(post, deliveries, 2)
        assert post.retained == [first.id, second.id]
        (letter,) = read_dead_letters(post.needs.folder)
        assert (letter.entry_id, letter.status) == (first.id, 400)
        assert letter.reason == "retain returned status 400"
        post.service.at(RETAIN, REFUSED, TAKEN)
        assert (await retry_dead_letters(post.needs)).left[0].entry_id == first.id
        assert post.dead() == [first.id]
        assert (await retry_dead_letters(post.needs)).delivered == 1
        assert post.dead() == []
        assert post.retained[2:] == [first.id] * 2


async def test_a_dead_letter_that_was_forgotten_is_dropped(tmp_path: Path) -> None:
    async with posting(tmp_path) as post:
        post.service.at(RETAIN, REFUSED)
        deliveries = post.start_anew()
        await deliveries.start(["ada"])
        (entry,) = await post.record("one")
        deliveries.recorded("ada")
        await delivered(post, deliveries, 1)
        told = Tombstone("2026-03-02T00:00:00Z", "ada", "mem", entry.id)
        append_tombstones(post.needs.tombstones[0], "ada", [told])
        assert (await retry_dead_letters(post.needs)).dropped == 1
        assert (post.dead(), len(post.retained)) == ([], 1)


async def test_patience_ends_a_week_after_the_first_failure(tmp_path: Path) -> None:
    async with posting(tmp_path) as post:
        # Ten minutes are left of the week.
        since = post.time.now - timedelta(days=7) + timedelta(minutes=10)
        write_progress(
            post.needs.folder,
            DeliveryRoute("mem", "ada"),
            DeliveryProgress(since=since, attempts=2000),
        )
        post.service.at(RETAIN, *[BUSY] * 11, TAKEN)
        first, second = await post.record("one", "two")
        deliveries = post.start_anew()
        await deliveries.start(["ada"])
        await delivered(post, deliveries, 12)
        assert post.dead() == [first.id]
        assert post.retained == [*[first.id] * 11, second.id]
        assert sum(post.time.waited) <= 600 < sum(post.time.waited) + 300


@pytest.mark.parametrize(
    "more",
    [
        {"status": "error"},
        {"note": encode_note(TurnNote(left_out="a title"))},
    ],
)
async def test_what_nobody_is_to_remember_is_not_sent(tmp_path: Path, more: Any) -> None:
    async with posting(tmp_path) as post:
        post.service.at(RETAIN, TAKEN)
        deliveries = post.start_anew()
        await deliveries.start(["ada"])
        await post.record("not this one", **more)
        (entry,) = await post.record("this one")
        deliveries.recorded("ada")
        await delivered(post, deliveries, 1)
        assert post.retained == [entry.id]


async def test_secrets_are_counted_whenever_they_were_taken_out(tmp_path: Path) -> None:
    async with posting(tmp_path) as post:
        post.service.at(RETAIN, TAKEN)
        deliveries = post.start_anew()
        await deliveries.start(["ada"])
        said = "sk-live-123456789 and Bearer 5upersecrettoken"
        await post.record(said, note=add_removed_count(b"", 2))
        deliveries.recorded("ada")
        await delivered(post, deliveries, 1)
        body = post.service.asked(RETAIN)[0].json()
        # Each of the two in both forms of the request, and the two from before.
        assert body["metadata"]["policy_removed"] == 6
        assert post.told[0].memory_removed == 6
        assert "sk-live" not in json.dumps(body)


async def test_an_agent_that_appears_later_begins_with_its_first_turn(tmp_path: Path) -> None:
    async with posting(tmp_path) as post:
        post.service.at(RETAIN, TAKEN)
        await post.record("before")
        deliveries = post.start_anew()
        await deliveries.start([])
        found = post.needs.agent_of("ada")
        assert found is not None
        assert deliveries.expect(found.context)
        # It is kept before the turn's answer is there; only then is the turn recorded.
        await asyncio.gather(*(task for one in deliveries._agents.values() for task in one.tasks))
        (entry,) = await post.record("after")
        deliveries.recorded("ada")
        await delivered(post, deliveries, 1)
        assert post.retained == [entry.id]


async def test_an_agent_without_a_service_that_retains_costs_nothing(tmp_path: Path) -> None:
    async with posting(tmp_path, retain=None, recall={"path": "/recall"}) as post:
        deliveries = post.start_anew()
        await deliveries.start(["ada"])
        await post.record("one")
        deliveries.recorded("ada")
        await deliveries.drain(60)
        assert [one.memory_status for one in post.told] == ["skipped"]
        assert not post.needs.folder.exists()


async def test_another_service_gets_what_comes_from_then_on(tmp_path: Path) -> None:
    async with posting(tmp_path) as post:
        post.service.at(RETAIN, BUSY)
        post.service.at("/other", TAKEN)
        post.time.stopped = asyncio.Event()
        deliveries = post.start_anew()
        await deliveries.start(["ada"])
        await post.record("one")
        deliveries.recorded("ada")
        await post.service.until_asked(RETAIN)
        memory = {
            "version": 1,
            "service": "mem2",
            "base_url": post.service.address,
            "retain": {"path": "/other"},
        }
        write_context(tmp_path / "context", memory=memory)
        found = post.needs.agent_of("ada")
        assert found is not None
        deliveries.expect(found.context)
        await asyncio.gather(*deliveries._agents["ada"]._expected.values())
        (entry,) = await post.record("two")
        post.time.stopped.set()
        deliveries.recorded("ada")
        await post.service.until_asked("/other")
        await deliveries.drain(60)
        assert [one.json()["entry"]["id"] for one in post.service.asked("/other")] == [entry.id]


async def test_the_check_would_notice_an_acknowledgement_before_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delivery that is kept before it was made loses what a kill interrupts."""

    async def kept_first(needs: DeliveryContext, agent: str, *words: Any, **more: Any) -> Any:
        (_, letter) = words
        assert isinstance(letter, DeliveryItem)
        write_progress(needs.folder, DeliveryRoute("mem", agent), DeliveryProgress(letter.cursor))
        return await delivery.send_item(needs, agent, *words, **more)

    monkeypatch.setattr(delivery_workers, "send_item", kept_first)
    async with posting(tmp_path) as post:
        post.service.at(RETAIN, (End.STALL,))
        deliveries = post.start_anew()
        await deliveries.start(["ada"])
        first, second = await post.record("one", "two")
        deliveries.recorded("ada")
        await post.service.until_asked(RETAIN)
        await deliveries.drain(0)
        post.service.at(RETAIN, TAKEN)
        again = post.start_anew()
        await again.start(["ada"])
        await delivered(post, again, 2)
        assert post.retained == [first.id, second.id]  # the first one was never taken
