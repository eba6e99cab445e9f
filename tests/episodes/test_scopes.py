"""Whose memory it is: what one user of an agent says is nothing for another."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from memplane.auth.memory_scope import MemoryScope
from memplane.database import sqlite
from memplane.database.migrations import Migration, load_migrations
from memplane.episodes import derivation, search
from memplane.episodes.api_types import RecallRequest, RecallResponse
from memplane.episodes.injection_store import Injection, TurnPlace
from memplane.episodes.retain_queue import EntryOrigin
from memplane.episodes.scope_store import get_visible_scopes, list_scope_counts
from memplane.episodes.service import EpisodeService
from memplane.errors import InvalidRequest, RecordsError
from tests.episodes.remembering import entry, memory_in, raw, recall, texts
from tests.support.old_schema import take_back_schema

ADA, BEN = EntryOrigin("analyst", user="ada"), EntryOrigin("analyst", user="ben")
SHARED = EntryOrigin("analyst")
ADDRESS = entry("Note my delivery address, please.", "Your delivery address is 12 Kestrel Lane.")
OPENING = entry("When is the shop open?", "The shop takes delivery until six.", minutes=5)
NOW = 1_900_000_000_000_000
QUESTION = "What is my delivery address?"


async def tell(memory: EpisodeService, origin: EntryOrigin, *entries: dict[str, Any]) -> None:
    for one in entries:
        assert (await memory.retain(origin, raw(one))).status == "retained"


def chatter(user: str, count: int, minutes: int = 100) -> list[dict[str, Any]]:
    return [
        entry(
            f"{user} asks about delivery {n}?",
            f"Delivery {n} of {user} is fine.",
            minutes=n + minutes,
        )
        for n in range(count)
    ]


async def ask(memory: EpisodeService, user: str | None = None, **more: Any) -> RecallResponse:
    return await memory.recall(RecallRequest(agent="analyst", user=user, text=QUESTION, **more))


async def test_a_user_is_told_what_is_theirs_and_what_is_shared(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        await tell(memory, ADA, ADDRESS)
        await tell(memory, SHARED, OPENING)
        for _ in range(2):  # before and after turns are derived and indexed
            assert "Kestrel Lane" in texts(await recall(memory, QUESTION, user="ada"))
            assert "until six" in texts(await recall(memory, QUESTION, user="ada"))
            assert "until six" in texts(await recall(memory, QUESTION, user="ben"))
            for user in ("ben", None):
                assert "Kestrel" not in texts(await recall(memory, QUESTION, user=user))
            assert "Kestrel" in texts(await recall(memory, QUESTION, all_users=True))
            await memory.settle()


async def test_a_user_is_taken_from_the_entrys_own_request(tmp_path: Path) -> None:
    named = entry("Note my delivery address.", "Your delivery address is 12 Kestrel Lane.")
    named["request_original"]["user"] = "ada"
    async with memory_in(tmp_path) as memory:
        await tell(memory, SHARED, named)
        assert "Kestrel" in texts(await recall(memory, QUESTION, user="ada"))
        assert "Kestrel" not in texts(await recall(memory, QUESTION))


async def test_views_are_scopes_too(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        await tell(memory, EntryOrigin("analyst", view="sales"), ADDRESS)
        assert "Kestrel" in texts(await recall(memory, QUESTION, view="sales", user="ada"))
        assert "Kestrel" not in texts(await recall(memory, QUESTION, view="support"))
        assert "Kestrel" not in texts(await recall(memory, QUESTION))


@pytest.mark.parametrize("user", ["", "  ", "a\nb", "x" * 300])
async def test_what_cannot_be_a_user_is_refused(tmp_path: Path, user: str) -> None:
    async with memory_in(tmp_path) as memory:
        with pytest.raises(InvalidRequest, match="user: a user is a name"):
            await recall(memory, QUESTION, user=user)


async def everything(memory: EpisodeService, user: str | None) -> list[RecallResponse]:
    """Return what a user can be told, in each way of asking, with every score."""
    return [await ask(memory, user, explain=True), await ask(memory, user, limit=50, explain=True)]


@pytest.mark.parametrize("own", [3, search.EXACT_SCORING_MAX_EPISODES + 20])
async def test_what_others_say_moves_no_rank_and_no_score(tmp_path: Path, own: int) -> None:
    async with memory_in(tmp_path) as memory:
        await tell(memory, ADA, ADDRESS, *chatter("ada", own))
        await tell(memory, SHARED, OPENING)
        await memory.settle()
        before = await everything(memory, "ada"), await everything(memory, None)
        await tell(memory, BEN, *chatter("ben", 40, 50))
        assert (await everything(memory, "ada"), await everything(memory, None)) == before
        await memory.settle()
        assert (await everything(memory, "ada"), await everything(memory, None)) == before
        assert (await memory.rebuild()).same
        await memory.forget("analyst", [one["id"] for one in chatter("ben", 40, 50)])
        await memory.settle()
        assert (await everything(memory, "ada"), await everything(memory, None)) == before


async def test_a_rank_that_counts_everybody_would_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A control: it is the statistics of the visible scopes that keep ranks where they are."""
    async with memory_in(tmp_path) as memory:
        await tell(memory, ADA, ADDRESS, *chatter("ada", 3))
        await memory.settle()
        before = await everything(memory, "ada")
        await tell(memory, BEN, *chatter("ben", 40, 50))
        of_all = RecallRequest(agent="analyst", all_users=True).scope
        monkeypatch.setattr(
            search, "get_visible_scopes", lambda rows, _: get_visible_scopes(rows, of_all)
        )
        assert await everything(memory, "ada") != before


