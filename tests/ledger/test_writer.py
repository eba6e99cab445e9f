"""Recording: what is acknowledged, what fails alone, and what an operator can choose."""

from __future__ import annotations

import asyncio
import fcntl
import stat
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memplane.errors import EntryTooLarge, LedgerFull, NotRecorded, UnknownAgent
from memplane.kit.clock import system_clock
from memplane.ledger import agent_writer, writer
from memplane.ledger.agent_writer import AgentWriter
from memplane.ledger.anchors import read_anchors
from memplane.ledger.chain_verification import verify_ledger
from memplane.ledger.entry import Turn
from memplane.ledger.folder import AgentFolder, list_ledger_agents
from memplane.ledger.reader import read_entries
from memplane.ledger.segments import FileModes
from memplane.ledger.writer import LedgerOptions, SyncPolicy, open_ledger
from tests.support.turns import NOON, record, turn


def ids_of(root: Path, agent: str = "analyst") -> list[str]:
    return [identifier for identifier, _ in read_entries(AgentFolder(root, agent))]


def unchanged(one: Turn) -> Turn:
    return one


async def test_turns_are_read_back_in_the_order_they_came(tmp_path: Path) -> None:
    made = await record(tmp_path, [turn(f"turn {n}") for n in range(50)])
    assert ids_of(tmp_path) == [entry.id for entry in made]
    report = verify_ledger(AgentFolder(tmp_path, "analyst"), read_anchors(tmp_path)["analyst"])
    assert (report.entries, report.unchained, report.findings) == (50, 0, [])


async def test_agents_have_ledgers_of_their_own(tmp_path: Path) -> None:
    async with open_ledger(tmp_path, scrub=unchanged, clock=system_clock) as ledger:
        await asyncio.gather(*(ledger.append(turn("hello", agent=f"a{n}")) for n in range(20)))
    assert list_ledger_agents(tmp_path) == sorted(f"a{n}" for n in range(20))
    assert all(len(ids_of(tmp_path, f"a{n}")) == 1 for n in range(20))


@pytest.mark.parametrize("agent", ["", "..", "../x", "a/b", ".hidden", "a" * 129, "a\x00"])
async def test_a_name_that_leads_elsewhere_is_refused(agent: str, tmp_path: Path) -> None:
    async with open_ledger(tmp_path / "ledger", scrub=unchanged, clock=system_clock) as ledger:
        with pytest.raises(UnknownAgent):
            await ledger.append(turn("hello", agent=agent))
    assert not (tmp_path / "ledger").exists()


async def test_a_turn_that_cannot_be_an_entry_fails_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MAX_LINE_BYTES", 5000)
    async with open_ledger(tmp_path, scrub=unchanged, clock=system_clock) as ledger:
        outcomes = await asyncio.gather(
            ledger.append(turn("good")),
            ledger.append(turn("bad", request_original=b"{not json")),
            ledger.append(turn("x" * 6000)),
            ledger.append(turn("good too")),
            return_exceptions=True,
        )
    good, bad, large, other = outcomes
    assert isinstance(bad, NotRecorded)
    assert isinstance(large, EntryTooLarge)
    assert len(ids_of(tmp_path)) == 2
    assert not isinstance(good, BaseException)
    assert not isinstance(other, BaseException)


async def test_equal_turns_have_ids_of_their_own_also_after_a_restart(tmp_path: Path) -> None:
    now = system_clock().replace(microsecond=0)
    first = await record(tmp_path, [turn("same", ts=now)] * 3)
    second = await record(tmp_path, [turn("same", ts=now)] * 2)
    assert len({entry.id for entry in first + second}) == 5
    assert [b'"occurrence":' in entry.line for entry in first] == [False, True, True]
    assert second[-1].line.endswith(b',"occurrence":5}')


async def test_old_turns_need_not_be_remembered(tmp_path: Path) -> None:
    long_ago = system_clock() - timedelta(hours=3)
    await record(tmp_path, [turn("same", ts=long_ago)])
    again = await record(tmp_path, [turn("same", ts=long_ago + timedelta(seconds=1))])
    assert b"occurrence" not in again[0].line


async def test_nobody_can_append_after_the_end(tmp_path: Path) -> None:
    async with open_ledger(tmp_path, scrub=unchanged, clock=system_clock) as ledger:
        await ledger.append(turn("in time"))
    with pytest.raises(NotRecorded, match="after the ledger was closed"):
        await ledger.append(turn("too late"))


async def test_what_waits_at_the_end_is_recorded(tmp_path: Path) -> None:
    async with open_ledger(tmp_path, scrub=unchanged, clock=system_clock) as ledger:
        waiting = [asyncio.ensure_future(ledger.append(turn(f"turn {n}"))) for n in range(200)]
        await asyncio.sleep(0)
    made = await asyncio.gather(*waiting)
    assert ids_of(tmp_path) == [entry.id for entry in made]


async def test_a_caller_that_gives_up_loses_nothing(tmp_path: Path) -> None:
    async with open_ledger(tmp_path, scrub=unchanged, clock=system_clock) as ledger:
        waiting = asyncio.ensure_future(ledger.append(turn("impatient")))
        await asyncio.sleep(0)
        waiting.cancel()
        await ledger.append(turn("patient"))
    assert len(ids_of(tmp_path)) == 2


