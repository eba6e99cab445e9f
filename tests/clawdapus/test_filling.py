"""Filling from a proxy's history: memplane's own, over a real process, and a plain cllama's."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from memplane.errors import EntryTooLarge, LedgerFull
from memplane.integrations.clawdapus.memory_service.history_import import (
    HistoryImportReport,
    HistorySource,
    import_history,
)
from memplane.integrations.clawdapus.memory_service.history_pagination import (
    HISTORY_PAGE_ENTRIES,
    MAX_HISTORY_PAGE_ENTRIES,
    PAGE_OVERLAP,
    EndOfHistory,
    HistoryPage,
    NextPage,
    PageStart,
    decide_next_page,
)
from memplane.kit.retry_clock import RetryClock
from memplane.ledger.entry import Entry, make_entry
from memplane.ledger.entry_head import parse_rfc3339
from memplane.secret import Secret
from tests.support.running import environment, running_memplane
from tests.support.turns import NOON, record, turn

TOKEN = "mem-svc-history:" + "a" * 48


@dataclass(slots=True)
class Waiting:
    """Pacing without waiting: pauses are noted, and pass at once."""

    pauses: list[float] = field(default_factory=list[float])
    in_between: Callable[[], Awaitable[object]] | None = None

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if self.in_between is not None:
            await self.in_between()

    def pacing(self) -> RetryClock:
        return RetryClock(sleep=self.sleep, elapsed=lambda: sum(self.pauses), chance=lambda: 0.5)


@dataclass(slots=True)
class Kept:
    """A memory that keeps what it is given, and counts how often."""

    times: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    at_once: int = 0
    most_at_once: int = 0

    async def retain(self, agent: str, entry: Mapping[str, Any]) -> None:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        self.times[agent, entry["id"]] += 1

    def ids(self, agent: str = "analyst") -> list[str]:
        return sorted(one for owner, one in self.times if owner == agent)


@dataclass(frozen=True, slots=True)
class Line:
    id: str
    at: datetime
    data: bytes


def line(number: int, at: datetime, **more: Any) -> Line:
    body = {"version": 1, "id": f"hist1_{number:064x}", "ts": f"{at:%Y-%m-%dT%H:%M:%SZ}", **more}
    return Line(body["id"], at, json.dumps(body).encode())


def lines(times: Sequence[float]) -> list[Line]:
    """Entries at so many seconds after noon, in the order they were recorded."""
    return [line(n, NOON + timedelta(seconds=int(at))) for n, at in enumerate(times)]


def ids(entries: Sequence[Line]) -> list[str]:
    return sorted({one.id for one in entries})


Intercept = Callable[[web.Request, bytes], Awaitable[web.StreamResponse | None]]


@dataclass(slots=True)
class Cllama:
    """Another recorder's history: pages by moment only, in the order of recording."""

    ledgers: dict[str, list[Line]]
    asked: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    intercept: Intercept | None = None
    url: str = ""
    runner: web.AppRunner | None = None
    port: int = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(dict(request.query))
        ledger = self.ledgers.get(request.match_info["agent"])
        if ledger is None:
            return web.Response(status=404, text="agent context not found")
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return web.Response(status=403, text="forbidden")
        after = parse_rfc3339(request.query["after"]) if "after" in request.query else None
        limit = min(int(request.query.get("limit", "100")), 1000)
        chosen = [one for one in ledger if after is None or one.at > after][:limit]
        body = b"".join(one.data + b"\n" for one in chosen)
        if self.intercept is not None:
            answer = await self.intercept(request, body)
            if answer is not None:
                return answer
        return web.Response(body=body, content_type="application/x-ndjson")

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/history/{agent}", self.handle)
        self.runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", self.port, reuse_address=True).start()
        self.port = self.runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{self.port}/history"

    async def stop(self) -> None:
        if self.runner is not None:
            await self.runner.cleanup()
            self.runner = None

    def history(self, *agents: str) -> HistorySource:
        return HistorySource(self.url, Secret(TOKEN), agents or tuple(self.ledgers))


@asynccontextmanager
async def running(ledgers: dict[str, list[Line]]) -> AsyncIterator[Cllama]:
    cllama = Cllama(ledgers)
    await cllama.start()
    try:
        yield cllama
    finally:
        await cllama.stop()


