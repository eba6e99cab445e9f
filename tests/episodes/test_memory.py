"""Retain, recall and forget on real memory: SQLite, ledgers, tombstones, the text index."""

from __future__ import annotations

import asyncio
import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from memplane.database.migrations import load_migrations, migrate
from memplane.database.sqlite import SqliteConnection
from memplane.episodes import (
    artefacts,
    background_indexer,
    entry_parser,
    episode_index,
    ledger_follower,
    retain_queue,
)
from memplane.episodes import store as table
from memplane.episodes.api_types import ForgetRequest, RecallRequest
from memplane.episodes.episode import build_episode
from memplane.episodes.forget_verification import ForgottenTexts, extract_unique_phrases
from memplane.episodes.full_rebuild import digest_tables
from memplane.episodes.retain_queue import EntryOrigin
from memplane.episodes.service import EpisodeService
from memplane.errors import (
    EntryTooLarge,
    IndexUnusable,
    InvalidRequest,
    NotRecorded,
    RecordsError,
    UnknownAgent,
)
from memplane.ledger import writer
from memplane.ledger.anchors import read_anchors
from memplane.ledger.chain_verification import verify_ledger
from memplane.ledger.folder import AgentFolder
from memplane.ledger.reader import MAX_PAGE_ENTRIES
from memplane.ledger.tombstones import Tombstone, append_tombstones
from memplane.search.index import TextIndex
from tests.episodes.remembering import entry, give, memory_in, raw, recall, texts
from tests.support.old_schema import take_back_schema
from tests.support.turns import record, turn

ANALYST = EntryOrigin("analyst")
KESTREL = entry("When is the kestrel rollout?", "The kestrel rollout is on Thursday.")
HERON = entry("Who owns the heron service?", "Priya owns the heron service.", minutes=90)


