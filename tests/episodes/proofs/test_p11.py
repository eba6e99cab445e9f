"""P11: recall reads your writes, and forget is final; with kills and pauses, over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from memplane.episodes import retain_queue, tombstone_watcher
from memplane.episodes import service as memory_module
from memplane.episodes import store as table
from memplane.episodes.api_types import RecallRequest
from memplane.episodes.retain_queue import EntryOrigin
from memplane.episodes.service import EpisodeService
from tests.episodes.proofs.histories import Asked, Checker, Unanswered, fact_entry, word
from tests.episodes.remembering import memory_in, raw
from tests.support.running import Running, running_memplane

pytestmark = pytest.mark.timeout(600)

WORKERS = 8
FACTS = 40


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Process:
    """memplane on one port, killed and started again as often as one likes."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = free_port()
        self.stack = ExitStack()
        self.running: Running | None = None
        self.up = asyncio.Event()

    async def start(self) -> None:
        def started() -> Running:
            return self.stack.enter_context(running_memplane(self.home, "--port", str(self.port)))

        self.running = await asyncio.to_thread(started)
        self.up.set()

    async def kill(self) -> None:
        assert self.running is not None
        self.up.clear()
        os.kill(self.running.process.pid, signal.SIGKILL)
        await asyncio.to_thread(self.stack.close)
        await self.start()

    async def pause(self) -> None:
        assert self.running is not None
        os.kill(self.running.process.pid, signal.SIGSTOP)
        await asyncio.sleep(0.2)
        os.kill(self.running.process.pid, signal.SIGCONT)

    @asynccontextmanager
    async def asked(self) -> AsyncIterator[Asked]:
        assert self.running is not None
        headers = {"Authorization": f"Bearer {self.running.token}"}
        address = f"http://127.0.0.1:{self.port}"
        async with aiohttp.ClientSession(address, headers=headers) as session:

            async def post(path: str, body: dict[str, object]) -> bytes:
                await self.up.wait()
                try:
                    async with session.post(path, json={"agent_id": "a", **body}) as reply:
                        answer = await reply.read()
                except (aiohttp.ClientError, OSError) as error:
                    raise Unanswered from error
                assert reply.ok, (path, reply.status, answer)
                return answer

            async def retain(number: int) -> None:
                await post("/retain", {"entry": fact_entry(number)})

            async def recall(number: int) -> bool:
                messages = [{"role": "user", "content": f"What is {word(number)}?"}]
                found = json.loads(await post("/recall", {"messages": messages}))["memories"]
                return word(number) in json.dumps(found)

            async def forget(number: int) -> None:
                await post("/forget", {"entry_ids": [fact_entry(number)["id"]]})

            yield Asked(retain, recall, forget)


async def histories(home: Path, operations: int, kills: int) -> Checker:
    process = Process(home)
    with process.stack:
        await process.start()
        async with process.asked() as asked:
            checker = Checker(asked, at_work=WORKERS)
            working = [
                asyncio.create_task(
                    checker.work(range(one * FACTS, (one + 1) * FACTS), operations, seed=one)
                )
                for one in range(WORKERS)
            ]
            for number in range(kills):
                before = checker.operations
                await checker.reached(before + operations)
                await (process.pause() if number % 3 == 2 else process.kill())
            await asyncio.gather(*working)
            await checker.ask_all()
            await process.kill()
            await checker.ask_all()
    return checker


async def test_recall_reads_writes_and_forgetting_is_final(tmp_path: Path) -> None:
    checker = await histories(tmp_path / "home", operations=120, kills=4)
    assert checker.operations > 1000
    assert sum(one.forgotten is True for one in checker.facts.values()) > 20
    assert sum(one.expected is True for one in checker.facts.values()) > 20
    assert (checker.stale, checker.revived) == ([], [])


@pytest.mark.long
async def test_the_same_with_ten_thousand_operations(tmp_path: Path) -> None:
    checker = await histories(tmp_path / "home", operations=1000, kills=12)
    assert checker.operations > 10_000
    assert (checker.stale, checker.revived) == ([], [])


# Controls: what the checker says of memories that break the promise.


def asked_in(memory: EpisodeService) -> Asked:
    async def retain(number: int) -> None:
        await memory.retain(EntryOrigin("a"), raw(fact_entry(number)))

    async def recall(number: int) -> bool:
        found = await memory.recall(RecallRequest(agent="a", text=f"What is {word(number)}?"))
        return any(word(number) in one.text for one in found.memories)

    async def forget(number: int) -> None:
        await memory.forget("a", [str(fact_entry(number)["id"])])

    return Asked(retain, recall, forget)


async def lived(folder: Path, *, rebuilt: bool = False) -> Checker:
    async with memory_in(folder) as memory:
        checker = Checker(asked_in(memory))
        for number in range(6):
            await checker.retain(number)
        for number in range(3):
            await checker.forget(number)
        for number in range(3):
            await checker.retain(number)
        await checker.ask_all()
    if rebuilt:
        (folder / "memplane.db").unlink()
    async with memory_in(folder) as memory:
        checker.asked = asked_in(memory)
        await checker.ask_all()
    return checker


async def test_the_checker_finds_nothing_wrong_with_memory_as_it_is(tmp_path: Path) -> None:
    checker = await lived(tmp_path, rebuilt=True)
    assert (checker.stale, checker.revived) == ([], [])


async def test_a_rebuild_that_ignores_tombstones_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def bury_nothing(*_: object) -> list[str]:
        return []

    # Either alone is not enough: what opens without them is looked at before it answers.
    monkeypatch.setattr(memory_module, "apply_all_tombstones", bury_nothing)
    monkeypatch.setattr(tombstone_watcher, "apply_tombstones", bury_nothing)
    checker = await lived(tmp_path, rebuilt=True)
    assert checker.revived == [0, 1, 2]


async def test_a_forget_that_leaves_the_rows_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "delete_entries", lambda *_args, **_more: 0)
    checker = await lived(tmp_path)
    assert set(checker.revived) == {0, 1, 2}


async def test_a_retain_that_answers_before_it_is_searchable_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retain_queue, "_insert_prepared", lambda *_: dict[int, object]())
    async with memory_in(tmp_path) as memory:
        checker = Checker(asked_in(memory))
        await checker.retain(1)
        await checker.recall(1)
    assert checker.stale == [1]