async def test_noise_is_that_of_a_users_own_turns(tmp_path: Path) -> None:
    """What several users say once each is nobody's noise."""
    same = [entry("ping", "All systems are fine.", minutes=n) for n in range(12)]
    async with memory_in(tmp_path) as memory:
        for n, one in enumerate(same):
            await tell(memory, EntryOrigin("analyst", user=f"u-{n}"), one)
        await memory.settle()
        counts = await memory._records.read(lambda rows: list_scope_counts(rows, "analyst"))
    assert [(one.episodes, one.noise) for one in counts] == [(1, 0)] * 12
    assert len(same) > derivation.NOISE_LOOKBACK_TURNS


async def test_a_rebuild_knows_whose_every_turn_was(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        await tell(memory, ADA, ADDRESS, *chatter("ada", 30))
        await tell(memory, EntryOrigin("analyst", "ben", "sales"), *chatter("ben", 3, 50))
        await tell(memory, SHARED, OPENING)
        await memory.settle()
        before = await everything(memory, "ada")
        assert (await memory.rebuild()).same
        assert await everything(memory, "ada") == before
    (tmp_path / "memplane.db").unlink()
    async with memory_in(tmp_path) as memory:
        await memory.settle()
        assert await everything(memory, "ada") == before
        assert (await memory.rebuild()).same


async def test_an_entry_stays_that_of_whom_it_was_given_for_first(tmp_path: Path) -> None:
    async with memory_in(tmp_path) as memory:
        await tell(memory, ADA, ADDRESS)
        assert (await memory.retain(BEN, raw(ADDRESS))).status == "known"
        assert "Kestrel" not in texts(await recall(memory, QUESTION, user="ben"))


async def test_what_stands_in_a_conversation_stands_in_that_users_only(tmp_path: Path) -> None:
    """Users may begin alike, and then the places in their conversations are the same."""
    ada, ben = MemoryScope("analyst", "ada"), MemoryScope("analyst", "ben")
    async with memory_in(tmp_path) as memory:
        await memory.save_injections([Injection(ada, "p", "", 1, "memplane", "12 Kestrel Lane")])
        await memory.save_turn_places([TurnPlace(ada, "p", "hist1_a", 1)])
        assert [one.text for one in await memory.injected(ada, ["p"])] == ["12 Kestrel Lane"]
        assert await memory.injected(ben, ["p"]) == []
        assert await memory.injected(MemoryScope("analyst"), ["p"]) == []


def _rows(path: Path, sql: str) -> Sequence[Any]:
    with closing(apsw.Connection(str(path))) as database:
        return list(database.execute(sql))


async def test_a_migration_that_fails_half_way_is_made_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with memory_in(tmp_path) as memory:
        await tell(memory, SHARED, ADDRESS, *chatter("all", 5))
        await memory.settle()
        before = await everything(memory, None)
    path = tmp_path / "memplane.db"
    take_back_schema(path, 7)
    steps = load_migrations("sqlite")
    broken = Migration(8, steps[7].name, (*steps[7].statements[:-1], "SELECT nothing"))
    with monkeypatch.context() as patch:
        patch.setattr(sqlite, "load_migrations", lambda _: [*steps[:7], broken, *steps[8:]])
        with pytest.raises(RecordsError):
            async with memory_in(tmp_path):
                raise AssertionError
    assert _rows(path, "SELECT MAX(number) FROM migrations") == [(7,)]
    async with memory_in(tmp_path) as memory:
        assert await everything(memory, None) == before
        assert (await memory.rebuild()).same


async def test_a_home_of_an_older_version_is_migrated_in_place(tmp_path: Path) -> None:
    """What was recorded is shared, nothing is derived again, and the index is the same one."""
    async with memory_in(tmp_path) as memory:
        await tell(memory, SHARED, ADDRESS, OPENING, *chatter("all", 40))
        await memory.save_injections(
            [
                Injection(
                    MemoryScope("analyst"),
                    "p",
                    "",
                    NOW,
                    "memplane",
                    "said",
                    made_of=frozenset("x"),
                )
            ]
        )
        await memory.settle()
        before = await everything(memory, None)
    path = tmp_path / "memplane.db"
    indexes = {one.name for one in (tmp_path / "index").iterdir()}
    take_back_schema(path, 7)
    assert _rows(path, "SELECT episodes FROM agents") == [(42,)]
    async with memory_in(tmp_path) as memory:
        assert (await memory.status()).underived == 0
        assert (await memory.status()).unindexed == 0
        assert await everything(memory, None) == before
        assert await everything(memory, "ada") == before
        assert len(await memory.injected(MemoryScope("analyst"), ["p"])) == 1
        assert {one.name for one in (tmp_path / "index").iterdir()} == indexes
        assert (await memory.rebuild()).same
        await tell(memory, ADA, *chatter("ada", 2, 300))
        assert (await memory.rebuild()).same
    assert _rows(path, "PRAGMA foreign_key_check") == []
