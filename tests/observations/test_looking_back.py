"""What was known at a moment, and what was so at a moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memplane.errors import InvalidRequest
from memplane.observations.requests import MemoryQuery, ResolveAsked
from tests.observations.curated import AGENT, Curated, curated

AFTER = "[MEMORY:dependency:caddy] Must be started after WireGuard"
ALONE = "[MEMORY:dependency:caddy] Can be started independently of WireGuard"


async def texts(ops: Curated, **asked: Any) -> list[str]:
    found = await ops.curator.page(AGENT, MemoryQuery(**asked))
    assert found.total == len(found.memories)
    return [one.observation for one in found.memories]


async def test_a_superseded_memory_was_so_before_and_is_not_afterwards(tmp_path: Path) -> None:
    async with curated(tmp_path) as ops:
        await ops.say(AFTER)
        ops.hands.forward(days=2)
        await ops.say(ALONE)
        ops.hands.forward(days=2)
        (conflict,) = await ops.curator.conflicts(AGENT)
        await ops.curator.resolve(AGENT, conflict.id, ResolveAsked(resolution="keep_b"), by="ada")
        ops.hands.forward(days=2)
        was, is_now = (
            "Must be started after WireGuard",
            "Can be started independently of WireGuard",
        )
        assert await texts(ops) == [is_now]
        # What was so, as it is known today.
        assert await texts(ops, as_of="2026-03-02T00:00:00Z") == [was]
        assert sorted(await texts(ops, as_of="2026-03-04T00:00:00Z")) == sorted([was, is_now])
        assert await texts(ops, as_of="2026-03-06T00:00:00Z") == [is_now]
        assert await texts(ops, as_of="2026-02-01T00:00:00Z") == []
        # What was known then.
        assert await texts(ops, known_at="2026-03-02T00:00:00Z") == [was]
        then = await texts(ops, known_at="2026-03-04T00:00:00Z", as_of="2026-03-02T00:00:00Z")
        assert then == [was]
        assert await texts(ops, known_at="2026-02-01T00:00:00Z") == []


async def test_confidence_is_told_as_it_was_then(tmp_path: Path) -> None:
    async with curated(tmp_path) as ops:
        await ops.say(AFTER)
        ops.hands.forward(days=44)
        now = await ops.only()
        asked = MemoryQuery(known_at="2026-03-05T00:00:00Z")
        (then,) = (await ops.curator.page(AGENT, asked)).memories
    assert (then.effective_confidence, now.effective_confidence) == (0.7, 0.5)


async def test_a_late_statement_is_stored_closed_and_changes_nothing(tmp_path: Path) -> None:
    async with curated(tmp_path) as ops:
        await ops.say(AFTER)
        session = await ops.session()
        before = (await ops.all())[0]
        late = ALONE.split("] ")[1]
        await ops.late(session, ALONE, at="2026-02-01T00:00:00.000Z")
        known, closed = await ops.all(state="any")
        assert (known.confidence, known.contested) == (before.confidence, False)
        assert (closed.observation, closed.state) == (late, "superseded")
        assert closed.superseded_by == known.id
        assert await ops.curator.conflicts(AGENT) == ()
        assert await texts(ops, as_of="2026-02-02T00:00:00Z") == [late]


@pytest.mark.parametrize("asked", [{"as_of": "yesterday"}, {"known_at": "1"}, {"state": "odd"}])
async def test_what_is_no_moment_or_state_is_refused(
    tmp_path: Path, asked: dict[str, Any]
) -> None:
    async with curated(tmp_path) as ops:
        with pytest.raises(InvalidRequest):
            await ops.curator.page(
                AGENT, MemoryQuery(**{"as_of": "2026-03-01T00:00:00Z", **asked})
            )
