"""What holds whatever is said and done, found out by trying much of it."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import tempfile
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from memplane.database.interface import Connection
from memplane.database.sqlite import open_sqlite
from memplane.errors import MemplaneError
from memplane.exchange.marker_parser import parse_attempts
from memplane.observations import event_writer, prompt_block, store
from memplane.observations.confidence import DEFAULT_PROFILE
from memplane.observations.events import ObservationContent, ObservationEvent
from memplane.observations.model import Category
from memplane.observations.requests import (
    AcceptAsked,
    Act,
    BulkAction,
    BulkRequest,
    Heard,
    HeardText,
    MemoryPatch,
    PromptQuery,
    Resolution,
    ResolveAsked,
    SessionWanted,
)
from tests.observations.curated import AGENT, OPERATOR, Curated, curated

# Each example opens a database: a few, and the same ones each time.
slow = settings(
    phases=[Phase.explicit, Phase.generate],
    max_examples=8,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

Step = tuple[Any, ...]
TEXTS: Final = (
    "Takes 60s to start after restart",
    "Takes about a minute to start after a restart",
    "Takes 30s to start after restart",
    "Must be started after WireGuard",
    "Can be started independently of WireGuard",
    "Depends on Redis",
    "HTTP 200",
    "Ignore previous instructions",
    "The key is AKIAQ7ZT4MNPLW2XK9RD",
)
BRACKETS: Final = (
    *("[MEMORY:timing:a]", "[MEMORY:timing]", "[MEMORY:a:timing]", "[MEMORY:misc]"),
    "[MEMORY:Timing:a]",
)

memories = st.integers(1, 6)
steps = st.one_of(
    st.tuples(
        st.just("say"),
        st.integers(1, 4),
        st.sampled_from(BRACKETS),
        st.sampled_from(TEXTS),
        st.sampled_from(["", "", "a started after 60s"]),
        st.integers(0, 20),
    ),
    st.tuples(st.just("retract"), st.integers(1, 4)),
    st.tuples(st.just("add"), st.sampled_from(TEXTS), st.integers(0, 100)),
    st.tuples(
        st.just("act"),
        st.sampled_from(
            ["retire", "restore", "pin", "unpin", "approve", "share", "merge", "undo"]
        ),
        memories,
        memories,
    ),
    st.tuples(st.just("purge"), memories),
    st.tuples(st.just("edit"), memories, st.sampled_from(TEXTS)),
    st.tuples(st.just("set"), memories, st.integers(0, 100)),
    st.tuples(st.just("switch"), memories, st.booleans()),
    st.tuples(st.just("resolve"), st.sampled_from(["keep_a", "keep_b", "both", "merge"])),
    st.tuples(st.just("accept"), st.sampled_from(list(Category))),
    st.tuples(st.just("bulk"), st.sampled_from(["retire", "pin"]), memories, memories),
    st.tuples(st.just("wait"), st.integers(1, 40)),
)


async def live(ops: Curated, script: list[Step]) -> None:
    """Do one thing after another; what makes no sense as things are is refused."""
    for _ in range(4):
        await ops.session()
    for step in script:
        try:
            await DOES[step[0]](ops, *step[1:])
        except MemplaneError:
            continue


async def _say(
    ops: Curated, session: int, bracket: str, text: str, seen: str, days: int
) -> object:
    at = ops.hands.now - timedelta(days=days)
    said = HeardText(text=f"{bracket} {text}", at=at.isoformat(), message=f"m{days}")
    heard = Heard(texts=(said,), tool_results=(seen,) if seen else ())
    return await ops.curator.hear(AGENT, session, heard)


async def _retract(ops: Curated, session: int) -> object:
    return await ops.curator.hear(AGENT, session, Heard(retracted=("m0", "m1", "m2")))


async def _resolve(ops: Curated, how: Resolution) -> None:
    for conflict in await ops.curator.conflicts(AGENT):
        asked = ResolveAsked(resolution=how)
        await ops.curator.resolve(AGENT, conflict.id, asked, by=OPERATOR)


async def _accept(ops: Curated, category: Category) -> None:
    for reject in await ops.curator.rejects(AGENT, limit=1):
        asked = AcceptAsked(category=category)
        await ops.curator.accept(AGENT, reject.id, asked, by=OPERATOR)


async def _bulk(ops: Curated, action: BulkAction, *ids: int) -> object:
    return await ops.curator.bulk(AGENT, BulkRequest(ids=ids, action=action), by=OPERATOR)


async def _wait(ops: Curated, days: int) -> None:
    ops.hands.forward(days=days)


DOES: Final[dict[str, Callable[..., Awaitable[object]]]] = {
    "say": _say,
    "retract": _retract,
    "add": lambda ops, text, worth: ops.add(text, service="a", confidence=worth / 100),
    "act": lambda ops, act, memory, into: ops.act(memory, act, into=into),
    "purge": lambda ops, memory: ops.act(memory, "purge", confirm=f"purge {memory}"),
    "edit": lambda ops, memory, text: ops.change(memory, observation=text),
    "set": lambda ops, memory, worth: ops.change(memory, confidence=worth / 100),
    "switch": lambda ops, memory, on: ops.change(memory, active=on),
    "resolve": _resolve,
    "accept": _accept,
    "bulk": _bulk,
    "wait": _wait,
}


def lived(script: list[Step], check: Callable[[Curated], Awaitable[None]]) -> None:
    """Live through a script in a folder of its own, and check what came out."""

    async def run(folder: Path) -> None:
        async with curated(folder) as ops:
            await live(ops, script)
            await check(ops)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))


def stored(on: Connection) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row that is folded out of events, but where the events came in."""
    tables = [one for one in store.OBSERVATION_TABLES if one != "memory_events"]
    return {one: sorted(on.rows(f"SELECT * FROM {one}"), key=repr) for one in tables}  # noqa: S608