async def filled(
    cllama: Cllama, folder: Path, kept: Kept, *, waiting: Waiting | None = None
) -> HistoryImportReport:
    pacing = (waiting or Waiting()).pacing()
    (report,) = await import_history(
        cllama.history("analyst"), kept.retain, checkpoints=folder, pacing=pacing
    )
    return report


# A plain cllama


async def test_every_entry_of_a_plain_history_comes_once(tmp_path: Path) -> None:
    ledger = lines([n * 30 for n in range(1500)])
    async with running({"analyst": ledger}) as cllama:
        kept = Kept()
        report = await filled(cllama, tmp_path, kept)
    assert kept.ids() == ids(ledger)
    assert set(kept.times.values()) == {1}
    assert report == HistoryImportReport("analyst", 1500, report.pages, 0, complete=True)
    assert kept.most_at_once == 16
    assert 1500 / HISTORY_PAGE_ENTRIES < report.pages < 2 * 1500 / HISTORY_PAGE_ENTRIES, (
        "more than half of each page is new"
    )


@pytest.mark.parametrize("seed", range(8))
async def test_unsorted_times_lose_nothing(seed: int, tmp_path: Path) -> None:
    """Turns are recorded when they end and bear the time when they began, up to 600 s before."""
    dice = random.Random(seed)  # noqa: S311
    ended = sorted(dice.uniform(0, 40_000) for _ in range(2500))
    ledger = lines([max(0, end - dice.expovariate(1 / 60) % 590) for end in ended])
    assert [one.at for one in ledger] != sorted(one.at for one in ledger)
    async with running({"analyst": ledger}) as cllama:
        kept = Kept()
        report = await filled(cllama, tmp_path, kept)
    assert kept.ids() == ids(ledger)
    assert set(kept.times.values()) == {1}
    assert (report.complete, report.problem) == (True, "")


