"""What was put into conversations: kept, found again, and gone with what it cites."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import apsw
import msgspec

from memplane.auth.memory_scope import MemoryScope
from memplane.database.migrations import load_migrations, migrate
from memplane.database.sqlite import SqliteConnection
from memplane.episodes.api_types import ForgetRequest, RecallRequest
from memplane.episodes.injection_store import MAX_INJECTION_AGE_US, Injection, TurnPlace
from memplane.episodes.retain_queue import EntryOrigin
from memplane.ledger.tombstones import Tombstone, append_tombstones
from memplane.ledger.turn_note import InjectedBlock, TurnNote, encode_note
from tests.episodes.remembering import entry, memory_in, raw, recall
from tests.support.turns import record, turn

ANALYST = MemoryScope("analyst")
NOW = 1_900_000_000_000_000


def injection(
    place: str = "p1",
    session: str = "s1",
    *,
    at: int = NOW,
    agent: str = "analyst",
    **more: object,
) -> Injection:
    entries = more.get("entries", ("hist1_a",))
    assert isinstance(entries, tuple)
    blocks = (InjectedBlock(id="b", entry_ids=entries, kind="turn"),)
    text = f"what stands at {place} of {session}"
    return Injection(MemoryScope(agent), place, session, at, "memplane", text, blocks)


async def test_what_was_kept_is_found_whole_the_newest_first(tmp_path: Path) -> None:
    older, newer = injection(session="s1"), injection(session="s2", at=NOW + 1)
    other = injection("p2")
    async with memory_in(tmp_path) as memory:
        await memory.save_injections([older, newer, other])
        assert await memory.injected(ANALYST, ["p1"]) == [newer, older]
        assert (await memory.injected(ANALYST, ["p1", "p2", "p3"]))[0] == newer
        assert await memory.injected(ANALYST, []) == []
    async with memory_in(tmp_path) as memory:
        assert await memory.injected(ANALYST, ["p2"]) == [other]


async def test_an_agent_never_finds_what_was_put_into_anothers_prompt(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        await memory.save_injections([injection(agent="one")])
        assert await memory.injected(MemoryScope("two"), ["p1"]) == []


async def test_the_same_place_of_a_session_has_one_text(tmp_path: Path) -> None:
    again = injection(at=NOW + 5, entries=("hist1_b",))
    async with memory_in(tmp_path) as memory:
        await memory.save_injections([injection()])
        await memory.save_injections([again])
        assert await memory.injected(ANALYST, ["p1"]) == [again]


async def test_forgetting_an_entry_takes_the_texts_that_cite_it(tmp_path: Path) -> None:
    cited, other = injection("p1"), injection("p2", entries=("hist1_b",))
    async with memory_in(tmp_path) as memory:
        await memory.save_injections([cited, other, injection(agent="two")])
        await memory.forget("analyst", ["hist1_a"])
        assert await memory.injected(ANALYST, ["p1", "p2"]) == [other]
        assert len(await memory.injected(MemoryScope("two"), ["p1"])) == 1
        # What was recalled before and is kept only now does not bring it back.
        await memory.save_injections([cited])
        assert await memory.injected(ANALYST, ["p1"]) == []


async def test_forgetting_takes_texts_that_say_nothing_of_where_they_come_from(
    tmp_path: Path,
) -> None:
    """So does a service whose memories name no entries: any of them may be the forgotten one."""
    unnamed = replace(injection("p1", entries=()), blocks=())
    nothing = replace(unnamed, place="p3", text="")
    other = injection("p2", entries=("hist1_b",))
    async with memory_in(tmp_path) as memory:
        await memory.save_injections(
            [unnamed, nothing, other, replace(unnamed, scope=MemoryScope("two"))]
        )
        await memory.forget("analyst", ["hist1_a"])
        left = await memory.injected(ANALYST, ["p1", "p2", "p3"])
        assert {one.place for one in left} == {"p2", "p3"}
        assert len(await memory.injected(MemoryScope("two"), ["p1"])) == 1


async def test_a_conversation_may_be_as_long_as_it_likes(tmp_path: Path) -> None:
    first = injection("p0")
    places = [f"p{number}" for number in range(5_000)]
    async with memory_in(tmp_path) as memory:
        told = entry("I like green tea")
        await memory.retain(EntryOrigin("analyst"), raw(told))
        await memory.save_injections([first])
        await memory.save_turn_places([TurnPlace(ANALYST, "p0", told["id"], NOW)])
        assert await memory.injected(ANALYST, places) == [first]
        ask = RecallRequest(agent="analyst", text="green tea", here=tuple(places))
        assert (await memory.recall(ask)).memories == ()


async def test_forgetting_takes_a_text_that_does_not_name_all_it_was_made_of(
    tmp_path: Path,
) -> None:
    many = [entry(f"Turn {number} is about green tea") for number in range(30)]
    ids = frozenset(one["id"] for one in many)
    summary = replace(injection("p1", entries=(many[0]["id"],)), made_of=ids)
    other = injection("p2", entries=("short",))
    async with memory_in(tmp_path) as memory:
        for one in many:
            await memory.retain(EntryOrigin("analyst"), raw(one))
        await memory.save_injections([summary, other])
        asked = ForgetRequest(agent="analyst", ids=(many[17]["id"],), verify=True)
        assert (await memory.run_forget(asked)).clean
        assert await memory.injected(ANALYST, ["p1", "p2"]) == [other]
        await memory.save_injections([summary])
        assert await memory.injected(ANALYST, ["p1"]) == []
        await memory.forget("analyst", ["short"])
        assert await memory.injected(ANALYST, ["p2"]) == []


async def test_texts_that_were_kept_by_an_earlier_version_go_with_what_they_cite(
    tmp_path: Path,
) -> None:
    one, two = "hist1_" + "a" * 64, "hist1_" + "b" * 64
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    with closing(SqliteConnection(tmp_path / "memplane.db", flags, ())) as old:
        migrate(old, load_migrations("sqlite")[:6], where="here")
        old.run_many(
            "INSERT INTO injections VALUES (?, 'analyst', ?, 's1', ?, 'memplane', ?, ?)",
            [(1, "p1", NOW, "x", b"[]"), (2, "p2", NOW, "y", b"[]")],
        )
        old.run_many(
            "INSERT INTO injected_entries VALUES ('analyst', ?, ?)", [(one, 1), (two, 1), (one, 2)]
        )
    async with memory_in(tmp_path) as memory:
        assert len(await memory.injected(ANALYST, ["p1", "p2"])) == 2
        await memory.forget("analyst", [two])
        assert [found.text for found in await memory.injected(ANALYST, ["p1", "p2"])] == ["y"]


async def test_a_tombstone_of_another_process_counts_at_the_next_start(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        await memory.save_injections([injection()])
    stone = Tombstone("2026-11-16T00:00:00Z", "analyst", "", "hist1_a", "")
    append_tombstones(tmp_path / "tombstones", "analyst", [stone])
    async with memory_in(tmp_path) as memory:
        assert await memory.injected(ANALYST, ["p1"]) == []


async def test_what_nobody_goes_on_with_is_dropped(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        await memory.save_injections(
            [injection("p1", at=1), injection("p2", at=NOW + MAX_INJECTION_AGE_US)]
        )
    async with memory_in(tmp_path) as memory:
        found = await memory.injected(ANALYST, ["p1", "p2"])
        assert [one.place for one in found] == ["p2"]


async def test_a_rebuild_keeps_them(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        await memory.retain(EntryOrigin("analyst"), raw(entry("I like green tea")))
        await memory.save_injections([injection()])
        await memory.rebuild()
        assert len(await memory.injected(ANALYST, ["p1"])) == 1


async def test_a_turn_that_was_said_here_is_not_told_until_it_is_said_elsewhere(
    tmp_path: Path,
) -> None:
    async with memory_in(tmp_path) as memory:
        first, second = entry("I like green tea"), entry("Green tea wants soft water")
        for one in (first, second):
            await memory.retain(EntryOrigin("analyst"), raw(one))
        await memory.save_turn_places([TurnPlace(ANALYST, "p1", first["id"], NOW)])
        ask = RecallRequest(agent="analyst", text="green tea")
        assert {one.id for one in (await memory.recall(ask)).memories} >= {first["id"]}
        here = msgspec.structs.replace(ask, here=("p1",))
        cited = {one for block in (await memory.recall(here)).memories for one in block.entry_ids}
        assert cited == {second["id"]}
        # Another agent's conversation has the same places.
        elsewhere = msgspec.structs.replace(here, agent="two")
        assert (await memory.recall(elsewhere)).memories == ()


async def test_what_was_said_before_stands_under_a_new_name_too(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        told = [entry(f"Green tea number {number}") for number in range(4)]
        for number, one in enumerate(told[:3]):
            await memory.retain(EntryOrigin("analyst"), raw(one))
            after = (f"response {number - 1}",) if number else ()
            said = TurnPlace(ANALYST, f"response {number}", one["id"], NOW, after)
            await memory.save_turn_places([said])
        await memory.retain(EntryOrigin("analyst"), raw(told[3]))
        ask = RecallRequest(agent="analyst", text="green tea", limit=9, here=("response 2",))
        cited = [one.id for one in (await memory.recall(ask)).memories]
        assert cited == [told[3]["id"]]
        without = msgspec.structs.replace(ask, without=(told[3]["id"],))
        assert (await memory.recall(without)).memories == ()
        # What goes on from an earlier answer does not know the later ones.
        earlier = msgspec.structs.replace(ask, here=("response 0",))
        assert told[0]["id"] not in {one.id for one in (await memory.recall(earlier)).memories}
        assert len((await memory.recall(earlier)).memories) == 3


async def test_where_a_forgotten_turn_was_said_is_forgotten_too(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        said = entry("I like green tea")
        await memory.retain(EntryOrigin("analyst"), raw(said))
        await memory.save_turn_places([TurnPlace(ANALYST, "p1", said["id"], NOW)])
        asked = ForgetRequest(agent="analyst", ids=(said["id"],), verify=True)
        first = await memory.run_forget(asked)
        assert "database: said" in {one.place for one in first.checked}
        assert first.clean
        await memory.save_turn_places([TurnPlace(ANALYST, "p1", said["id"], NOW)])
        assert (await memory.run_forget(asked)).clean


async def test_nothing_is_remembered_of_a_turn_that_is_left_out(tmp_path: Path) -> None:
    await record(
        tmp_path / "ledger",
        [
            turn("Write a title about green tea", note=encode_note(TurnNote(left_out="title"))),
            turn("I like green tea", note=encode_note(TurnNote(session="s1"))),
        ],
    )
    async with memory_in(tmp_path) as memory:
        found = await recall(memory, "green tea")
        assert any("I like green tea" in block.text for block in found)
        assert not any("title" in block.text for block in found)
        outcome = await memory.rebuild()
        assert outcome.same