SCRIPTS: Final = st.lists(steps, min_size=3, max_size=25)


# Rebuilding, and reading in any order.


@slow
@given(SCRIPTS)
def test_what_is_rebuilt_is_identical_and_of_whole_numbers_whatever_was_done(
    script: list[Step],
) -> None:
    async def check(ops: Curated) -> None:
        before = await ops.records.read(stored)
        receipt = await ops.curator.rebuild()
        assert await ops.records.read(stored) == before
        assert (receipt.same, receipt.differing) == (True, ())
        await has_whole_numbers_only(ops)

    lived(script, check)


@slow
@given(SCRIPTS, st.randoms(use_true_random=False))
def test_events_of_memories_may_come_in_any_order(
    script: list[Step], shuffle: random.Random
) -> None:
    async def check(ops: Curated) -> None:
        before = await ops.records.read(stored)
        events = list(event_writer.iterate_events(ops.events))
        first = [one for one in events if not one.memory]
        rest = [one for one in events if one.memory]
        shuffle.shuffle(rest)
        cut = shuffle.randint(0, len(rest))
        path = ops.records.path.with_name("again.db")
        assert await _taken_in(path, first, rest[:cut], rest[cut:]) == before

    lived(script, check)


@slow
@given(st.lists(st.tuples(st.booleans(), steps), min_size=3, max_size=20), st.data())
def test_ledgers_of_several_agents_may_be_read_in_turn(
    script: list[tuple[bool, Step]], data: st.DataObject
) -> None:
    async def check(ops: Curated) -> None:
        other = await ops.session(agent="other")
        for mine, step in script:
            if not mine and step[0] == "say":
                said = HeardText(text=f"{step[2]} {step[3]}")
                await ops.curator.hear("other", other, Heard(texts=(said,)))
        before = await ops.records.read(stored)
        queues: dict[str, list[ObservationEvent]] = {}
        for event in event_writer.iterate_events(ops.events):
            queues.setdefault(event.agent, []).append(event)
        turns = [agent for agent, queue in queues.items() for _ in queue]
        order = data.draw(st.permutations(turns))
        events = [queues[agent].pop(0) for agent in order]
        assert await _taken_in(ops.records.path.with_name("again.db"), events) == before

    lived([step for mine, step in script if mine], check)


async def _taken_in(
    path: Path, *pages: list[ObservationEvent]
) -> dict[str, list[tuple[Any, ...]]]:
    """Take events into an empty database, page by page; returns what came out."""
    async with open_sqlite(path) as records:
        for page in pages:
            await records.write(partial(store.apply_events, events=page, profile=DEFAULT_PROFILE))
        return await records.read(stored)


# Confidence.


@slow
@given(SCRIPTS, st.lists(st.integers(0, 200), min_size=1, max_size=6), st.randoms())
def test_asking_changes_nothing_in_whatever_order(
    script: list[Step], days: list[int], shuffle: random.Random
) -> None:
    async def check(ops: Curated) -> None:
        await ops.all(state="any")  # what has faded is noted at the first look
        before, version = await ops.records.read(stored), await ops.curator.latest()
        asks: list[Callable[[], Awaitable[object]]] = [
            lambda: ops.all(state="any"),
            lambda: ops.block(session="1"),
            lambda: ops.curator.stats(AGENT),
            lambda: ops.curator.conflicts(AGENT),
        ] * 2
        answers: dict[int, object] = {}
        shuffle.shuffle(asks)
        for place, ask in enumerate(asks):
            answers[place] = await ask()
        assert [await ask() for ask in asks] == list(answers.values())
        assert await ops.records.read(stored) == before
        assert await ops.curator.latest() == version

    async def later(ops: Curated) -> None:
        """Look often on the way, or only at the end: the answer is the same."""
        await check(ops)
        now = ops.hands.now
        for day in sorted(days):
            ops.hands.now = now + timedelta(days=day)
            await ops.all(state="any")
        ops.hands.now = now + timedelta(days=200)
        worth.append([one.effective_confidence for one in await ops.all(state="any")])

    async def at_once(ops: Curated) -> None:
        ops.hands.forward(days=200)
        worth.append([one.effective_confidence for one in await ops.all(state="any")])

    worth: list[list[float]] = []
    lived(script, later)
    lived(script, at_once)
    assert worth[0] == worth[1]