async def test_many_entries_a_second_over_page_borders(tmp_path: Path) -> None:
    """300 turns in 3 seconds: paging by the last time alone would miss most of them."""
    ledger = lines([n // 100 for n in range(300)])
    async with running({"analyst": ledger}) as cllama:
        kept = Kept()
        report = await filled(cllama, tmp_path, kept)
    assert kept.ids() == ids(ledger)
    assert (report.complete, report.problem) == (True, "")


async def test_a_crowd_is_passed_with_less_overlap_and_said_so(tmp_path: Path) -> None:
    """5000 turns at 20 a second: 600 s of them fill many pages."""
    ledger = lines([n / 20 for n in range(5000)])
    async with running({"analyst": ledger}) as cllama:
        kept = Kept()
        report = await filled(cllama, tmp_path, kept)
    assert kept.ids() == ids(ledger)
    assert set(kept.times.values()) == {1}
    assert report.complete
    assert "may be missing" in report.problem
    assert report.pages < 4 * 5000 / MAX_HISTORY_PAGE_ENTRIES


async def test_a_page_of_one_moment_cannot_be_passed_and_the_next_agent_can(
    tmp_path: Path,
) -> None:
    crowd = lines([*range(50), *[60] * 1500, *range(70, 90)])
    others = lines(range(30))
    async with running({"analyst": crowd, "writer": others}) as cllama:
        kept = Kept()
        first, second = await import_history(
            cllama.history(), kept.retain, checkpoints=tmp_path, pacing=Waiting().pacing()
        )
    assert not first.complete
    assert "more than 1000 turns have the time 2026-03-01T12:01:00Z" in first.problem
    assert first.entries == len(kept.ids("analyst")) >= 1000
    assert second == HistoryImportReport("writer", 30, 1, 0, complete=True)
    assert kept.ids("writer") == ids(others)


async def test_one_wrong_clock_does_not_hide_the_rest(tmp_path: Path) -> None:
    ledger = lines([n * 30 for n in range(900)])
    for at, years in ((150, 9), (399, 9), (500, -9)):
        ledger[at] = line(at, NOON + timedelta(days=365 * years))
    async with running({"analyst": ledger}) as cllama:
        kept = Kept()
        report = await filled(cllama, tmp_path, kept)
    # What bears a time long before the page is not given by a proxy that is asked by time.
    assert ids(ledger) == sorted({*kept.ids(), ledger[500].id})
    assert "out of order by more than 600 s" in report.problem


async def test_ids_that_are_kept_for_comparison_are_few(tmp_path: Path) -> None:
    ledger = lines([n * 10 for n in range(4000)])
    async with running({"analyst": ledger}) as cllama:
        kept = Kept()
        await filled(cllama, tmp_path, kept)
    (checkpoint,) = tmp_path.glob("analyst-*.json")
    known = json.loads(checkpoint.read_bytes())["met"]
    assert 0 < len(known) < 100
    assert set(known) <= {one.id for one in ledger[-100:]}


async def test_later_turns_are_filled_by_the_next_run_and_no_others(tmp_path: Path) -> None:
    ledger = lines([n * 30 for n in range(500)])
    async with running({"analyst": ledger}) as cllama:
        kept = Kept()
        await filled(cllama, tmp_path, kept)
        ledger += [line(900 + n, NOON + timedelta(seconds=14970 - 60 * n)) for n in range(5)]
        report = await filled(cllama, tmp_path, kept)
    assert (report.entries, report.pages, report.complete) == (5, 1, True)
    assert kept.ids() == ids(ledger)
    assert set(kept.times.values()) == {1}


async def test_an_empty_ledger_and_none_are_told_apart(tmp_path: Path) -> None:
    async with running({"analyst": []}) as cllama:
        kept, waiting = Kept(), Waiting()
        empty, missing = await import_history(
            cllama.history("analyst", "nobody"),
            kept.retain,
            checkpoints=tmp_path,
            pacing=waiting.pacing(),
        )
    assert empty == HistoryImportReport("analyst", 0, 1, 0, complete=True)
    assert not missing.complete
    assert missing.problem == f"{cllama.url}/nobody answered 404 agent context not found"
    assert waiting.pauses == []


async def test_what_is_no_entry_is_counted_and_what_failed_is_not_retained(
    tmp_path: Path,
) -> None:
    ledger = lines(range(10))
    at = NOON + timedelta(seconds=10)
    ledger += [
        Line("", at, b"garbage"),
        Line("", at, b"[1, 2]"),
        Line("", at, b'{"version":1,"id":7}'),
        line(50, at, status="error"),
        line(51, at, status="ok"),
        Line("", at, b'{"version":1,"ts":"2026-03-01T12:00:11Z","claw_id":"analyst"}'),
        line(52, at, response={"text": "half \ud83d"}),
    ]
    async with running({"analyst": ledger}) as cllama:
        kept = Kept()
        report = await filled(cllama, tmp_path, kept)
    assert report == HistoryImportReport("analyst", 13, 1, 3, complete=True, errors=1)
    assert line(50, at).id not in kept.ids()
    assert {line(51, at).id, line(52, at).id} < set(kept.ids())
    legacy = set(kept.ids()) - {one.id for one in ledger}
    assert len(legacy) == 1
    assert legacy.pop().startswith("hist1_")


def walked(times: Sequence[datetime]) -> tuple[set[int], timedelta, bool]:
    """Walk a ledger of these times; what was met, the least overlap, and whether it ended."""
    place, met, least = PageStart(), set[int](), PAGE_OVERLAP
    while True:
        chosen = [n for n, at in enumerate(times) if place.after is None or at > place.after]
        chosen = chosen[: place.limit]
        page = HistoryPage(lines=len(chosen), times=[times[n] for n in chosen])
        page.new = len(set(chosen) - met)
        decided = decide_next_page(place, page)
        wider = isinstance(decided, NextPage) and decided.place.limit > place.limit
        assert page.new or wider or not isinstance(decided, NextPage), "the walk stands still"
        met.update(chosen)
        if not isinstance(decided, NextPage):
            return met, least, isinstance(decided, EndOfHistory)
        least = min(least, decided.overlap)
        place = decided.place


@pytest.mark.parametrize("seed", range(60))
def test_a_walk_by_time_misses_nothing_that_its_overlap_covers(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311
    pace, late = dice.choice([0.02, 0.3, 1, 5, 90]), dice.choice([0, 1, 30, 600])
    ended, ends = 0.0, list[float]()
    for _ in range(dice.randrange(3500)):
        ended += dice.expovariate(1 / pace) if dice.random() < 0.9 else 0.0
        ended += 4000 if dice.random() < 0.001 else 0.0
        ends.append(ended)
    times = [NOON + timedelta(seconds=int(end - dice.random() * late)) for end in ends]
    met, least, ended_well = walked(times)
    assert ended_well
    if least >= timedelta(seconds=late + 1) or least == PAGE_OVERLAP:
        assert met == set(range(len(times)))


# What fails


async def test_a_proxy_that_dies_in_the_middle_of_a_page_and_comes_back(tmp_path: Path) -> None:
    ledger = lines([n * 30 for n in range(700)])
    async with running({"analyst": ledger}) as cllama:
        kept, waiting, cut = Kept(), Waiting(), list[int]()

        async def die(request: web.Request, body: bytes) -> web.StreamResponse | None:
            if len(cut) == 3 or len(cllama.asked) % 2:
                return None
            cut.append(len(cllama.asked))
            reply = web.StreamResponse()
            await reply.prepare(request)
            await reply.write(body[: len(body) // 2])
            assert request.transport is not None
            await asyncio.sleep(0)
            request.transport.abort()
            return reply

        async def come_back() -> None:
            await cllama.stop()
            await cllama.start()

        cllama.intercept, waiting.in_between = die, come_back
        report = await filled(cllama, tmp_path, kept, waiting=waiting)
    assert len(cut) == 3
    assert len(waiting.pauses) == 3
    assert kept.ids() == ids(ledger)
    assert set(kept.times.values()) == {1}, "what came before the cut is not sent again"
    assert (report.complete, report.problem, report.entries) == (True, "", 700)


async def test_a_last_line_that_is_cut_is_asked_for_again(tmp_path: Path) -> None:
    ledger = lines(range(20))
    async with running({"analyst": ledger}) as cllama:
        kept, waiting = Kept(), Waiting()

        async def cut(request: web.Request, body: bytes) -> web.StreamResponse | None:
            return web.Response(body=body[:-30]) if len(cllama.asked) == 1 else None

        cllama.intercept = cut
        report = await filled(cllama, tmp_path, kept, waiting=waiting)
    assert kept.ids() == ids(ledger)
    assert set(kept.times.values()) == {1}
    assert (report.complete, report.skipped, len(waiting.pauses)) == (True, 0, 1)


@pytest.mark.parametrize("status", [500, 502, 503, 429, 408])
async def test_passing_faults_are_tried_again_with_growing_pauses(
    status: int, tmp_path: Path
) -> None:
    ledger = lines(range(20))
    async with running({"analyst": ledger}) as cllama:
        kept, waiting = Kept(), Waiting()

        async def fail(request: web.Request, body: bytes) -> web.StreamResponse | None:
            headers = {"Retry-After": "7"} if len(cllama.asked) == 4 else {}
            return web.Response(status=status, headers=headers) if len(cllama.asked) < 5 else None

        cllama.intercept = fail
        report = await filled(cllama, tmp_path, kept, waiting=waiting)
    assert (report.complete, report.entries) == (True, 20)
    assert waiting.pauses == [0.5, 1.0, 2.0, 7.0]


async def test_patience_ends(tmp_path: Path) -> None:
    async with running({"analyst": []}) as cllama:
        pass
    waiting = Waiting()
    report = await filled(cllama, tmp_path, Kept(), waiting=waiting)
    assert not report.complete
    assert f"{cllama.url}/analyst does not answer: " in report.problem
    assert 800 < sum(waiting.pauses) < 900


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
async def test_a_refusal_is_final_and_told_in_the_proxys_words(
    status: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running({"analyst": lines(range(3))}) as cllama:

        async def refuse(request: web.Request, body: bytes) -> web.StreamResponse | None:
            return web.Response(status=status, text="not for you")

        cllama.intercept = refuse
        waiting = Waiting()
        with caplog.at_level(logging.DEBUG):
            report = await filled(cllama, tmp_path, Kept(), waiting=waiting)
    assert report.problem == f"{cllama.url}/analyst answered {status} not for you"
    assert (report.complete, len(cllama.asked), waiting.pauses) == (False, 1, [])
    assert TOKEN not in caplog.text


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_the_token_goes_to_no_other_host(status: int, tmp_path: Path) -> None:
    async with running({"analyst": lines(range(3))}) as other, running({"analyst": []}) as cllama:

        async def lead(request: web.Request, body: bytes) -> web.StreamResponse | None:
            place = f"http://localhost:{other.port}/history/analyst"
            return web.Response(status=status, headers={"Location": place})

        cllama.intercept = lead
        report = await filled(cllama, tmp_path, Kept())
    assert other.asked == []
    assert not report.complete
    assert "the token is not sent there" in report.problem


@pytest.mark.parametrize(
    ("url", "token", "agent"),
    [
        ("ftp://127.0.0.1/history", TOKEN, "analyst"),
        ("history", TOKEN, "analyst"),
        ("http://:1/history", TOKEN, "analyst"),
        ("http://user:pass@127.0.0.1:1/history", TOKEN, "analyst"),
        ("http://127.0.0.1:1/history?x=1", TOKEN, "analyst"),
        ("http://127.0.0.1:99999/history", TOKEN, "analyst"),
        ("http://127.0.0.1:1/history", "a\r\nX-Other: b", "analyst"),
        ("http://127.0.0.1:1/history", TOKEN, "../secrets"),
        ("http://127.0.0.1:1/history", TOKEN, ""),
    ],
)
async def test_what_cannot_be_asked_is_not_asked(
    url: str, token: str, agent: str, tmp_path: Path
) -> None:
    waiting = Waiting()
    history = HistorySource(url, Secret(token), (agent,))
    (report,) = await import_history(
        history, Kept().retain, checkpoints=tmp_path / "fill", pacing=waiting.pacing()
    )
    assert report.problem
    assert not report.complete
    assert waiting.pauses == []
    assert not (tmp_path / "fill").exists()


async def test_a_memory_that_cannot_keep_an_entry_now_is_given_it_again(tmp_path: Path) -> None:
    ledger = lines(range(100))
    kept, waiting, failed = Kept(), Waiting(), list[str]()

    async def retain(agent: str, entry: Mapping[str, Any]) -> None:
        if entry["id"] == ledger[40].id and len(failed) < 2:
            failed.append(entry["id"])
            raise LedgerFull("the disk is too slow")
        await kept.retain(agent, entry)

    async with running({"analyst": ledger}) as cllama:
        (report,) = await import_history(
            cllama.history(), retain, checkpoints=tmp_path, pacing=waiting.pacing()
        )
    assert kept.ids() == ids(ledger)
    assert set(kept.times.values()) == {1}
    assert (report.complete, report.entries, len(waiting.pauses)) == (True, 100, 2)


async def test_nothing_is_noted_as_done_that_was_not_kept(tmp_path: Path) -> None:
    ledger = lines(range(100))

    async def retain(agent: str, entry: Mapping[str, Any]) -> None:
        raise LedgerFull("the disk is full")

    async with running({"analyst": ledger}) as cllama:
        (report,) = await import_history(
            cllama.history(), retain, checkpoints=tmp_path, pacing=Waiting().pacing()
        )
        assert (report.complete, report.entries) == (False, 0)
        assert "could not be kept: the disk is full" in report.problem
        kept = Kept()
        again = await filled(cllama, tmp_path, kept)
    assert (again.complete, again.entries) == (True, 100)


async def test_an_entry_that_nobody_takes_does_not_stop_the_others(tmp_path: Path) -> None:
    ledger = lines(range(100))
    kept = Kept()

    async def retain(agent: str, entry: Mapping[str, Any]) -> None:
        if entry["id"] == ledger[40].id:
            raise EntryTooLarge("no reader would take it")
        await kept.retain(agent, entry)

    async with running({"analyst": ledger}) as cllama:
        (report,) = await import_history(
            cllama.history(), retain, checkpoints=tmp_path, pacing=Waiting().pacing()
        )
    assert report == HistoryImportReport("analyst", 99, 1, 1, complete=True)


@pytest.mark.parametrize("damage", [b"", b"{", b'{"cursor":7}', b"[]"])
async def test_a_damaged_checkpoint_is_an_unwritten_one(damage: bytes, tmp_path: Path) -> None:
    ledger = lines(range(100))
    async with running({"analyst": ledger}) as cllama:
        await filled(cllama, tmp_path, Kept())
        (checkpoint,) = tmp_path.glob("analyst-*.json")
        checkpoint.write_bytes(damage)
        report = await filled(cllama, tmp_path, Kept())
    assert (report.complete, report.entries) == (True, 100)


async def test_a_checkpoint_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    async with running({"analyst": lines(range(3))}) as cllama:
        report = await filled(cllama, tmp_path / "file" / "fill", Kept())
    assert not report.complete
    assert "how far it came cannot be kept" in report.problem


CHILD = """
import asyncio, os, signal, sys
from pathlib import Path
from memplane.integrations.clawdapus.memory_service.history_import import (
    HistorySource,
    import_history,
)
from memplane.secret import Secret

url, token, folder, out, most = sys.argv[1:]
written = open(out, "ab", buffering=0)

async def retain(agent, entry):
    written.write(entry["id"].encode() + b"\\n")
    if os.stat(out).st_size >= int(most) * 71:
        os.kill(os.getpid(), signal.SIGKILL)

source = HistorySource(url, Secret(token), ("analyst",))
asyncio.run(import_history(source, retain, checkpoints=Path(folder)))
"""


async def killed(cllama: Cllama, folder: Path, out: Path, most: int) -> None:
    """Fill in a process of its own that dies at that many entries."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD, cllama.url, TOKEN, str(folder), str(out), str(most),
        env=environment(folder / "home"),
    )  # fmt: skip
    assert await child.wait() == -signal.SIGKILL


async def test_a_killed_fill_goes_on_behind_its_last_whole_page(tmp_path: Path) -> None:
    ledger = lines([n * 30 for n in range(1500)])
    folder, out = tmp_path / "fill", tmp_path / "out"
    async with running({"analyst": ledger}) as cllama:
        for most in (450, 1100):
            await killed(cllama, folder, out, most)
        kept = Kept()
        report = await filled(cllama, folder, kept)
    before = out.read_text().split()
    assert sorted({*before, *kept.ids()}) == ids(ledger)
    assert set(kept.times.values()) == {1}
    # Each death costs at most the page that it happened in.
    assert len(before) + len(kept.times) <= len(ledger) + 2 * HISTORY_PAGE_ENTRIES
    assert report.complete


# memplane's own


@asynccontextmanager
async def own_history(
    folder: Path, *, agents: tuple[str, ...] = ("analyst",)
) -> AsyncIterator[HistorySource]:
    """A real memplane whose pod gave us a token for the agents' histories."""
    for agent in agents:
        auth = folder / "context" / agent / "service-auth"
        auth.mkdir(parents=True)
        (auth.parent / "metadata.json").write_text(json.dumps({"token": f"{agent}:{'f' * 48}"}))
        body = {"service": "cllama-history", "auth_type": "bearer", "token": TOKEN}
        (auth / "cllama-history.json").write_text(json.dumps({**body, "principal": "mem-svc"}))
    env = {
        "MEMPLANE_CONTEXT_ROOT": str(folder / "context"),
        "CLAW_SESSION_HISTORY_DIR": str(folder / "ledger"),
    }
    with running_memplane(folder / "home", env=env) as up:
        yield HistorySource(f"{up.address}/history", Secret(TOKEN), agents)


def write_ledger(folder: Path, name: str, entries: Sequence[Entry]) -> Path:
    path = folder / "ledger" / "analyst" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(one.line + b"\n" for one in entries))
    return path


async def test_memplanes_own_history_is_walked_by_cursor(tmp_path: Path) -> None:
    turns = [turn(f"turn {n}", ts=NOON + timedelta(seconds=n * 7 % 5)) for n in range(1100)]
    made = [make_entry(one) for one in turns]
    write_ledger(tmp_path, "segments/00000001.jsonl", made[:450])
    write_ledger(tmp_path, "history.jsonl", made[450:])
    async with own_history(tmp_path, agents=("analyst", "silent")) as own:
        kept = Kept()
        reports = await import_history(own, kept.retain, checkpoints=tmp_path / "fill")
        again = await import_history(own, kept.retain, checkpoints=tmp_path / "fill")
    assert reports == [
        HistoryImportReport("analyst", 1100, -(-1100 // HISTORY_PAGE_ENTRIES), 0, complete=True),
        HistoryImportReport("silent", 0, 1, 0, complete=True),
    ]
    assert kept.ids() == sorted(entry.id for entry in made)
    assert set(kept.times.values()) == {1}
    assert [one.entries for one in again] == [0, 0]
    assert all(one.complete for one in again)


async def test_turns_that_are_recorded_and_rotated_during_the_walk_come_once(
    tmp_path: Path,
) -> None:
    known = [make_entry(turn(f"turn {n}")) for n in range(900)]
    current, rest = write_ledger(tmp_path, "history.jsonl", known[:600]), known[600:]
    kept = Kept()

    async def retain(agent: str, entry: Mapping[str, Any]) -> None:
        await kept.retain(agent, entry)
        if len(kept.times) in {250, 420, 530}:
            if len(kept.times) == 420:
                current.rename(current.with_name("history.jsonl.1"))
            with current.open("ab") as file:
                file.write(b"".join(rest.pop(0).line + b"\n" for _ in range(100)))

    async with own_history(tmp_path) as own:
        (report,) = await import_history(own, retain, checkpoints=tmp_path / "fill")
    assert rest == []
    assert kept.ids() == sorted(one.id for one in known)
    assert set(kept.times.values()) == {1}
    assert (report.complete, report.problem) == (True, "")


async def test_lines_that_the_proxy_skips_are_counted(tmp_path: Path) -> None:
    known = [make_entry(turn(f"turn {n}")) for n in range(3)]
    parts = [known[0].line, b"garbage", known[1].line, b"{cut", known[2].line, b""]
    write_ledger(tmp_path, "history.jsonl", known).write_bytes(b"\n".join(parts))
    async with own_history(tmp_path) as own:
        (report,) = await import_history(own, Kept().retain, checkpoints=tmp_path / "fill")
    assert report == HistoryImportReport("analyst", 3, 1, 2, complete=True)


async def test_a_cursor_of_another_ledger_begins_anew(tmp_path: Path) -> None:
    turns = [turn(f"turn {n}") for n in range(30)]
    await record(tmp_path / "ledger", turns)
    async with own_history(tmp_path) as own:
        await import_history(own, Kept().retain, checkpoints=tmp_path / "fill")
        other = [make_entry(turn(f"another {n}")) for n in range(20)]
        write_ledger(tmp_path, "history.jsonl", other)
        kept = Kept()
        (report,) = await import_history(own, kept.retain, checkpoints=tmp_path / "fill")
    assert kept.ids() == sorted(one.id for one in other)
    assert (report.complete, report.entries) == (True, 20)


async def test_a_wrong_token_is_refused_by_memplane_too(tmp_path: Path) -> None:
    await record(tmp_path / "ledger", [turn("one")])
    async with own_history(tmp_path) as own:
        wrong = HistorySource(own.url, Secret("mem-svc-history:wrong"), ("analyst", "nobody"))
        kept = Kept()
        reports = await import_history(wrong, kept.retain, checkpoints=tmp_path / "fill")
    assert [one.problem.rpartition(" answered ")[2] for one in reports] == [
        "403 forbidden",
        "403 forbidden",
    ]
    assert kept.ids() == []


async def test_a_plain_cllama_that_becomes_memplane_is_walked_on(tmp_path: Path) -> None:
    """The place that was noted by time serves a proxy that gives cursors, and the other way."""
    turns = [turn(f"turn {n}", ts=NOON + timedelta(minutes=n)) for n in range(500)]
    made = [make_entry(one) for one in turns]
    write_ledger(tmp_path, "history.jsonl", made)
    plain = [Line(entry.id, one.ts, entry.line) for entry, one in zip(made, turns, strict=True)]
    kept = Kept()
    async with own_history(tmp_path) as own, running({"analyst": plain[:300]}) as cllama:
        await filled(cllama, tmp_path / "fill", kept)
        (checkpoint,) = (tmp_path / "fill").iterdir()
        # The same address, and another program behind it.
        cllama.intercept = _passing_on(own)
        report = await filled(cllama, tmp_path / "fill", kept)
        assert (report.complete, report.problem) == (True, "")
        assert json.loads(checkpoint.read_bytes())["cursor"]
        cllama.intercept = None
        cllama.ledgers["analyst"] = plain
        back = await filled(cllama, tmp_path / "fill", Kept())
    assert kept.ids() == sorted(entry.id for entry in made)
    assert set(kept.times.values()) == {1}
    assert (back.complete, back.entries) == (True, 500)


def _passing_on(history: HistorySource) -> Intercept:
    import aiohttp

    async def pass_on(request: web.Request, body: bytes) -> web.StreamResponse | None:
        headers = {"Authorization": f"Bearer {history.token.reveal()}"}
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{history.url}/analyst", params=request.query, headers=headers) as reply,
        ):
            told = {k: v for k, v in reply.headers.items() if k.startswith("X-Memplane")}
            told |= {k.title(): v for k, v in reply.headers.items() if k.startswith("x-memplane")}
            return web.Response(status=reply.status, body=await reply.read(), headers=told)

    return pass_on