async def test_a_slow_disk_refuses_turns_and_the_chain_notes_the_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck, go_on = threading.Event(), threading.Event()
    really = AgentWriter.sync

    def slowly(log: AgentWriter) -> None:
        stuck.set()
        go_on.wait(60)
        really(log)

    monkeypatch.setattr(AgentWriter, "sync", slowly)
    options = LedgerOptions(queue_bytes=4000)
    async with open_ledger(
        tmp_path, scrub=unchanged, clock=system_clock, options=options
    ) as ledger:
        taken = [asyncio.ensure_future(ledger.append(turn("the first")))]
        await asyncio.to_thread(stuck.wait, 60)
        taken += [asyncio.ensure_future(ledger.append(turn(f"turn {n}"))) for n in range(12)]
        await asyncio.sleep(0)
        go_on.set()
        outcomes = await asyncio.gather(*taken, return_exceptions=True)
    refused = [one for one in outcomes if isinstance(one, LedgerFull)]
    assert 0 < len(refused) < 12
    assert "bytes wait for the disk already" in str(refused[0])
    assert len(ids_of(tmp_path)) == 13 - len(refused)
    report = verify_ledger(AgentFolder(tmp_path, "analyst"), read_anchors(tmp_path)["analyst"])
    assert (report.gaps, report.findings) == (len(refused), [])


@pytest.mark.parametrize("syncing", list(SyncPolicy))
async def test_every_way_of_syncing_keeps_everything_in_order(
    syncing: SyncPolicy, tmp_path: Path
) -> None:
    options = LedgerOptions(syncing=syncing, max_bytes=3000)
    made = await record(tmp_path, [turn(f"turn {n}") for n in range(30)], options)
    assert ids_of(tmp_path) == [entry.id for entry in made]
    folder = AgentFolder(tmp_path, "analyst")
    assert verify_ledger(folder, read_anchors(tmp_path).get("analyst")).findings == []


@pytest.mark.parametrize(
    ("mode", "folder", "file", "sealed"),
    [(0o600, 0o700, 0o600, 0o400), (0o660, 0o770, 0o660, 0o440)],
)
async def test_files_are_for_those_who_may_read_them(
    mode: int, folder: int, file: int, sealed: int, tmp_path: Path
) -> None:
    options = LedgerOptions(max_bytes=1500, modes=FileModes(mode))
    root = tmp_path / "ledger"
    await record(root, [turn(f"turn {n}") for n in range(9)], options)

    def mode_of(path: Path) -> int:
        return stat.S_IMODE(path.stat().st_mode)

    own = root / "analyst"
    assert mode_of(own) == mode_of(own / "segments") == folder
    assert mode_of(own / "history.jsonl") == file
    assert {mode_of(path) for path in (own / "segments").iterdir()} == {sealed}
    assert mode_of(root) == 0o700


async def test_the_loop_is_told_once_for_a_batch_and_never_waits_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[str] = set()
    really = AgentWriter.sync

    def watched(log: AgentWriter) -> None:
        threads.add(threading.current_thread().name)
        really(log)

    monkeypatch.setattr(AgentWriter, "sync", watched)
    await record(tmp_path, [turn("hello")])
    assert threads == {"ledger"}


async def test_an_unforeseen_error_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_ledger(tmp_path, scrub=unchanged, clock=system_clock) as ledger:
        first = await ledger.append(turn("before"))
        with monkeypatch.context() as patch:

            def wrong(*_given: Any) -> None:
                raise LookupError("unforeseen")

            patch.setattr(AgentWriter, "write", wrong)
            with pytest.raises(NotRecorded, match="unforeseen"):
                await ledger.append(turn("meanwhile"))
            assert "unforeseen" in ledger.figures.failing["analyst"]
        last = await ledger.append(turn("after", ts=NOON + timedelta(seconds=1)))
        assert ledger.figures.failing == {}
    assert ids_of(tmp_path) == [first.id, last.id]


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_many_agents_need_few_open_files(tmp_path: Path) -> None:
    count = 400
    before = _open_files()  # what other tests of this process hold
    async with open_ledger(tmp_path, scrub=unchanged, clock=system_clock) as ledger:
        for _ in range(2):
            turns = [turn(f"hello {n}", agent=f"a{n}", ts=NOON) for n in range(count)]
            await asyncio.gather(*map(ledger.append, turns))
        opened = _open_files() - before
    # Three each of 128 agents, and of 64 more until a moment after these are acknowledged.
    assert opened < 3 * (128 + 64) + 50
    assert len(list_ledger_agents(tmp_path)) == count
    assert all(len(ids_of(tmp_path, agent)) == 2 for agent in list_ledger_agents(tmp_path))


async def test_a_process_that_holds_the_lock_for_ever_stops_only_its_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_writer, "_MAX_LOCK_ATTEMPTS", 3)
    await record(tmp_path, [turn("before")])
    with (tmp_path / "analyst" / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        async with open_ledger(tmp_path, scrub=unchanged, clock=system_clock) as ledger:
            with pytest.raises(NotRecorded, match="another process holds the agent's lock"):
                await ledger.append(turn("meanwhile"))
            await ledger.append(turn("meanwhile", agent="writer"))
    assert len(ids_of(tmp_path)) == len(ids_of(tmp_path, "writer")) == 1