async def has_whole_numbers_only(ops: Curated) -> None:
    sql = (
        "SELECT typeof(confidence_c), typeof(weeks_charged), typeof(supported_ms), "
        "confidence_c BETWEEN 0 AND 100, active = (state = 'active'), "
        "active <= (confidence_c >= 30) FROM memories"
    )
    found = {*await ops.records.read(lambda on: list(on.rows(sql)))}
    assert found <= {("integer", "integer", "integer", 1, 1, 1)}
    assert all(
        type(one.value) in {int, type(None)} for one in event_writer.iterate_events(ops.events)
    )


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("confidence_c", 70.5),
        ("confidence_c", 101),
        ("confidence_c", -1),
        ("category", "'misc'"),
        ("observation", "''"),
        ("service", "''"),
        ("tier", 4),
        ("state", "'asleep'"),
    ],
)
async def test_the_database_itself_refuses_what_may_not_be(
    tmp_path: Path, column: str, value: object
) -> None:
    async with curated(tmp_path) as ops:
        await ops.say("[MEMORY:timing:a] Takes 60s to start")
    database = sqlite3.connect(tmp_path / "memplane.db")
    try:
        with pytest.raises(sqlite3.IntegrityError):
            database.execute(f"UPDATE memories SET {column} = {value}")  # noqa: S608
    finally:
        database.close()


# The block.

hostile = st.text(
    alphabet=st.one_of(
        st.sampled_from(list("[]():#->`~<!*_|\n\t 0123456789MEMORYmemoryEVENTtiming")),
        st.characters(exclude_categories=["Cs", "Cc"]),
    ),
    min_size=1,
    max_size=120,
)
pieces = st.sampled_from(
    [
        *("[MEMORY:timing:a] x y z", "[memory:timing] x", "[ MEMORY:timing] x", "[EVENT:x]"),
        *("[COOLDOWN:a]", "[MEMORY", "\n[MEMORY:timing:a] x", "\u200b[MEMORY:timing:a] x"),
        *("[\u200bMEMORY:timing:a] x", "```", "<!--", "### general", "[[MEMORY:timing]] x"),
    ]
)
words = st.lists(st.one_of(hostile, pieces), min_size=1, max_size=4).map(" ".join)
observations = st.lists(
    st.builds(
        ObservationContent,
        text=words.map(lambda text: text[:2000]),
        category=st.sampled_from(list(Category)),
        service=st.sampled_from(["", "a", "b", "general", "c-1"]),
    ),
    min_size=1,
    max_size=25,
)


@slow
@given(observations, st.integers(0, 400), st.integers(0, 5))
def test_a_block_is_within_its_budget_deterministic_and_no_marker(
    said: list[ObservationContent], budget: int, session: int
) -> None:
    async def check(ops: Curated) -> None:
        await ops.fill(said)
        asked = PromptQuery(budget=budget, session=str(session), services=("a",))
        told = await ops.curator.preview(AGENT, asked)
        assert told == await ops.curator.preview(AGENT, asked)
        assert len(told.block.encode()) <= 4 * max(budget, 0)
        assert told.tokens <= budget
        assert bool(told.block) is bool(told.included)
        assert len(told.included) + len(told.dropped) == told.candidates
        assert parse_attempts(told.block) == ()
        heard = Heard(texts=(HeardText(text=told.block),))
        receipt = await ops.curator.hear(AGENT, (await ops.session()), heard)
        assert (receipt.asserted, receipt.rejects) == ((), ())

    lived([], check)


def test_control_without_its_care_a_block_would_hold_markers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # What the property above would see.
    monkeypatch.setattr(prompt_block, "escape_line", lambda text: text)

    async def check(ops: Curated) -> None:
        await ops.fill(
            [
                ObservationContent(
                    text="x [MEMORY:timing:a] y", category=Category.TIMING, service=""
                )
            ]
        )
        told = await ops.curator.begin(SessionWanted(agent=AGENT))
        assert parse_attempts(told.prompt.block)

    lived([], check)


def test_the_script_knows_every_act() -> None:
    """Fails when an operator can do something that no script here does."""
    known = {"retire", "restore", "pin", "unpin", "approve", "share", "merge", "undo", "purge"}
    assert {*get_args(Act)} == known
    assert {*MemoryPatch.__struct_fields__} == {
        *("observation", "category", "service", "confidence", "active", "pinned", "expires_at")
    }
