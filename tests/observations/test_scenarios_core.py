"""The core scenarios of operational memory, one test each, in the order of its contract.

The numbers are the contract's. Those about pages, prompts for agents and the wire are tested where
they are made.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memplane.database.interface import Connection
from memplane.database.sqlite import open_sqlite
from memplane.errors import InvalidRequest, UnknownMemory
from memplane.kit.clock import format_milli_timestamp
from memplane.observations.requests import (
    BulkRequest,
    Heard,
    HeardText,
    MemoryCreate,
    MemoryQuery,
    SessionWanted,
)
from tests.observations.curated import AGENT, OPERATOR, START, Curated, curated

SLOW_START = "[MEMORY:timing:jellyfin] Takes 60s to start after restart"

COLUMNS = {
    *("id", "service", "category", "observation", "confidence_c", "confidence", "active"),
    *("created_at", "updated_at", "session_id", "tier", "last_supported_at", "state", "pinned"),
    *("contested", "version", "valid_from", "valid_to", "recorded_at", "retired_at"),
    *("superseded_by", "expires_at", "norm_hash", "origin"),
}


def table(on: Connection) -> dict[str, tuple[str, bool, str | None]]:
    """Tell the type of each column of `memories`, whether it must be there, and its default."""
    sql = "SELECT name, type, \"notnull\", dflt_value FROM pragma_table_xinfo('memories')"
    return {name: (kind, bool(must), default) for name, kind, must, default in on.rows(sql)}


def indexes(on: Connection) -> dict[str, list[str]]:
    """Tell what each index of `memories` is over."""
    names = on.rows("SELECT name FROM pragma_index_list('memories') WHERE origin = 'c'")
    sql = "SELECT name FROM pragma_index_info(?) ORDER BY seqno"
    return {name: [column for (column,) in on.rows(sql, (name,))] for (name,) in list(names)}


async def learned(ops: Curated, text: str, **wanted: Any) -> int:
    """Let a session learn something in `timing` of jellyfin; returns its number."""
    receipt = await ops.say(
        f"[MEMORY:timing:jellyfin] {text}", session=await ops.session(**wanted)
    )
    (number,) = receipt.asserted
    return number


async def many(ops: Curated, number: int, length: int) -> None:
    """Add memories of one length, each about a service of its own, the first the strongest."""
    for place in range(number):
        words = f"Fact {place:02} ".ljust(length, "x")
        await ops.add(words, service=f"svc-{place:02}", confidence=(99 - place) / 100)


# Database.


async def test_a_fresh_database_has_the_required_columns_and_indexes(tmp_path: Path) -> None:
    # 1
    async with open_sqlite(tmp_path / "memplane.db") as records:
        columns, over = await records.read(table), await records.read(indexes)
    assert columns.keys() >= COLUMNS
    assert columns["service"] == ("TEXT", False, None)
    assert columns["confidence_c"] == ("INTEGER", True, "70")
    assert columns["active"] == ("INTEGER", True, "1")
    assert columns["tier"] == ("INTEGER", True, "1")
    assert over["idx_memories_service"] == ["service", "active"]
    assert over["idx_memories_confidence"] == ["confidence_c", "active"]
    assert over["idx_memories_category"] == ["category"]
    assert ["norm_hash"] in over.values()
    assert ["state", "updated_at"] in over.values()


async def test_migrations_that_were_applied_are_skipped_and_data_stays(tmp_path: Path) -> None:
    # 2
    def applied(on: Connection) -> list[tuple[Any, ...]]:
        return list(on.rows("SELECT rowid, number, name FROM migrations ORDER BY 1"))

    async with curated(tmp_path) as ops:
        await ops.say(SLOW_START)
        before, steps = await ops.all(), await ops.records.read(applied)
    async with curated(tmp_path) as ops:
        assert await ops.records.read(applied) == steps
        assert await ops.all() == before
    assert [number for _, number, _ in steps] == list(range(1, len(steps) + 1))


# Markers.


async def test_a_timing_marker_is_a_row_of_category_timing(tmp_path: Path) -> None:
    # 3
    async with curated(tmp_path) as ops:
        await ops.say("[MEMORY:timing] Health checks are slow for a minute after a deploy")
        sql = "SELECT category FROM memories"
        assert await ops.records.read(lambda on: list(on.rows(sql))) == [("timing",)]


async def test_a_category_off_the_list_is_a_warning_and_a_reject(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # 4
    async with curated(tmp_path) as ops:
        with caplog.at_level(logging.WARNING):
            receipt = await ops.say("[MEMORY:misc] The rack is in the cellar")
        assert await ops.all(state="any") == []
        (kept,) = await ops.curator.rejects(AGENT)
        stats = await ops.curator.stats(AGENT)
    assert (kept.reason, kept.category) == ("unknown_category", "misc")
    assert kept.observation == "The rack is in the cellar"
    assert receipt.rejects == (kept,)
    assert stats.rejects == 1
    (warning,) = caplog.records
    assert "unknown_category" in warning.getMessage()


async def test_a_general_remediation_is_about_no_service(tmp_path: Path) -> None:
    # 5
    async with curated(tmp_path) as ops:
        await ops.say("[MEMORY:remediation] Retry DNS once", session=await ops.session(tier=2))
        found = await ops.only()
    assert (found.service, found.category, found.confidence) == (None, "remediation", 0.7)
    assert found.tier == 2


async def test_a_marker_names_its_service(tmp_path: Path) -> None:
    # 6
    async with curated(tmp_path) as ops:
        await ops.say(SLOW_START)
        found = await ops.only()
    assert (found.service, found.category, found.confidence) == ("jellyfin", "timing", 0.7)
    assert found.observation == "Takes 60s to start after restart"


async def test_a_marker_in_a_tool_result_is_ignored(tmp_path: Path) -> None:
    # 7
    async with curated(tmp_path) as ops:
        await ops.say("Looking at the log.", tool_results=(SLOW_START,))
        assert await ops.all(state="any") == []
        assert await ops.curator.rejects(AGENT) == ()


async def test_a_memory_knows_its_session_and_when_it_was_said(tmp_path: Path) -> None:
    # 8
    async with curated(tmp_path) as ops:
        for _ in range(41):
            await ops.session()
        session = await ops.session()
        said = START + timedelta(seconds=30)
        ops.hands.forward(minutes=5)
        heard = Heard(texts=(HeardText(text=SLOW_START, at="2026-03-01T13:00:30+01:00"),))
        await ops.curator.hear(AGENT, session, heard)
        found = await ops.only()
    assert found.session_id == session == 42
    assert (
        found.created_at
        == found.updated_at
        == format_milli_timestamp(said)
        == "2026-03-01T12:00:30.000Z"
    )
    assert found.recorded_at == format_milli_timestamp(said + timedelta(seconds=270))


@pytest.mark.parametrize("tier", [1, 2, 3])
async def test_a_memory_has_the_tier_of_its_session(tmp_path: Path, tier: int) -> None:
    # 9, 10
    async with curated(tmp_path) as ops:
        await ops.say(SLOW_START, session=await ops.session(tier=tier))
        assert (await ops.only()).tier == tier


async def test_the_three_parts_of_a_marker_are_kept_exactly(tmp_path: Path) -> None:
    # 11
    async with curated(tmp_path) as ops:
        await ops.say("[MEMORY:dependency:postgres] Must be up before Gitea (port 5432) starts")
        found = await ops.only()
    assert (found.category, found.service) == ("dependency", "postgres")
    assert found.observation == "Must be up before Gitea (port 5432) starts"


async def test_an_unknown_category_alone_is_rejected(tmp_path: Path) -> None:
    # 12
    async with curated(tmp_path) as ops:
        await ops.say("[MEMORY:unknown] Something was seen")
        assert await ops.all(state="any") == []
        (kept,) = await ops.curator.rejects(AGENT)
    assert kept.reason == "unknown_category"


# Injection.


async def test_all_of_five_active_memories_are_told(tmp_path: Path) -> None:
    # 13
    async with curated(tmp_path) as ops:
        await many(ops, 4, 40)
        await ops.add("Barely believed", service="last", confidence=0.3)
        begun = await ops.curator.begin(SessionWanted(agent=AGENT))
    assert len(begun.prompt.included) == 5
    assert begun.prompt.block.count("\n- [timing] ") == 5
    assert begun.prompt.dropped == ()


async def test_when_nothing_qualifies_the_block_is_empty(tmp_path: Path) -> None:
    # 14
    async with curated(tmp_path) as ops:
        await ops.add("Hardly believed", confidence=0.29)
        begun = await ops.curator.begin(SessionWanted(agent=AGENT))
        number = begun.session
        assert await ops.curator.injections(AGENT, (await ops.only()).id) == ()
        assert (await ops.curator.session(AGENT, number)).told == 0
    assert (begun.prompt.block, begun.prompt.tokens, begun.prompt.included) == ("", 0, ())


async def test_memories_stand_under_their_services_and_general_comes_last(tmp_path: Path) -> None:
    # 15
    async with curated(tmp_path) as ops:
        await ops.add("Retry DNS once", category="remediation", service=None, confidence=1)
        await ops.add("Takes 60s to start", confidence=0.95)
        await ops.add(
            "Run VACUUM FULL weekly", category="maintenance", service="postgres", confidence=0.8
        )
        block = await ops.block()
    lines = [line for line in block.splitlines() if line.startswith(("###", "- "))]
    assert lines == [
        "### jellyfin",
        "- [timing] Takes 60s to start (confidence: 0.95)",
        "### postgres",
        "- [maintenance] Run VACUUM FULL weekly (confidence: 0.8)",
        "### general",
        "- [remediation] Retry DNS once (confidence: 1.0)",
    ]


async def test_what_does_not_fit_the_budget_is_left_out_from_below(tmp_path: Path) -> None:
    # 16
    async with curated(tmp_path) as ops:
        await many(ops, 50, 360)
        begun = await ops.curator.begin(SessionWanted(agent=AGENT))
        told = begun.prompt
        listed = await ops.all(sort="confidence", order="desc")
    number = len(told.included)
    assert told.budget == 2000
    assert 15 <= number < 50
    assert told.tokens <= 2000
    assert told.block.startswith(f"## Operational Memory ({number} of 50 memories, ")
    assert list(told.included) == [one.id for one in listed[:number]]
    assert {one.reason for one in told.dropped} == {"budget"}


async def test_the_budget_is_a_setting(tmp_path: Path) -> None:
    # 17
    async with curated(tmp_path, budget=4000) as ops:
        await many(ops, 50, 360)
        told = (await ops.curator.begin(SessionWanted(agent=AGENT))).prompt
    assert told.budget == 4000
    assert 2000 < told.tokens <= 4000


async def test_what_fits_is_told_whole_under_a_true_header(tmp_path: Path) -> None:
    # 18
    async with curated(tmp_path) as ops:
        await many(ops, 3, 200)
        told = (await ops.curator.begin(SessionWanted(agent=AGENT))).prompt
    assert len(told.included) == 3
    assert told.tokens == -(-len(told.block.encode()) // 4)
    assert told.block.startswith(f"## Operational Memory (3 memories, {told.tokens} tokens)\n")


# Confidence.


async def test_what_a_marker_says_begins_at_70_hundredths(tmp_path: Path) -> None:
    # 19
    async with curated(tmp_path) as ops:
        await learned(ops, "Takes 60s to start")
        sql = "SELECT confidence_c, confidence FROM memories"
        assert await ops.records.read(lambda on: list(on.rows(sql))) == [(70, 0.7)]


async def test_what_is_hardly_believed_is_not_told(tmp_path: Path) -> None:
    # 20
    async with curated(tmp_path) as ops:
        await ops.add("Takes 60s to start", confidence=0.2)
        assert await ops.block() == ""


@pytest.mark.parametrize(("given", "stored"), [(1.5, 1.0), (-1, 0.0), (-0.1, 0.0), (100, 1.0)])
async def test_an_operators_confidence_is_clamped(
    tmp_path: Path, given: float, stored: float
) -> None:
    # 21
    async with curated(tmp_path) as ops:
        number = await learned(ops, "Takes 60s to start")
        assert (await ops.change(number, confidence=given)).confidence == stored
        made = await ops.add("Needs a warm cache", service="other", confidence=given)
        assert made.confidence == stored


@pytest.mark.parametrize("given", [float("nan"), float("inf")])
async def test_a_confidence_that_is_no_number_is_refused(tmp_path: Path, given: float) -> None:
    # 21, §5.4: non-number → error
    async with curated(tmp_path) as ops:
        number = await learned(ops, "Takes 60s to start")
        with pytest.raises(InvalidRequest) as refused:
            await ops.change(number, confidence=given)
        assert refused.value.fields.keys() == {"confidence"}
        assert (await ops.only()).confidence == 0.7


async def test_a_paraphrase_in_a_later_session_reinforces(tmp_path: Path) -> None:
    # 22
    async with curated(tmp_path) as ops:
        await ops.say(SLOW_START)
        ops.hands.forward(days=1)
        again = "[MEMORY:timing:jellyfin] Takes about 60 seconds to start after a restart"
        receipt = await ops.say(again)
        found = await ops.only()
        quotes = [one.quote for one in await ops.curator.evidence(AGENT, found.id)]
    assert receipt.reinforced == (found.id,)
    assert found.confidence == 0.8
    assert found.observation == "Takes 60s to start after restart"
    assert (
        found.last_supported_at
        == found.updated_at
        == format_milli_timestamp(START + timedelta(days=1))
    )
    assert quotes[1] == "Takes about 60 seconds to start after a restart"


async def test_the_same_words_in_another_category_are_another_memory(tmp_path: Path) -> None:
    # 23
    async with curated(tmp_path) as ops:
        await ops.say(SLOW_START)
        await ops.say("[MEMORY:behavior:jellyfin] Takes 60s to start after restart")
        found = await ops.all()
    assert [(one.category.value, one.confidence) for one in found] == [
        ("timing", 0.7),
        ("behavior", 0.7),
    ]


async def test_a_contradiction_weakens_the_old_and_opens_a_conflict(tmp_path: Path) -> None:
    # 24
    async with curated(tmp_path) as ops:
        await ops.say("[MEMORY:dependency:caddy] Must be started after WireGuard")
        await ops.say("[MEMORY:dependency:caddy] Must be started after WireGuard")
        receipt = await ops.say(
            "[MEMORY:dependency:caddy] Can be started independently of WireGuard"
        )
        old, new = await ops.all()
        (conflict,) = await ops.curator.conflicts(AGENT)
    assert (old.confidence, new.confidence) == (0.6, 0.7)
    assert (receipt.contradicted, receipt.asserted) == ((old.id,), (new.id,))
    assert old.contested
    assert new.contested
    assert (conflict.kind, conflict.a.id) == ("contradiction", old.id)
    assert conflict.b is not None
    assert conflict.b.id == new.id
    assert conflict.signals


async def test_what_is_contradicted_below_the_threshold_is_inactive(tmp_path: Path) -> None:
    # 25
    async with curated(tmp_path) as ops:
        old = await learned(ops, "Takes 60s to start after restart")
        await ops.change(old, confidence=0.4)
        await learned(ops, "Takes 30s to start after restart")
        found = await ops.one(old)
    assert (found.confidence, found.active, found.state) == (0.2, False, "inactive")


async def test_nothing_fades_within_the_grace(tmp_path: Path) -> None:
    # 26
    async with curated(tmp_path) as ops:
        await learned(ops, "Takes 60s to start")
        ops.hands.forward(days=15)
        assert (await ops.only()).effective_confidence == 0.7


async def test_two_weeks_after_the_grace_take_off_20_however_often_asked(tmp_path: Path) -> None:
    # 27
    async with curated(tmp_path) as ops:
        number = await learned(ops, "Takes 60s to start")
        ops.hands.forward(days=44)
        for _ in range(5):
            assert (await ops.only()).effective_confidence == 0.5
            assert "(confidence: 0.5)" in await ops.block()
            await ops.session(tell=True)
        assert await ops.kinds(number) == ["asserted"]
    async with curated(tmp_path, ops.hands) as again:
        assert (await again.only()).effective_confidence == 0.5


async def test_what_fades_below_the_threshold_is_inactive_at_the_first_look(
    tmp_path: Path,
) -> None:
    # 28
    async with curated(tmp_path) as ops:
        number = await learned(ops, "Takes 60s to start")
        await ops.change(number, confidence=0.4)
        ops.hands.forward(days=44)
        found = await ops.only()
        assert (found.effective_confidence, found.active, found.state) == (0.2, False, "inactive")
        assert await ops.block() == ""
        assert await ops.kinds(number) == ["asserted", "confidence_set", "decay_noted"]


# Operators.


async def test_an_operators_memory_has_no_session_and_tier_0(tmp_path: Path) -> None:
    # 33
    async with curated(tmp_path) as ops:
        wanted = MemoryCreate(
            category="maintenance",
            service="postgres",
            observation="Run VACUUM FULL weekly",
            confidence=0.9,
        )
        found = await ops.curator.add(AGENT, wanted, by=OPERATOR)
        assert await ops.only() == found
    assert (found.session_id, found.tier, found.active, found.confidence) == (None, 0, True, 0.9)
    assert found.origin == "operator"


async def test_other_words_leave_the_confidence_as_it_is(tmp_path: Path) -> None:
    # 34
    async with curated(tmp_path) as ops:
        number = await learned(ops, "Takes 60s to start")
        await ops.change(number, confidence=0.83)
        ops.hands.forward(days=1)
        found = await ops.change(number, observation="Takes 90s to start")
        assert await ops.only() == found
    assert (found.observation, found.confidence) == ("Takes 90s to start", 0.83)
    assert found.updated_at == format_milli_timestamp(START + timedelta(days=1))


async def test_a_confidence_is_stored_exactly(tmp_path: Path) -> None:
    # 35
    async with curated(tmp_path) as ops:
        number = await learned(ops, "Takes 60s to start")
        ops.hands.forward(days=40)
        found = await ops.change(number, confidence=0.95)
        sql = "SELECT confidence_c FROM memories"
        assert await ops.records.read(lambda on: list(on.rows(sql))) == [(95,)]
    assert found.confidence == found.effective_confidence == 0.95
    assert (
        found.updated_at
        == found.last_supported_at
        == format_milli_timestamp(START + timedelta(days=40))
    )


async def test_what_is_deleted_is_gone_everywhere_and_can_be_restored(tmp_path: Path) -> None:
    # 36
    async with curated(tmp_path) as ops:
        number = await learned(ops, "Takes 60s to start")
        await ops.act(number, "retire")
        assert await ops.all() == []
        assert await ops.block() == ""
        with pytest.raises(UnknownMemory):
            await ops.curator.one(AGENT, number)
        assert [one.id for one in await ops.all(state="trash")] == [number]
        back = await ops.act(number, "restore")
        assert (back.state, back.confidence) == ("active", 0.7)
        assert "Takes 60s to start" in await ops.block()


async def test_five_deleted_at_once_come_back_with_one_undo(tmp_path: Path) -> None:
    # 37
    async with curated(tmp_path) as ops:
        await many(ops, 6, 40)
        before = await ops.all()
        ids = tuple(one.id for one in before[:5])
        done = await ops.curator.bulk(AGENT, BulkRequest(ids=ids, action="delete"), by=OPERATOR)
        assert done.done
        assert [one.id for one in await ops.all()] == [before[5].id]
        restored = await ops.curator.undo(AGENT, done.batch, by=OPERATOR)
        assert [one.id for one in restored] == list(ids)
        assert [(one.id, one.state, one.confidence) for one in await ops.all()] == [
            (one.id, one.state, one.confidence) for one in before
        ]


async def test_what_is_switched_off_is_not_told_whatever_its_confidence(tmp_path: Path) -> None:
    # 42
    async with curated(tmp_path) as ops:
        number = await learned(ops, "Takes 60s to start")
        found = await ops.change(number, confidence=1, active=False)
        assert (found.confidence, found.active) == (1.0, False)
        assert await ops.block() == ""
        page = await ops.curator.page(AGENT, MemoryQuery(state="inactive"))
        assert page.total == 1


@pytest.mark.parametrize(("value", "is_active"), [(0.3, True), (0.29, False)])
async def test_an_inactive_memory_set_to_enough_is_active(
    tmp_path: Path, value: float, *, is_active: bool
) -> None:
    # 44
    async with curated(tmp_path) as ops:
        number = await learned(ops, "Takes 60s to start")
        assert not (await ops.change(number, confidence=0.1)).active
        assert (await ops.change(number, confidence=value)).active is is_active
        assert ("Takes 60s to start" in await ops.block()) is is_active
