"""Tombstones that another process writes beside a memory that is running."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from memplane.auth.memory_scope import MemoryScope
from memplane.episodes.injection_store import Injection
from memplane.errors import LedgerError
from memplane.ledger.tombstones import TOMBSTONES_FILE_NAME, Tombstone, append_tombstones
from memplane.ledger.turn_note import InjectedBlock
from tests.episodes.remembering import entry, give, memory_in, recall, texts

KESTREL = entry("When is the kestrel rollout?", "The kestrel rollout is on Thursday.")
HERON = entry("Who owns the heron service?", "Priya owns the heron service.", minutes=90)


def bury(folder: Path, entry_id: str) -> None:
    stone = Tombstone("2026-01-02T03:04:05Z", "analyst", "mem", entry_id)
    append_tombstones(folder / "tombstones", "analyst", [stone])


async def test_what_is_forgotten_beside_a_running_memory_is_gone_at_once(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        await give(memory, KESTREL, HERON)
        assert "Thursday" in texts(await recall(memory, "kestrel rollout"))
        bury(tmp_path, KESTREL["id"])
        assert not await recall(memory, "kestrel rollout", limit=5)
        assert await give(memory, KESTREL) == ["forgotten"], "a replay does not bring it back"
        bury(tmp_path, HERON["id"])
        both = await asyncio.gather(*(recall(memory, "heron service") for _ in range(4)))
        assert both == [()] * 4, "nobody is answered while somebody else still buries it"
        assert (await memory.rebuild()).same


async def test_an_entry_that_was_forgotten_beside_it_is_not_taken_in(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        bury(tmp_path, KESTREL["id"])
        assert await give(memory, KESTREL) == ["forgotten"]


async def test_tombstones_that_cannot_be_read_stop_nobody_else(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        (tmp_path / "tombstones" / "analyst" / TOMBSTONES_FILE_NAME).mkdir(parents=True)
        first, other = await asyncio.gather(
            give(memory, KESTREL), give(memory, HERON, agent="other"), return_exceptions=True
        )
        assert isinstance(first, LedgerError), "who is not taken in is told so"
        assert other == ["retained"]


async def test_what_stands_in_conversations_goes_with_it(tmp_path: Path) -> None:
    def text(place: str, cited: str) -> Injection:
        blocks = (InjectedBlock(entry_ids=(cited,)),)
        return Injection(MemoryScope("analyst"), place, "", 1, "memplane", "words", blocks)

    async with memory_in(tmp_path) as memory:
        await memory.save_injections([text("here", KESTREL["id"]), text("there", HERON["id"])])
        bury(tmp_path, KESTREL["id"])
        left = await memory.injected(MemoryScope("analyst"), ["here", "there"])
        assert [one.place for one in left] == ["there"]
        bury(tmp_path, HERON["id"])
        await memory.save_injections([text("again", HERON["id"])])
        assert await memory.injected(MemoryScope("analyst"), ["again"]) == []


async def test_whoever_asked_is_told_what_was_buried(tmp_path: Path) -> None:
    told: list[tuple[str, tuple[str, ...]]] = []

    async def tell(agent: str, ids: object) -> None:
        assert isinstance(ids, list)
        told.append((agent, tuple(map(str, ids))))

    async with memory_in(tmp_path) as memory:
        memory.on_forgotten(tell)
        bury(tmp_path, KESTREL["id"])
        await memory.apply_all_tombstones()
        await memory.apply_all_tombstones()
        await memory.forget("analyst", [HERON["id"]])
        await memory.apply_all_tombstones()
    assert told == [("analyst", (KESTREL["id"],))]


async def test_who_does_not_wait_until_it_is_buried_does_not_stop_it(tmp_path: Path) -> None:
    reached, go_on, told = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def tell(_agent: str, _ids: object) -> None:
        reached.set()
        await go_on.wait()
        told.set()

    async with memory_in(tmp_path) as memory, asyncio.timeout(60):
        await give(memory, KESTREL)
        memory.on_forgotten(tell)
        bury(tmp_path, KESTREL["id"])
        asking = asyncio.create_task(recall(memory, "kestrel rollout"))
        await reached.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        go_on.set()
        await told.wait()
        assert not await recall(memory, "kestrel rollout", limit=5)


async def test_tombstones_that_cannot_be_read_answer_nothing(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        await give(memory, KESTREL)
        file = tmp_path / "tombstones" / "analyst" / TOMBSTONES_FILE_NAME
        file.parent.mkdir(parents=True)
        file.symlink_to(tmp_path / "nowhere")
        with pytest.raises(LedgerError):
            await recall(memory, "kestrel rollout")
        file.unlink()
        assert await recall(memory, "kestrel rollout")