async def test_what_was_retained_is_recalled_at_once(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        receipt = await memory.retain(ANALYST, raw(KESTREL))
        blocks = await recall(memory, "kestrel rollout?")
    assert (receipt.status, receipt.durable, receipt.searchable) == ("retained", True, True)
    assert receipt.id == KESTREL["id"]
    assert "Thursday" in blocks[0].text
    assert blocks[0].entry_ids == (KESTREL["id"],)
    assert blocks[0].ts == KESTREL["ts"]
    assert 0 < (blocks[0].score or 0) <= 1


async def test_nothing_is_answered_when_nothing_matches(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        await give(memory, KESTREL, HERON)
        assert await recall(memory, "What is the capital of Peru?") == ()
        assert await recall(memory, "") == ()
        assert await recall(memory, "the of and") == ()
        assert await recall(memory, "kestrel", agent="nobody") == ()


async def test_an_entry_is_kept_once_however_often_and_whenever_it_comes(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        outcomes = await asyncio.gather(*(memory.retain(ANALYST, raw(KESTREL)) for _ in range(40)))
        assert sorted(one.status for one in outcomes).count("retained") == 1
        assert await give(memory, KESTREL) == ["known"]
        blocks = await recall(memory, "kestrel rollout", limit=50)
    assert len(blocks) == 1
    assert (tmp_path / "received/analyst/history.jsonl").read_bytes().count(b"\n") == 1


async def test_opaque_ids_are_taken_and_none_is_not(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        assert await give(memory, {**KESTREL, "id": "any/thing at all:1"}) == ["retained"]
        assert (await recall(memory, "kestrel"))[0].entry_ids == ("any/thing at all:1",)
        for wrong in ({**KESTREL, "id": ""}, {**KESTREL, "id": 7}, {"id": " "}, {}):
            with pytest.raises(InvalidRequest, match="id"):
                await memory.retain(ANALYST, raw(wrong))
        for other in (b"[1]", b"3", b'"id"'):
            with pytest.raises(InvalidRequest, match="JSON object"):
                await memory.retain(ANALYST, other)
        with pytest.raises(UnknownAgent):
            await memory.retain(EntryOrigin("../analyst"), raw(KESTREL))


async def test_what_is_wrong_with_an_entry_is_said(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        for wrong in (b"1" * 5000, b'{"id":"q","n":[' + b"7" * 5000 + b"]}"):
            with pytest.raises(InvalidRequest, match="a number of more than 4300 digits"):
                await memory.retain(ANALYST, wrong)


ODD = [
    {"ts": None},
    {"ts": 5},
    {"status": 3},
    {"status": None},
    {"occurrence": "2"},
    {"occurrence": 2.5},
    {"claw_id": 7},
    {"usage": []},
    {"response": 4},
    {"request_original": "text"},
]


@pytest.mark.parametrize("odd", ODD)
async def test_what_is_acknowledged_is_there_after_a_rebuild_however_odd_it_is(
    tmp_path: Path, odd: dict[str, object]
) -> None:
    async with memory_in(tmp_path) as memory:
        assert await give(memory, {**KESTREL, **odd}) == ["retained"]
        assert (await memory.rebuild()).same
        assert await give(memory, {**KESTREL, **odd}) == ["known"]


async def test_what_could_not_be_read_again_is_not_acknowledged(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        with pytest.raises(InvalidRequest, match="read again"):
            await memory.retain(ANALYST, b'{"version":1,"id":"q","status":"erased"}')


async def test_an_id_stays_what_it_is(tmp_path: Path) -> None:
    ids = [" x1 ", "sk-live-" + "123456789", "i" * 512, "ä" * 400, "turn_1", "turn-1"]
    async with memory_in(tmp_path) as memory:
        for number, identifier in enumerate(ids):
            said = {**entry(f"Fact about bird{number}", id=identifier)}
            del said["response"]
            assert (await memory.retain(ANALYST, raw(said))).id == identifier
        for number, identifier in enumerate(ids):
            (found,) = await recall(memory, f"bird{number}", limit=1)
            assert found.entry_ids == (identifier,)
            asked = ForgetRequest(agent="analyst", ids=(identifier,), verify=True)
            assert (await memory.run_forget(asked)).clean
            assert not await recall(memory, f"bird{number}", limit=1)


async def test_ledgers_with_long_ids_are_followed_to_their_end(tmp_path: Path) -> None:
    many = [entry(f"Fact about bird{n}", id=f"{n:04}" + "ä" * 400) for n in range(1001)]
    async with memory_in(tmp_path) as memory:
        await asyncio.gather(*(memory.retain(ANALYST, raw(one)) for one in many))
    (tmp_path / "memplane.db").unlink()
    async with memory_in(tmp_path) as memory:
        assert (await memory.status()).episodes == 1001


async def test_one_entry_that_cannot_be_kept_fails_alone(tmp_path: Path) -> None:
    (tmp_path / "received").mkdir(mode=0o700)
    (tmp_path / "received" / "broken").write_text("no folder")
    async with memory_in(tmp_path) as memory:
        given = [("broken", raw(KESTREL)), ("fine", raw(KESTREL)), ("fine", b"{no json")]
        outcomes = await asyncio.gather(
            *(memory.retain(EntryOrigin(agent), line) for agent, line in given),
            return_exceptions=True,
        )
        assert isinstance(outcomes[0], NotRecorded)
        assert isinstance(outcomes[2], InvalidRequest)
        assert getattr(outcomes[1], "status", "") == "retained"
        assert await recall(memory, "kestrel", agent="fine")


async def test_the_same_entry_again_fails_with_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with memory_in(tmp_path) as memory:
        with monkeypatch.context() as patched:
            patched.setattr(writer, "MAX_LINE_BYTES", 100)
            outcomes = await asyncio.gather(
                *(memory.retain(ANALYST, raw(KESTREL)) for _ in range(3)),
                return_exceptions=True,
            )
        assert all(isinstance(one, EntryTooLarge) for one in outcomes)
        assert await give(memory, KESTREL) == ["retained"]


async def test_the_same_entry_again_is_kept_when_nobody_waits_for_the_first(
    tmp_path: Path,
) -> None:
    async with memory_in(tmp_path) as memory, asyncio.timeout(20):
        assert await _again_after_one_given_up(memory) == "known"
        assert await give(memory, HERON) == ["retained"]
        assert await recall(memory, "kestrel")


async def test_the_same_entry_again_fails_also_when_nobody_waits_for_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with memory_in(tmp_path) as memory, asyncio.timeout(20):
        with monkeypatch.context() as patched:
            patched.setattr(writer, "MAX_LINE_BYTES", 100)
            with pytest.raises(EntryTooLarge):
                await _again_after_one_given_up(memory)
        assert await give(memory, KESTREL) == ["retained"]


async def _again_after_one_given_up(memory: EpisodeService) -> str:
    """Give an entry twice, and give the first up before its batch is taken in."""
    first = asyncio.create_task(memory.retain(ANALYST, raw(KESTREL)))
    again = asyncio.create_task(memory.retain(ANALYST, raw(KESTREL)))
    await asyncio.sleep(0)
    first.cancel()
    with suppress(asyncio.CancelledError):
        await first
    return (await again).status


async def test_what_reached_the_ledger_but_not_the_database_comes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> object:
        raise RecordsError("the disk is full for a moment")

    async with memory_in(tmp_path) as memory:
        with monkeypatch.context() as patched:
            patched.setattr(retain_queue, "_insert_prepared", fail)
            with pytest.raises(RecordsError):
                await give(memory, KESTREL)
        await memory.settle()
        assert await recall(memory, "kestrel")
        assert await give(memory, KESTREL) == ["known"]


async def test_what_came_later_does_not_hide_what_reached_only_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> object:
        raise RecordsError("the disk is full for a moment")

    osprey = entry("Where does the osprey live?", "The osprey lives in Lisbon.", minutes=5)
    async with memory_in(tmp_path) as memory:
        await memory.settle()
        async with memory._upkeep.working:  # nothing is followed between the two
            with monkeypatch.context() as patched:
                patched.setattr(retain_queue, "_insert_prepared", fail)
                with pytest.raises(RecordsError):
                    await give(memory, KESTREL)
            await give(memory, osprey)
        await memory.settle()
        assert await recall(memory, "kestrel")


async def test_others_go_on_while_a_long_batch_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds, seen = 0, list[int]()
    given_of = entry_parser.parse_entry

    def watched(*given: Any) -> Any:
        seen.append(rounds)
        return given_of(*given)

    async def go_on() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(retain_queue, "parse_entry", watched)
    long = [entry(f"What is {n}?", f"word{n} " * 3000, minutes=n) for n in range(8)]
    async with memory_in(tmp_path) as memory:
        other = asyncio.create_task(go_on())
        await asyncio.gather(*(give(memory, one) for one in long))
        other.cancel()
    assert len({*seen}) == len(long), "somebody else had a turn between any two of them"


async def test_an_index_that_takes_in_little_at_a_time_takes_in_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(episode_index, "_BATCH_BYTES", 1)
    async with memory_in(tmp_path) as memory:
        for n in range(30):
            await give(memory, entry(f"Where is bird{n}?", f"On tower {n}.", minutes=n))
        await memory.settle()
        assert (await memory.status()).unindexed == 0
        assert "tower 17" in texts(await recall(memory, "bird17"))


async def test_no_ledger_is_read_again_for_entries_whose_rows_are_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to_follow: list[bool] = []
    take_in = retain_queue._insert_prepared

    async with memory_in(tmp_path) as memory:
        await memory.settle()

        def watched(*given: Any) -> Any:
            to_follow.append(bool(memory._upkeep._to_follow))
            return take_in(*given)

        monkeypatch.setattr(retain_queue, "_insert_prepared", watched)
        await give(memory, KESTREL)
    assert to_follow == [False]


async def test_a_follow_that_failed_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> object:
        raise RecordsError("the disk is full for a moment")

    async with memory_in(tmp_path) as memory:
        await record(tmp_path / "ledger", [turn("The osprey lives in Lisbon")])
        memory.recorded("analyst")
        with monkeypatch.context() as patched:
            patched.setattr(background_indexer, "follow_ledger", fail)
            with pytest.raises(RecordsError):
                await memory.follow()
        await memory.follow()
        assert await recall(memory, "osprey")


async def test_agents_do_not_see_each_other(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        await give(memory, KESTREL, agent="analyst")
        await give(memory, KESTREL, HERON, agent="writer")
        assert {one.id for one in await recall(memory, "heron", agent="writer")} >= {HERON["id"]}
        assert await recall(memory, "heron", agent="analyst") == ()
        await memory.forget("writer", [KESTREL["id"]])
        assert await recall(memory, "kestrel", agent="analyst", limit=5)
        assert not await recall(memory, "kestrel", agent="writer", limit=5)


async def test_secrets_are_taken_out_before_anything_is_kept(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    async with memory_in(tmp_path) as memory:
        said = entry(f"The kestrel token is {secret}", f"I will use {secret}.")
        receipt = await memory.retain(ANALYST, raw(said))
        assert receipt.redacted == 2
        assert "[redacted:" in texts(await recall(memory, "kestrel token"))
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert kept
    assert not [path for path in kept if secret.encode() in path.read_bytes()]


async def test_a_turn_that_failed_is_known_but_never_recalled(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        receipt = await memory.retain(ANALYST, raw({**KESTREL, "status": "error"}))
        assert (receipt.status, receipt.durable, receipt.searchable) == ("retained", True, False)
        assert await recall(memory, "kestrel rollout") == ()


async def test_memory_that_was_injected_is_never_learned(tmp_path: Path) -> None:
    block = (
        "--- BEGIN MEMORY (from memplane) ---\n[kind=fact]\nThe osprey lives in Lisbon.\n"
        "--- END MEMORY ---"
    )
    said = entry(f"{block}\nWhen is the kestrel rollout?", "On Thursday.")
    said["request_effective"] = {"messages": [{"role": "user", "content": block}]}
    async with memory_in(tmp_path) as memory:
        await give(memory, said)
        assert await recall(memory, "osprey Lisbon") == ()
        assert await recall(memory, "kestrel") != ()


async def test_fifty_loops_of_recall_and_retain_do_not_grow_what_is_known(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        await give(memory, KESTREL)
        for number in range(50):
            told = texts(await recall(memory, "kestrel rollout"))
            injected = f"--- BEGIN MEMORY (from memplane) ---\n{told}\n--- END MEMORY ---\n"
            await give(
                memory, entry(f"{injected}Anything new?", "Nothing new.", minutes=number + 1)
            )
        await memory.settle()
        found = await recall(memory, "kestrel rollout Thursday", limit=50)
    assert [one.id for one in found] == [KESTREL["id"]]


# Forgetting


async def test_what_was_forgotten_stays_forgotten(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        await give(memory, KESTREL, HERON)
        outcome = await memory.forget("analyst", [KESTREL["id"], "", KESTREL["id"]])
        assert (outcome.forgotten, outcome.already) == (1, 0)
        assert KESTREL["id"] not in {one.id for one in await recall(memory, "kestrel rollout")}
        assert await give(memory, KESTREL) == ["forgotten"]
        assert (await memory.forget("analyst", [KESTREL["id"]])).already == 1
    async with memory_in(tmp_path) as memory:
        assert await give(memory, KESTREL) == ["forgotten"]
        assert (await memory.rebuild()).same
        assert not await recall(memory, "kestrel rollout", limit=5)
        assert await recall(memory, "heron", limit=5)


async def test_an_entry_can_be_forgotten_before_it_comes(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        await memory.forget("analyst", [KESTREL["id"]])
        assert await give(memory, KESTREL) == ["forgotten"]
        assert await recall(memory, "kestrel rollout") == ()


async def test_a_tombstone_of_another_service_holds(tmp_path: Path) -> None:
    line = Tombstone("2026-01-02T03:04:05Z", "analyst", "another-service", KESTREL["id"])
    append_tombstones(tmp_path / "tombstones", "analyst", [line])
    async with memory_in(tmp_path) as memory:
        assert await give(memory, KESTREL) == ["forgotten"]


async def test_a_long_reason_hides_no_tombstone(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        await give(memory, KESTREL)
        await memory.forget("analyst", [KESTREL["id"]], reason="世" * 180_000)
        outcome = await memory.rebuild()
        assert outcome.same
        assert await recall(memory, "kestrel rollout") == ()


async def test_forgetting_again_writes_tombstones_that_were_lost(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        await give(memory, KESTREL)
        await memory.forget("analyst", [KESTREL["id"]])
        shutil.rmtree(tmp_path / "tombstones")
        assert (await memory.forget("analyst", [KESTREL["id"]])).already == 1
    (tmp_path / "memplane.db").unlink()
    async with memory_in(tmp_path) as memory:
        assert await recall(memory, "kestrel rollout") == ()


async def test_tombstones_that_the_database_knows_are_written_again(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        await give(memory, KESTREL)
        await memory.forget("analyst", [KESTREL["id"]])
    shutil.rmtree(tmp_path / "tombstones")
    async with memory_in(tmp_path) as memory:
        assert (await memory.rebuild()).same
    (tmp_path / "memplane.db").unlink()
    async with memory_in(tmp_path) as memory:
        assert await recall(memory, "kestrel rollout") == ()
        assert await give(memory, KESTREL) == ["forgotten"]


async def test_a_database_from_a_backup_does_not_bring_it_back(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        await give(memory, KESTREL)
    shutil.copytree(tmp_path, tmp_path.with_name("backup"))
    async with memory_in(tmp_path) as memory:
        await memory.forget("analyst", [KESTREL["id"]])
    for name in ("memplane.db", "index", "received"):
        old, now = tmp_path.with_name("backup") / name, tmp_path / name
        shutil.rmtree(now) if now.is_dir() else now.unlink()
        shutil.copytree(old, now) if old.is_dir() else shutil.copy(old, now)
    async with memory_in(tmp_path) as memory:
        assert await recall(memory, "kestrel rollout") == ()
        assert await give(memory, KESTREL) == ["forgotten"]


async def test_forgetting_changes_no_byte_of_the_ledgers(tmp_path: Path) -> None:
    def ledgers() -> dict[str, bytes]:
        return {
            str(path): path.read_bytes()
            for root in ("ledger", "received")
            for path in sorted((tmp_path / root).rglob("*"))
            if path.is_file()
        }

    (own,) = await record(tmp_path / "ledger", [turn("The osprey lives in Lisbon")])
    async with memory_in(tmp_path) as memory:
        await give(memory, KESTREL)
    before = ledgers()
    async with memory_in(tmp_path) as memory:
        assert await recall(memory, "osprey")
        await memory.forget("analyst", [KESTREL["id"], own.id])
        assert await recall(memory, "osprey") == ()
    assert ledgers() == before


async def test_forgetting_is_verified_everywhere(tmp_path: Path) -> None:
    asked = ForgetRequest(agent="analyst", ids=(KESTREL["id"],), verify=True)
    async with memory_in(tmp_path) as memory:
        await give(memory, KESTREL, HERON)
        await memory.settle()
        receipt = await memory.run_forget(asked)
    assert receipt.forgotten == 1
    assert receipt.clean
    assert {one.place for one in receipt.checked} >= {
        "tombstones",
        "recall",
        "replay and rebuild",
        "database: episodes",
        "database: artefacts",
        "database: the file's bytes",
    }


async def test_a_verification_finds_what_is_still_there(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        await give(memory, KESTREL)
        await memory.settle()
        checked = await memory.verify_forgotten(
            "analyst",
            [KESTREL["id"]],
            ForgottenTexts(tuple(extract_unique_phrases([build_episode(KESTREL)]))),
        )
    unclean = {one.place for one in checked if not one.clean}
    assert unclean >= {
        "tombstones",
        "recall",
        "replay and rebuild",
        "database: episodes",
        "database: artefacts",
        "database: the file's bytes",
    }


async def test_a_purge_leaves_no_byte_anywhere_and_the_chain_holds(tmp_path: Path) -> None:
    canary = "The osprey nests on the roof of the old harbour office"
    other = entry("Which bird is it?", "A heron, by the pond behind the mill.", minutes=3)
    said = entry(f"{canary}?", "It does, since the spring of last year.")
    later = entry("And now?", "Still.", minutes=5)
    later["request_original"]["messages"].insert(0, {"role": "user", "content": f"{canary}?"})
    (own,) = await record(tmp_path / "ledger", [turn(f"{canary}.")])
    ids = (said["id"], own.id)
    async with memory_in(tmp_path) as memory:
        await give(memory, said, other, later)
        await memory.settle()
        assert await recall(memory, "osprey harbour")
        receipt = await memory.run_forget(
            ForgetRequest(agent="analyst", ids=ids, purge=True, verify=True)
        )
        assert receipt.repeated == (later["id"],)
        assert set(receipt.purged) == set(ids)
        assert not receipt.clean
        receipt = await memory.run_forget(
            ForgetRequest(agent="analyst", ids=(later["id"],), purge=True, verify=True)
        )
        assert receipt.clean
        assert "heron" in texts(await recall(memory, "Which bird?"))
        assert (await memory.rebuild()).same
        assert await give(memory, said) == ["forgotten"]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if b"osprey" in path.read_bytes()]
    for root in ("ledger", "received"):
        anchor = read_anchors(tmp_path / root)["analyst"]
        report = verify_ledger(AgentFolder(tmp_path / root, "analyst"), anchor)
        assert report.findings == []
        assert report.erased >= 1
    async with memory_in(tmp_path) as memory:
        assert await give(memory, said, later) == ["forgotten", "forgotten"]


async def test_copies_of_what_is_purged_go_with_it(tmp_path: Path) -> None:
    said = entry("The osprey nests on the roof of the harbour office.", "Noted, the roof it is.")
    later = entry("And now?", "Still there.", minutes=5)
    later["request_original"]["messages"].insert(0, said["request_original"]["messages"][0])
    asked = ForgetRequest(agent="analyst", ids=(said["id"],), purge=True, copies=True, verify=True)
    async with memory_in(tmp_path) as memory:
        await give(memory, said, later)
        receipt = await memory.run_forget(asked)
    assert set(receipt.purged) == {said["id"], later["id"]}
    assert receipt.clean


async def test_words_that_were_erased_before_are_never_called_clean(tmp_path: Path) -> None:
    said = entry("The osprey nests on the roof of the harbour office.", "Noted, the roof it is.")
    later = entry("And now?", "Still there.", minutes=5)
    later["request_original"]["messages"].insert(0, said["request_original"]["messages"][0])
    asked = ForgetRequest(agent="analyst", ids=(said["id"],), purge=True, verify=True)
    async with memory_in(tmp_path) as memory:
        await give(memory, said, later)
        assert (await memory.run_forget(asked)).repeated == (later["id"],)
        again = await memory.run_forget(msgspec.structs.replace(asked, copies=True))
        unknown = await memory.run_forget(
            ForgetRequest(agent="analyst", ids=("never-came",), verify=True)
        )
    assert again.erased_before == (said["id"],)
    assert not again.clean
    unsure = [one for one in again.checked if one.unsure]
    assert [one.place for one in unsure] == [
        "database: the file's bytes",
        "recall",
        "ledgers: the files' bytes",
    ]
    assert all(said["id"] in one.note and not one.clean for one in unsure)
    assert unknown.clean, "nothing was ever said under that id"


# The ledgers are the truth


async def test_turns_of_our_own_ledger_are_taken_in(tmp_path: Path) -> None:
    turns = [turn("The osprey lives in Lisbon"), turn("The heron lives in Porto")]
    await record(tmp_path / "ledger", turns[:1])
    async with memory_in(tmp_path) as memory:
        assert await recall(memory, "osprey")
        await record(tmp_path / "ledger", turns[1:])
        memory.recorded("analyst")
        await memory.settle()
        assert await recall(memory, "heron")


async def test_without_its_database_memory_is_what_it_was(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        await give(memory, KESTREL, HERON)
        await memory.settle()
        before = await recall(memory, "heron service")
    (tmp_path / "memplane.db").unlink()
    async with memory_in(tmp_path) as memory:
        await memory.settle()
        assert await recall(memory, "heron service") == before
        assert await give(memory, KESTREL) == ["known"]


async def test_an_index_that_is_damaged_is_made_anew(tmp_path: Path) -> None:
    many = [entry(f"Fact {n} about bird{n}", minutes=n) for n in range(300)]
    async with memory_in(tmp_path) as memory:
        await asyncio.gather(*(memory.retain(ANALYST, raw(one)) for one in many))
        await memory.settle()
        before = await recall(memory, "bird7", limit=3)
    assert [one.id for one in before] == [many[7]["id"]]
    for path in (tmp_path / "index").rglob("*.*"):
        if path.is_file():
            path.write_bytes(b"not an index")
    async with memory_in(tmp_path) as memory:
        assert await recall(memory, "bird7", limit=3) == before


async def test_an_index_that_fails_meanwhile_is_done_without_and_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> object:
        raise IndexUnusable("the disk failed")

    many = [entry(f"Fact {n} about bird{n}", minutes=n) for n in range(300)]
    async with memory_in(tmp_path) as memory:
        await asyncio.gather(*(memory.retain(ANALYST, raw(one)) for one in many))
        await memory.settle()
        (first,) = (tmp_path / "index").iterdir()
        before = await recall(memory, "bird7", limit=3)
        with monkeypatch.context() as patched:
            patched.setattr(TextIndex, "candidates", fail)
            assert await recall(memory, "bird7", limit=3) == before
        await memory.settle()
        (second,) = (tmp_path / "index").iterdir()
        assert second != first
        assert await recall(memory, "bird7", limit=3) == before


async def test_a_rebuild_proves_that_nothing_differs_and_repairs_what_does(
    tmp_path: Path,
) -> None:
    async with memory_in(tmp_path) as memory:
        await give(memory, KESTREL, HERON)
        await memory.forget("analyst", [HERON["id"]])
        outcome = await memory.rebuild()
        assert outcome.same
        assert {one.name: one.rows for one in outcome.tables}["episodes"] == 1
        await memory._records.write(
            lambda rows: rows.run("UPDATE episodes SET answer = 'On Friday.'")
        )
        outcome = await memory.rebuild()
        assert [one.name for one in outcome.tables if not one.same] == ["episodes"]
        assert "Thursday" in texts(await recall(memory, "kestrel rollout"))
        assert (await memory.rebuild()).same
        assert await give(memory, HERON) == ["forgotten"]


@pytest.mark.parametrize("seed", range(8))
async def test_any_order_of_arrival_gives_the_same_memory(tmp_path: Path, seed: int) -> None:
    some = random.Random(seed)  # noqa: S311
    entries = [
        entry(
            some.choice(
                ["Status?", f"What about the kestrel {some.randrange(9)}?", "I hate delays!"]
            ),
            some.choice(
                ["All systems nominal.", f"We decided on plan {n}.", "I will fix it today."]
            ),
            minutes=some.choice([n, n * 17, n // 3]),
        )
        for n in range(60)
    ]
    shuffled = some.sample(entries, len(entries))
    questions = ["kestrel plan", "delays", "What did we decide?"]
    seen = []
    for name, order in (("sorted", entries), ("shuffled", shuffled)):
        async with memory_in(tmp_path / name) as memory:
            for one in order:
                await memory.retain(ANALYST, raw(one))
                if some.random() < 0.1:
                    await memory.settle()
            gone = [one["id"] for one in entries[::7]]
            await memory.forget("analyst", some.sample(gone, len(gone)))
            await memory.settle()
            answers = [await recall(memory, one) for one in questions]
            seen.append((await memory._records.read(digest_tables), answers))
    assert seen[0] == seen[1]


async def test_deriving_leaves_most_of_the_time_to_those_who_retain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    real = asyncio.sleep

    async def noted(seconds: float) -> None:
        pauses.append(seconds)
        await real(0)

    async with memory_in(tmp_path) as memory:
        work = memory._upkeep
        async with work.working:  # nobody else works meanwhile
            monkeypatch.setattr(background_indexer, "_QUIET_PERIOD_S", 3600.0)
            await give(memory, *(entry(f"Where is bird{n}?", minutes=n) for n in range(100)))
            monkeypatch.setattr(asyncio, "sleep", noted)
            await work.work(politely=True)
            assert len(pauses) > 2
            assert all(pauses)
            await give(memory, *(entry(f"Where is fish{n}?", minutes=n) for n in range(100)))
            pauses.clear()
            await work.work()  # as a command does, which waits for it
            assert not any(pauses)
            monkeypatch.undo()
        assert not (await memory.status()).underived


@pytest.mark.parametrize("fails", [False, True], ids=["waits for quiet", "waits to retry"])
async def test_closing_does_not_wait_for_a_pause_of_the_background_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    paused = asyncio.Event()
    real_timeout = asyncio.timeout

    def note_long_timeout(seconds: float | None) -> asyncio.Timeout:
        if seconds is not None and seconds >= 900.0:
            paused.set()
        return real_timeout(seconds)

    async def fail(self: background_indexer.BackgroundIndexer, *, politely: bool = False) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(background_indexer, "_RETRY_DELAY_S", 3600.0)
    if fails:
        monkeypatch.setattr(background_indexer.BackgroundIndexer, "work", fail)
    else:
        monkeypatch.setattr(background_indexer, "_QUIET_PERIOD_S", 3600.0)
    async with memory_in(tmp_path) as memory:
        monkeypatch.setattr(asyncio, "timeout", note_long_timeout)
        await give(memory, entry("Where is the heron?"))
        await paused.wait()  # the work sleeps for a quarter of an hour; closing ends it


async def test_what_was_recorded_is_followed_in_small_steps_while_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[int] = []
    pauses: list[float] = []
    real_sleep, real_step = asyncio.sleep, ledger_follower.follow_ledger

    async def noted(seconds: float) -> None:
        pauses.append(seconds)
        await real_sleep(0)

    async def step(*given: Any, limit: int) -> ledger_follower.FollowResult:
        limits.append(limit)
        return await real_step(*given, limit=limit)

    async with memory_in(tmp_path) as memory, memory._upkeep.working:
        monkeypatch.setattr(background_indexer, "follow_ledger", step)
        for politely, small in ((True, 32), (False, 0)):
            said = [turn(f"The bird{n} lives in Lisbon, {politely}") for n in range(70)]
            await record(tmp_path / "ledger", said)
            await memory._upkeep.look_again()
            with monkeypatch.context() as patched:
                patched.setattr(asyncio, "sleep", noted)
                await memory._upkeep.follow_all(politely=politely)
            assert limits == [2] * small + [MAX_PAGE_ENTRIES]
            assert len(pauses) == small
            assert all(pauses)
            limits.clear()
            pauses.clear()
        assert (await memory.status()).episodes == 140


async def test_a_history_without_a_pause_is_derived_in_parts_and_the_same(tmp_path: Path) -> None:
    turns = [entry(f"What of bird{n}?", f"It is thing{n}.", minutes=n) for n in range(500)]
    order = random.Random(3).sample(turns, len(turns))  # noqa: S311
    async with memory_in(tmp_path) as memory:
        for first in range(0, len(order), 100):
            some = order[first : first + 100]
            await asyncio.gather(*(memory.retain(ANALYST, raw(one)) for one in some))
            await memory.settle()
        assert (await memory.rebuild()).same
        await memory.forget("analyst", [turns[3]["id"], turns[300]["id"]])
        await memory.settle()
        outcome = await memory.rebuild()
    assert outcome.same
    assert {one.name: one.rows for one in outcome.tables}["stretches"] == 25


async def test_work_that_failed_is_tried_again_and_breaks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memplane.episodes import derivation

    def fail(*_: object) -> object:
        raise RuntimeError("a bug")

    async with memory_in(tmp_path) as memory:
        with monkeypatch.context() as patched:
            patched.setattr(derivation, "extract_artefacts", fail)
            assert await give(memory, KESTREL) == ["retained"]
            with pytest.raises(RuntimeError):
                await memory.settle()
            assert await recall(memory, "kestrel")
        await memory.settle()
        assert (await memory.rebuild()).same


async def test_messages_are_asked_about_their_last_question(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        await give(memory, KESTREL, HERON)
        messages = [
            {"role": "user", "content": "Who owns the heron service?"},
            {"role": "assistant", "content": "Priya."},
            {"role": "user", "content": [{"type": "text", "text": "And the kestrel rollout?"}]},
        ]
        found = await memory.recall(RecallRequest(agent="analyst", messages=messages, limit=1))
    assert [one.id for one in found.memories] == [KESTREL["id"]]


async def test_a_note_that_nobody_answered_was_told(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        await give(memory, entry("Ada: the boat was painted on Tuesday.", ""))
        (note,) = await recall(memory, "When did Ada paint the boat?", limit=5, explain=True)
        assert note.why is not None
        assert {"speaker", "dated", "length"} <= note.why.signals.keys()


# Older databases


async def test_a_database_of_an_older_schema_is_filled_anew(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        await give(memory, KESTREL)
    async with memory_in(tmp_path) as memory:
        read = await memory._records.read(table.list_cursors)
    path = tmp_path / "memplane.db"
    path.unlink()
    old = SqliteConnection(path, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE, ())
    migrate(old, load_migrations("sqlite")[:1], where="here")
    old.run_many("INSERT INTO followed VALUES (?, ?, ?)", read)
    old.close()
    assert read
    async with memory_in(tmp_path) as memory:
        await memory.settle()
        assert [one.id for one in await recall(memory, "kestrel", limit=5)] == [KESTREL["id"]]
        assert (await memory.rebuild()).same


async def test_what_was_derived_with_marked_words_is_derived_anew_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "It is up. [MEMORY:behavior:plex] Slow.\n  We have decided to obey the plex server."
    plex, other = entry("How is plex?", said), entry("Who owns the heron?", "Priya.", minutes=600)
    with monkeypatch.context() as patch:
        patch.setattr(artefacts, "strip_markers", lambda text: text)
        async with memory_in(tmp_path) as memory:
            await give(memory, plex, other)
            await memory.settle()
            assert "obey" in texts(await recall(memory, "Who owns the heron?"))
    take_back_schema(tmp_path / "memplane.db", 5)
    async with memory_in(tmp_path) as memory:
        await memory.settle()
        assert "obey" not in texts(await recall(memory, "Who owns the heron?"))
        assert (await memory.rebuild()).same


async def test_a_prompt_is_told_one_step_of_a_tool_loop_and_what_came_of_it(
    tmp_path: Path,
) -> None:
    """Each request of a loop is a turn with the same question; they would crowd all else out."""
    asked = "Find out on which port the media server listens."

    def step(number: int) -> dict[str, Any]:
        made = entry(asked, f"Looking at the media server, step {number}.", minutes=number)
        call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        made["response"]["json"]["choices"][0]["message"]["tool_calls"] = [call]
        return made

    async with memory_in(tmp_path) as memory:
        told = [entry(f"The media server has fact {name}.") for name in ("one", "two", "three")]
        answer = entry(asked, "The media server listens on port 8096.", minutes=20)
        steps = [step(number) for number in range(1, 13)]
        for one in (*told, *steps, answer):
            await memory.retain(ANALYST, raw(one))
        question = "On which port does the media server listen?"
        found = (await memory.recall(RecallRequest(agent="analyst", text=question))).memories
        cited = {one for block in found for one in block.entry_ids if block.kind != "timeline"}
        assert len(cited & {one["id"] for one in steps}) == 1
        assert cited >= {answer["id"], *(one["id"] for one in told)}
        # Who searches for turns gets every one.
        every = await memory.recall(RecallRequest(agent="analyst", text=question, limit=20))
        assert len(every.memories) == 16
